"""One place where picture files are opened: limits, decoding, orientation, gray."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from .._support.files import MAX_BYTES
from .._support.loops import compiled

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# Where Pillow itself begins to warn of a decompression bomb.
_MAX_PIXELS = 89_478_485
# WebP pictures take 16 bytes a pixel to decode, others 4.
_MAX_WEBP_PIXELS = 2**25
# The longest that a JPEG can be. The weights that shrink a picture take 50 bytes a pixel of it.
_LONGEST = 65_535
# Each scan of a JPEG is a pass over the whole picture; a photograph has a dozen.
_MAX_SCANS = 50
# Reads of a file before and while its pixels are decoded. Headers of millions of parts keep
# Pillow's loops busy for minutes; a run-length coded BMP has two reads a run.
_HEADER_READS, _PIXEL_READS = 100_000, 2_000_000
# A reduced JPEG keeps at least this many pixels for one of the shrunk picture, along each side.
_MARGIN = 2
# Pixels that are made gray at a time: 4 MB of colours.
_STRIP = 2**20

Source = str | os.PathLike[str] | BinaryIO
"""A picture file: its path, or an open binary file that can seek."""


class ImageError(ValueError):
    """A picture that cannot be used; the message names the file and the reason."""

    def __init__(self, source: Source, reason: str) -> None:
        self.path = source_name(source)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")


def source_name(source: Source) -> str:
    """What a picture file is called in messages."""
    name = source if isinstance(source, (str, os.PathLike)) else getattr(source, "name", None)
    return os.fspath(name) if isinstance(name, (str, os.PathLike)) else "the picture"


class TooLargeError(ImageError):
    """A picture that would take too much memory or time, most likely on purpose."""


class Pixels(NamedTuple):
    """8-bit gray pixels, decoded at their full shape or reduced some times.

    Where the reduction does not divide a side, one pixel reaches beyond the
    picture; ``excess`` is by how much of it, for the axes that begin with it.
    """

    gray: NDArray[np.uint8]
    shape: tuple[int, int]
    reduction: int
    excess: tuple[float, float]


def decode(source: Source, max_side: int | None) -> Pixels:
    """Gray pixels of a picture file, upright."""
    with opened(source, max_side) as (picture, reduction, size):
        return upright(picture, reduction, size)


def upright(picture: Image.Image, reduction: int, size: tuple[int, int]) -> Pixels:
    """Gray pixels of an opened picture, turned as its EXIF data ask for."""
    transposed, *steps = _TURNS[_orientation(picture)]
    gray, (width, height) = _gray(picture), size
    if transposed:
        gray, width, height = gray.T, height, width
    excess = [
        side - full / reduction if step < 0 else 0.0
        for step, side, full in zip(steps, gray.shape, (height, width), strict=True)
    ]
    turned = gray[:: steps[0], :: steps[1]]
    return Pixels(turned, (height, width), reduction, (excess[0], excess[1]))


def colours(source: Source, side: int) -> Image.Image:
    """A picture file for people to look at: RGB, upright, its longer side at most ``side``."""
    with opened(source, side) as (picture, _, size):
        transposed, *steps = _TURNS[_orientation(picture)]
        scale = min(1.0, side / max(size))
        width, height = (max(1, round(scale * length)) for length in size)
        small = _shrink_colours(picture, max(1, max(picture.size) // (2 * max(width, height))))
    if small.size != (width, height):
        small = small.resize((width, height), Image.Resampling.LANCZOS)
    pixels = np.asarray(small)
    if transposed:
        pixels = pixels.transpose(1, 0, 2)
    return Image.fromarray(np.ascontiguousarray(pixels[:: steps[0], :: steps[1]]))


def _shrink_colours(picture: Image.Image, times: int) -> Image.Image:
    """RGB at a fraction of the size, a strip at a time like :func:`_gray`."""
    width, height = picture.size
    deep = levels(picture)
    rows = max(1, _STRIP // (width * times)) * times
    small = Image.new("RGB", (-(-width // times), -(-height // times)))
    for top in range(0, height, rows):
        strip = picture.crop((0, top, width, min(height, top + rows)))
        if deep is not None:
            plain = Image.fromarray(_reduce_levels(strip, *deep)).convert("RGB")
        else:
            plain = _opaque(strip).convert("RGB")
        small.paste(plain.reduce(times), (0, top // times))
    return small


class _Metered:
    """A file that refuses to be read in very many pieces.

    It has no number that libtiff could read from, and go on reading from
    after the file was closed and the number given to another one.
    """

    def __init__(self, source: Source, file: BinaryIO) -> None:
        self._source, self._file = source, file
        self.left = _HEADER_READS
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise self.refusal()
        return self._file.read(size)

    def refusal(self) -> TooLargeError:
        return TooLargeError(self._source, "made of too many small parts; save it anew")


class _Strict:
    """Has Pillow refuse truncated files while anybody is inside.

    Its switch belongs to the whole process, and other libraries turn it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._found = False

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self._found |= ImageFile.LOAD_TRUNCATED_IMAGES
            ImageFile.LOAD_TRUNCATED_IMAGES = False

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._found:
                ImageFile.LOAD_TRUNCATED_IMAGES = True
                self._found = False


