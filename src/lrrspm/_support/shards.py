"""Shards: a matrix in files of some rows each, for vectors that do not fit into memory."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .halves import all_finite, widen_columns

# Bytes of a shard, and of the rows of one in float32 that are in memory at a
# time. Both fix the order of sums, so they depend on nothing but the length.
_SHARD_BYTES = 2**28
_BLOCK_BYTES = 2**23
_LEAST_ROWS, _MOST_ROWS = 16, 2**16


class ShardError(OSError):
    """A shard that cannot be written or read; says which, why, and what to do."""


class Shard(NamedTuple):
    """Rows ``start`` to ``stop`` of a matrix, in a file; small, and can be pickled."""

    path: str
    start: int
    stop: int
    columns: int
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.stop - self.start

    def read(self, first: int = 0, last: int | None = None) -> NDArray[Any]:
        """Return rows of the shard, from its own ``first`` to before ``last``, (rows, d)."""
        last = len(self) if last is None else min(last, len(self))
        out = np.empty((max(last - first, 0), self.columns), self.dtype)
        self._fill(out, first * self.columns * self.dtype.itemsize)
        return out

    def columns_at(self, first: int, last: int) -> NDArray[np.float32]:
        """Return columns in float32, (rows, last - first), reading no others."""
        out = np.empty((len(self), last - first), self.dtype)
        with self._opened() as file:
            for row, target in enumerate(out):
                file.seek((row * self.columns + first) * self.dtype.itemsize)
                self._check(file.readinto(target.data.cast("B")), target.nbytes)
        return _widened(out)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield blocks of the shard's own rows, and their values in float32."""
        size = _rows_in(_BLOCK_BYTES, self.columns * 4)
        for first in range(0, len(self), size):
            rows = slice(first, min(first + size, len(self)))
            yield rows, _widened(self.read(rows.start, rows.stop))

    def write(self, blocks: Iterable[NDArray[Any]]) -> int:
        """Write blocks of rows (m, d) to the file, and return how many rows they had.

        The file has its name when all rows of the shard are in it; with fewer there is
        none. Several processes may write the same shard at once.

        Raises ValueError where a value is not finite.
        """
        written, path = 0, Path(self.path)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            try:
                for block in blocks:
                    check_rows(block, self.columns, self.dtype)
                    file.write(np.ascontiguousarray(block).data)
                    written += len(block)
                file.close()
                if written == len(self):
                    Path(file.name).replace(path)
            finally:
                Path(file.name).unlink(missing_ok=True)
        return written

    def _fill(self, out: NDArray[Any], offset: int) -> None:
        with self._opened() as file:
            file.seek(offset)
            self._check(file.readinto(out.data.cast("B")), out.nbytes)

    def check(self) -> None:
        """Raise ShardError where the file is not there, or has another size."""
        with self._opened() as file:
            size = file.seek(0, os.SEEK_END)
        self._check(size, len(self) * self.columns * self.dtype.itemsize)

    def _opened(self) -> Any:
        try:
            return open(self.path, "rb", buffering=0)
        except FileNotFoundError:
            raise ShardError(
                errno.ENOENT, "vectors that were kept for training are gone; train again", self.path
            ) from None

    def _check(self, found: int | None, expected: int) -> None:
        if found != expected:
            raise ShardError(errno.EIO, "vectors on disk are cut short; train again", self.path)


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
    folder : path or None
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
        self._rows = rows or _rows_in(_SHARD_BYTES, d * self.dtype.itemsize)
        self._parent = Path(tempfile.gettempdir() if folder is None else folder)
        self._folder: Path | None = None
        self._shards: list[Shard] = []
        self._waiting = np.empty((0 if apart else min(self._rows, n), d), self.dtype)
        self._filled = 0

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __enter__(self) -> Self:
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self._parent).free
            if free < self.nbytes:
                raise self._full(free)
            self._folder = Path(tempfile.mkdtemp(prefix="lrrspm-vectors-", dir=self._parent))
        except OSError as error:
            raise self._explained(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

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
            raise self._explained(error) from None
        self._shards.append(shard)
        self._filled = 0
        if stop == self.shape[0]:
            self._waiting = self._waiting[:0].copy()

    def _planned(self, start: int, stop: int) -> Shard:
        assert self._folder is not None, "shards are written inside a with block"
        name = self._folder / f"{start // self._rows:06d}.vectors"
        return Shard(str(name), start, stop, self.shape[1], self.dtype)

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

    def _explained(self, error: OSError) -> OSError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self._full(None) if not isinstance(error, ShardError) else error
        return ShardError(
            error.errno, f"cannot keep vectors here: {error.strerror}", error.filename
        )

    def _full(self, free: int | None) -> ShardError:
        n, d = self.shape
        room = "" if free is None else f", and {free:,} are free"
        return ShardError(
            errno.ENOSPC,
            f"no room for {n:,} vectors of {d:,} numbers: they take {self.nbytes:,} bytes{room}; "
            "free some space, or set TMPDIR to a folder on a larger disk",
            str(self._parent),
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
            raise self._explained(error) from None
        return Beside(file.name, shape)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return some rows, (len(rows), d), in the order given."""
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        for shard in self:
            for place in np.flatnonzero((rows >= shard.start) & (rows < shard.stop)):
                row = int(rows[place]) - shard.start
                out[place] = shard.read(row, row + 1)[0]
        return out

    def columns_at(self, first: int, last: int) -> NDArray[np.float32]:
        """Return columns of all rows in float32, (n, last - first)."""
        out = np.empty((self.shape[0], last - first), np.float32)
        for shard in self:
            out[shard.start : shard.stop] = shard.columns_at(first, last)
        return out


def check_rows(block: NDArray[Any], columns: int, dtype: np.dtype[Any]) -> None:
    """Raise ValueError for rows that are not (m, columns), of another type, or not finite."""
    if block.ndim != 2 or block.shape[1] != columns or block.dtype != dtype:
        raise ValueError(
            f"rows of {columns} numbers in {dtype} are expected, got an array of "
            f"shape {block.shape} in {block.dtype}"
        )
    finite = all_finite if block.dtype == np.float16 else np.isfinite
    if not np.all(finite(np.ascontiguousarray(block))):
        raise ValueError("Input X contains NaN or infinity.")


def _widened(values: NDArray[Any]) -> NDArray[np.float32]:
    return widen_columns(values, 0, values.shape[1]) if values.dtype == np.float16 else values


def _rows_in(limit: int, row_bytes: int) -> int:
    """Return the largest power of two of rows that take up to ``limit`` bytes, within bounds."""
    rows = 1 << max(limit // row_bytes, 1).bit_length() - 1
    return min(max(rows, _LEAST_ROWS), _MOST_ROWS)
