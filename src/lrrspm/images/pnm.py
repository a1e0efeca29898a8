"""PNM: decode the pixels for which Pillow has a loop in Python, with the same result.

These are the plain files (P1, P2, P3), whose comments Pillow removes in quadratic time, and others
whose largest value is not that of 8 or, in gray, 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

# Values or bytes in memory at a time.
_WINDOW = 2**20
_LONGEST_NUMBER = 10
# Also a comment that goes on in the next window: else each "#" of it would be tried in turn.
_COMMENT = re.compile(rb"#[^\r\n]*[\r\n]?")
_LINE_END = re.compile(rb"[\r\n]")
_BLANKS = b" \t\n\v\f\r"


def decode_pnm_fast(image: ImageFile.ImageFile) -> None:
    """Have an opened image decoded here if Pillow would do it pixel by pixel."""
    if image.format == "PPM" and image.tile:
        decoder, *rest = image.tile[0]
        if decoder in ("ppm", "ppm_plain"):
            image.tile = [(f"lrrspm_{decoder}", *rest)]  # type: ignore[list-item]


class _Decoder(ImageFile.PyDecoder):
    """Decode raw values of 8 or 16 bits."""

    _pulls_fd = True

    def decode(self, buffer: object) -> tuple[int, int]:
        deep = self.mode == "I"
        count = self.state.xsize * self.state.ysize * Image.getmodebands(self.mode)
        pixels: NDArray[Any] = np.empty(count, np.int32 if deep else np.uint8)
        place = 0
        for values in self._scaled(65535 if deep else 255):
            values = values[: count - place]
            pixels[place : place + len(values)] = values
            place += len(values)
            if place == count:
                break
        if place < count:
            raise ValueError("not enough image data")
        raw = {"1": "1;8", "I": "I;32N"}.get(self.mode, self.mode)
        self.set_as_raw(pixels.tobytes(), raw)
        return -1, 0

    def _scaled(self, white: int) -> Iterator[NDArray[Any]]:
        """Yield values with the largest possible one scaled to white."""
        most = self.args[-1]
        table = np.round(np.arange(65536) / most * white).clip(max=white).astype(np.int32)
        for values in self._values(most):
            yield table[values]

    def _values(self, most: int) -> Iterator[NDArray[Any]]:
        kind = np.dtype(np.uint8 if most < 256 else ">u2")
        assert self.fd is not None
        while content := self.fd.read(_WINDOW * kind.itemsize):
            yield np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], kind)


class _PlainDecoder(_Decoder):
    """Decode values written as decimal numbers."""

    def _scaled(self, white: int) -> Iterator[NDArray[Any]]:
        return self._bits() if self.mode == "1" else super()._scaled(white)

    def _bits(self) -> Iterator[NDArray[Any]]:
        for text in _without_comments(self.fd):
            bits = np.frombuffer(text.translate(None, _BLANKS), np.uint8)
            if not ((bits == ord("0")) | (bits == ord("1"))).all():
                raise ValueError("pixels that are neither 0 nor 1")
            yield np.where(bits == ord("0"), np.uint8(255), np.uint8(0))

    def _values(self, most: int) -> Iterator[NDArray[Any]]:
        for text in _whole_numbers(_without_comments(self.fd)):
            if not text or text.isspace():
                continue  # NumPy would find a 0
            if text.translate(None, b"0123456789" + _BLANKS):
                raise ValueError("pixels that are not whole numbers")
            values = np.fromstring(text, np.int64, sep=" ")
            if values.max() > most:
                raise ValueError(f"pixels of more than the largest value, {most}")
            yield values


def _without_comments(file: Any) -> Iterator[bytes]:
    """Yield the text of a file without comments and their line ends."""
    inside = False
    while text := file.read(_WINDOW):
        if inside:
            end = _LINE_END.search(text)
            if end is None:
                continue
            text = text[end.end() :]
        inside = text.rfind(b"#") > max(text.rfind(b"\n"), text.rfind(b"\r"))
        yield _COMMENT.sub(b"", text)


def _whole_numbers(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield texts of which none ends within a number, the last excepted."""
    rest = b""
    for text in texts:
        text = rest + text
        rest = b"" if not text or text[-1:].isspace() else text.rsplit(None, 1)[-1]
        if len(rest) > _LONGEST_NUMBER:
            raise ValueError("pixels that are not whole numbers")
        yield text[: len(text) - len(rest)]
    yield rest


Image.register_decoder("lrrspm_ppm", _Decoder)
Image.register_decoder("lrrspm_ppm_plain", _PlainDecoder)