_strict = _Strict()


@contextmanager
def opened(
    source: Source, max_side: int | None = None
) -> Iterator[tuple[Image.Image, int, tuple[int, int]]]:
    """A picture file, decoded; whatever is wrong with it becomes an ImageError.

    Yields the picture, how many times it is reduced, and its full width and height.
    """
    try:
        # Given a path, Pillow maps some files into memory: a crash where another process cuts
        # the file short, and wrong rows where a TIFF is to be turned.
        with (
            _bytes_of(source) as file,
            _strict,
            Image.open(cast("BinaryIO", file), formats=_FORMATS) as picture,
        ):
            _check_header(source, picture)
            if is_jpeg(picture):
                _check_scans(source, file)
            full = picture.size
            reduction = _reduce(picture, max_side)
            file.left = _PIXEL_READS
            picture.load()
            # Decoding turns a TIFF upright, so only a reduced picture's size is an earlier one.
            yield picture, reduction, picture.size if reduction == 1 else full
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(source, "no such file") from None
    except UnidentifiedImageError:
        raise ImageError(
            source, "not a picture of a known format (JPEG, PNG, WebP, BMP, TIFF, GIF, PGM/PPM)"
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TooLargeError(source, f"more than {_MAX_PIXELS:,} pixels; shrink it first") from None
    except MemoryError:
        raise
    except Exception as error:  # decoders raise almost anything on a damaged file
        raise ImageError(source, f"cannot be read: {error or type(error).__name__}") from error


@contextmanager
def _bytes_of(source: Source) -> Iterator[_Metered]:
    """The file of a picture, open at its beginning; it has a size that can be right."""
    if isinstance(source, (str, os.PathLike)):
        _check_kind(source)
        with open(source, "rb") as file:
            _check_size(source, os.fstat(file.fileno()).st_size)
            yield _Metered(source, file)
    else:
        _check_size(source, source.seek(0, os.SEEK_END))
        source.seek(0)
        yield _Metered(source, source)


def _check_kind(path: str | os.PathLike[str]) -> None:
    """Opening a pipe would wait for whoever writes to it."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise ImageError(path, "a folder without pictures")
    if not stat.S_ISREG(mode):
        raise ImageError(path, "not an ordinary file")


def _check_size(source: Source, size: int) -> None:
    if size == 0:
        raise ImageError(source, "the file is empty")
    if size > MAX_BYTES:
        raise TooLargeError(source, f"{size:,} bytes are more than {MAX_BYTES:,}")


def _check_header(source: Source, picture: Image.Image) -> None:
    """Refuse what would take too much memory or time to decode."""
    width, height = picture.size
    most = _MAX_WEBP_PIXELS if picture.format == "WEBP" else _MAX_PIXELS
    if width * height > most:
        raise TooLargeError(
            source, f"{width} x {height} pixels are more than {most:,}; shrink it first"
        )
    if max(width, height) > _LONGEST:
        raise TooLargeError(
            source, f"{width} x {height} pixels: a side is over {_LONGEST:,}; cut it"
        )


def is_jpeg(picture: Image.Image) -> bool:
    return picture.format in ("JPEG", "MPO")  # MPO: a JPEG with others behind it


def _check_scans(source: Source, file: _Metered) -> None:
    """Refuse a JPEG of very many passes over the picture."""
    place = file.tell()
    file.seek(0)
    content = file.read()
    file.seek(place)
    # Few files have as many as look like scans, so few are gone through.
    if content.count(b"\xff\xda") > _MAX_SCANS and _count_scans(content) > _MAX_SCANS:
        raise TooLargeError(source, f"a JPEG of more than {_MAX_SCANS} scans; save it anew")


# After a scan's header come its codes, in which 0xFF stands before 0 or a restart marker alone.
# Restart markers and 0xFF01 have no length behind them.
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
_SCAN, _END = 0xDA, 0xD9


def _count_scans(content: bytes) -> int:
    """Scans of the first picture in a JPEG file; of too many no more are counted."""
    scans, place = 0, 2
    while scans <= _MAX_SCANS and (found := _MARKER.search(content, place)):
        marker, place = content[found.end() - 1], found.end()
        if marker == _END:
            break
        scans += marker == _SCAN
        place += int.from_bytes(content[place : place + 2])
    return scans


def _reduce(picture: Image.Image, max_side: int | None) -> int:
    """Have a large JPEG decoded at 1/2, 1/4 or 1/8 of its size; returns 2, 4 or 8, or 1."""
    if max_side is None or max_side < 1 or not is_jpeg(picture):
        return 1
    times = max(picture.size) // (_MARGIN * max_side)
    if times < 2:
        return 1
    factor = min(8, 1 << (times.bit_length() - 1))
    width, height = picture.size
    drafted = picture.draft(None, (max(1, width // factor), max(1, height // factor)))
    return 1 if drafted is None else round(width / drafted[1][2])


# How an EXIF orientation is undone: transposed or not, then steps along rows and columns.
_TURNS = {
    1: (False, 1, 1),
    2: (False, 1, -1),
    3: (False, -1, -1),
    4: (False, -1, 1),
    5: (True, 1, 1),
    6: (True, 1, -1),
    7: (True, -1, -1),
    8: (True, -1, 1),
}


def _orientation(picture: Image.Image) -> int:
    """EXIF orientation of a decoded picture, 1 to 8."""
    try:
        value = picture.getexif().get(ExifTags.Base.Orientation, 1)
        return value if value in _TURNS else 1
    except Exception:  # what is wrong with EXIF data is not wrong with the pixels
        return 1


def levels(picture: Image.Image) -> tuple[int, int] | None:
    """The numbers that are black and white where gray has more than 8 bits, else None."""
    if picture.mode not in ("I", "F") and not picture.mode.startswith("I;16"):
        return None
    tags = getattr(picture, "tag_v2", {})
    # Integers of 32 bits hold values of 16 bits in the formats we read.
    most = 1 if picture.mode == "F" else 65535
    if tags.get(ExifTags.Base.BitsPerSample) in (12, (12,)):
        most = 4095
    # Pillow turns negatives round that have 8 bits or fewer, but not these.
    negative = tags.get(ExifTags.Base.PhotometricInterpretation) == 0
    return (most, 0) if negative else (0, most)


def _gray(picture: Image.Image) -> NDArray[np.uint8]:
    """8-bit gray pixels, a strip at a time: colours and copies of them are never all in memory."""
    width, height = picture.size
    rows = max(1, _STRIP // width)
    deep = levels(picture)  # a strip does not know
    if height <= rows:
        return _gray_strip(picture, deep)
    gray = np.empty((height, width), np.uint8)
    for top in range(0, height, rows):
        bottom = min(height, top + rows)
        gray[top:bottom] = _gray_strip(picture.crop((0, top, width, bottom)), deep)
    return gray


def _gray_strip(picture: Image.Image, deep: tuple[int, int] | None) -> NDArray[np.uint8]:
    if deep is not None:
        return _reduce_levels(picture, *deep)
    picture = _opaque(picture)
    if picture.mode == "1":
        picture = picture.convert("L")
    if picture.mode == "L":
        return np.asarray(picture)
    return weigh_colours(np.asarray(picture.convert("RGB")))


def _opaque(picture: Image.Image) -> Image.Image:
    """A picture laid over white where it is transparent."""
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB")


def _reduce_levels(picture: Image.Image, black: int, white: int) -> NDArray[np.uint8]:
    """8-bit gray of deeper gray; the one number that is transparent becomes white."""
    values: NDArray[Any] = np.asarray(picture, np.float32 if picture.mode == "F" else np.float64)
    least, most = values.min(), values.max()
    if not (least >= 0 and most <= max(black, white)):  # NaN fails too
        raise ValueError(
            f"its values reach from {least:g} to {most:g}, expected 0 to {max(black, white)}"
        )
    gray: NDArray[np.uint8] = np.round((values - black) * (255 / (white - black))).astype(np.uint8)
    if "transparency" in picture.info:
        gray[values == picture.info["transparency"]] = 255
    return gray


@compiled()
def weigh_colours(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Gray of 8-bit RGB (h, w, 3), five operations a pixel."""
    height, width, _ = rgb.shape
    gray = np.empty((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            value = 0.2989 * rgb[y, x, 0] + 0.5870 * rgb[y, x, 1] + 0.1140 * rgb[y, x, 2]
            gray[y, x] = np.uint8(value + 0.5)
    return gray
