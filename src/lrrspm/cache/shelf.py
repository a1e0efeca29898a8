"""Shelves: named arrays in a folder, many to a file, each file named by its checksum."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

SHARD = 64
"""Arrays per shard: what a killed run may have to compute again."""

_ABOUT = "lrrspm"
_MAX_HEADER = 2**20
_BYTES = {"U8": 1, "F16": 2, "F32": 4, "F64": 8}
_SHARD_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_UNFINISHED_NAME = re.compile(r"\.[0-9a-f]{16}\.part")


class Form(NamedTuple):
    """Kind ("U8", "F16", "F32", "F64") and sizes that the arrays of a shelf may have."""

    kinds: tuple[str, ...]
    sizes: tuple[range, ...]

    def fits(self, kind: str, shape: tuple[int, ...]) -> bool:
        """Return True for an array of this form."""
        return (
            kind in self.kinds
            and len(shape) == len(self.sizes)
            and all(size in sizes for size, sizes in zip(shape, self.sizes, strict=True))
        )


class Header(NamedTuple):
    """What a shard says about its arrays: their names, and what they are."""

    names: list[str]
    about: dict[str, Any]


class Shelf:
    """Named arrays in a folder, up to 64 per file.

    Parameters
    ----------
    folder : Path or None
        None is a shelf that keeps nothing.
    about : dict
        What the arrays are. Shards that say something else are not used.
    form : Form
        What the arrays look like. Shards with others are not used.
    write : callable
        Called as ``write(path, content)`` for each new shard.
    found : callable
        Called for each array that was found.
    """

    def __init__(
        self,
        folder: Path | None,
        about: dict[str, Any],
        form: Form,
        write: Callable[[Path, bytes], None],
        found: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._about = json.loads(json.dumps(about))
        self._form = form
        self._write_shard, self._found = write, found
        self._waiting: dict[str, NDArray[Any]] = {}
        self._shards: dict[str, Path] = {}
        self._seen: set[Path] = set()
        self.look_again()

    def look_again(self) -> None:
        """Find the shards that others have written since the last look."""
        for path in shards(self._folder):
            if path not in self._seen:
                self._seen.add(path)
                for name in read_header(path, self._about, self._form).names:
                    self._shards[name] = path

    def fetch(self, names: Iterable[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Iterate over those of the named arrays that are there, shard by shard."""
        wanted = defaultdict(list)
        for name in names:
            if name in self._shards:
                wanted[self._shards[name]].append(name)
        for path, here in wanted.items():
            arrays = _read_shard(path, self._about, self._form)
            if arrays is None:
                self._shards = {n: other for n, other in self._shards.items() if other != path}
                continue
            for name in here:
                self._found()
                yield name, arrays[name]

    def put(self, name: str | None, array: NDArray[Any]) -> None:
        """Keep an array; it is written when there are enough for a shard. None is not kept."""
        if self._folder is None or name is None:
            return
        if name not in self._shards:
            self._waiting[name] = array
        if len(self._waiting) >= SHARD:
            self.flush()

    def flush(self) -> None:
        """Write a shard with the arrays that wait for one."""
        if not self._waiting:
            return
        assert self._folder is not None
        arrays = {name: np.ascontiguousarray(a) for name, a in self._waiting.items()}
        content = save(arrays, {_ABOUT: json.dumps(self._about, sort_keys=True)})
        path = self._folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
        self._write_shard(path, content)
        self._seen.add(path)
        self._shards.update(dict.fromkeys(self._waiting, path))
        self._waiting.clear()

    def discard(self) -> None:
        """Delete everything on the shelf, as far as permissions allow."""
        self._shards.clear()
        self._waiting.clear()
        self._seen.clear()
        with contextlib.suppress(OSError):
            for path in shards(self._folder):
                path.unlink(missing_ok=True)
            if self._folder is not None:
                self._folder.rmdir()


def shards(folder: Path | None) -> list[Path]:
    """List the complete shards of a shelf."""
    return [] if folder is None else _files(folder, _SHARD_NAME)


def unfinished(folder: Path) -> list[Path]:
    """List what killed runs left behind on a shelf."""
    return _files(folder, _UNFINISHED_NAME)


def _files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """List regular files; opening a pipe would wait for a writer."""
    try:
        with os.scandir(folder) as found:
            names = [e.name for e in found if pattern.fullmatch(e.name) and e.is_file()]
    except FileNotFoundError:
        return []
    return sorted(folder / name for name in names)


_UNREADABLE = (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError)


def read_header(
    path: Path, about: dict[str, Any] | None = None, form: Form | None = None
) -> Header:
    """Read a shard's header, and compare it with what it should be.

    A shard that is damaged or does not fit is deleted, and has no names.
    """
    try:
        return _check_header(path, about, form)
    except FileNotFoundError:
        return Header([], {})
    except _UNREADABLE as error:
        _drop(path, error)
        return Header([], {})


def _check_header(path: Path, about: dict[str, Any] | None, form: Form | None) -> Header:
    """Check everything that can be checked without the arrays."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MAX_HEADER:
            raise ValueError(f"header of {length:,} bytes, at most {_MAX_HEADER:,} are read")
        tensors = json.loads(file.read(length))
        size = os.fstat(file.fileno()).st_size
    said = json.loads(tensors.pop("__metadata__")[_ABOUT], parse_constant=_refuse_constant)
    if not isinstance(said, dict) or (about is not None and said != about):
        raise ValueError("it belongs to another shelf")
    if len(tensors) > SHARD:
        raise ValueError(f"{len(tensors)} arrays, at most {SHARD} are read")
    total = 8 + length
    for tensor in tensors.values():
        kind, shape = tensor["dtype"], tuple(tensor["shape"])
        whole = all(type(n) is int and n >= 0 for n in shape)
        if not whole or kind not in _BYTES or (form is not None and not form.fits(kind, shape)):
            raise ValueError(f"an array of type {kind!r:.20} and shape {shape!s:.100}")
        total += _BYTES[kind] * math.prod(shape)
    if total != size:
        raise ValueError(f"{size:,} bytes, expected {total:,}")
    return Header(list(tensors), said)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _read_shard(path: Path, about: dict[str, Any], form: Form) -> dict[str, NDArray[Any]] | None:
    """Read a shard's arrays; None if it is gone or damaged. A damaged one is deleted."""
    try:
        names = _check_header(path, about, form).names
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != path.stem:
            raise ValueError("checksum mismatch")
        arrays = load(content)
        if not all(np.isfinite(arrays[name]).all() for name in names):
            raise ValueError("values that are not finite numbers")
        return arrays
    except FileNotFoundError:
        return None
    except _UNREADABLE as error:
        _drop(path, error)
        return None


def _drop(path: Path, error: Exception) -> None:
    what = "cannot be read" if isinstance(error, OSError) else "damaged"
    warnings.warn(f"{path}: {what} ({error}); its content will be computed again", stacklevel=2)
    if not isinstance(error, OSError):
        with contextlib.suppress(OSError):
            path.unlink()


def write_quickly(path: Path, content: bytes) -> None:
    """Write to a temporary name, then rename.

    Unlike model files, without waiting for the disk: a shard that a power cut
    leaves empty fails its checksum and is computed again.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
