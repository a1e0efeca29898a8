"""One shard: some rows of a matrix in a file, here or at an address."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .halves import all_finite, widen_columns
from .remote import delete_remote, is_remote, read_range, remote_size, write_remote

# Bytes of the rows of a shard in float32 that are in memory at a time. They fix the
# order of sums, so they depend on nothing but the length.
_BLOCK_BYTES = 2**23
# The same of a group of columns: large, since each is a request where a shard is at an address.
_PIECE_BYTES = 2**25
_LEAST_ROWS, _MOST_ROWS = 16, 2**16

GROUP = 4096
"""Columns that lie together in a file, row after row: those of a product are read at once."""


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

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self) * self.columns * self.dtype.itemsize

    @property
    def owner(self) -> str:
        """Address of what is there as long as the run that the shard belongs to."""
        return f"{self.path.rpartition('/')[0]}/.owner"

    def read(self, first: int = 0, last: int | None = None) -> NDArray[Any]:
        """Return rows of the shard, from its own ``first`` to before ``last``, (rows, d)."""
        last = len(self) if last is None else min(last, len(self))
        with self._opened() as file:
            return self._rows(file, first, max(last, first))

    def columns_at(
        self, first: int, last: int, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return columns in float32, (rows, last - first), in ``out`` if given.

        Reads few other columns, and holds few rows besides the result.
        """
        if out is None:
            out = np.empty((len(self), last - first), np.float32)
        size = rows_in(_PIECE_BYTES, 4 * GROUP)
        with self._opened() as file:
            for group in self._groups():
                left, right = max(first, group.start), min(last, group.stop)
                if left >= right:
                    continue
                inside = slice(left - group.start, right - group.start)
                for row in range(0, len(self), size):
                    stop = min(row + size, len(self))
                    found = self._span(file, group, row, stop)[:, inside]
                    out[row:stop, left - first : right - first] = widened(
                        np.ascontiguousarray(found)
                    )
        return out

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield blocks of the shard's own rows, and their values in float32."""
        size = rows_in(_BLOCK_BYTES, self.columns * 4)
        with self._opened(whole=True) as file:
            for first in range(0, len(self), size):
                rows = slice(first, min(first + size, len(self)))
                yield rows, widened(self._rows(file, rows.start, rows.stop))

    def write(self, blocks: Iterable[NDArray[Any]]) -> int:
        """Write blocks of rows (m, d) to the file, and return how many rows they had.

        The file has its name when all rows of the shard are in it; with fewer there is
        none. Several processes may write the same shard at once. One that ends after its run
        leaves nothing. The file can be read by whom the folder is open to.

        Raises ValueError where a value is not finite.
        """
        if is_remote(self.path):
            content = io.BytesIO(bytes(self.nbytes))  # whose value is taken without a copy
            written = self._fill(content, blocks)
            if written == len(self):
                write_remote(self.path, content.getvalue())
                # A folder here is gone then; an object would lie there for ever.
                try:
                    read_range(self.owner, 0, 1)
                except FileNotFoundError:
                    delete_remote(self.path)
            return written
        path = Path(self.path)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            try:
                written = self._fill(file, blocks)
                file.close()
                if written == len(self):
                    with contextlib.suppress(PermissionError):  # a disk without modes
                        Path(file.name).chmod(path.parent.stat().st_mode & 0o666)
                    Path(file.name).replace(path)
            finally:
                Path(file.name).unlink(missing_ok=True)
        return written

    def check(self) -> None:
        """Raise ShardError where the file is not there, or has another size."""
        try:
            found = remote_size(self.path) if is_remote(self.path) else os.stat(self.path).st_size
        except FileNotFoundError:
            raise self._gone() from None
        self._check(found, self.nbytes)

    def _fill(self, file: Any, blocks: Iterable[NDArray[Any]]) -> int:
        written = 0
        for block in blocks:
            check_rows(block, self.columns, self.dtype)
            for group in self._groups():
                file.seek(self._offset(group, written))
                file.write(np.ascontiguousarray(block[:, group]).data)
            written += len(block)
        return written

    def _groups(self) -> Iterator[slice]:
        for first in range(0, self.columns, GROUP):
            yield slice(first, min(first + GROUP, self.columns))

    def _offset(self, group: slice, row: int) -> int:
        return (len(self) * group.start + row * (group.stop - group.start)) * self.dtype.itemsize

    def _rows(self, file: Any, first: int, last: int) -> NDArray[Any]:
        if self.columns <= GROUP:
            return self._span(file, slice(0, self.columns), first, last)
        out = np.empty((last - first, self.columns), self.dtype)
        for group in self._groups():
            out[:, group] = self._span(file, group, first, last)
        return out

    def _span(self, file: Any, group: slice, first: int, last: int) -> NDArray[Any]:
        """Read rows of a group of columns, which lie together."""
        out = np.empty((last - first, group.stop - group.start), self.dtype)
        file.seek(self._offset(group, first))
        self._check(file.readinto(out.data.cast("B")) if out.size else 0, out.nbytes)
        return out

    def _opened(self, whole: bool = False) -> Any:
        """Open the file to read from it; one at an address is fetched at once where asked for."""
        try:
            if is_remote(self.path):
                return _Remote(self, whole)
            return open(self.path, "rb", buffering=0)
        except FileNotFoundError:
            raise self._gone() from None

    def _gone(self) -> ShardError:
        return ShardError(
            errno.ENOENT, "vectors that were kept for training are gone; train again", self.path
        )

    def _check(self, found: int | None, expected: int) -> None:
        if found != expected:
            raise ShardError(errno.EIO, "vectors on disk are cut short; train again", self.path)


class _Remote:
    """A shard at an address: each span is a request, or all of it one."""

    def __init__(self, shard: Shard, whole: bool) -> None:
        self._path, self._place = shard.path, 0
        self._content = read_range(shard.path, 0, shard.nbytes) if whole else None

    def __enter__(self) -> _Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._content = None

    def seek(self, place: int) -> None:
        self._place = place

    def readinto(self, target: memoryview) -> int:
        stop = self._place + len(target)
        if self._content is None:
            found = read_range(self._path, self._place, stop)
        else:
            found = self._content[self._place : stop]
        target[: len(found)] = found
        return len(found)


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


def widened(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return values (m, d) in float32."""
    return widen_columns(values, 0, values.shape[1]) if values.dtype == np.float16 else values


def rows_in(limit: int, row_bytes: int) -> int:
    """Return the largest power of two of rows that take up to ``limit`` bytes, within bounds."""
    rows = 1 << max(limit // row_bytes, 1).bit_length() - 1
    return min(max(rows, _LEAST_ROWS), _MOST_ROWS)
