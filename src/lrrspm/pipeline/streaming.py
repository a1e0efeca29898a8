"""Streaming: something computed from the vectors of many images, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.stages import Stages
from ..cache import FeatureStore
from .encoding import encode_images
from .engines import Engine

if TYPE_CHECKING:
    from ..features import Image, SpatialPyramidFeatures

_BLOCK_BYTES = 2**28


class Streamed(NamedTuple):
    """Results of the blocks; images that could not be read, and why; seconds of encoding."""

    results: list[Any]
    skipped: dict[int, str]
    seconds: float


def map_vectors(
    function: Callable[[NDArray[Any]], Any],
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool = False,
    store: FeatureStore | None = None,
) -> Streamed:
    """Apply a function to the vectors of images, a block of images at a time.

    Vectors in half precision are dropped after each block of 256 MB: scores of
    a row of these do not depend on the rows beside it. Others stay together,
    since the last bits of a BLAS product depend on its shape. ``skip`` and
    ``store`` are those of ``encode_images``; a block without a readable image
    has no result.
    """
    size = max(1, len(images))
    if features.precision == np.float16:
        length = sum(channel.n_features for channel in features.channels_)
        size = max(1, _BLOCK_BYTES // (length * features.precision.itemsize))
    results, skipped, seconds = [], {}, 0.0
    for start in range(0, len(images), size):
        block = images[start : start + size]

        def tell(name: str, done: int, _: int, start: int = start) -> None:
            stages.tell(name, start + done, len(images))

        part = Stages(tell)
        encoded = encode_images([features], block, engine, part, skip, store)
        stages.add_all(part.seconds.items())
        skipped.update({start + i: reason for i, reason in encoded.skipped.items()})
        seconds += encoded.seconds[0]
        if len(encoded.matrices[0]):
            results.append(function(encoded.matrices[0]))
        del encoded  # before the next block is made
    return Streamed(results, skipped, seconds)
