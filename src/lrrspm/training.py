"""Training: several classifiers at once, in two passes over the images."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._support.devices import Accelerator, Held
from ._support.shards import Shards
from ._support.stages import Stages
from .cache import FeatureStore, same_key
from .features import Image, SpatialPyramidFeatures
from .images import KeptImages
from .modelfile import check_labels, check_restorable
from .pipeline import Engine, check_labels_of, encode_images, fit_features, map_vectors
from .pipeline.spreading import fill_shards, open_shards
from .svm import (
    SVM,
    Crossed,
    LinearSVM,
    encode_labels,
    gram_fits,
    stratified_folds,
)
from .weighting import learn_from_some, learn_weights, learning_channels, vector_length

if TYPE_CHECKING:
    from .classifier import ImageClassifier


MEMORY = 3e9
"""Bytes of vectors that may be in memory together."""


class Trained(NamedTuple):
    """Vectors of all images, and the seconds that training one of several classifiers took.

    Vectors that are too long to be kept are None, as are scores by cross-validation
    where there was none.
    """

    vectors: NDArray[Any] | None
    encode_seconds: float
    train_seconds: float
    crossed: Crossed | None = None


class Together(NamedTuple):
    """Result of training several classifiers; without any, some images could not be read."""

    trained: list[Trained]
    skipped: dict[int, str]


def fit_together(
    classifiers: Sequence[ImageClassifier],
    images: Sequence[Image],
    labels: ArrayLike,
    members: Sequence[NDArray[np.int64]],
    engine: Engine,
    stages: Stages,
    shared_codebook: bool = False,
    skip: bool = False,
    store: FeatureStore | None = None,
    sample_weight: NDArray[Any] | None = None,
    calibrate: bool = False,
    folds: NDArray[np.int64] | None = None,
    tell: Callable[[int, SVM], object] | None = None,
    frozen: bool = False,
    groups: NDArray[np.int64] | None = None,
) -> Together:
    """Fit several classifiers, each to its own members of images, in two passes over the images.

    Descriptors are computed twice rather than kept: twice 1 ms per image, but
    0.8 MB per image to keep. Decoded files are kept, up to 0.5 GB. With
    ``shared_codebook``, features are fitted to all images, with the first
    classifier's seed, once for each kind. Where the vectors of all images take
    over 3 GB, only those of one classifier's members are in memory at a time, and
    where these take over 3 GB, a linear machine is trained on vectors on disk.

    With ``skip``, images that cannot be read are listed in the result, and if
    there are any, nothing is trained: the caller begins again without them.
    Without it the first one raises. A ``store`` of None is the classifiers' own.
    With ``calibrate``, probabilities are learned by cross-validation: in ``folds``
    (n,) of the images, whose machines are told, or in folds drawn per classifier;
    images of one of the ``groups`` (n,) do not judge each other.
    With ``frozen``, features that are fitted already stay as they are.
    """
    y = check_labels_of(labels, len(images))
    for classifier, indices in zip(classifiers, members, strict=True):
        # Fail before the work, not after it.
        svm = classifier.new_svm()
        svm.check_parameters()
        check_restorable(classifier.new_features(), svm)
        check_labels(encode_labels(y[indices])[0])
    machines = _Machines(y, sample_weight, calibrate, folds, tell, groups)
    if frozen:
        features, owners = [c.features_ for c in classifiers], list(range(len(classifiers)))
    else:
        features, owners = _assign_features(classifiers, shared_codebook)
    if shared_codebook:
        refuse_labels(features)
    everything = np.arange(len(images))
    parts = [
        everything if shared_codebook else members[owners.index(i)] for i in range(len(features))
    ]
    store = store or FeatureStore(features[0].cache)
    kept = KeptImages()
    if not frozen:
        skipped = fit_features(features, images, parts, engine, stages, skip, store, kept, y)
        if skipped:
            return Together([], skipped)
    kept.close()
    for classifier, owner in zip(classifiers, owners, strict=True):
        classifier.features_ = features[owner]
    # Labels of test images must not be seen.
    learn = not (shared_codebook or frozen)
    if len(images) * sum(map(_row_bytes, features)) > MEMORY:
        return _fit_apart(
            classifiers, images, machines, members, engine, stages, skip, store, kept, learn
        )

    def inspect(number: int, vectors: list[NDArray[Any]]) -> None:
        learn_weights(features[number], vectors, y, parts[number], engine)

    encoded = encode_images(
        features, images, engine, stages, skip, store, kept, inspect if learn else None
    )
    if encoded.skipped:
        return Together([], encoded.skipped)

    trained = []
    for i in stages.track("training", range(len(classifiers)), len(classifiers)):
        owner = owners[i]
        vectors = encoded.matrices[owner]
        # Rows that are all taken are not copied.
        own_rows = vectors if np.array_equal(members[i], everything) else vectors[members[i]]
        seconds, crossed = machines.fit(classifiers[i], own_rows, members[i], engine, stages)
        # Shared features are paid for once.
        own = encoded.seconds[owner] if owners.index(owner) == i else 0.0
        trained.append(Trained(vectors, own, seconds, crossed))
    return Together(trained, {})


def _fit_apart(
    classifiers: Sequence[ImageClassifier],
    images: Sequence[Image],
    machines: _Machines,
    members: Sequence[NDArray[np.int64]],
    engine: Engine,
    stages: Stages,
    skip: bool,
    store: FeatureStore,
    kept: KeptImages,
    learn: bool,
) -> Together:
    """Train one classifier after another, each on vectors that are dropped afterwards."""
    trained = []
    for classifier, indices in zip(classifiers, members, strict=True):
        chosen = [images[i] for i in indices]
        features, labels = classifier.features_, machines.labels[indices]
        beyond = len(indices) * _row_bytes(features) > MEMORY
        if beyond and isinstance(classifier.new_svm(), LinearSVM):
            with _place(classifier, len(indices), engine, store) as shards:
                if learn and any(learning_channels(features)):
                    learn_from_some(features, chosen, labels, engine, skip, store, kept)
                found = fill_shards(shards, features, chosen, engine, stages, skip, store)
                if found.skipped:
                    return Together([], {int(indices[i]): why for i, why in found.skipped.items()})
                seconds, crossed = machines.fit(classifier, shards, indices, engine, stages)
            trained.append(Trained(None, found.seconds, seconds, crossed))
            continue

        def inspect(
            _: int,
            vectors: list[NDArray[Any]],
            features: SpatialPyramidFeatures = features,
            labels: NDArray[Any] = labels,
        ) -> None:
            learn_weights(features, vectors, labels, np.arange(len(labels)), engine)

        encoded = encode_images(
            [features], chosen, engine, stages, skip, store, kept, inspect if learn else None
        )
        if encoded.skipped:
            return Together([], {int(indices[i]): why for i, why in encoded.skipped.items()})
        seconds, crossed = machines.fit(classifier, encoded.matrices[0], indices, engine, stages)
        trained.append(Trained(None, encoded.seconds[0], seconds, crossed))
        del encoded  # before the next one's vectors are made
    return Together(trained, {})


@contextmanager
def _place(
    classifier: ImageClassifier, n: int, engine: Engine, store: FeatureStore
) -> Iterator[Any]:
    """Yield what takes n vectors: a matrix on the device, or shards on disk."""
    features = classifier.features_
    threads, held = engine.threads, None
    # A store gets its vectors from the host, and so do shards.
    if (
        isinstance(threads, Accelerator)
        and not store.active
        and gram_fits(n, classifier.new_svm().loss)
    ):
        held = threads.make_room(n, vector_length(features), features.precision)
    if held is not None:
        yield held
        return
    with open_shards(features, n, engine, store) as shards:
        yield shards


class _Machines(NamedTuple):
    """What support vector machines are trained with, besides vectors."""

    labels: NDArray[Any]
    sample_weight: NDArray[Any] | None
    calibrate: bool
    folds: NDArray[np.int64] | None
    tell: Callable[[int, SVM], object] | None
    groups: NDArray[np.int64] | None

    def fit(
        self,
        classifier: ImageClassifier,
        vectors: NDArray[Any] | Shards | Held,
        rows: NDArray[np.int64],
        engine: Engine,
        stages: Stages,
    ) -> tuple[float, Crossed | None]:
        """Train one on the vectors of some images; returns seconds, and scores of folds."""
        y = self.labels[rows]
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        folds = None if self.folds is None else self.folds[rows]
        groups = None if self.groups is None else self.groups[rows]
        start = time.perf_counter()
        if self.calibrate and folds is None:
            folds = stratified_folds(y, as_seed(classifier.random_state), groups)
            if isinstance(vectors, Shards) and not gram_fits(len(y), classifier.new_svm().loss):
                # Of so many images one fold is thousands to test, and takes half the time.
                folds = np.where(folds == 0, 0, -1)

        def progress(_: int, share: float) -> None:
            stages.tell("training", round(100 * share), 100)

        crossed = classifier.fit_svm(
            vectors, y, engine, folds, weights, self.tell, groups, progress
        )
        seconds = time.perf_counter() - start
        stages.add("train", seconds)
        return seconds, crossed


def as_seed(random_state: Any) -> int:
    """Return a whole number for a random state; generators, which only move on, have 0."""
    return int(random_state) if isinstance(random_state, (int, np.integer)) else 0


def _row_bytes(features: SpatialPyramidFeatures) -> int:
    """Return the bytes of one image's vector."""
    return vector_length(features) * features.precision.itemsize


