"""Training: several classifiers at once, each image read twice altogether."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._support.stages import Stages
from .cache import FeatureStore, same_key
from .features import Image, SpatialPyramidFeatures
from .modelfile import check_labels, check_restorable
from .pipeline import Engine, check_labels_of, encode_images, fit_features
from .svm import encode_labels

if TYPE_CHECKING:
    from .classifier import ImageClassifier


class Trained(NamedTuple):
    """Vectors of all images, and the seconds that training one of several classifiers took."""

    vectors: NDArray[np.float32]
    encode_seconds: float
    train_seconds: float


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
) -> Together:
    """Fit several classifiers, each to its own members of images, reading each image twice.

    Descriptors are computed twice rather than kept: twice 1 ms per image, but
    0.8 MB per image to keep. With ``shared_codebook``, features are fitted to
    all images, with the first classifier's seed, once for each kind.

    With ``skip``, images that cannot be read are listed in the result, and if
    there are any, nothing is trained: the caller begins again without them.
    Without it the first one raises. A ``store`` of None is the classifiers' own.
    """
    y = check_labels_of(labels, len(images))
    for classifier, indices in zip(classifiers, members, strict=True):
        # Fail before the work, not after it.
        svm = classifier.new_svm()
        svm.check_parameters()
        check_restorable(classifier.new_features(), svm)
        check_labels(encode_labels(y[indices])[0])
    features, owners = _assign_features(classifiers, shared_codebook)
    if shared_codebook:
        _refuse_labels(features)
    everything = np.arange(len(images))
    parts = [
        everything if shared_codebook else members[owners.index(i)] for i in range(len(features))
    ]
    store = store or FeatureStore(features[0].cache)
    skipped = fit_features(features, images, parts, engine, stages, skip, store, y)
    if skipped:
        return Together([], skipped)
    encoded = encode_images(features, images, engine, stages, skip, store)
    if encoded.skipped:
        return Together([], encoded.skipped)

    trained = []
    for i in stages.track("training", range(len(classifiers)), len(classifiers)):
        owner = owners[i]
        vectors = encoded.matrices[owner]
        classifiers[i].features_ = features[owner]
        start = time.perf_counter()
        classifiers[i].fit_svm(vectors[members[i]], y[members[i]], engine)
        seconds = time.perf_counter() - start
        stages.add("train", seconds)
        # Shared features are paid for once.
        own = encoded.seconds[owner] if owners.index(owner) == i else 0.0
        trained.append(Trained(vectors, own, seconds))
    return Together(trained, {})


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


def _refuse_labels(features: Sequence[SpatialPyramidFeatures]) -> None:
    """Raise ValueError for encoders that would learn from the labels of test images."""
    for channel in (channel for feature in features for channel in feature.new_channels()):
        if channel.encoder.uses_labels:
            raise ValueError(
                f"{type(channel.encoder).__name__} learns from labels, so one codebook from all "
                "images would know those of test images; leave out the shared codebook"
            )
