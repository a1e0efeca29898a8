"""Shards: a matrix in files of some rows each, for vectors that do not fit into memory."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .leftovers import delete, own, sweep
from .remote import delete_remote, is_remote, write_remote
from .shard import Shard, ShardError, check_rows, rows_in

__all__ = ["Beside", "Shard", "ShardError", "Shards", "stacked_columns"]

PREFIX = "lrrspm-vectors-"
"""Begins the names of folders of shards."""

# Bytes of a shard. They fix the order of sums, so they depend on nothing but the length.
_SHARD_BYTES = 2**28


class Beside(NamedTuple):
    """An array in float32, in a file that is deleted with the shards."""

    path: str
    shape: tuple[int, ...]

    def opened(self) -> NDArray[np.float32]:
        """Map the array into memory: what was read counts as memory until the last view is gone."""
        return np.memmap(self.path, np.float32, "r+", shape=self.shape)

    def delete(self) -> None:
        """Delete the file, if the system lets us before the shards go."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)


class Shards(Sequence[Shard]):
    """A matrix (n, d) in files of a fixed number of rows, written once and in order.

    ``with Shards(n, d, dtype) as shards:`` makes a folder that is deleted at the end.

    Parameters
    ----------
    n, d : int
        Shape of the matrix.
    dtype : float16 or float32
    folder : path, address or None
        Where the temporary folder is made; None is that of the system, TMPDIR.
    rows : int or None
        Rows per shard; None is a power of two, up to 256 MB.
    spread : callable or None
        ``spread(function, parts, shared)`` applies ``function(shared, some)`` to some parts at
        a time, on other machines that read the files; it yields results in order. None is here.
    apart : bool
        True where other processes write the shards: they are :meth:`planned`, then adopted.

    Raises
    ------
    ShardError
        Where the disk has no room for all of it: before anything is computed.
    """

    def __init__(
        self,
        n: int,
        d: int,
        dtype: DTypeLike,
        folder: str | os.PathLike[str] | None = None,
        rows: int | None = None,
        spread: Callable[..., Iterator[Any]] | None = None,
        apart: bool = False,
    ) -> None:
        self.spread: Callable[..., Iterator[Any]] | None = spread
        self.apart: bool = apart
        self.shape: tuple[int, int] = (n, d)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype not in (np.float16, np.float32):
            raise ValueError(f"vectors in shards are float16 or float32, got {self.dtype}")
        if n < 1 or d < 1:
            raise ValueError(f"shards need at least one row and column, got {n} x {d}")
        self._rows = rows or rows_in(_SHARD_BYTES, d * self.dtype.itemsize)
        self._parent = os.fspath(tempfile.gettempdir() if folder is None else folder)
        self._remote = is_remote(self._parent)
        # Where shards are, and what is beside them: the same folder where both are on disk.
        self._name: str | None = None
        self._folder: Path | None = None
        self._lock: BinaryIO | None = None
        self._shards: list[Shard] = []
        self._waiting = np.empty((0 if apart else min(self._rows, n), d), self.dtype)
        self._filled = 0

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __enter__(self) -> Self:
        try:
            parent = Path(tempfile.gettempdir() if self._remote else self._parent)
            if not parent.is_dir():
                parent.mkdir(parents=True, exist_ok=True)
                self._open_to_workers(parent)
            sweep(parent, PREFIX)  # killed runs leave vectors, and these are large
            free = shutil.disk_usage(parent).free
            if free < self.nbytes and not self._remote:
                raise self._full(free)
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            self._open_to_workers(self._folder)
            self._lock = own(self._folder)
            self._name = str(self._folder)
            if self._remote:
                self._name = f"{self._parent}/{PREFIX}{secrets.token_hex(8)}"
                write_remote(self.planned()[0].owner, b"lrrspm", folders=2)
        except OSError as error:
            self.__exit__()
            raise self.explained(error) from None
        return self

    def _open_to_workers(self, folder: Path) -> None:
        """Let workers that are other users do here what they may do where the folder lies."""
        if self.spread is not None and not self._remote:
            shutil.copymode(folder.parent, folder)

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
        if self._folder is not None:
            delete(self._folder)
        if self._remote and self._name is not None:
            planned = self.planned()
            # The owner first: who writes a shard later does not find it, and deletes the shard.
            for path in (planned[0].owner, *(shard.path for shard in planned)):
                with contextlib.suppress(OSError):
                    delete_remote(path)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, number: Any) -> Any:
        if self._filled or (self._shards[-1].stop if self._shards else 0) != self.shape[0]:
            raise RuntimeError("a matrix in shards is read when all of its rows are written")
        return self._shards[number]

    def append(self, block: NDArray[Any]) -> int:
        """Write the next rows (m, d), and return m.

        Raises ValueError where a value is not finite, and ShardError where the disk is full.
        """
        block = np.ascontiguousarray(block)  # also of vectors on a device
        added = len(block)
        written = (self._shards[-1].stop if self._shards else 0) + self._filled
        check_rows(block, self.shape[1], self.dtype)
        if written + len(block) > self.shape[0]:
            raise ValueError(f"more than the {self.shape[0]} rows that were announced")
        while len(block):
            some = block[: self._rows - self._filled]
            self._waiting[self._filled : self._filled + len(some)] = some
            self._filled += len(some)
            written += len(some)
            block = block[len(some) :]
            if self._filled == self._rows or written == self.shape[0]:
                self._write(written)
        return added

    def _write(self, stop: int) -> None:
        """Write the waiting rows to a file, which has its name when it is complete."""
        shard = self._planned(stop - self._filled, stop)
        try:
            shard.write([self._waiting[: self._filled]])
        except OSError as error:
            raise self.explained(error) from None
        self._shards.append(shard)
        self._filled = 0
        if stop == self.shape[0]:
            self._waiting = self._waiting[:0].copy()

    def _planned(self, start: int, stop: int) -> Shard:
        assert self._name is not None, "shards are written inside a with block"
        name = f"{self._name}/{start // self._rows:06d}.vectors"
        return Shard(name, start, stop, self.shape[1], self.dtype)

    def planned(self) -> list[Shard]:
        """Return all shards, for others to write them; :meth:`adopt` takes them then."""
        n = self.shape[0]
        return [
            self._planned(start, min(start + self._rows, n)) for start in range(0, n, self._rows)
        ]

    def adopt(self) -> None:
        """Take shards that others have written; ShardError where one is not there."""
        for shard in (shards := self.planned()):
            shard.check()
        self._shards, self._waiting = shards, self._waiting[:0].copy()

    def explained(self, error: OSError) -> OSError:
        """Return an error of writing vectors as one that says what to do."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self._full(None) if not isinstance(error, ShardError) else error
        return ShardError(
            error.errno, f"cannot keep vectors here: {error.strerror or error}", error.filename
        )

    def _full(self, free: int | None) -> ShardError:
        n, d = self.shape
        room = "" if free is None else f", and {free:,} are free"
        in_store = self.apart and self._parent != tempfile.gettempdir()
        larger = "keep the store in" if in_store else "set TMPDIR to"
        return ShardError(
            errno.ENOSPC,
            f"no room for {n:,} vectors of {d:,} numbers: they take {self.nbytes:,} bytes{room}; "
            f"free some space, or {larger} a folder on a larger disk",
            self._parent,
        )

    def beside(self, shape: tuple[int, ...]) -> Beside:
        """Make an array of zeros in a file beside the shards, deleted with them.

        All of it is written, so that a full disk is noticed here and not in the middle.
        """
        assert self._folder is not None, "arrays beside shards are made inside a with block"
        try:
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                piece = bytes(2**20)
                left = 4 * math.prod(shape)
                while left:
                    left -= file.write(piece[:left])
        except OSError as error:
            raise self.explained(error) from None
        return Beside(file.name, shape)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return some rows, (len(rows), d), in the order given."""
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        for shard in self:
            for place in np.flatnonzero((rows >= shard.start) & (rows < shard.stop)):
                row = int(rows[place]) - shard.start
                out[place] = shard.read(row, row + 1)[0]
        return out


def stacked_columns(shards: Iterable[Shard], n: int, first: int, last: int) -> NDArray[np.float32]:
    """Return columns of all n rows of shards in float32, (n, last - first)."""
    out = np.empty((n, last - first), np.float32)
    for shard in shards:
        shard.columns_at(first, last, out[shard.start : shard.stop])
    return out
