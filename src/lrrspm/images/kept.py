"""Kept images: decoded files in memory, from one pass over them to the next."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

from .._support.files import file_signature
from .bounded import Source
from .decoding import Decoded, decode

_MOST = 2**29


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
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[KeptImages], tuple[int]]:
        return KeptImages, (0,)

    def close(self) -> None:
        """End the first pass: from now on images are given out once, and no more are kept."""
        self._closed = True

    def decode(self, source: Source, max_side: int | None, color: bool) -> Decoded:
        """Decode a file as :func:`lrrspm.images.decoding.decode` does, if it is not here.

        Where gray is asked for, color may be returned.
        """
        if not isinstance(source, (str, os.PathLike)):
            return decode(source, max_side, color)
        name = (os.fspath(source), max_side)
        signature = file_signature(source)
        known = self._take(name) if self._closed else self._images.get(name)
        if known is not None and known.signature == signature and known.color >= color:
            return known.decoded
        decoded = decode(source, max_side, color)
        if not self._closed:
            self._keep(name, _Kept(signature, color, decoded))
        return decoded

    def _keep(self, name: tuple[str, int | None], kept: _Kept) -> None:
        self._take(name)
        size = kept.decoded.pixels.nbytes
        with self._lock:
            if size <= self._free:
                self._images[name] = kept
                self._free -= size

    def _take(self, name: tuple[str, int | None]) -> _Kept | None:
        with self._lock:
            kept = self._images.pop(name, None)
            self._free += 0 if kept is None else kept.decoded.pixels.nbytes
        return kept
