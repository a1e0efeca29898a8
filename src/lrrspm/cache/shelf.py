"""Shelves: named arrays in a folder, many to a file, each file named by its checksum."""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from .places import Place

SHARD = 64
"""Arrays per shard: what a killed run may have to compute again."""

_ABOUT = "lrrspm"
_MAX_HEADER = 2**20
# Bytes that hold the header of most shards, and shards that are asked for theirs at a time.
_START = 2**14
_TOGETHER = 256
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
    place : Place or None
        None is a shelf that keeps nothing.
    about : dict
        What the arrays are. Shards that say something else are not used.
    form : Form
        What the arrays look like. Shards with others are not used.
    write : callable
        Called as ``write(place, name, content)`` for each new shard.
    found : callable
        Called for each array that was found.
    """

    def __init__(
        self,
        place: Place | None,
        about: dict[str, Any],
        form: Form,
        write: Callable[[Place, str, bytes], None],
        found: Callable[[], None],
    ) -> None:
        self._place = place
        self._about = json.loads(json.dumps(about))
        self._form = form
        self._write_shard, self._found = write, found
        self._waiting: dict[str, NDArray[Any]] = {}
        self._shards: dict[str, str] = {}
        self._sizes: dict[str, int] = {}

    def look_again(self) -> None:
        """Find the shards that are there, of which only new ones are read; OSError if it cannot."""
        if self._place is None:
            return
        new = {name: n for name, n in shards(self._place).items() if name not in self._sizes}
        self._sizes |= new
        for shard, header in read_headers(self._place, new, self._about, self._form):
            self._shards.update(dict.fromkeys(header.names, shard))

    def fetch(self, names: Iterable[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Iterate over those of the named arrays that are there, shard by shard."""
        wanted = defaultdict(list)
        for name in names:
            if name in self._shards:
                wanted[self._shards[name]].append(name)
        for shard, here in wanted.items():
            assert self._place is not None
            arrays = _read_shard(self._place, shard, self._sizes[shard], self._about, self._form)
            if arrays is None:
                self._shards = {n: other for n, other in self._shards.items() if other != shard}
                continue
            for name in here:
                self._found()
                yield name, arrays[name]

    def put(self, name: str | None, array: NDArray[Any]) -> None:
        """Keep an array; it is written when there are enough for a shard. None is not kept."""
        if self._place is None or name is None:
            return
        if name not in self._shards:
            self._waiting[name] = array
        if len(self._waiting) >= SHARD:
            self.flush()

    def flush(self) -> None:
        """Write a shard with the arrays that wait for one."""
        if not self._waiting:
            return
        assert self._place is not None
        arrays = {name: np.ascontiguousarray(a) for name, a in self._waiting.items()}
        content = save(arrays, {_ABOUT: json.dumps(self._about, sort_keys=True)})
        shard = f"{hashlib.sha256(content).hexdigest()}.safetensors"
        self._write_shard(self._place, shard, content)
        self._sizes[shard] = len(content)
        self._shards.update(dict.fromkeys(self._waiting, shard))
        self._waiting.clear()

    def discard(self) -> None:
        """Delete everything on the shelf, as far as permissions allow."""
        self._shards.clear()
        self._waiting.clear()
        self._sizes.clear()
        if self._place is not None:
            for name in shards(self._place):
                self._place.delete(name)
            self._place.leave()


def shards(place: Place | None) -> dict[str, int]:
    """Return the names and bytes of the complete shards of a shelf."""
    return {} if place is None else _matching(place, _SHARD_NAME)


def unfinished(place: Place) -> dict[str, int]:
    """Return what killed runs left behind on a shelf."""
    return _matching(place, _UNFINISHED_NAME)


def _matching(place: Place, pattern: re.Pattern[str]) -> dict[str, int]:
    return {name: size for name, size in place.files().items() if pattern.fullmatch(name)}


_UNREADABLE = (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError)


def read_headers(
    place: Place,
    sizes: dict[str, int],
    about: dict[str, Any] | None = None,
    form: Form | None = None,
) -> Iterator[tuple[str, Header]]:
    """Read the headers of shards, and compare them with what they should be.

    One that is damaged or does not fit is deleted, and has no names.
    """
    for name, start in _starts(place, list(sizes)):
        try:
            if isinstance(start, OSError):
                raise start
            length = _header_length(start)
            if 8 + length > len(start) < sizes[name]:
                (start,) = place.starts([name], 8 + length)
                if isinstance(start, OSError):
                    raise start
            yield name, _check_header(start, sizes[name], about, form)
        except FileNotFoundError:
            continue
        except _UNREADABLE as error:
            _drop(place, name, error)


def _starts(place: Place, names: list[str]) -> Iterator[tuple[str, bytes | OSError]]:
    for first in range(0, len(names), _TOGETHER):
        some = names[first : first + _TOGETHER]
        yield from zip(some, place.starts(some, _START), strict=True)


def _header_length(start: bytes) -> int:
    length = int.from_bytes(start[:8], "little")
    if length > _MAX_HEADER:
        raise ValueError(f"header of {length:,} bytes, at most {_MAX_HEADER:,} are read")
    return length


def _check_header(
    start: bytes, size: int, about: dict[str, Any] | None, form: Form | None
) -> Header:
    """Check everything that can be checked without the arrays."""
    length = _header_length(start)
    tensors = json.loads(start[8 : 8 + length])
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


def _read_shard(
    place: Place, name: str, size: int, about: dict[str, Any], form: Form
) -> dict[str, NDArray[Any]] | None:
    """Read a shard's arrays; None if it is gone or damaged. A damaged one is deleted."""
    try:
        content = place.read(name, size)
        names = _check_header(content, len(content), about, form).names
        if hashlib.sha256(content).hexdigest() != name.partition(".")[0]:
            raise ValueError("checksum mismatch")
        arrays = load(content)
        if not all(np.isfinite(arrays[name]).all() for name in names):
            raise ValueError("values that are not finite numbers")
        return arrays
    except FileNotFoundError:
        return None
    except _UNREADABLE as error:
        _drop(place, name, error)
        return None


def _drop(place: Place, name: str, error: Exception) -> None:
    what = "cannot be read" if isinstance(error, OSError) else "damaged"
    warnings.warn(
        f"{place / name}: {what} ({error}); its content will be computed again", stacklevel=2
    )
    if not isinstance(error, OSError):
        place.delete(name)
