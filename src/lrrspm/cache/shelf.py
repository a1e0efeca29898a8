"""Shelves: named arrays in a folder, many to a file, each file named by its checksum."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

SHARD = 64
"""Arrays per shard: what a killed run may have to compute again."""

_ABOUT = "lrrspm"
_SHARD_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_UNFINISHED_NAME = re.compile(r"\.[0-9a-f]{16}\.part")


class Shelf:
    """Named arrays in a folder, up to 64 per file.

    Parameters
    ----------
    folder : Path or None
        None is a shelf that keeps nothing.
    about : dict
        What the arrays are, for people.
    write : callable
        Called as ``write(path, content)`` for each new shard.
    """

    def __init__(
        self, folder: Path | None, about: dict[str, Any], write: Callable[[Path, bytes], None]
    ) -> None:
        self._folder = folder
        self._about = about
        self._write_shard = write
        self._waiting: dict[str, NDArray[Any]] = {}
        self._shards: dict[str, Path] = {}
        for path in shards(folder):
            for name in read_header(path)[0]:
                self._shards[name] = path

    def fetch(self, names: Iterable[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Iterate over those of the named arrays that are there, shard by shard."""
        wanted = defaultdict(list)
        for name in names:
            if name in self._shards:
                wanted[self._shards[name]].append(name)
        for path, here in wanted.items():
            arrays = _read_shard(path)
            if arrays is None:
                self._shards = {n: other for n, other in self._shards.items() if other != path}
                continue
            for name in here:
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
        self._shards.update(dict.fromkeys(self._waiting, path))
        self._waiting.clear()

    def discard(self) -> None:
        """Delete everything on the shelf, as far as permissions allow."""
        self._shards.clear()
        self._waiting.clear()
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
    try:
        return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
    except FileNotFoundError:
        return []


def read_header(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Read the names of a shard's arrays and what they are; a damaged shard is deleted."""
    try:
        with safe_open(path, framework="numpy") as file:
            return list(file.keys()), json.loads((file.metadata() or {})[_ABOUT])
    except FileNotFoundError:
        return [], {}
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        _drop(path, error)
        return [], {}


def _read_shard(path: Path) -> dict[str, NDArray[Any]] | None:
    """Read a shard's arrays; None if it is gone or damaged. A damaged one is deleted."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != path.stem:
            raise ValueError("checksum mismatch")
        return load(content)
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, ValueError) as error:
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
