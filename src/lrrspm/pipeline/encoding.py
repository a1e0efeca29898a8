"""Encoding: vectors of many images for several features, each image read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.halves import scale_halves
from .._support.parallel import ordered_map
from .._support.remote import is_remote
from .._support.stages import Stages
from ..cache import FeatureStore, Form, part_key, plain
from ..gpu import describe_device
from ..images import KeptImages
from .chunks import Item, Outcome, Sources, compile_reading, encode_chunk
from .devices import encode_on_device
from .engines import Engine
from .timing import divided
from .unreadable import Unreadable

if TYPE_CHECKING:
    from ..channels import Channel
    from ..features import Image, SpatialPyramidFeatures

_ASKING = 16
"""Requests at a time to the store of remote files."""


class Encoded(NamedTuple):
    """Vectors of images.

    Attributes
    ----------
    matrices : list of ndarray of shape (n, n_features)
        One per features, in its precision; images that were skipped have no row.
    skipped : dict of int to str
        Indices of images that could not be read, and the reasons.
    seconds : list of float
        Seconds of coding and pooling per features.
    """

    matrices: list[NDArray[Any]]
    skipped: dict[int, str]
    seconds: list[float]


def encode_images(
    features: Sequence[SpatialPyramidFeatures],
    images: Sequence[Image],
    engine: Engine,
    stages: Stages,
    skip: bool = False,
    store: FeatureStore | None = None,
    kept: KeptImages | None = None,
    inspect: Callable[[int, list[NDArray[Any]]], None] | None = None,
) -> Encoded:
    """Compute vectors of images for several fitted features, reading each image once.

    With ``skip``, images that cannot be read are left out; without, the first
    one raises. A ``store`` of None is that of the first features' ``cache``.
    Files are taken from ``kept`` if they are there. Where nothing was skipped,
    ``inspect`` is called with the number of the features and the channels' vectors
    before they are weighed; it may change the channels' weights.
    """
    stores = Stores(features, store)
    sources = Sources(kept, raw=engine.on_device)
    columns, matrices = [], []
    for number, feature in enumerate(features):
        lengths = [channel.n_features for channel in feature.channels_]
        matrices.append(np.empty((len(images), sum(lengths)), feature.precision))
        # Channels write side by side into one matrix: long vectors are never copied.
        parts = np.split(matrices[-1], np.cumsum(lengths)[:-1], axis=1)
        for channel, part in zip(feature.channels_, parts, strict=True):
            source = sources.add(feature, channel)
            columns.append(_Column(number, source, channel, part, feature, stores, engine.device))
    skipped: dict[int, str] = {}
    try:
        with stores.main.timed(stages):
            digests = stores.main.digests(images, engine.map_each)
            for column in columns:
                column.look_up(digests)
        spent = _encode(columns, sources, images, digests, stores, engine, stages, skip, skipped)
    finally:
        for column in columns:
            column.shelf.flush()
    Unreadable(stores.main).keep(digests, skipped)
    seconds = []
    for number, feature in enumerate(features):
        own = [c for c, column in enumerate(columns) if column.owner == number]
        if inspect is not None and not skipped:
            inspect(number, [columns[c].matrix for c in own])
        if feature.weighs:
            for c, scales in zip(own, feature.scales, strict=True):
                columns[c].weigh(scales)
        seconds.append(float(spent[2:][own].sum()))
    if skipped:
        good = [row for row in range(len(images)) if row not in skipped]
        for number, matrix in enumerate(matrices):
            for place, row in enumerate(good):  # in place: a copy may not fit into memory
                matrix[place] = matrix[row]
            matrices[number] = matrix[: len(good)]
    return Encoded(matrices, skipped, seconds)


class Stores:
    """The store of several features; a features class of one's own has none.

    Nobody knows how another class reads images, so what it computes is not kept.
    """

    def __init__(
        self, features: Sequence[SpatialPyramidFeatures], store: FeatureStore | None
    ) -> None:
        self._none = FeatureStore(None)
        caches = [feature.cache for feature in features if feature.reads_plainly]
        self.main: FeatureStore = store or FeatureStore(caches[0] if caches else None)

    def of(self, features: SpatialPyramidFeatures) -> FeatureStore:
        """Return the store that one of the features may use."""
        return self.main if features.reads_plainly else self._none


def checked(
    items: Sequence[Item],
    outcomes: Iterable[Outcome],
    store: FeatureStore,
    digests: Sequence[str | None],
) -> Iterator[tuple[Item, Outcome, bool]]:
    """Yield items, what became of them, and whether their files are unchanged since.

    Where files are at addresses that is a request each, so several are under way at a time.
    """

    def check(pair: tuple[Item, Outcome]) -> tuple[Item, Outcome, bool]:
        item, outcome = pair
        return item, outcome, store.unchanged(item.image, digests[item.number])

    with ExitStack() as opened:
        asking = None
        if store.active and any(is_remote(item.image) for item in items):
            asking = opened.enter_context(ThreadPoolExecutor(_ASKING))
        yield from ordered_map(check, zip(items, outcomes, strict=True), asking, 2 * _ASKING)


class _Column:
    """The vectors of all images in one channel.

    Attributes
    ----------
    owner : int
        Number of the features that the channel belongs to.
    source : int
        Number of its descriptor among the sources.
    matrix : ndarray of shape (N, n_features)
    missing : set of int
        Rows that are still to be computed.
    """

    def __init__(
        self,
        owner: int,
        source: int,
        channel: Channel,
        matrix: NDArray[Any],
        features: SpatialPyramidFeatures,
        stores: Stores,
        device: str,
    ) -> None:
        self.owner, self.source, self.channel = owner, source, channel
        self.matrix = matrix
        self.missing = set(range(len(matrix)))
        store = stores.of(features)
        about = vector_key(features, channel, device) if store.active else None
        length = channel.n_features
        self._precision = np.dtype(channel.pooling_.precision)
        kind = "F16" if self._precision == np.float16 else "F32"
        form = Form((kind,), (range(length, length + 1),))
        self.shelf = store.shelf("vectors", about, form)

    def look_up(self, digests: Sequence[str | None]) -> None:
        """Fill in the rows that the store has."""
        places = defaultdict(list)
        for index, digest in enumerate(digests):
            places[digest].append(index)
        for digest, vector in self.shelf.fetch(places):
            self.matrix[places[digest]] = vector
            self.missing.difference_update(places[digest])

    def keep(self, row: int, vector: NDArray[Any], digest: str | None) -> None:
        """Fill in a row, and give it to the store under the image's digest."""
        self.matrix[row] = vector
        # No copy, unless another channel has a finer precision.
        self.shelf.put(digest, self.matrix[row].astype(self._precision, copy=False))

    def weigh(self, scales: Sequence[np.float32]) -> None:
        """Multiply the levels of all rows, in place."""
        for columns, scale in zip(self.channel.level_columns, scales, strict=True):
            part = self.matrix[:, columns]
            if part.dtype == np.float16:
                for row in part:
                    scale_halves(row, scale)
            else:
                part *= scale


