"""Reading: files and arrays to gray and color pixels, of sizes within limits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from .. import config
from .._support.loops import compiled
from .bounded import Source
from .decoding import (
    Opened,
    decode,
    opened,
    orientation,
    strips,
    turned,
    upright,
    weigh_colors,
)
from .kept import KeptImages
from .resizing import resize, scale_to

AnyImage = Source | NDArray[Any] | Image.Image
"""A path, an open binary file, an array of shape (h, w) or (h, w, 3), or an image of Pillow."""

_COLORED = np.float32(0.1)


class Pixels(NamedTuple):
    """One image as descriptors read it; what was not asked for is None."""

    gray: NDArray[np.float32] | None
    """(h, w)."""
    color: NDArray[np.float32] | None
    """(h, w, 3): red, green and blue."""
    shape: tuple[int, int]
    """Height and width of the image as given, upright, before it is resized."""


def read_pixels(
    image: AnyImage,
    max_side: int | None,
    gray: bool = True,
    color: bool = False,
    kept: KeptImages | None = None,
    min_side: int | None = None,
    raw: bool = False,
) -> Pixels:
    """Read an image as gray values, as color, or both; a file is decoded once.

    Parameters
    ----------
    image : path, binary file, array of shape (h, w) or (h, w, 3), or image of Pillow
        Arrays are float in [0, 1] or uint8.
    max_side : int or None
        See :func:`read_image`.
    gray, color : bool
        What to compute. Color of a gray image has three equal planes.
    kept : KeptImages or None
        Decoded files of an earlier pass; the result has the same bits.
    min_side : int or None
        An image whose longer side is under this is enlarged to it.
    raw : bool
        Leave values of 8 bits that are not resized as they are: integers up to 255, a
        quarter of the bytes.

    Notes
    -----
    Gray of files and of uint8 arrays is rounded to 8 bits, as in
    :func:`read_image`; gray of float arrays is the plain weighted sum.
    """
    reduction, excess = 1, (0.0, 0.0)
    if isinstance(image, (np.ndarray, Image.Image)):
        pixels = as_pixels(_plain(image))
        shape = (pixels.shape[0], pixels.shape[1])
    elif isinstance(image, (str, os.PathLike)) or hasattr(image, "seek"):
        found = (decode if kept is None else kept.decode)(image, max_side, color)
        pixels, shape, reduction, excess = found
    else:
        raise TypeError(
            "expected one image: a path, an array of shape (h, w) or (h, w, 3), an image of Pillow "
            f"or a binary file, got {type(image).__name__}"
        )
    same = scale_to(shape, max_side, min_side) == 1

    def scale(plane: NDArray[Any]) -> NDArray[Any]:
        if raw and same and plane.dtype == np.uint8:
            return plane
        return resize(_as_float(plane), max_side, min_side, shape, reduction, excess)

    def scale_color() -> NDArray[Any]:
        if same:
            return scale(pixels) if raw else _as_float(pixels)
        return np.stack([scale(pixels[..., i]) for i in range(3)], axis=2)

    if pixels.ndim == 2:
        plane = scale(pixels)
        planes = np.stack([plane] * 3, axis=2) if color else None
        return Pixels(plane if gray else None, planes, shape)
    return Pixels(
        scale(_weigh(pixels)) if gray else None,
        scale_color() if color else None,
        shape,
    )


def read_image(
    path: str | os.PathLike[str], max_side: int | None = config.MAX_SIDE
) -> NDArray[np.float32]:
    """Read an image file as gray values, shrunk if it is large.

    Parameters
    ----------
    path : path
        A JPEG, PNG, WebP, BMP, TIFF, GIF (first frame), PGM/PPM or AVIF file,
        or HEIC with the extra ``heif``; the content decides, not the name.
    max_side : int or None
        An image whose longer side is over this is shrunk by
        ``s = max_side / longer side``; smaller ones stay as they are. None
        keeps every size.

    Returns
    -------
    ndarray of shape (h, w), float32
        Gray values, nominally in [0, 1]; shrinking may overshoot a little.

    Notes
    -----
    Gray is ``round(0.2989 R + 0.5870 G + 0.1140 B) / 255``. Transparent
    images are laid over white, 16-bit ones reduced to 8 bits, and the EXIF
    orientation is applied; damaged EXIF data count as none.

    A JPEG of four times ``max_side`` or more is decoded at a half, a quarter
    or an eighth of its size, but never below twice ``max_side``, and shrunk
    from there: a fraction of the time and memory, and nearly the same values.
    Smaller images and other formats are decoded in full.
    """
    gray = read_pixels(path, max_side).gray
    assert gray is not None
    return gray


def read_thumbnail(source: Source, side: int) -> Image.Image:
    """Read an image file for people to look at: RGB, upright, longer side at most ``side``."""
    with opened(source, side) as (image, _, size):
        turn = orientation(image)
        scale = min(1.0, side / max(size))
        width, height = (max(1, round(scale * length)) for length in size)
        times = max(1, max(image.size) // (2 * max(width, height)))
        small = Image.new("RGB", (-(-image.width // times), -(-image.height // times)))
        for top, strip in strips(image, times):
            plain = Image.fromarray(strip).convert("RGB")
            small.paste(plain.reduce(times), (0, top // times))
    if small.size != (width, height):
        small = small.resize((width, height), Image.Resampling.LANCZOS)
    return Image.fromarray(np.ascontiguousarray(turned(np.asarray(small), turn)))


def has_color(pixels: NDArray[np.float32]) -> bool:
    """Return True if 1 % of the pixels (h, w, 3) or more are colored.

    A colored pixel has a difference of more than 0.1 between its largest and its
    smallest value: more than the noise of a camera or of a JPEG.
    """
    return 100 * _count_colored(pixels) >= pixels.shape[0] * pixels.shape[1]


@compiled()
def _count_colored(pixels: NDArray[np.float32]) -> int:
    """Number of colored pixels: five comparisons each."""
    count = 0
    for y in range(pixels.shape[0]):
        for x in range(pixels.shape[1]):
            r, g, b = pixels[y, x, 0], pixels[y, x, 1], pixels[y, x, 2]
            count += max(r, g, b) - min(r, g, b) > _COLORED
    return count


def as_gray(image: ArrayLike) -> NDArray[np.float32]:
    """Check a gray image of shape (h, w); return it as float32, 8-bit values divided by 255."""
    array = np.asarray(image)
    if array.ndim != 2:
        raise ValueError(
            f"expected a gray image of shape (h, w), got an array of shape {array.shape}; "
            "convert it to gray first"
        )
    return _as_float(as_pixels(array))


def as_pixels(image: NDArray[Any]) -> NDArray[Any]:
    """Check an image of shape (h, w) or (h, w, 3); return it as uint8 or float32."""
    if image.ndim != 2 and image.shape[2:] != (3,):
        raise ValueError(
            f"expected an image of shape (h, w) or (h, w, 3), got an array of shape {image.shape}"
        )
    if image.size == 0:
        raise ValueError(f"the image is empty: its shape is {image.shape}")
    if image.dtype == np.uint8:
        return image
    if image.dtype.kind != "f":
        raise ValueError(f"expected a float image in [0, 1] or a uint8 image, got {image.dtype}")
    # Writable too: the kernels are compiled anew for another kind of array.
    pixels = np.require(image, np.float32, ["C", "W"])
    low, high = float(pixels.min()), float(pixels.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("the image contains NaN or infinite values")
    # Resizing overshoots by a few percent; values far outside mean another scale.
    if low < -0.5 or high > 1.5:
        raise ValueError(
            f"float images have values in [0, 1], but these range from {low:g} to {high:g}; "
            "divide by the largest possible value (255 for 8 bits) first"
        )
    return pixels


def _as_float(plane: NDArray[Any]) -> NDArray[np.float32]:
    if plane.dtype == np.uint8:
        out = np.empty(plane.shape, np.float32)
        _divide(np.ascontiguousarray(plane).ravel(), out.ravel())
        return out
    return np.require(plane, np.float32, ["C", "W"])


@compiled()
def _divide(values: NDArray[np.uint8], out: NDArray[np.float32]) -> None:
    """Write 8-bit values divided by 255: a quarter of the time of NumPy, which converts first."""
    for i in range(values.size):
        out[i] = np.float32(values[i]) / np.float32(255)


def _weigh(pixels: NDArray[Any]) -> NDArray[Any]:
    """Gray of color: rounded for uint8, as files have it; exact for float."""
    if pixels.dtype == np.uint8:
        return weigh_colors(np.ascontiguousarray(pixels))
    return 0.2989 * pixels[..., 0] + 0.5870 * pixels[..., 1] + 0.1140 * pixels[..., 2]


def check_images(X: Iterable[Any]) -> list[Source | NDArray[Any]]:
    """Return a list of paths and arrays; a single path or array is most likely a mistake.

    Images of Pillow become arrays.
    """
    if isinstance(X, (str, os.PathLike)):
        raise ValueError(f"expected a list of images, got one path: {os.fspath(X)}")
    if isinstance(X, Image.Image) or getattr(X, "ndim", 1) == 2:  # one image, or a data frame
        raise ValueError("expected a list of images, got one array; put it in a list")
    images = [_plain(image) for image in X]
    if not images:
        raise ValueError("no images were given")
    for image in images:
        if not isinstance(image, (str, os.PathLike, np.ndarray)):
            raise TypeError(
                "an image is a path, an array of shape (h, w) or (h, w, 3) or an image of Pillow, "
                f"got {type(image).__name__}"
            )
    return images


def list_images(X: Any) -> list[Source | NDArray[Any]]:
    """Return a list of images, as :func:`check_images` does; one image is a list of one.

    An array of shape (h, w) or (h, w, 3) is one image; (n, h, w) and (n, h, w, 3) are n.
    """
    if isinstance(X, np.ndarray) and X.ndim == 3 and X.shape[2] in (1, 2, 4):
        # Most likely one image with transparency, not many that are 4 pixels wide.
        raise ValueError(
            f"expected an image of shape (h, w) or (h, w, 3), got an array of shape {X.shape}"
        )
    single = isinstance(X, (str, os.PathLike, Image.Image)) or (
        isinstance(X, np.ndarray) and (X.ndim == 2 or (X.ndim == 3 and X.shape[2] == 3))
    )
    return check_images([X] if single else X)


def _plain(image: Any) -> Any:
    """Return an image of Pillow as an array, anything else as it is."""
    if not isinstance(image, Image.Image):
        return image
    try:
        image.load()  # which turns some images upright
        return upright(Opened(image, 1, image.size), color=True).pixels
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"the Pillow image cannot be read: {error}") from error
