"""Many images at once: several features fitted and applied while each image is read once."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from ..cache.store import FeatureStore, Shelf, hash_of, plain
from ..descriptors.sift import DenseDescriptors
from ..encoders.base import CodebookEncoder
from ..encoders.kmeans import Progress
from ..images import ImageError

if TYPE_CHECKING:
    from ..features import Image, SpatialPyramidFeatures


def fit_all(
    features: Sequence[SpatialPyramidFeatures],
    images: Sequence[Image],
    members: Sequence[NDArray[np.int64]],
    stages: Stages,
    skipped: dict[int, str] | None = None,
    store: FeatureStore | None = None,
) -> None:
    """Fit several features, each to its own members of images, reading each image once.

    All have the same grid, number of jobs and cache. Features with the same
    seed, members and number of samples share their sample, and k-means
    codebooks of one size learnt from it. ``features[i].fit`` on the members
    alone gives the same bits.

    With ``skipped`` given, the index of every image that cannot be read and
    the reason are added there, and nothing is fitted if there are any;
    without, the first one raises. A ``store`` of None is the features' own;
    with one, images that are no members and cannot be read may be added too.
    """
    first = _common_grid(features)
    store = _store_for(features, store)
    plans = _make_plans(features, members)
    codebooks, unreadable = store.shelf("codebooks", {}), _unreadable(first, store)
    with workers(first.n_jobs) as executor:
        with store.timed(stages):
            digests = store.digests(images, executor)
            for plan in plans:
                plan.look_up(store, codebooks, digests)
        try:
            if skipped is not None and store.active:
                _try_suspects(first, images, digests, unreadable, executor, skipped)
            if not skipped:
                _sample(plans, images, digests, store, executor, stages, skipped)
        finally:
            _keep_unreadable(unreadable, digests, skipped)
            for plan in plans:
                # The next try is without what was skipped, and draws other samples.
                plan.samples.discard() if skipped else plan.samples.flush()
    if skipped:
        return
    with stages.timed("codebook"):
        for number, plan in enumerate(plans, start=1):
            name = "learning codebook" + (f" {number}" if len(plans) > 1 else "")
            plan.fit_encoders(codebooks, partial(stages.tell, name))


def _common_grid(features: Sequence[SpatialPyramidFeatures]) -> SpatialPyramidFeatures:
    """The first of several features, whose descriptors serve all of them."""
    grids = {(f.step, f.patch_size, f.max_side) for f in features}
    if len(grids) > 1:
        raise ValueError(f"step, patch_size and max_side must be the same for all, got {grids}")
    return features[0]


def _store_for(
    features: Sequence[SpatialPyramidFeatures], store: FeatureStore | None
) -> FeatureStore:
    """The features' store; none where a class of its own may read or describe in its own way."""
    from ..features import SpatialPyramidFeatures

    if any(type(feature) is not SpatialPyramidFeatures for feature in features):
        return FeatureStore(None)
    return store or FeatureStore(features[0].cache)


def _unreadable(feature: SpatialPyramidFeatures, store: FeatureStore) -> Shelf:
    """The shelf with the reasons why images could not be read, as text."""
    return store.shelf("unreadable", _descriptor_parameters(feature) if store.active else None)


def _keep_unreadable(
    unreadable: Shelf, digests: Sequence[str | None], skipped: Mapping[int, str] | None
) -> None:
    for index, reason in (skipped or {}).items():
        text = reason.encode(errors="backslashreplace")
        unreadable.put(digests[index], np.frombuffer(text, np.uint8))
    unreadable.flush()


def _try_suspects(
    feature: SpatialPyramidFeatures,
    images: Sequence[Image],
    digests: Sequence[str | None],
    unreadable: Shelf,
    executor: Executor | None,
    skipped: dict[int, str],
) -> None:
    """Read what could not be read before, so that no work is begun that they would spoil.

    Reading decides, not the store: a disk may have failed once.
    """
    known = {None, *(name for name, _ in unreadable.fetch(digests))}
    suspects = [index for index, digest in enumerate(digests) if digest in known]

    def reason(index: int) -> str | None:
        try:
            feature.read(images[index])
        except ImageError as error:
            return error.reason
        return None

    for index, found in zip(suspects, ordered_map(reason, suspects, executor), strict=True):
        if found is not None:
            skipped[index] = found


def _make_plans(
    features: Sequence[SpatialPyramidFeatures], members: Sequence[NDArray[np.int64]]
) -> list[_Plan]:
    """The samples that several features need, and which of them share one."""
    plans: dict[Any, _Plan] = {}
    for feature, indices in zip(features, members, strict=True):
        if feature.n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {feature.n_samples}")
        # What is out of range should fail before the work, not after it.
        feature.pyramid()
        feature.new_encoder().check_parameters()
        rng = check_random_state(feature.random_state)
        seed, encoder_seed = (int(n) for n in rng.randint(2**31, size=2))
        key = (seed, feature.n_samples, np.asarray(indices).tobytes())
        if key not in plans:
            place = {int(index): place for place, index in enumerate(indices)}
            quota = max(1, round(feature.n_samples / len(indices)))
            plans[key] = _Plan(seed, encoder_seed, quota, place)
        plans[key].features.append(feature)
    return list(plans.values())


