"""Can a damaged picture make the decoder raise anything but ImageError?"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["PIL"]):
    from PIL import Image

    Image.init()  # imports every format

import numpy as np

from lrrspm import read_image
from lrrspm.images import decoding

from ._run import fuzz

# Large pictures are slow, and no different.
decoding._MAX_PIXELS = 2**20
decoding._STRIP = 2**8


def seeds() -> Iterator[bytes]:
    """Small pictures in every format, mode and packing."""
    picture = Image.fromarray(
        np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    )
    exif = Image.Exif()
    exif[0x0112] = 6
    for mode in ("L", "RGB", "CMYK"):
        for progressive in (False, True):
            yield packed(picture.convert(mode), "JPEG", progressive=progressive, exif=exif)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        yield packed(convert(picture, mode), "PNG", exif=exif)
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "I"):
        for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            yield packed(convert(picture, mode), "TIFF", compression=compression, exif=exif)
    for lossless in (False, True):
        yield packed(picture, "WEBP", lossless=lossless, exif=exif)
        yield packed(picture.convert("RGBA"), "WEBP", lossless=lossless)
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield packed(convert(picture, mode), "BMP")
    yield packed(picture.convert("P"), "GIF")
    yield packed(picture.convert("P"), "GIF", save_all=True, append_images=[picture])
    for mode in ("1", "L", "RGB", "I;16"):
        yield packed(convert(picture, mode), "PPM")
    yield b"P2 2 2 255 1 2 3 4"


def convert(picture: Image.Image, mode: str) -> Image.Image:
    return picture.convert("I").convert(mode) if mode == "I;16" else picture.convert(mode)


def packed(picture: Image.Image, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **settings)
    return file.getvalue()


def check(content: bytes, scratch: Path) -> None:
    """Gray values are finite, or the refusal names the file and the reason."""
    path = scratch / "picture"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for max_side in (None, 8):
            try:
                image = read_image(path, max_side)
            except decoding.ImageError as error:
                assert str(error).startswith(f"{path}: ")
                assert error.reason
            else:
                assert image.dtype == np.float32
                assert image.ndim == 2
                assert image.size > 0
                assert np.isfinite(image).all()


if __name__ == "__main__":
    fuzz(check, seeds())