def vector_key(
    features: SpatialPyramidFeatures, channel: Channel, device: str = config.DEVICE
) -> dict[str, Any] | None:
    """Return what a channel's vectors depend on, or None if that is not known for sure."""
    encoder = channel.encoder_
    parts = {
        "descriptor": part_key("descriptors", channel.descriptor),
        "encoder": part_key("encoders", encoder, without=_LEARNING),
        "pooling": part_key("poolings", channel.pooling_),
    }
    if channel.projection_ is not None:
        parts["projection"] = part_key("projections", channel.projection_)
    if None in parts.values():
        return None
    owners = [encoder, channel.pooling_]
    owners += [] if channel.projection_ is None else [channel.projection_]
    arrays = [{name: plain(getattr(part, name)) for name in part.derived} for part in owners]
    return {
        **parts,
        "levels": plain(channel.pyramid.levels),
        "sides": (features.max_side, features.min_side),
        "atoms": encoder.n_atoms,
        "arrays": arrays,
        **device_key(device),
    }


def device_key(device: str) -> dict[str, Any]:
    """Return what results of a device depend on besides; nothing for the CPU's."""
    return {} if device == config.DEVICE else {"device": describe_device(device)}


_LEARNING = ("codebook", "codebook_size", "random_state")


def _encode(
    columns: Sequence[_Column],
    sources: Sources,
    images: Sequence[Image],
    digests: Sequence[str | None],
    stores: Stores,
    engine: Engine,
    stages: Stages,
    skip: bool,
    skipped: dict[int, str],
) -> NDArray[np.float64]:
    """Compute what is missing; returns seconds of reading, describing and each column."""
    todo = sorted(set().union(*(column.missing for column in columns)))
    items = [
        Item(i, images[i], tuple(c for c, column in enumerate(columns) if i in column.missing))
        for i in todo
    ]
    if items:
        compile_reading()
    channels = [(column.source, column.channel) for column in columns]
    if engine.on_device:
        made = encode_on_device(sources, channels, items, engine)
    else:
        made = engine.map_chunks(encode_chunk, items, sources, channels)
    # What is under way ends with an error, and does not wait for its traceback to be dropped.
    with (
        closing(made),
        divided(stages, ["read", "describe", *("encode" for _ in columns)]) as spent,
    ):
        outcomes = stages.track("encoding images", made, len(items))
        for item, outcome, unchanged in checked(items, outcomes, stores.main, digests):
            spent += outcome.seconds
            if outcome.error is not None:
                if not skip:
                    raise outcome.error
                skipped[item.number] = outcome.error.reason
                continue
            digest = digests[item.number]
            kept = digest if unchanged else None
            for job, vector in zip(item.jobs, outcome.arrays, strict=True):
                columns[job].keep(item.number, vector, kept)
    return spent
