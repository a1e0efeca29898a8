"""Streaming: something computed from the vectors of many images, in bounded memory."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from .._support.devices import Held
from .._support.stages import Stages
from ..cache import FeatureStore, StoreError
from .chunks import compile_reading
from .devices import blocks_on_device
from .encoding import Stores, encode_images
from .engines import Engine

if TYPE_CHECKING:
    from ..features import Image, SpatialPyramidFeatures

_BLOCK_BYTES = 2**26
_SINGLE_BYTES = 2**28

BLOCK = 1024
"""Most images per block on other machines, and of vectors in half precision."""

Function = Callable[[Any, Executor | None], Any]
"""What is made of vectors (n, d), on the threads of an executor; (n, ...). It can be pickled.

Vectors on a device come as :class:`lrrspm._support.devices.Held`.
"""


_KNOWN = 100_000
"""Images whose digests may stay in memory, for another pass."""

# The store of each thread of a worker; opening one takes longer, the more is in it.
_own = threading.local()


class Block(NamedTuple):
    """A block of images: the number of its first one and how many there are, and the result.

    ``result`` is None where none of them could be read; ``skipped`` says why, by
    their numbers. Seconds are those of encoding and of the function.
    """

    first: int
    images: int
    result: NDArray[Any] | None
    skipped: dict[int, str]
    seconds: float
    used: float
    trouble: str | None = None


class Streamed(NamedTuple):
    """Results of the blocks; images that could not be read, and why; seconds as in a block."""

    results: list[NDArray[Any]]
    skipped: dict[int, str]
    seconds: float
    used: float


def whole(vectors: NDArray[Any] | Held, executor: Executor | None) -> NDArray[Any] | Held:
    """Return vectors as they are: a function for those who need them."""
    return vectors


def block_size(features: SpatialPyramidFeatures, small: bool = False) -> int:
    """Return the number of images per block.

    Rows in half precision do not depend on those beside them, and their blocks take
    up to 64 MB. The last bits of a product in single precision depend on its shape:
    blocks of 256 MB, 12,288 images of LrrSPM, have the bits of one product in nearly
    every use. Small blocks have fewer: other machines get those, so that each has
    something to do, and files that are written as results come.
    """
    length = sum(channel.n_features for channel in features.channels_)
    row = length * features.precision.itemsize
    if features.precision.itemsize == 2:
        return max(1, min(BLOCK, _BLOCK_BYTES // row))
    return BLOCK if small else max(1, _SINGLE_BYTES // row // BLOCK) * BLOCK


def stream_vectors(
    function: Function,
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool = False,
    store: FeatureStore | None = None,
    first: int = 0,
    small: bool = False,
) -> Generator[Block, None, None]:
    """Apply a function to the vectors of images, a block of images at a time, in order.

    Vectors are dropped after each block; those that other machines compute stay
    there, or go to the store if they share it. ``skip`` and ``store`` are those of
    ``encode_images``. Begins with the image ``first``, a multiple of the block size.
    ``small`` blocks are those for other machines, for those who want results soon.
    """
    remote = engine.remote and not engine.on_device
    if engine.on_device and not Stores([features], store).of(features).active:
        yield from _stream_on_device(function, features, images, engine, stages, skip, first)
        return
    size = block_size(features, remote or small)
    starts = range(first, len(images), size)
    if remote:
        store = store or FeatureStore(features.cache)
        asked = [(start, images[start : start + size]) for start in starts]
        yield from _stream_remote(function, features, asked, engine, stages, skip, store)
        return
    for start in starts:

        def tell(name: str, done: int, _: int, start: int = start) -> None:
            stages.tell(name, start + done, len(images))

        part = Stages(tell)
        images_here = images[start : start + size]
        yield compute_block(function, features, start, images_here, engine, part, skip, store)
        stages.add_all(part.seconds.items())
        if store is not None and len(images) > _KNOWN:
            store.forget_files()


def _stream_on_device(
    function: Function,
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool,
    first: int,
) -> Iterator[Block]:
    """Vectors stay on the device, if no store is to keep them."""
    compile_reading()
    begin = time.perf_counter()
    blocks = blocks_on_device(features, images, engine, skip, first)
    with closing(blocks):  # what is under way ends with an error
        for found in blocks:
            start = time.perf_counter()
            result = None if found.vectors is None else function(found.vectors, engine.threads)
            used = time.perf_counter() - start
            done = found.numbers[-1] + 1
            stages.tell("encoding images", done, len(images))
            yield Block(
                found.numbers[0], len(found.numbers), result, found.skipped, found.seconds[1], used
            )
    stages.add("encode", time.perf_counter() - begin)


def _stream_remote(
    function: Function,
    features: SpatialPyramidFeatures,
    asked: list[tuple[int, Sequence[Image]]],
    engine: Engine,
    stages: Stages,
    skip: bool,
    store: FeatureStore,
) -> Iterator[Block]:
    total = asked[-1][0] + len(asked[-1][1]) if asked else 0
    begin, told = time.perf_counter(), set()
    # One block per task: the results of several may not fit into memory.
    found = engine.map_chunks(
        _compute_remotely, asked, function, features, skip, store.folder, first=1, most=1
    )
    for block in found:
        stages.tell("encoding images", block.first + block.images, total)
        if block.trouble is not None and block.trouble not in told:
            told.add(block.trouble)
            warnings.warn(f"on a worker: {block.trouble}", stacklevel=2)
        yield block
        del block  # before the next one is fetched
    stages.add("encode", time.perf_counter() - begin)


def worker_store(folder: str | os.PathLike[str] | None) -> FeatureStore:
    """Return the store of this thread of a worker.

    Where it cannot be opened, one that keeps nothing: the driver could open it.
    """
    store: FeatureStore | None = getattr(_own, "store", None)
    if store is None or store.folder != folder or store.trouble is not None:
        try:
            store = FeatureStore(folder)
        except (OSError, StoreError) as error:
            store = FeatureStore(None)
            store.trouble = f"{error}; going on without caching results"
        _own.store = store
    return store


def _compute_remotely(
    function: Function,
    features: SpatialPyramidFeatures,
    skip: bool,
    folder: str | os.PathLike[str] | None,
    asked: Sequence[tuple[int, Sequence[Image]]],
) -> list[Block]:
    """Compute some blocks on a worker, which reads the images and writes to the store itself."""
    store = worker_store(folder)
    here, blocks = Engine(None, None), []
    for first, images in asked:
        blocks.append(compute_block(function, features, first, images, here, Stages(), skip, store))
        store.forget_files()
    return blocks


def compute_block(
    function: Function,
    features: SpatialPyramidFeatures,
    first: int,
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool,
    store: FeatureStore | None,
) -> Block:
    """Apply a function to the vectors of images, of which the first has the number ``first``."""
    encoded = encode_images([features], images, engine, stages, skip, store)
    skipped = {first + i: reason for i, reason in encoded.skipped.items()}
    start = time.perf_counter()
    vectors = encoded.matrices[0]
    result = function(vectors, engine.threads) if len(vectors) else None
    used = time.perf_counter() - start
    trouble = None if store is None else store.trouble
    return Block(first, len(images), result, skipped, encoded.seconds[0], used, trouble)


def map_vectors(
    function: Function,
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool = False,
    store: FeatureStore | None = None,
    take: Callable[[NDArray[Any]], object] | None = None,
) -> Streamed:
    """Collect what :func:`stream_vectors` yields; without a readable image there is no result.

    With ``take``, each result is given to it, in this process, and none is collected.
    """
    results: list[NDArray[Any]] = []
    take = take or results.append
    skipped: dict[int, str] = {}
    seconds = used = 0.0
    blocks = stream_vectors(function, features, images, engine, stages, skip, store)
    with closing(blocks):  # what is under way ends with an error
        for block in blocks:
            if block.result is not None:
                take(block.result)
            skipped.update(block.skipped)
            seconds += block.seconds
            used += block.used
            del block  # before the next one is made
    return Streamed(results, skipped, seconds, used)
