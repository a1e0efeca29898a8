"""Spreading: vectors that workers write to a folder they share, and what they compute from these.

The driver has the list of files, sums and scores, and never the vectors.
"""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.files import absolute_paths
from .._support.shards import Shard, Shards
from .._support.stages import Stages
from ..cache import FeatureStore
from ..cache.store import TRAINING
from .engines import Engine
from .streaming import Streamed, block_size, compute_block, map_vectors, whole, worker_store

if TYPE_CHECKING:
    from ..features import Image, SpatialPyramidFeatures


class Written(NamedTuple):
    """What became of the images of one shard, see ``Streamed``; the trouble of a store."""

    images: int
    skipped: dict[int, str]
    seconds: float
    trouble: str | None


def open_shards(
    features: SpatialPyramidFeatures, n: int, engine: Engine, store: FeatureStore
) -> Shards:
    """Make shards for the vectors of n images, where the engine's workers can write them."""
    length = sum(channel.n_features for channel in features.channels_)
    folder = _shared_folder(engine, store)
    spread = partial(spread_over, engine) if folder is not None and engine.remote else None
    return Shards(n, length, features.precision, folder, spread=spread, apart=folder is not None)


def _shared_folder(engine: Engine, store: FeatureStore) -> str | None:
    """Return a folder or address that all workers can write to, if there is one for sure.

    Processes share the disk. Workers of a cluster share the store if each of them reads a
    shard that was just written there, and writes one.
    """
    if engine.on_device:
        return None
    if isinstance(engine.executor, ProcessPoolExecutor):
        return tempfile.gettempdir()
    everywhere = getattr(engine.executor, "everywhere", None)
    if everywhere is None or store.folder is None:
        return None
    folder = f"{absolute_paths(os.fspath(store.folder))}/{TRAINING}"
    spread = partial(spread_over, engine)
    try:
        with Shards(2, 1, np.float32, folder, rows=1, spread=spread, apart=True) as shards:
            ours, theirs = shards.planned()
            ours.write(_ROW)
            if not all(everywhere(_shares, ours, theirs)):
                return None
            theirs.check()
            return folder
    except OSError:
        return None  # a store that cannot be written to


_ROW = [np.zeros((1, 1), np.float32)]


def _shares(ours: Shard, theirs: Shard) -> bool:
    """True if this worker reads a shard of the driver, and writes another."""
    try:
        ours.read()
        return theirs.write(_ROW) == 1
    except (OSError, ImportError):
        return False


def spread_over(
    engine: Engine, function: Callable[..., list[Any]], parts: Sequence[Any], shared: object
) -> Iterator[Any]:
    """Apply a function of shards to parts on other machines, one per task: sums may be large."""
    return engine.map_chunks(function, parts, shared, first=1, most=1)


def fill_shards(
    shards: Any,
    features: SpatialPyramidFeatures,
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool,
    store: FeatureStore,
) -> Streamed:
    """Write the vectors of images to shards: by the workers where these share their folder.

    Or to what else takes blocks by its ``append``, such as a matrix on a device. Images
    that could not be read are listed in the result, and then there are no shards.
    """
    if not isinstance(shards, Shards) or not shards.apart:
        take = shards.append
        return map_vectors(whole, features, images, engine, stages, skip, store, take)
    asked = [(shard, images[shard.start : shard.stop]) for shard in shards.planned()]
    found = engine.map_chunks(write_shards, asked, features, skip, store.folder, first=1, most=1)
    done, seconds, skipped, told = 0, 0.0, dict[int, str](), set[str]()
    for part in _written(found, shards):
        done += part.images
        seconds += part.seconds
        skipped |= part.skipped
        stages.tell("encoding images", done, len(images))
        if part.trouble is not None and part.trouble not in told:
            told.add(part.trouble)
            warnings.warn(f"on a worker: {part.trouble}", stacklevel=2)
    stages.add("encode", seconds)
    if not skipped:
        shards.adopt()
    return Streamed([], skipped, seconds, 0.0)


def _written(found: Iterator[Written], shards: Shards) -> Iterator[Written]:
    """Yield what workers wrote; a full disk of theirs is explained as one of ours."""
    try:
        yield from found
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise shards.explained(error) from None
        raise


def write_shards(
    features: SpatialPyramidFeatures,
    skip: bool,
    folder: str | os.PathLike[str] | None,
    asked: Sequence[tuple[Shard, Sequence[Image]]],
) -> list[Written]:
    """Compute vectors and write them to shards, on a worker, a block of images at a time."""
    store = worker_store(folder)
    here, found, size = Engine(None, None), [], block_size(features, small=True)
    for shard, images in asked:
        skipped: dict[int, str] = {}
        spent = [0.0]

        def blocks(
            shard: Shard = shard,
            images: Sequence[Image] = images,
            skipped: dict[int, str] = skipped,
            spent: list[float] = spent,
        ) -> Iterator[NDArray[Any]]:
            for start in range(0, len(images), size):
                some = images[start : start + size]
                block = compute_block(
                    whole, features, shard.start + start, some, here, Stages(), skip, store
                )
                skipped.update(block.skipped)
                spent[0] += block.seconds
                store.forget_files()
                if block.result is not None and not skipped:
                    yield block.result

        shard.write(blocks())
        found.append(Written(len(images), skipped, spent[0], store.trouble))
    return found
