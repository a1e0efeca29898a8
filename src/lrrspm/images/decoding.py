"""Decoding: the one place where image files are opened, with limits on size and time."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, JpegImagePlugin, UnidentifiedImageError

from .._support.files import machine_fault
from .._support.loops import compiled
from .._support.remote import UnavailableError
from .bounded import BoundedFile, ImageError, Source, TooLargeError, open_bounded
from .headers import MAX_EXIF, check_headers, is_one_scan
from .pnm import decode_pnm_fast
from .strict import strict

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# Where Pillow itself begins to warn of a decompression bomb.
_MAX_PIXELS = 89_478_485
# Decoding takes 16 bytes per pixel for WebP, 4 for most formats.
_MOST_PIXELS = {"WEBP": 2**25, "AVIF": 2**26, "HEIF": 2**26}
# Of a JPEG that is decoded at a fraction of its size, row by row.
_MAX_REDUCED = 250_000_000
# The longest side of a JPEG. Resize weights take 50 bytes per pixel of a side.
_LONGEST = 65_535
# Reads of a file while its pixels are decoded: a run-length encoded BMP takes two per run. Bytes:
# some for metadata, for each pixel, and for each strip of a TIFF, of which Pillow reads too much.
_PIXEL_READS = 2_000_000
_OTHER_BYTES, _PIXEL_BYTES, _STRIP_BYTES = 2**26, 16, 2**16
# A reduced JPEG keeps at least this many pixels per output pixel along each side.
_MARGIN = 2
# Pixels converted at a time: 4 MB of color.
_STRIP = 2**20


class Opened(NamedTuple):
    """A decoded Pillow image, how many times it is reduced, and its full width and height."""

    image: Image.Image
    reduction: int
    size: tuple[int, int]


class Decoded(NamedTuple):
    """Upright 8-bit pixels, (h, w) or (h, w, 3), and the height and width of the full image.

    A pixel stands for ``reduction`` ones along each side. Where that does not
    divide a side, the last pixel of the file extends beyond the image; if
    turning made it the first, ``excess`` is by how much, along rows and columns.
    """

    pixels: NDArray[np.uint8]
    shape: tuple[int, int]
    reduction: int
    excess: tuple[float, float]


def decode(source: Source, max_side: int | None, color: bool = False) -> Decoded:
    """Decode an image file: gray (h, w), or RGB (h, w, 3) if asked for and not a gray file."""
    with opened(source, max_side) as found:
        return upright(found, color)


def upright(found: Opened, color: bool = False) -> Decoded:
    """Convert an opened image as :func:`decode` does, turned as its EXIF orientation says."""
    turn = orientation(found.image)
    pixels = turned(_convert(found.image, color), turn)
    transposed, *steps = turn
    shape = found.size if transposed else found.size[::-1]
    rows, columns = (
        side - full / found.reduction if step < 0 else 0.0
        for step, side, full in zip(steps, pixels.shape, shape, strict=False)
    )
    return Decoded(pixels, shape, found.reduction, (rows, columns))


@contextmanager
def opened(source: Source, max_side: int | None = None) -> Iterator[Opened]:
    """Open and decode an image file; whatever is wrong with it becomes an ImageError."""
    try:
        # Given a path, Pillow maps some files into memory: a crash if another process truncates
        # the file, and wrong rows if a TIFF is to be turned.
        with (
            open_bounded(source) as file,
            strict,
            _opened(file) as image,
        ):
            full = image.size
            reduction = _reduce(image, max_side)
            _check_size(file, str(image.format), full, reduction)
            pixels, parts = full[0] * full[1], len(image.tile)
            size = _OTHER_BYTES + pixels * _PIXEL_BYTES + parts * _STRIP_BYTES
            file.allow(_PIXEL_READS, size)
            decode_pnm_fast(image)
            image.load()
            if len(image.info.get("exif") or b"") > MAX_EXIF:
                raise TooLargeError(source, "too much EXIF data; re-save the file")
            # Decoding turns a TIFF upright, so only a reduced image keeps its earlier size.
            yield Opened(image, reduction, image.size if reduction == 1 else full)
    except (ImageError, MemoryError, UnavailableError):
        raise
    except FileNotFoundError:
        raise ImageError(source, "no such file") from None
    except UnidentifiedImageError:
        raise ImageError(
            source,
            "not an image of a known format (JPEG, PNG, WebP, BMP, TIFF, GIF, PGM/PPM, AVIF, HEIC)",
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise TooLargeError(source, f"more than {_MAX_PIXELS:,} pixels; shrink it first") from None
    except Exception as error:  # decoders raise almost anything on a damaged file
        if machine_fault(error):
            raise
        raise ImageError(source, f"cannot be read: {error or type(error).__name__}") from error


def _opened(file: BoundedFile) -> ImageFile.ImageFile:
    kind = check_headers(file)
    image: Image.Image
    if kind == "JPEG":
        image = _open_jpeg(file.forward())
    elif kind is not None:
        image = _plugin(file.source, kind)(file)
    else:
        image = Image.open(cast("BinaryIO", file), formats=_FORMATS)
    assert isinstance(image, ImageFile.ImageFile)
    return image


def _open_jpeg(file: BinaryIO | BoundedFile) -> Image.Image:
    """Open a JPEG as ``Image.open`` does, which refuses sizes that are fine when reduced."""
    try:
        return JpegImagePlugin.jpeg_factory(cast("BinaryIO", file))
    except (SyntaxError, IndexError, TypeError, struct.error):
        raise UnidentifiedImageError from None


def _plugin(source: Source, kind: str) -> Any:
    """Return the class that opens HEIF or AVIF files; none is registered with Pillow."""
    try:
        if kind == "HEIF":
            return importlib.import_module("pillow_heif").HeifImageFile
        plugin = importlib.import_module("PIL.AvifImagePlugin")
        if plugin.SUPPORTED:
            return plugin.AvifImageFile
    except ImportError:
        pass
    if kind == "HEIF":
        raise ImageError(source, "a HEIC image; to read it: pip install 'lrrspm[heif]'")
    raise ImageError(source, "an AVIF image; to read it: pip install --upgrade pillow")


def _check_size(file: BoundedFile, kind: str, size: tuple[int, int], reduction: int) -> None:
    """Refuse what would take too much memory or time to decode."""
    width, height = size
    most = min(_MOST_PIXELS.get(kind, _MAX_PIXELS), _MAX_PIXELS)
    if width * height > most and reduction > 1 and is_one_scan(file):
        most = min(_MAX_REDUCED, most * reduction**2)
    if width * height > most:
        raise file.refusal(f"{width} x {height} pixels are more than {most:,}; shrink it first")
    if max(width, height) > _LONGEST:
        raise file.refusal(f"{width} x {height} pixels: a side is over {_LONGEST:,}; crop it first")


def is_jpeg(image: Image.Image) -> bool:
    return image.format in ("JPEG", "MPO")  # MPO: a JPEG with others behind it


def _reduce(image: Image.Image, max_side: int | None) -> int:
    """Have a large JPEG decoded at 1/2, 1/4 or 1/8 of its size; return 2, 4 or 8, else 1."""
    if max_side is None or max_side < 1 or not is_jpeg(image):
        return 1
    times = max(image.size) // (_MARGIN * max_side)
    if times < 2:
        return 1
    factor = min(8, 1 << (times.bit_length() - 1))
    width, height = image.size
    drafted = image.draft(None, (max(1, width // factor), max(1, height // factor)))
    return 1 if drafted is None else round(width / drafted[1][2])


# How to undo an EXIF orientation: transpose or not, then steps along rows and columns.
_TURNS = {
    1: (False, 1, 1), 2: (False, 1, -1), 3: (False, -1, -1), 4: (False, -1, 1),
    5: (True, 1, 1), 6: (True, 1, -1), 7: (True, -1, -1), 8: (True, -1, 1),
}  # fmt: skip


def orientation(image: Image.Image) -> tuple[bool, int, int]:
    """Return how to turn a decoded image upright; damaged EXIF data count as none."""
    try:
        return _TURNS[image.getexif().get(ExifTags.Base.Orientation, 1)]
    except Exception:  # the pixels may be fine all the same
        return _TURNS[1]


def turned(pixels: NDArray[np.uint8], turn: tuple[bool, int, int]) -> NDArray[np.uint8]:
    """Turn pixels upright, as a view."""
    transposed, rows, columns = turn
    return (pixels.swapaxes(0, 1) if transposed else pixels)[::rows, ::columns]


def levels(image: Image.Image) -> tuple[int, int] | None:
    """Return the values of black and white if gray has more than 8 bits, else None."""
    if image.mode not in ("I", "F") and not image.mode.startswith("I;16"):
        return None
    tags = getattr(image, "tag_v2", {})
    # 32-bit integers hold 16-bit values in the formats we read.
    most = 1 if image.mode == "F" else 65535
    if tags.get(ExifTags.Base.BitsPerSample) in (12, (12,)):
        most = 4095
    # Pillow inverts negatives of 8 bits or fewer, but not these.
    negative = tags.get(ExifTags.Base.PhotometricInterpretation) == 0
    return (most, 0) if negative else (0, most)


def strips(image: Image.Image, multiple: int = 1) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield the first row and the 8-bit pixels, gray or RGB, of one strip after another.

    Strips keep memory low: converted copies never exist all at once. All but
    the last have a multiple of so many rows.
    """
    width, height = image.size
    rows = max(1, _STRIP // (width * multiple)) * multiple
    deep = levels(image)  # cropping loses the tags
    for top in range(0, height, rows):
        whole = rows >= height
        strip = image if whole else image.crop((0, top, width, min(height, top + rows)))
        if deep is not None:
            yield top, _reduce_levels(strip, *deep)
            continue
        strip = _opaque(strip)
        if strip.mode not in ("L", "RGB"):
            strip = strip.convert("L" if strip.mode == "1" else "RGB")
        yield top, np.asarray(strip)


def _convert(image: Image.Image, color: bool) -> NDArray[np.uint8]:
    """8-bit gray pixels (h, w), or RGB (h, w, 3) if asked for and the image is not gray."""
    pixels = np.empty(0, np.uint8)
    for top, strip in strips(image):
        if strip.ndim == 3 and not color:
            strip = weigh_colors(strip)
        if len(strip) == image.height:
            return strip
        if top == 0:
            pixels = np.empty((image.height, *strip.shape[1:]), np.uint8)
        pixels[top : top + len(strip)] = strip
    return pixels


def _opaque(image: Image.Image) -> Image.Image:
    """Lay an image over white where it is transparent."""
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _reduce_levels(image: Image.Image, black: int, white: int) -> NDArray[np.uint8]:
    """Reduce deeper gray to 8 bits; the transparent value, if any, becomes white."""
    values: NDArray[Any] = np.asarray(image, np.float32 if image.mode == "F" else np.float64)
    least, most = values.min(), values.max()
    if not (least >= 0 and most <= max(black, white)):  # NaN fails too
        raise ValueError(
            f"values range from {least:g} to {most:g}, expected 0 to {max(black, white)}"
        )
    gray: NDArray[np.uint8] = np.round((values - black) * (255 / (white - black))).astype(np.uint8)
    if "transparency" in image.info:
        gray[values == image.info["transparency"]] = 255
    return gray


@compiled()
def weigh_colors(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Gray of contiguous 8-bit RGB (h, w, 3), rounded: six operations per pixel.

    One index, and integers of 32 bits: LLVM vectorizes this, but no loop over rows and columns.
    """
    height, width, _ = rgb.shape
    flat = rgb.reshape(height * width * 3)
    gray = np.empty(height * width, np.uint8)
    for i in range(gray.size):
        value = 0.2989 * flat[3 * i] + 0.5870 * flat[3 * i + 1] + 0.1140 * flat[3 * i + 2]
        gray[i] = np.uint8(np.int32(value + 0.5))
    return gray.reshape(height, width)
