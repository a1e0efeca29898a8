"""Images: find labelled files, decode them, make them gray, shrink them."""

from __future__ import annotations

import csv
import hashlib
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .. import config
from .._support.loops import compiled
from .decoding import ImageError as ImageError
from .decoding import Source, decode, is_jpeg, levels, opened


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
    classes, strays = scan_classes(root)
    empty = [name for name, found in classes.items() if not found]
    if len(empty) == len(classes):
        endings = " ".join(config.IMAGE_SUFFIXES)
        raise ValueError(f"{root}: no images in its class folders (known endings: {endings})")
    if strays:
        warnings.warn(
            f"{root}: left out {len(strays)} images that lie in no class folder", stacklevel=2
        )
    if empty:
        warnings.warn(
            f"{root}: left out class folders without images: {', '.join(empty)}", stacklevel=2
        )
    paths = [path for found in classes.values() for path in found]
    labels = [name for name, found in classes.items() for _ in found]
    return paths, labels


def scan_classes(root: str | os.PathLike[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Pictures of each class of a folder or CSV file, and those of a folder that lie in none.

    Names and paths are sorted; a class may have no pictures.
    """
    root = Path(root)
    if not root.exists():
        raise FileNotFoundError(f"{root}: no such file or folder")
    if root.is_file():
        classes: dict[str, list[str]] = {}
        for path, label in zip(*_read_csv(root), strict=True):
            classes.setdefault(label, []).append(path)
        return classes, []
    folders = sorted(d for d in root.iterdir() if d.is_dir() and not d.name.startswith("."))
    if not folders:
        raise ValueError(
            f"{root}: no class folders; expected one folder a class, as in {root / 'cat' / '1.jpg'}"
        )
    strays = sorted(str(e) for e in root.iterdir() if e.is_file() and _is_picture(e.name))
    return {folder.name: sorted(walk_images(folder)) for folder in folders}, strays


def walk_images(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Pictures below a folder, links followed, each real folder visited once."""
    return (path for path in _walk_files(folder) if _is_picture(os.path.basename(path)))


def walk_others(folder: str | os.PathLike[str]) -> Iterator[str]:
    """What :func:`walk_images` leaves out because of its ending."""
    return (path for path in _walk_files(folder) if not _is_picture(os.path.basename(path)))


def _walk_files(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Files below a folder, hidden ones left out."""
    seen = set()
    for where, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        state = os.stat(where)
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
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
        elif os.fspath(path).lower().endswith(".csv") and os.path.isfile(path):
            files += _read_csv(Path(path))[0]
        else:
            files.append(os.fspath(path))
    return files


def _read_csv(path: Path) -> tuple[list[str], list[str]]:
    rows = []
    with path.open("rb") as start:
        if b"\0" in start.read(4096):
            raise ValueError(
                f"{path}: not a folder of class folders and not a CSV file of path,label rows"
            )
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                if not row or (
                    number == 1 and [c.strip().lower() for c in row] == ["path", "label"]
                ):
                    continue
                if len(row) != 2 or not row[0].strip() or not row[1].strip():
                    raise ValueError(f"{path}, line {number}: expected 'path,label', got {row}")
                rows.append((row[1].strip(), _listed(path.parent, row[0])))
    except csv.Error as error:
        raise ValueError(
            f"{path}: not a folder of class folders and not a CSV file of path,label rows ({error})"
        ) from error
    if not rows:
        raise ValueError(f"{path}: no path,label rows")
    rows.sort()
    return [path for _, path in rows], [label for label, _ in rows]


def _listed(folder: Path, name: str) -> str:
    """A file that a list names; blanks around the name count if there is such a file."""
    exact = os.path.join(folder, name)
    return exact if os.path.exists(exact) else os.path.join(folder, name.strip())


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
    return read_with_shape(path, max_side)[0]


def read_with_shape(
    source: Source, max_side: int | None
) -> tuple[NDArray[np.float32], tuple[int, int]]:
    """Gray values as :func:`read_image` gives them, and the shape that the picture has itself."""
    gray, shape, reduction, excess = decode(source, max_side)
    image = np.divide(gray, 255, dtype=np.float32, order="C")
    return _shrink(image, max_side, shape, reduction, excess), shape


def image_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 that tells whether two picture files show the same, bit for bit.

    Of a JPEG the whole file; of other formats the text ``WIDTHxHEIGHT:``
    and the decoded 8-bit pixels (gray or RGB) row by row, so that it does not
    matter how a lossless file was packed. What 8-bit gray or RGB cannot hold
    (more bits, transparency, other colours) is taken as it is, with its kind
    before it.
    """
    with opened(path) as (picture, _, _):
        return digest_picture(picture, path)


def digest_picture(picture: Image.Image, path: str | os.PathLike[str]) -> str:
    """The :func:`image_digest` of an opened picture; a JPEG may be reduced."""
    if is_jpeg(picture):
        content = Path(path).read_bytes()
    else:
        content = f"{picture.width}x{picture.height}:".encode() + _exact_bytes(picture)
    return hashlib.sha256(content).hexdigest()


def _exact_bytes(picture: Image.Image) -> bytes:
    """Bytes that are equal only where pixels are."""
    deep = levels(picture)
    if deep is not None:
        # One order of bytes. A number's meaning depends on which are black, white and transparent.
        plain = picture if picture.mode == "F" else picture.convert("I")
        kind = f"{plain.mode}:{deep}:{picture.info.get('transparency')}:"
        return kind.encode() + plain.tobytes()
    if picture.mode in ("P", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    if picture.mode == "L":
        return picture.tobytes()
    if picture.mode in ("1", "RGB"):
        return picture.convert("RGB").tobytes()
    return f"{picture.mode}:".encode() + picture.tobytes()


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
