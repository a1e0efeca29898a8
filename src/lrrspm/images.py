"""Images: find labelled files, decode them, make them gray, shrink them."""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from . import config
from .simd import compiled

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# Where Pillow itself begins to warn of a decompression bomb.
_MAX_PIXELS = 89_478_485
# The longest that a JPEG can be. The weights that shrink a picture take 50 bytes a pixel of it.
_LONGEST = 65_535
# WebP files are read whole before anything is known of them.
_MAX_BYTES = 2**30
# Each scan of a JPEG is a pass over the whole picture; a photograph has a dozen.
_MAX_SCANS = 50
# A reduced JPEG keeps at least this many pixels for one of the shrunk picture, along each side.
_MARGIN = 2
# Pixels that are made gray at a time: 4 MB of colours.
_STRIP = 2**20


class ImageError(ValueError):
    """A picture that cannot be used; the message names the file and the reason."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"{os.fspath(path)}: {reason}")
        self.path = os.fspath(path)
        self.reason = reason


def find_images(root: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """List labelled pictures: one folder a class, or a CSV file.

    Parameters
    ----------
    root : path
        A folder whose sub-folders are the classes (a class may have folders
        of its own, and folders and files may be links), or a CSV file of
        ``path,label`` rows, paths relative to the CSV's folder. A first row
        that says ``path,label`` is a header.

    Returns
    -------
    paths : list of str
    labels : list of str
        Class names. Both lists are sorted by label, then by path.

    Notes
    -----
    Pictures are known by the ending of their names
    (:data:`lrrspm.config.IMAGE_SUFFIXES`). Hidden files and folders are left
    out, and so are classes without pictures, with a warning.
    """
    root = Path(root)
    if not root.exists():
        raise FileNotFoundError(f"{root}: no such file or folder")
    if root.is_file():
        return _read_csv(root)
    classes = sorted(d for d in root.iterdir() if d.is_dir() and not d.name.startswith("."))
    if not classes:
        raise ValueError(
            f"{root}: no class folders; expected one folder a class, as in {root / 'cat' / '1.jpg'}"
        )
    paths: list[str] = []
    labels: list[str] = []
    empty = []
    for folder in classes:
        found = sorted(walk_images(folder))
        paths += found
        labels += [folder.name] * len(found)
        if not found:
            empty.append(folder.name)
    if not paths:
        endings = " ".join(config.IMAGE_SUFFIXES)
        raise ValueError(f"{root}: no images in its class folders (known endings: {endings})")
    stray = sum(_is_picture(entry.name) for entry in root.iterdir() if entry.is_file())
    if stray:
        warnings.warn(f"{root}: left out {stray} images that lie in no class folder", stacklevel=2)
    if empty:
        warnings.warn(
            f"{root}: left out class folders without images: {', '.join(empty)}", stacklevel=2
        )
    return paths, labels


def walk_images(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Pictures below a folder, links followed, each real folder visited once."""
    seen = set()
    for where, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        state = os.stat(where)
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if _is_picture(name):
                yield os.path.join(where, name)


def _is_picture(name: str) -> bool:
    return name.lower().endswith(config.IMAGE_SUFFIXES) and not name.startswith(".")


def _refuse(error: OSError) -> None:
    raise error


