"""Devices: chunks are read on threads, and vectors computed in batches by a GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from .._support.devices import Held
from .chunks import Item, Outcome, Sources, read_chunk
from .engines import Engine

if TYPE_CHECKING:
    from ..channels import Channel
    from ..features import Image, SpatialPyramidFeatures

IMAGES, BYTES = 2048, 2**28
"""Most images, and about the most bytes of pixels, that wait for a GPU together.

Images of one size are computed together, and the more there are the more are alike. The
next ones are read meanwhile, so up to twice as many are in memory."""


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
) -> Generator[Outcome, None, None]:
    """Compute vectors of images, in order, as ``encode_chunk`` does for those of a chunk.

    Batches do not depend on the number of threads.
    """
    from ..gpu import check_device
    from ..gpu.encoding import DeviceChannels

    computed = DeviceChannels([channel for _, channel in channels], check_device(engine.device))
    wanted = [source for source, _ in channels]
    asked = iter(items)
    with closing(
        _read_ahead(engine.map_chunks(read_chunk, items, sources, wanted, reading=True))
    ) as batches:
        for some in batches:
            yield from _encode(computed, len(channels), [(next(asked), one) for one in some])


class DeviceBlock(NamedTuple):
    """Vectors of some images, by their numbers, which stay on the device; None without any.

    ``skipped`` says why others could not be read. Seconds are those of reading, and of
    waiting for the device.
    """

    numbers: list[int]
    vectors: Held | None
    skipped: dict[int, str]
    seconds: list[float]


def blocks_on_device(
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    engine: Engine,
    skip: bool,
    first: int,
) -> Generator[DeviceBlock, None, None]:
    """Yield the joined vectors of images, in order; see ``stream_vectors``."""
    import torch

    from ..gpu import check_device
    from ..gpu.encoding import DeviceChannels
    from ..gpu.machines import DeviceMatrix

    channels = features.channels_
    computed = DeviceChannels(channels, check_device(engine.device))
    ones = [[1.0] * len(channel.levels) for channel in channels]
    scales: Any = features.scales if features.weighs else ones
    sources = Sources(raw=True)
    jobs = {bool(c.descriptor.color): sources.add(features, c) for c in channels}
    wanted = list(jobs.values())
    items = [Item(i, images[i], tuple(range(len(jobs)))) for i in range(first, len(images))]
    outcomes = engine.map_chunks(read_chunk, items, sources, wanted, reading=True)
    with closing(_read_ahead(outcomes, min(IMAGES, computed.most))) as batches:
        for some in batches:
            skipped = {one.number: one.error.reason for one in some if one.error is not None}
            for one in some:
                if one.error is not None and not skip:
                    raise one.error
            good = [one for one in some if one.error is None]
            start = time.perf_counter()
            vectors: Held | None = None
            if good:
                pixels = [dict(zip(jobs, one.arrays, strict=True)) for one in good]
                with torch.inference_mode():
                    vectors = DeviceMatrix.of(computed.joined(pixels, scales))
            spent = time.perf_counter() - start
            read = sum(one.seconds[0] for one in some)
            yield DeviceBlock([one.number for one in some], vectors, skipped, [read, spent])


def _read_ahead(
    outcomes: Generator[Outcome, None, None], most: int = IMAGES
) -> Generator[list[Outcome], None, None]:
    """Yield batches in order; the next one is gathered on a thread while the caller computes.

    Reading is asked for while outcomes are taken, so without that thread it would stop with
    the first few chunks. Closing the generator ends the thread, after the outcome under way.
    """
    stopped = threading.Event()
    batches = _batched(outcomes, most, stopped)
    thread = ThreadPoolExecutor(1, "lrrspm-reading")
    try:
        following = thread.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = thread.submit(next, batches, None)
            yield batch
    finally:
        stopped.set()
        # A second Ctrl-C ends the wait; the outcomes are still the thread's then.
        thread.shutdown()
        outcomes.close()


def _batched(
    outcomes: Iterable[Outcome], most: int, stopped: threading.Event
) -> Iterator[list[Outcome]]:
    """Gather what waits for a GPU together, until nobody wants it."""
    waiting: list[Outcome] = []
    nbytes = 0
    for outcome in outcomes:
        if stopped.is_set():
            return
        waiting.append(outcome)
        nbytes += sum(array.nbytes for array in outcome.arrays)
        if len(waiting) >= most or nbytes >= BYTES:
            yield waiting
            waiting, nbytes = [], 0
    if waiting:
        yield waiting


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
