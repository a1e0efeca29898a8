"""Devices: chunks are read on threads, and vectors computed in batches by a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from .chunks import Item, Outcome, Sources, read_chunk
from .engines import Engine

if TYPE_CHECKING:
    from ..channels import Channel
    from ..features import SpatialPyramidFeatures

IMAGES, PIXELS = 512, 2**25
"""Most images, and about the most pixels, that wait for a GPU together."""


def check_computable(features: Sequence[SpatialPyramidFeatures], engine: Engine) -> None:
    """Raise ValueError where the engine's device cannot compute the channels."""
    if engine.on_device:
        from ..gpu.encoding import check_channels

        for feature in features:
            check_channels(feature.new_channels())


def encode_on_device(
    sources: Sources,
    channels: Sequence[tuple[int, Channel]],
    items: Sequence[Item],
    engine: Engine,
) -> Iterator[Outcome]:
    """Compute vectors of images, in order, as ``encode_chunk`` does for those of a chunk.

    Batches do not depend on the number of threads.
    """
    from ..gpu import check_device
    from ..gpu.encoding import DeviceChannels

    computed = DeviceChannels([channel for _, channel in channels], check_device(engine.device))
    wanted = [source for source, _ in channels]
    waiting: list[tuple[Item, Outcome]] = []
    pixels = 0
    outcomes = engine.map_chunks(read_chunk, items, sources, wanted)
    for item, outcome in zip(items, outcomes, strict=True):
        waiting.append((item, outcome))
        pixels += max((array.size for array in outcome.arrays), default=0)
        if len(waiting) >= IMAGES or pixels >= PIXELS:
            yield from _encode(computed, len(channels), waiting)
            waiting, pixels = [], 0
    yield from _encode(computed, len(channels), waiting)


def _encode(
    computed: Any, n_channels: int, waiting: Sequence[tuple[Item, Outcome]]
) -> list[Outcome]:
    """Replace the pixels of images that wait by their vectors."""
    vectors: list[list[NDArray[Any]]] = [[] for _ in waiting]
    seconds = [[*outcome.seconds, *[0.0] * n_channels] for _, outcome in waiting]
    for job in range(n_channels):
        places = [
            (i, item.jobs.index(job))
            for i, (item, outcome) in enumerate(waiting)
            if job in item.jobs and outcome.error is None
        ]
        start = time.perf_counter()
        found = computed.vectors(job, [waiting[i][1].arrays[at] for i, at in places])
        spent = time.perf_counter() - start
        for (i, _), vector in zip(places, found, strict=True):
            vectors[i].append(vector)
            seconds[i][2 + job] = spent / len(places)
    return [
        outcome._replace(arrays=vectors[i], seconds=seconds[i])
        for i, (_, outcome) in enumerate(waiting)
    ]
