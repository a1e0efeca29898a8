"""Can a damaged image make the decoder raise anything but ImageError?"""

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

# Large images are slow, and no different.
decoding._MAX_PIXELS = 2**20
decoding._STRIP = 2**8


def seeds() -> Iterator[bytes]:
    """Yield small images in every format, mode and packing."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    for mode in ("L", "RGB", "CMYK"):
        for progressive in (False, True):
            yield packed(image.convert(mode), "JPEG", progressive=progressive, exif=exif)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        yield packed(convert(image, mode), "PNG", exif=exif)
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "I"):
        for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            yield packed(convert(image, mode), "TIFF", compression=compression, exif=exif)
    for lossless in (False, True):
        yield packed(image, "WEBP", lossless=lossless, exif=exif)
        yield packed(image.convert("RGBA"), "WEBP", lossless=lossless)
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield packed(convert(image, mode), "BMP")
    yield packed(image.convert("P"), "GIF")
    yield packed(image.convert("P"), "GIF", save_all=True, append_images=[image])
    for mode in ("1", "L", "RGB", "I;16"):
        yield packed(convert(image, mode), "PPM")
    yield b"P2 2 2 255 1 2 3 4"


def convert(image: Image.Image, mode: str) -> Image.Image:
    return image.convert("I").convert(mode) if mode == "I;16" else image.convert(mode)


def packed(image: Image.Image, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def check(content: bytes, scratch: Path) -> None:
    """Check that gray values are finite, or that the error names the file and the reason."""
    path = scratch / "image"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for max_side in (None, 8):
            try:
                gray = read_image(path, max_side)
            except decoding.ImageError as error:
                assert str(error).startswith(f"{path}: ")
                assert error.reason
            else:
                assert gray.dtype == np.float32
                assert gray.ndim == 2
                assert gray.size > 0
                assert np.isfinite(gray).all()


if __name__ == "__main__":
    fuzz(check, seeds())
