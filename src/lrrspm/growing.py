"""Growing: a trained classifier and more images, with its features as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ._support.stages import Stages
from .cache import FeatureStore
from .features import Image
from .images import check_images
from .modelfile import label_digests, pack_digests
from .pipeline import Engine, check_labels_of, encode_images, open_engine
from .svm import stratified_folds
from .training import as_seed, fit_together

if TYPE_CHECKING:
    from .classifier import ImageClassifier


class Kept(NamedTuple):
    """What ``partial_fit`` keeps of the images so far: vectors (n, d), labels (n,), digests."""

    vectors: NDArray[Any]
    labels: NDArray[Any]
    digests: list[str | None]


class GrowingMixin:
    """Methods of a classifier that is trained again on more images, or on fewer."""

    def grow(
        self, X: Iterable[Image], y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train the support vector machine again, with the features as they are.

        The scores are, bit for bit, those of a support vector machine trained on
        the vectors of these images; the codebook stays. Vectors that the store in
        ``cache`` has are not computed again.

        Parameters
        ----------
        X : sequence of N images
            All of them, old and new: what is not here is forgotten.
        y : array of shape (N,)
            There may be new classes, and old ones may be gone.
        sample_weight : array of shape (N,) or None

        Returns
        -------
        self
        """
        check_is_fitted(self)
        train(cast("ImageClassifier", self), X, y, sample_weight, frozen=True)
        return self

    def partial_fit(
        self, X: Iterable[Image], y: ArrayLike, classes: ArrayLike | None = None
    ) -> Self:
        """Add images to those of earlier calls.

        The first call is :meth:`fit`, and learns the codebook. Later ones keep it and
        train the support vector machine again on the vectors of all images so far,
        so the scores are those of :meth:`grow` with all of them in this order, bit
        for bit. The vectors stay in memory for that; a model that was loaded, or
        trained by another method, has none, and grows by :meth:`grow`.

        Parameters
        ----------
        X : sequence of N images
        y : array of shape (N,)
            There may be new classes at any time; the first call needs two.
        classes : array or None
            If given, all labels must be among them.

        Returns
        -------
        self
        """
        classifier = cast("ImageClassifier", self)
        images = check_images(X)
        labels = check_labels_of(y, len(images))
        if classes is not None and not np.isin(labels, np.asarray(classes)).all():
            strange = sorted(set(labels.tolist()) - set(np.asarray(classes).tolist()))
            raise ValueError(f"labels that are not among classes: {strange[:5]}")
        if not hasattr(classifier, "svm_"):
            classifier.kept_ = train(classifier, images, labels)
            return self
        kept = classifier.kept_
        if kept is None:
            raise ValueError(
                "the vectors of its training images are not in memory: call grow with all images, "
                "or begin with partial_fit"
            )
        if labels.dtype.kind != kept.labels.dtype.kind:
            raise ValueError(f"labels are {labels.dtype}, those before were {kept.labels.dtype}")
        store = classifier.store()
        with open_engine(classifier.n_jobs, classifier.engine, classifier.device) as engine:
            features = [classifier.features_]
            encoded = encode_images(features, images, engine, Stages(), store=store)
            kept = Kept(
                np.concatenate([kept.vectors, encoded.matrices[0]]),
                np.concatenate([kept.labels, labels]),
                kept.digests + store.identify(images, engine.map_each),
            )
            folds = stratified_folds(kept.labels, as_seed(classifier.random_state))
            classifier.fit_svm(kept.vectors, kept.labels, engine, folds)
        classifier.digests_ = pack_digests(kept.digests, kept.labels, classifier.classes_)
        classifier.kept_ = kept
        return self