class _Rows:
    """A growing matrix: few large arrays, where a list of parts would leave holes in memory."""

    def __init__(self) -> None:
        self._rows = np.empty((0, 0), np.float32)
        self._used = 0

    def append(self, part: NDArray[np.float32]) -> None:
        if self._used + len(part) > len(self._rows):
            grown = np.empty((2 * (self._used + len(part)), part.shape[1]), np.float32)
            grown[: self._used] = self._rows[: self._used] if self._used else 0
            self._rows = grown
        self._rows[self._used : self._used + len(part)] = part
        self._used += len(part)

    def values(self) -> NDArray[np.float32]:
        return self._rows[: self._used]

    def clear(self) -> None:
        self._rows = self._rows[:0].copy()
        self._used = 0


@dataclass
class _Plan:
    """A sample to be drawn, and the features whose encoders are fitted to it.

    Attributes
    ----------
    seed, encoder_seed : int
    quota : int
        Descriptors an image.
    place : dict
        Place of each image, by its index, among those of the sample.
    features : list
    rows : _Rows
        The sample.
    learnt : dict
        Codebooks by the recipe they were learnt by.
    names : dict
        Their names in a store, by recipe.
    samples : Shelf
        What was drawn and is not in a codebook yet.
    drawn : dict
        What was found there, by the image's index.
    """

    seed: int
    encoder_seed: int
    quota: int
    place: dict[int, int]
    features: list[SpatialPyramidFeatures] = field(default_factory=list)
    rows: _Rows = field(default_factory=_Rows)
    learnt: dict[str | None, NDArray[Any]] = field(default_factory=dict)
    names: dict[str | None, str] = field(default_factory=dict)
    samples: Shelf = field(default_factory=lambda: FeatureStore(None).shelf("samples", None))
    drawn: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    def encoders(self) -> list[tuple[CodebookEncoder, str | None]]:
        """Each feature's encoder, seeded, and the recipe of its codebook."""
        encoders = [feature.new_encoder() for feature in self.features]
        for encoder in encoders:
            if encoder.random_state is None:
                encoder.set_params(random_state=self.encoder_seed)
        return [(encoder, _recipe(encoder)) for encoder in encoders]

    @property
    def complete(self) -> bool:
        """Whether every codebook is there already."""
        return all(recipe in self.learnt for _, recipe in self.encoders())

    def look_up(self, store: FeatureStore, codebooks: Shelf, digests: Sequence[str | None]) -> None:
        """Take from a store what an earlier run has left there."""
        first = self.features[0]
        members = [digests[index] for index in self.place]
        # Nobody will ask again for what came from a seed that was never named.
        if first.random_state is None or not store.active:
            return
        about = {
            **_descriptor_parameters(first),
            "seed": self.seed,
            "quota": self.quota,
            "members": hash_of(members),
        }
        self.names = {
            recipe: hash_of([about, recipe])
            for encoder, recipe in self.encoders()
            if recipe is not None and _is_ours(encoder) and None not in members
        }
        found = dict(codebooks.fetch(self.names.values()))
        self.learnt = {recipe: found[name] for recipe, name in self.names.items() if name in found}
        self.samples = store.shelf("samples", about)
        if not self.complete:
            index_of = {str(place): index for index, place in self.place.items()}
            for name, values in self.samples.fetch(index_of):
                self.drawn[index_of[name]] = values

    def fit_encoders(self, codebooks: Shelf, progress: Progress) -> None:
        """Fit the features' encoders; each codebook is learnt once."""
        rows = self.rows.values()
        for feature, (encoder, recipe) in zip(self.features, self.encoders(), strict=True):
            if recipe is None:
                feature.encoder_ = encoder.fit_parallel(rows, feature.n_jobs, progress)
                continue
            if recipe not in self.learnt:
                self.learnt[recipe] = encoder.learn(rows, feature.n_jobs, progress)
                codebooks.put(self.names.get(recipe), self.learnt[recipe])
                codebooks.flush()
            codebook = self.learnt[recipe]
            # Where all came from a store nothing was drawn, and nothing is needed.
            encoder.set_params(codebook=codebook)
            encoder.fit_parallel(rows if len(rows) else codebook[:1], feature.n_jobs, progress)
            feature.encoder_ = encoder.set_params(codebook=None)
        self.samples.discard()
        self.rows.clear()


