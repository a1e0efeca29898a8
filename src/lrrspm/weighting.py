"""Weights of channels and their levels, learned from how well vectors tell classes apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._support.devices import Accelerator, Held
from ._support.stages import Stages
from .cache import FeatureStore
from .features import Image, SpatialPyramidFeatures
from .images import KeptImages
from .modelfile import fitted_places
from .pipeline import Engine, encode_images
from .pipeline.spreading import fill_shards
from .svm import aligned_rows, class_alignment


def learn_from_some(
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    labels: NDArray[Any],
    engine: Engine,
    skip: bool,
    store: FeatureStore,
    kept: KeptImages,
) -> None:
    """Learn the weights of channels from those of the images that an alignment takes alone."""
    rows = aligned_rows(len(images))

    def inspect(_: int, vectors: Sequence[NDArray[Any] | Held]) -> None:
        learn_weights(features, vectors, labels[rows], np.arange(len(rows)), engine)

    some = [images[i] for i in rows]
    threads, length = engine.threads, vector_length(features)
    room = None
    if isinstance(threads, Accelerator) and not store.active:
        room = threads.make_room(len(rows), length, features.precision)
    if room is not None:
        found = fill_shards(room, features, some, engine, Stages(), skip, store)
        if not found.skipped:
            ends = np.cumsum([0, *(channel.n_features for channel in features.channels_)])
            parts = [room.some(np.arange(len(rows)), slice(*pair)) for pair in pairwise(ends)]
            inspect(0, parts)
        return
    encode_images([features], some, engine, Stages(), skip, store, kept, inspect)


def learning_channels(features: SpatialPyramidFeatures) -> list[bool]:
    """Tell which channels learn their weight."""
    given = features.new_channels()
    return [given[place].weight is None for place in fitted_places(features)]


def learn_weights(
    features: SpatialPyramidFeatures,
    vectors: Sequence[NDArray[Any] | Held],
    labels: NDArray[Any],
    members: NDArray[np.int64],
    engine: Engine,
) -> None:
    """Set the weights of channels that were given none, by their vectors of all images.

    Each level of a channel has its own: the square of the alignment with the members'
    classes, at least a hundredth of the largest square, and over their mean; see
    :func:`class_alignment`.
    """
    learning = learning_channels(features)
    if not any(learning):
        return
    chosen = [
        (channel, [class_alignment(part, labels, members, engine.threads, columns)
                   for columns in channel.level_columns])
        for channel, part, learns in zip(features.channels_, vectors, learning, strict=True)
        if learns
    ]  # fmt: skip
    largest = max(max(alignments) for _, alignments in chosen)
    squares = [
        [max(alignment, largest / 10, 1e-6) ** 2 for alignment in alignments]
        for _, alignments in chosen
    ]
    mean = float(np.mean([np.mean(own) for own in squares]))
    for (channel, _), own in zip(chosen, squares, strict=True):
        # Rounded: the last bits of a BLAS product are another machine's matter.
        channel.weight = tuple(max(round(square / mean, 2), 0.01) for square in own)


def vector_length(features: SpatialPyramidFeatures) -> int:
    """Return the length of one image's vector."""
    return sum(channel.n_features for channel in features.channels_)