class Tested(NamedTuple):
    """Scores of images, those that could not be read, and seconds of coding and of scoring."""

    scores: NDArray[Any]
    skipped: dict[int, str]
    encode_seconds: float
    test_seconds: float


def score_members(
    classifier: ImageClassifier,
    trained: Trained,
    images: Sequence[Image],
    members: NDArray[np.int64],
    engine: Engine,
    stages: Stages,
    skip: bool = False,
    store: FeatureStore | None = None,
) -> Tested:
    """Compute scores of some of the images that ``fit_together`` was given.

    From the vectors that it kept; where it kept none, in blocks of images.
    ``skip`` and ``store`` are as there.
    """
    score = classifier.svm_.scores
    if trained.vectors is not None:
        start = time.perf_counter()
        scores = score(trained.vectors[members], engine.threads)
        used = time.perf_counter() - start
        stages.add("test", used)
        return Tested(scores, {}, 0.0, used)
    chosen = [images[i] for i in members]
    found = map_vectors(score, classifier.features_, chosen, engine, stages, skip, store)
    stages.add("test", found.used)
    skipped = {int(members[i]): why for i, why in found.skipped.items()}
    scores = np.concatenate(found.results) if found.results else np.empty(0)
    return Tested(scores, skipped, found.seconds, found.used)


def _assign_features(
    classifiers: Sequence[ImageClassifier], shared_codebook: bool
) -> tuple[list[SpatialPyramidFeatures], list[int]]:
    """Return unfitted features, and the index of those that each classifier uses."""
    if not shared_codebook:
        return [c.new_features() for c in classifiers], list(range(len(classifiers)))
    shared: dict[Any, SpatialPyramidFeatures] = {}
    keys = []
    for classifier in classifiers:
        feature = classifier.new_features().set_params(random_state=classifiers[0].random_state)
        keys.append(same_key(feature))
        shared.setdefault(keys[-1], feature)
    return list(shared.values()), [list(shared).index(key) for key in keys]


def refuse_labels(features: Sequence[SpatialPyramidFeatures]) -> None:
    """Raise ValueError for encoders that would learn from the labels of test images."""
    for channel in (channel for feature in features for channel in feature.new_channels()):
        if channel.encoder.uses_labels:
            raise ValueError(
                f"{type(channel.encoder).__name__} learns from labels, so one codebook from all "
                "images would know those of test images; leave out the shared codebook"
            )