def _recipe(encoder: CodebookEncoder) -> str | None:
    """What an encoder's codebook depends on besides the sample; None if it cannot be shared."""
    if encoder.codebook is not None or not isinstance(encoder.random_state, Integral):
        return None
    if encoder.learns_by_kmeans:
        # Scaled to unit norm or not, k-means centres come from the same run.
        recipe = {"k-means": encoder.codebook_size, "seed": int(encoder.random_state)}
    elif _is_ours(encoder):
        recipe = {type(encoder).__name__: plain(encoder.get_params())}
    else:
        return None
    return json.dumps(recipe, sort_keys=True)


def _is_ours(encoder: CodebookEncoder) -> bool:
    """Whether a class's name says what it does: that of another's class may change."""
    return type(encoder).__module__.startswith("lrrspm.")


_NOT_OF_DESCRIPTORS = {
    "encoder", "levels", "n_samples", "n_jobs", "random_state", "pooling", "norm", "cache",
}  # fmt: skip
_NOT_OF_VECTORS = {"encoder", "n_samples", "n_jobs", "random_state", "cache"}
_NOT_OF_CODES = {"codebook", "codebook_size", "random_state"}


def _parameters(estimator: BaseEstimator, without: set[str]) -> dict[str, Any]:
    """All parameters but some. So a new one is taken into account unless it is named there."""
    parameters = estimator.get_params(deep=False)
    return {name: plain(value) for name, value in parameters.items() if name not in without}


def _descriptor_parameters(feature: SpatialPyramidFeatures) -> dict[str, Any]:
    """What the descriptors of an image depend on."""
    return _parameters(feature, _NOT_OF_DESCRIPTORS)


def _vector_parameters(feature: SpatialPyramidFeatures) -> dict[str, Any] | None:
    """What the vector of an image depends on, or None if that is not known for sure."""
    encoder = feature.encoder_
    if not _is_ours(encoder):
        return None
    arrays = {name: plain(getattr(encoder, name)) for name in ("codebook_", *encoder.derived)}
    return {
        **_parameters(feature, _NOT_OF_VECTORS),
        "encoder": type(encoder).__name__,
        **{f"encoder {k}": v for k, v in _parameters(encoder, _NOT_OF_CODES).items()},
        "atoms": len(encoder.codebook_),
        "arrays": arrays,
    }


def _sample(
    plans: Sequence[_Plan],
    images: Sequence[Image],
    digests: Sequence[str | None],
    store: FeatureStore,
    executor: Executor | None,
    stages: Stages,
    skipped: dict[int, str] | None,
) -> None:
    """Draw the samples of several plans, reading each image once."""
    first = plans[0].features[0]
    plans = [plan for plan in plans if not plan.complete]
    wanted = sorted(set().union(*(plan.place for plan in plans)))

    def sample(index: int) -> tuple[list[NDArray[np.float32] | None] | ImageError, list[float]]:
        clock = _Clock()
        parts = [plan.drawn.pop(index, None) for plan in plans]
        missing = [n for n, p in enumerate(plans) if index in p.place and parts[n] is None]
        if not missing:
            return list(parts), [0.0, 0.0]
        try:
            values = _describe(first, images, index, clock).values
        except ImageError as error:
            if skipped is None:
                raise
            return error, [0.0, 0.0]
        unchanged = store.unchanged(images[index], digests[index])
        for n in missing:
            part = _draw(values, plans[n].quota, plans[n].seed, plans[n].place[index])
            if unchanged:
                plans[n].samples.put(str(plans[n].place[index]), part)
            parts[n] = part
        return list(parts), clock.laps

    with _divided(stages, ["read", "sift"]) as spent:
        results = ordered_map(sample, wanted, executor)
        tracked = stages.track("reading images", results, len(wanted))
        for index, (parts, laps) in zip(wanted, tracked, strict=True):
            spent += laps
            if isinstance(parts, ImageError):
                assert skipped is not None
                skipped[index] = parts.reason
                continue
            for plan, part in zip(plans, parts, strict=True):
                if part is not None:
                    plan.rows.append(part)