def expand_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Files as they are, folders as the pictures below them, CSV lists as theirs."""
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            # An empty folder stays in the list, to be reported with the unreadable files.
            files += sorted(walk_images(path)) or [os.fspath(path)]
        elif os.fspath(path).lower().endswith(".csv"):
            files += _read_csv(Path(path))[0]
        else:
            files.append(os.fspath(path))
    return files


def _read_csv(path: Path) -> tuple[list[str], list[str]]:
    rows = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                if not row or (
                    number == 1 and [c.strip().lower() for c in row] == ["path", "label"]
                ):
                    continue
                if len(row) != 2 or not row[0].strip() or not row[1].strip():
                    raise ValueError(f"{path}, line {number}: expected 'path,label', got {row}")
                rows.append((row[1].strip(), os.path.join(path.parent, row[0].strip())))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path}: not a folder of class folders and not a CSV file of path,label rows ({error})"
        ) from error
    if not rows:
        raise ValueError(f"{path}: no path,label rows")
    rows.sort()
    return [path for _, path in rows], [label for label, _ in rows]


def read_image(
    path: str | os.PathLike[str], max_side: int | None = config.MAX_SIDE
) -> NDArray[np.float32]:
    """Read a picture as gray values, shrunk if it is large.

    Parameters
    ----------
    path : path
        A JPEG, PNG, WebP, BMP, TIFF, GIF (first frame) or PGM/PPM file; the
        content decides, not the name.
    max_side : int or None
        A picture whose longer side is over this is shrunk by
        ``s = max_side / longer side``; smaller ones stay as they are. None
        keeps every size.

    Returns
    -------
    ndarray of shape (h, w), float32
        Gray values, nominally in [0, 1]; shrinking may overshoot a little.

    Notes
    -----
    Gray is ``round(0.2989 R + 0.5870 G + 0.1140 B) / 255``. Transparent
    pictures are laid over white, 16-bit ones reduced to 8 bits, and the EXIF
    orientation is applied; damaged EXIF data count as none.

    A JPEG of four times ``max_side`` or more is decoded at a half, a quarter
    or an eighth of its size, but never below twice ``max_side``, and shrunk
    from there: a fraction of the time and memory, and nearly the same values.
    Smaller pictures and other formats are decoded in full.
    """
    gray, shape, reduction, excess = _decode(path, max_side)
    image = np.divide(gray, 255, dtype=np.float32, order="C")
    return _shrink(image, max_side, shape, reduction, excess)


class _Pixels(NamedTuple):
    """8-bit gray pixels, decoded at their full shape or reduced some times.

    Where the reduction does not divide a side, one pixel reaches beyond the
    picture; ``excess`` is by how much of it, for the axes that begin with it.
    """

    gray: NDArray[np.uint8]
    shape: tuple[int, int]
    reduction: int
    excess: tuple[float, float]


def _decode(path: str | os.PathLike[str], max_side: int | None) -> _Pixels:
    """Gray pixels of a picture file, upright."""
    with _opened(path, max_side) as (picture, reduction, (width, height)):
        transposed, *steps = _TURNS[_orientation(picture)]
        gray = _gray(picture)
    if transposed:
        gray, width, height = gray.T, height, width
    excess = [
        size - full / reduction if step < 0 else 0.0
        for step, size, full in zip(steps, gray.shape, (height, width), strict=True)
    ]
    turned = gray[:: steps[0], :: steps[1]]
    return _Pixels(turned, (height, width), reduction, (excess[0], excess[1]))


def image_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 that tells whether two picture files show the same, bit for bit.

    Of a JPEG the whole file; of other formats the text ``WIDTHxHEIGHT:``
    and the decoded 8-bit pixels (gray or RGB) row by row, so that it does not
    matter how a lossless file was packed.
    """
    with _opened(path) as (picture, _, _):
        if picture.format == "JPEG":
            content = Path(path).read_bytes()
        else:
            plain = picture if picture.mode == "L" else picture.convert("RGB")
            content = f"{picture.width}x{picture.height}:".encode() + plain.tobytes()
    return hashlib.sha256(content).hexdigest()


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
def _opened(
    path: str | os.PathLike[str], max_side: int | None = None
) -> Iterator[tuple[Image.Image, int, tuple[int, int]]]:
    """A picture file, decoded; whatever is wrong with it becomes an ImageError.

    Yields the picture, how many times it is reduced, and its full width and height.
    """
    try:
        _check_file(path)
        with _strict, Image.open(path, formats=_FORMATS) as picture:
            _check_header(path, picture)
            full = picture.size
            reduction = _reduce(picture, max_side)
            picture.load()
            # Decoding turns a TIFF upright, so only a reduced picture's size is an earlier one.
            yield picture, reduction, picture.size if reduction == 1 else full
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(path, "no such file") from None
    except UnidentifiedImageError:
        raise ImageError(
            path, "not a picture of a known format (JPEG, PNG, WebP, BMP, TIFF, GIF, PGM/PPM)"
        ) from None
    except Image.DecompressionBombError:
        raise ImageError(path, f"more than {_MAX_PIXELS:,} pixels; shrink it first") from None
    except MemoryError:
        raise
    except Exception as error:  # decoders raise almost anything on a damaged file
        raise ImageError(path, f"cannot be read: {error or type(error).__name__}") from error


