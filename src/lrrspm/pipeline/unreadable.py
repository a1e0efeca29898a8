"""Images that cannot be read: tried before the others, and remembered."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..cache import FeatureStore, Form
from ..images import ImageError, looks_damaged
from .chunks import compile_reading
from .engines import Engine

if TYPE_CHECKING:
    from ..features import Image, SpatialPyramidFeatures


class Unreadable:
    """The reasons why images could not be read, kept in a store."""

    def __init__(self, store: FeatureStore) -> None:
        self._active = store.active
        about = {"what": "reasons"} if store.active else None
        self._shelf = store.shelf("unreadable", about, Form(("U8",), (range(2**20),)))

    def keep(self, digests: Sequence[str | None], skipped: Mapping[int, str]) -> None:
        """Remember reasons by the images' digests."""
        for index, reason in skipped.items():
            text = reason.encode(errors="backslashreplace")
            self._shelf.put(digests[index], np.frombuffer(text, np.uint8))
        self._shelf.flush()

    def try_first(
        self,
        features: SpatialPyramidFeatures,
        images: Sequence[Image],
        digests: Sequence[str | None],
        engine: Engine,
    ) -> dict[int, str]:
        """Read files that look damaged or could not be read before; return what cannot be read.

        Reading decides, not the store: a disk may have failed once. It comes
        first, so that no work is started that these images would spoil.
        """
        known = {None, *(name for name, _ in self._shelf.fetch(digests))} if self._active else set()
        suspects = {index for index, digest in enumerate(digests) if digest in known}
        others = [index for index in range(len(images)) if index not in suspects]
        found = engine.map_each(_is_suspect, [images[index] for index in others])
        suspects.update(i for i, doubtful in zip(others, found, strict=True) if doubtful)
        if suspects:
            compile_reading()
        chosen = sorted(suspects)
        reasons = engine.map_each(partial(_why_not, features), [images[i] for i in chosen])
        return {i: why for i, why in zip(chosen, reasons, strict=True) if why is not None}


def _is_suspect(image: Image) -> bool:
    return isinstance(image, (str, os.PathLike)) and looks_damaged(image)


def _why_not(features: SpatialPyramidFeatures, image: Image) -> str | None:
    """Return why an image cannot be read; None if it can."""
    try:
        features.read(image)
    except ImageError as error:
        return error.reason
    return None