class _Clock:
    """Seconds from one lap to the next."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        self._last = time.perf_counter()

    def lap(self) -> None:
        now = time.perf_counter()
        self.laps.append(now - self._last)
        self._last = now


@contextmanager
def _divided(stages: Stages, names: Sequence[str]) -> Iterator[NDArray[np.float64]]:
    """Add the wall-clock time spent inside to several stages.

    Threads run all at once, so their own seconds, to be added to what this
    yields, say how the wall-clock time is to be divided. They are scaled to
    it in place.
    """
    spent = np.zeros(len(names))
    start = time.perf_counter()
    yield spent
    if spent.any():
        spent *= (time.perf_counter() - start) / spent.sum()
    for name, seconds in zip(names, spent.tolist(), strict=True):
        stages.add(name, seconds)


def _describe(
    feature: SpatialPyramidFeatures, images: Sequence[Image], index: int, clock: _Clock
) -> DenseDescriptors:
    """Descriptors of one image of many; what is wrong with an array is said with its index.

    Reading and describing are a lap of the clock each.
    """
    try:
        gray = feature.read(images[index])
        clock.lap()
        descriptors = feature.describe(gray)
    except ImageError:
        raise
    except ValueError as error:
        if isinstance(images[index], np.ndarray):
            raise ValueError(f"image {index}: {error}") from error
        raise
    clock.lap()
    return descriptors


def _draw(values: NDArray[np.float32], quota: int, seed: int, place: int) -> NDArray[np.float32]:
    """Random rows of one image; its place among the images is part of the seed."""
    if quota >= len(values):
        return values
    rng = np.random.default_rng((seed, place))
    return values[np.sort(rng.choice(len(values), quota, replace=False))]


def transform_all(
    features: Sequence[SpatialPyramidFeatures],
    images: Sequence[Image],
    stages: Stages,
    skipped: dict[int, str] | None = None,
    encode_seconds: list[float] | None = None,
    store: FeatureStore | None = None,
) -> list[NDArray[np.float32]]:
    """Vectors of images for several features with one grid, reading each image once.

    ``encode_seconds`` is filled with each one's part of the seconds of the
    stage "encode". With ``skipped`` given, an image that cannot be read has no row in the
    matrices, and its index and the reason are added there; without, it raises.
    A ``store`` of None is the features' own.
    """
    first = _common_grid(features)
    store = _store_for(features, store)
    columns = [_Column(feature, len(images), store) for feature in features]
    try:
        with workers(first.n_jobs) as executor:
            with store.timed(stages):
                digests = store.digests(images, executor)
                for column in columns:
                    column.look_up(digests)
            spent = _encode(columns, images, digests, store, executor, stages, skipped)
    finally:
        for column in columns:
            column.shelf.flush()
    _keep_unreadable(_unreadable(first, store), digests, skipped)
    if encode_seconds is not None:
        encode_seconds[:] = spent[2:].tolist()
    matrices = [column.matrix for column in columns]
    if skipped:
        matrices = [np.delete(matrix, sorted(skipped), axis=0) for matrix in matrices]
    return matrices


class _Column:
    """The vectors of all images for one feature.

    Attributes
    ----------
    matrix : ndarray of shape (N, d), float32
    missing : set of int
        Rows that are still to be computed.
    """

    def __init__(self, feature: SpatialPyramidFeatures, n_images: int, store: FeatureStore) -> None:
        self.feature = feature
        self.matrix = np.empty((n_images, feature._n_features_out), np.float32)
        self.missing = set(range(n_images))
        about = _vector_parameters(feature) if store.active else None
        self.shelf = store.shelf("vectors", about)

    def look_up(self, digests: Sequence[str | None]) -> None:
        """Fill in the rows that the store has."""
        places = defaultdict(list)
        for index, digest in enumerate(digests):
            places[digest].append(index)
        for digest, vector in self.shelf.fetch(places):
            self.matrix[places[digest]] = vector
            self.missing.difference_update(places[digest])

    def compute(self, index: int, descriptors: DenseDescriptors, digest: str | None) -> None:
        """Fill in one row, and keep it under the digest of its image."""
        self.matrix[index] = self.feature.vector(descriptors)
        self.shelf.put(digest, self.matrix[index])


def _encode(
    columns: Sequence[_Column],
    images: Sequence[Image],
    digests: Sequence[str | None],
    store: FeatureStore,
    executor: Executor | None,
    stages: Stages,
    skipped: dict[int, str] | None,
) -> NDArray[np.float64]:
    """Compute what is missing; returns the seconds of reading, SIFT and each column's coding."""
    names = ["read", "sift", *("encode" for _ in columns)]

    def work(index: int) -> tuple[ImageError | None, list[float]]:
        clock = _Clock()
        try:
            descriptors = _describe(columns[0].feature, images, index, clock)
        except ImageError as error:
            if skipped is None:
                raise
            return error, [0.0] * len(names)
        digest = digests[index] if store.unchanged(images[index], digests[index]) else None
        for column in columns:
            if index in column.missing:
                column.compute(index, descriptors, digest)
            clock.lap()
        return None, clock.laps

    todo = sorted(set().union(*(column.missing for column in columns)))
    with _divided(stages, names) as spent:
        results = ordered_map(work, todo, executor)
        tracked = stages.track("encoding images", results, len(todo))
        for index, (error, laps) in zip(todo, tracked, strict=True):
            spent += laps
            if error is not None and skipped is not None:
                skipped[index] = error.reason
    return spent