def _check_file(path: str | os.PathLike[str]) -> None:
    """Opening a pipe would wait for whoever writes to it."""
    state = os.stat(path)
    if stat.S_ISDIR(state.st_mode):
        raise ImageError(path, "a folder without pictures")
    if not stat.S_ISREG(state.st_mode):
        raise ImageError(path, "not an ordinary file")
    if state.st_size > _MAX_BYTES:
        raise ImageError(path, f"{state.st_size:,} bytes are more than {_MAX_BYTES:,}")


def _check_header(path: str | os.PathLike[str], picture: Image.Image) -> None:
    """Refuse what would take too much memory or time to decode."""
    width, height = picture.size
    if width * height > _MAX_PIXELS:
        raise ImageError(
            path, f"{width} x {height} pixels are more than {_MAX_PIXELS:,}; shrink it first"
        )
    if max(width, height) > _LONGEST:
        raise ImageError(path, f"{width} x {height} pixels: a side is over {_LONGEST:,}; cut it")
    if _is_jpeg(picture):
        content = Path(path).read_bytes()
        # Few files have as many as look like scans, so few are gone through.
        if content.count(b"\xff\xda") > _MAX_SCANS and _count_scans(content) > _MAX_SCANS:
            raise ImageError(path, f"a JPEG of more than {_MAX_SCANS} scans; save it anew")


def _is_jpeg(picture: Image.Image) -> bool:
    return picture.format in ("JPEG", "MPO")  # MPO: a JPEG with others behind it


# After a scan's header come its codes, in which 0xFF stands before 0 or a restart marker alone.
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_SCAN, _END = 0xDA, 0xD9


def _count_scans(content: bytes) -> int:
    """Scans of the first picture in a JPEG file."""
    scans, place = 0, 2
    while found := _MARKER.search(content, place):
        marker, place = content[found.end() - 1], found.end()
        if marker == _END:
            break
        scans += marker == _SCAN
        place += int.from_bytes(content[place : place + 2])
    return scans


def _reduce(picture: Image.Image, max_side: int | None) -> int:
    """Have a large JPEG decoded at 1/2, 1/4 or 1/8 of its size; returns 2, 4 or 8, or 1."""
    if max_side is None or max_side < 1 or not _is_jpeg(picture):
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


def _gray(picture: Image.Image) -> NDArray[np.uint8]:
    """8-bit gray pixels, a strip at a time: colours and copies of them are never all in memory."""
    width, height = picture.size
    rows = max(1, _STRIP // width)
    if height <= rows:
        return _gray_strip(picture)
    gray = np.empty((height, width), np.uint8)
    for top in range(0, height, rows):
        bottom = min(height, top + rows)
        gray[top:bottom] = _gray_strip(picture.crop((0, top, width, bottom)))
    return gray


def _gray_strip(picture: Image.Image) -> NDArray[np.uint8]:
    if picture.mode.startswith("I;16"):
        return np.round(np.asarray(picture, np.uint16) / 257).astype(np.uint8)
    if picture.mode in ("I", "F"):
        values = np.asarray(picture)
        # Integers of 32 bits hold values of 16 bits in the formats we read.
        limit = 65535 if picture.mode == "I" else 1
        if not (values.min() >= 0 and values.max() <= limit):  # NaN fails too
            raise ValueError(
                f"its values reach from {values.min():g} to {values.max():g}, expected 0 to {limit}"
            )
        return np.round(values * (255 / limit)).astype(np.uint8)
    if "A" in picture.getbands() or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture).convert("RGB")
    elif picture.mode == "1":
        picture = picture.convert("L")
    if picture.mode == "L":
        return np.asarray(picture)
    return _weigh_colours(np.asarray(picture.convert("RGB")))