def train(
    classifier: ImageClassifier,
    X: Iterable[Image],
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    frozen: bool = False,
) -> Kept | None:
    """Fit a classifier, with ``frozen`` its support vector machine alone.

    Returns what ``partial_fit`` needs, None where vectors are too many to be kept.
    """
    images = check_images(X)
    everything = [np.arange(len(images))]
    weights = None if sample_weight is None else np.asarray(sample_weight)
    store = classifier.store()
    with open_engine(classifier.n_jobs, classifier.engine, classifier.device) as engine:
        ((trained,), _) = fit_together(
            [classifier], images, y, everything, engine, Stages(), store=store,
            sample_weight=weights, calibrate=True, frozen=frozen,
        )  # fmt: skip
        labels = np.asarray(y)
        digests = remember(classifier, images, labels, store, engine)
    return None if trained.vectors is None else Kept(trained.vectors, labels, digests)


def remember(
    classifier: ImageClassifier,
    images: Sequence[Image],
    labels: NDArray[Any],
    store: FeatureStore,
    engine: Engine,
) -> list[str | None]:
    """Note what a classifier was trained on; returns the digests of the images."""
    digests = store.identify(images, engine.map_each)
    classifier.digests_ = pack_digests(digests, labels, classifier.classes_)
    return digests


def count_trained(classifier: ImageClassifier, images: Sequence[Image]) -> int:
    """Count images that a classifier was trained on; 0 if it does not know what these were."""
    if classifier.digests_ is None:
        return 0
    known = {row.tobytes().hex() for row in classifier.digests_}
    with open_engine(classifier.n_jobs, classifier.engine) as engine:
        digests = classifier.store().identify(images, engine.map_each)
    return sum(digest is not None and digest[:32] in known for digest in digests)


class Changes(NamedTuple):
    """Images beside those that a model was trained on: their paths, and how many are the same.

    ``gone`` has the number of images per class that are not here.
    """

    new: list[str]
    relabeled: list[str]
    known: int
    gone: dict[str, int]


class Gathered(NamedTuple):
    """Images of several folders, each once, with labels and digests."""

    paths: list[str]
    labels: list[str]
    digests: list[str | None]


def gather(
    folders: Sequence[tuple[Sequence[str], Sequence[str]]], store: FeatureStore, engine: Engine
) -> Gathered:
    """Join the images of several folders, sorted by label, then by path, as in one folder.

    An image that is in several of them counts in the last: a folder of corrections
    comes after the images that it corrects. Copies in one folder stay, as ``train``
    has them.
    """
    rows = [
        (label, number, path)
        for number, found in enumerate(folders)
        for path, label in zip(*found, strict=True)
    ]
    rows.sort(key=lambda row: (row[0], row[2]))
    digests = store.identify([path for _, _, path in rows], engine.map_each)
    last: dict[str | None, int] = {}
    for digest, (_, number, _) in zip(digests, rows, strict=True):
        last[digest] = max(number, last.get(digest, 0))
    # Files that cannot be read are not known to be equal.
    chosen = [
        (path, label, digest)
        for digest, (label, number, path) in zip(digests, rows, strict=True)
        if digest is None or last[digest] == number
    ]
    return Gathered(*map(list, zip(*chosen, strict=True)))


def find_changes(classifier: ImageClassifier, gathered: Gathered) -> Changes:
    """Compare images with those that a classifier was trained on.

    Raises ValueError for a classifier that does not know them.
    """
    if classifier.digests_ is None:
        raise ValueError("the model does not record its training images; train it again")
    if classifier.classes_.dtype.kind != "U":
        raise ValueError("the labels of the model are numbers, but folders have names; use grow")
    trained = label_digests(classifier.digests_, classifier.classes_, classifier.summary_)
    labels_of: dict[str, set[str]] = {}
    for digest, label in trained:
        labels_of.setdefault(digest, set()).add(label)
    new, relabeled, given = [], [], set()
    for path, label, whole in zip(*gathered, strict=True):
        name = "" if whole is None else whole[:32]
        given.add(name)
        if name not in labels_of:
            new.append(path)
        elif label not in labels_of[name]:
            relabeled.append(path)
    gone = Counter(label for digest, label in trained if digest not in given)
    known = len(gathered.paths) - len(new) - len(relabeled)
    return Changes(new, relabeled, known, dict(gone))
