"""Kept images: decoded files in memory, from one pass over them to the next."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

import numpy as np

from .._support.files import file_signature
from .bounded import Source
from .decoding import Decoded, decode

_MOST = 2**29
# Blocks this large go back to the system when their last image is given out. Small
# arrays would leave holes in the heap that vectors are too long for.
_BLOCK = 2**26


class _Kept(NamedTuple):
    signature: tuple[int, ...]
    color: bool
    decoded: Decoded


class KeptImages:
    """Decoded files of a first pass, for a second one, up to ``most`` bytes.

    Pixels have 8 bits, a quarter of what descriptors read. A file that was
    touched in between is decoded again. Another process keeps none.

    Parameters
    ----------
    most : int
        Bytes of pixels; images that come when there is no room are not kept.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._free = most
        self._closed = False
        self._images: dict[tuple[str, int | None], _Kept] = {}
        self._block = np.empty(0, np.uint8)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[KeptImages], tuple[int]]:
        return KeptImages, (0,)

    def close(self) -> None:
        """End the first pass: from now on images are given out once, and no more are kept."""
        self._closed = True
        self._block = self._block[:0].copy()

    def decode(self, source: Source, max_side: int | None, color: bool) -> Decoded:
        """Decode a file as :func:`lrrspm.images.decoding.decode` does, if it is not here.

        Where gray is asked for, color may be returned.
        """
        if not isinstance(source, (str, os.PathLike)):
            return decode(source, max_side, color)
        name = (os.fspath(source), max_side)
        known = self._take(name) if self._closed else self._images.get(name)
        if known is None and (self._closed or self._free <= 0):
            return decode(source, max_side, color)  # a signature may be a request
        signature = file_signature(source)
        if known is not None and known.signature == signature and known.color >= color:
            return known.decoded
        decoded = decode(source, max_side, color)
        if not self._closed:
            self._keep(name, _Kept(signature, color, decoded))
        return decoded

    def _keep(self, name: tuple[str, int | None], kept: _Kept) -> None:
        self._take(name)
        pixels = kept.decoded.pixels
        with self._lock:
            if pixels.nbytes > self._free:
                return
            if pixels.nbytes > len(self._block):
                self._block = np.empty(max(_BLOCK, pixels.nbytes), np.uint8)
            place, self._block = np.split(self._block, [pixels.nbytes])
            own = place.reshape(pixels.shape)
            own[:] = pixels
            self._images[name] = kept._replace(decoded=kept.decoded._replace(pixels=own))
            self._free -= pixels.nbytes

    def _take(self, name: tuple[str, int | None]) -> _Kept | None:
        with self._lock:
            kept = self._images.pop(name, None)
            self._free += 0 if kept is None else kept.decoded.pixels.nbytes
        return kept
