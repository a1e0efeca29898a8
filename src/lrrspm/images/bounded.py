"""Bounded reading: image files opened without waiting, and read within limits."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from .._support.files import MAX_BYTES, NotRegularError, open_regular
from .._support.remote import is_remote, read_remote, remote_size, without_secrets

# Reads and bytes before pixels are decoded. Headers of millions of chunks keep Pillow's loops busy
# for minutes.
_HEADER_READS, _HEADER_BYTES = 100_000, 2**26
# WebP and compressed TIFF files are read whole.
_WHOLE = 2**28
# Reading a small file at once takes less time than in pieces.
_SMALL = 2**20

Source = str | os.PathLike[str] | BinaryIO
"""An image file: its path, or an open binary file that can seek."""


class ImageError(ValueError):
    """An image that cannot be used; the message names the file and the reason."""

    def __init__(self, source: Source, reason: str) -> None:
        name = source if isinstance(source, (str, os.PathLike)) else getattr(source, "name", None)
        # The name of a file opened by its descriptor is a number.
        self.path: str = os.fspath(name) if isinstance(name, (str, os.PathLike)) else "the image"
        if is_remote(self.path):
            self.path = without_secrets(self.path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[type[ImageError], tuple[str, str]]:
        return type(self), (self.path, self.reason)  # an open file cannot be pickled


class TooLargeError(ImageError):
    """An image that would take too much memory or time, most likely on purpose."""


class BoundedFile:
    """A file with limits on the number of reads and on their bytes.

    It has no file descriptor: libtiff would go on reading from it after the
    file was closed and the descriptor reused for another file.
    """

    def __init__(self, source: Source, file: BinaryIO, size: int) -> None:
        self.source: Source = source
        self.file: BinaryIO = file
        self.size: int = size
        self.seek: Callable[..., int] = file.seek
        self.tell: Callable[[], int] = file.tell
        self.allow(_HEADER_READS, _HEADER_BYTES)

    def allow(self, reads: int, size: int) -> None:
        """Set the limits of the reads to come."""
        self._reads, self._bytes = reads, size

    def read(self, size: int = -1) -> bytes:
        self._reads -= 1
        if self._reads < 0:
            raise self.refusal("too many small chunks; re-save the file")
        if size < 0:
            if self.size > _WHOLE:
                raise self.refusal(f"{self.size:,} bytes are more than {_WHOLE:,} for this format")
            return self.file.read()
        content = self.file.read(min(size, self._bytes + 1))
        self._bytes -= len(content)
        if self._bytes < 0:
            raise self.refusal("too many bytes besides the pixels; re-save the file")
        return content

    def forward(self) -> BinaryIO | BoundedFile:
        """Return the file for a decoder that never goes back.

        Within a small file in memory it comes to the end before it comes to a
        limit, so nothing is counted, which takes as long as parsing a header.
        """
        small = isinstance(self.file, io.BytesIO) and self.size <= _HEADER_READS
        return self.file if small else self

    def refusal(self, reason: str) -> TooLargeError:
        return TooLargeError(self.source, reason)


@contextmanager
def open_bounded(source: Source) -> Iterator[BoundedFile]:
    """Open an image file at its beginning, unless it is of a wrong kind or size."""
    if isinstance(source, str) and is_remote(source):
        size = remote_size(source)
        if size is not None:
            _check_size(source, size)
        content = read_remote(source, MAX_BYTES)
        yield _sized(source, io.BytesIO(content), len(content))
    elif isinstance(source, (str, os.PathLike)):
        try:
            opened = open_regular(source)
        except NotRegularError:
            folder = os.path.isdir(source)
            reason = "a folder without images" if folder else "not a regular file"
            raise ImageError(source, reason) from None
        with opened as file:
            bounded = _sized(source, file, os.fstat(file.fileno()).st_size)
            if bounded.size <= _SMALL:
                memory = io.BytesIO(file.read(bounded.size))
                bounded = BoundedFile(source, memory, bounded.size)
            yield bounded
    else:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        yield _sized(source, source, size)


def _sized(source: Source, file: BinaryIO, size: int) -> BoundedFile:
    _check_size(source, size)
    return BoundedFile(source, file, size)


def _check_size(source: Source, size: int) -> None:
    if size == 0:
        raise ImageError(source, "the file is empty")
    if size > MAX_BYTES:
        raise TooLargeError(
            source, f"{size:,} bytes, at most {MAX_BYTES:,} are read; shrink it first"
        )