@compiled()
def _weigh_colours(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Gray of 8-bit RGB (h, w, 3), five operations a pixel."""
    height, width, _ = rgb.shape
    gray = np.empty((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            value = 0.2989 * rgb[y, x, 0] + 0.5870 * rgb[y, x, 1] + 0.1140 * rgb[y, x, 2]
            gray[y, x] = np.uint8(value + 0.5)
    return gray


def shrink(image: NDArray[np.float32], max_side: int | None) -> NDArray[np.float32]:
    """Antialiased bicubic resize of a float32 image to a longer side of max_side.

    With ``s = max_side / longer side`` on both axes, output pixel i (1-based)
    samples the input at ``u = i/s + (1 - 1/s)/2`` with weights ``k(s (u - j))``
    scaled to sum 1, k being Keys' cubic with a = -0.5; outside the image the
    pixels are mirrored. The output has ``ceil(s * size - 1e-9)`` pixels a
    side and is not clipped. Nothing is ever enlarged.
    """
    return _shrink(image, max_side, image.shape)


def _shrink(
    image: NDArray[np.float32],
    max_side: int | None,
    shape: tuple[int, ...],
    reduction: int = 1,
    excess: tuple[float, float] = (0.0, 0.0),
) -> NDArray[np.float32]:
    """:func:`shrink` a picture of a shape, given its pixels already reduced some times.

    A pixel of the reduced picture covers ``reduction`` ones of the full one,
    so the formula holds with a scale as many times as large, and output
    pixels lie where they would without the reduction.
    """
    if max_side is None or max(shape) <= max_side:
        return image
    if max_side < 1:
        raise ValueError(f"max_side must be at least 1, got {max_side}")
    scale = max_side / max(shape)
    (ysource, yweights), (xsource, xweights) = (
        _taps(size, scale * reduction, math.ceil(scale * full - 1e-9), offset)
        for size, full, offset in zip(image.shape, shape, excess, strict=True)
    )
    return _resample(image, ysource, yweights, xsource, xweights)


@lru_cache(maxsize=256)  # pictures of one folder have few sizes
def _taps(
    size: int, scale: float, outputs: int, offset: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Source pixels and weights, both (outputs, taps), of one resized axis."""
    reach = 4 / scale
    n_taps = math.ceil(reach) + 2
    position = np.arange(1, outputs + 1) / scale + (1 - 1 / scale) / 2 + offset
    source = np.floor(position - reach / 2)[:, None] + np.arange(n_taps)
    t = np.abs(scale * (position[:, None] - source))
    weights = np.where(
        t <= 1,
        1.5 * t**3 - 2.5 * t**2 + 1,
        np.where(t <= 2, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2, 0.0),
    )
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.mod(source.astype(np.int64) - 1, 2 * size)
    mirrored = np.where(mirrored < size, mirrored, 2 * size - 1 - mirrored)
    return mirrored, weights.astype(np.float32)


@compiled("contract")
def _resample(
    image: NDArray[np.float32],
    ysource: NDArray[np.int64],
    yweights: NDArray[np.float32],
    xsource: NDArray[np.int64],
    xweights: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Resize rows, then columns: taps * (w + w_out) multiply-adds an output row."""
    height, width = len(ysource), len(xsource)
    out = np.empty((height, width), np.float32)
    row = np.empty(image.shape[1], np.float32)
    for y in range(height):
        row[:] = 0
        for t in range(ysource.shape[1]):
            weight = yweights[y, t]
            if weight != 0:
                pixels = image[ysource[y, t]]
                for x in range(row.size):
                    row[x] += weight * pixels[x]
        for x in range(width):
            total = np.float32(0)
            for t in range(xsource.shape[1]):
                total += xweights[x, t] * row[xsource[x, t]]
            out[y, x] = total
    return out
