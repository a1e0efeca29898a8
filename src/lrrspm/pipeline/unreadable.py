"""Images that cannot be read: remembered, and tried first the next time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._support.parallel import ordered_map
from ..cache import FeatureStore, Form
from ..images import ImageError
from .chunks import compile_reading
from .engines import Engine

if TYPE_CHECKING:
    from ..features import Image, SpatialPyramidFeatures


class Unreadable:
    """The reasons why images could not be read, kept in a store."""

    def __init__(self, store: FeatureStore) -> None:
        about = {"what": "reasons"} if store.active else None
        self._shelf = store.shelf("unreadable", about, Form(("U8",), (range(2**20),)))

    def keep(self, digests: Sequence[str | None], skipped: Mapping[int, str]) -> None:
        """Remember reasons by the images' digests."""
        for index, reason in skipped.items():
            text = reason.encode(errors="backslashreplace")
            self._shelf.put(digests[index], np.frombuffer(text, np.uint8))
        self._shelf.flush()

    def try_again(
        self,
        features: SpatialPyramidFeatures,
        images: Sequence[Image],
        digests: Sequence[str | None],
        engine: Engine,
    ) -> dict[int, str]:
        """Read what could not be read before, and return what still cannot.

        Reading decides, not the store: a disk may have failed once. It comes
        first, so that no work is started that these images would spoil.
        """
        known = {None, *(name for name, _ in self._shelf.fetch(digests))}
        suspects = [index for index, digest in enumerate(digests) if digest in known]
        if suspects:
            compile_reading()

        def reason(index: int) -> str | None:
            try:
                features.read(images[index])
            except ImageError as error:
                return error.reason
            return None

        found = zip(suspects, ordered_map(reason, suspects, engine.threads), strict=True)
        return {index: text for index, text in found if text is not None}
