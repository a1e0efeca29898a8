"""ImageClassifier: features and a support vector machine together."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from . import config
from ._support.stages import Stages
from .cache.store import FeatureStore
from .descriptors.sift import N_VALUES
from .encoders.base import CodebookEncoder
from .evidence import Examination, Explanation
from .features import Image, SpatialPyramidFeatures, check_images
from .images import Source
from .methods import METHODS, find_method
from .modelfile.checks import (
    check_classes,
    check_kinds,
    check_sizes,
    check_summary,
    check_tensors,
    tensor_name,
)
from .modelfile.container import ModelFile, ModelFileError, open_model, write_model
from .pipeline.batch import fit_all, transform_all
from .svm.machines import KernelSVM, LinearSVM, encode_labels, predict_labels, score_columns

_ENCODERS: dict[str, type[CodebookEncoder]] = {
    method.encoder.__name__: method.encoder for method in METHODS.values()
}
# Parameters that a model file keeps. The number of jobs belongs to a machine.
_KEPT = ("levels", "step", "patch_size", "max_side", "n_samples", "random_state")
_FITTED = ("method", "pooling", "C")


class ImageClassifier(ClassifierMixin, BaseEstimator):
    """Classify images: dense SIFT, encoder, spatial pyramid, support vector machine.

    Parameters
    ----------
    encoder : encoder or None
        None is the method's own; for "LrrSPM" that is ``LRREncoder()``.
    levels, step, patch_size, max_side, n_samples
        See :class:`lrrspm.SpatialPyramidFeatures`.
    C : float
        Penalty of the support vector machine.
    n_jobs : int or None
        Threads; None is 1, -1 all cores. The result has the same bits for
        any number.
    random_state : int, RandomState instance or None
        Seed of everything random.
    method : str
        One of the methods that ``lrrspm methods`` lists: which encoder,
        pooling, pyramid and kernel.
    pooling : str or None
        None is the method's own; see :class:`lrrspm.SpatialPyramid`.
    cache : path or None
        A folder that keeps codebooks and vectors for the next time, see
        :class:`lrrspm.store.FeatureStore`. It changes the speed only, and is
        not part of a model file.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    features_ : SpatialPyramidFeatures
    svm_ : LinearSVM or KernelSVM
    summary_ : dict
        What it was trained on: images, and images of each class.

    Examples
    --------
    >>> from lrrspm import ImageClassifier, find_images
    >>> paths, labels = find_images("pictures")  # doctest: +SKIP
    >>> model = ImageClassifier(random_state=0, n_jobs=-1).fit(paths, labels)  # doctest: +SKIP
    >>> model.predict(["new.jpg"])  # doctest: +SKIP
    """

    def __init__(
        self,
        encoder: Any = None,
        levels: tuple[int, ...] = config.LEVELS,
        step: int = config.STEP,
        patch_size: int = config.PATCH_SIZE,
        max_side: int | None = config.MAX_SIDE,
        n_samples: int = config.N_SAMPLES,
        C: float = config.C,
        n_jobs: int | None = None,
        random_state: Any = None,
        method: str = config.METHOD,
        pooling: str | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.encoder = encoder
        self.levels = levels
        self.step = step
        self.patch_size = patch_size
        self.max_side = max_side
        self.n_samples = n_samples
        self.C = C
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.method = method
        self.pooling = pooling
        self.cache = cache

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def fit(self, X: Iterable[Image], y: ArrayLike) -> Self:
        """Train on images (paths or arrays) and their labels.

        Parameters
        ----------
        X : sequence of N paths or arrays
        y : array of shape (N,)

        Returns
        -------
        self
        """
        images = check_images(X)
        fit_together([self], images, y, [np.arange(len(images))], Stages())
        return self

    def decision_function(self, X: Iterable[Image]) -> NDArray[Any]:
        """Scores of images, (N, n_classes), or (N,) for two classes (positive: the second)."""
        check_is_fitted(self)
        vectors = self._current_features().transform(X)
        return self.svm_.decision_function(vectors)

    def predict(self, X: Iterable[Image]) -> NDArray[Any]:
        """Labels of images, (N,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def explain(self, image: Image | Source, label: Any = None) -> Explanation:
        """Say what each patch of an image adds to a class's score, and where.

        Parameters
        ----------
        image : path, array of shape (h, w), or binary file
        label
            One of ``classes_``; None is the predicted class.

        Returns
        -------
        Explanation
            ``label``, ``score``, ``intercept``, ``contributions``, ``x``,
            ``y`` and ``map``, see :class:`lrrspm.evidence.Explanation`. The
            map sums to ``score - intercept``.

        Notes
        -----
        Nothing is approximated. Of a maximum the patch that it came from has
        all the evidence, the first of several equal ones. Histograms give
        each patch its count's part. A score of the intersection kernel
        (KernelBOF, KernelSPM) is a sum over histogram entries too, each a
        function of that entry alone; the patches that were counted in an
        entry share what it adds evenly.
        """
        return self.examine(image).explain(label)

    def examine(self, image: Image | Source) -> Examination:
        """Read one image for its scores and for explanations of several classes."""
        check_is_fitted(self)
        return Examination(self._current_features(), self.svm_, image)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which :func:`lrrspm.load_model` reads."""
        check_is_fitted(self)
        encoder = self.features_.encoder_
        kind = type(encoder).__name__
        if _ENCODERS.get(kind) is not type(encoder):
            raise ValueError(f"models with a {kind} cannot be saved, only: {', '.join(_ENCODERS)}")
        # What it was fitted with, whatever set_params has said since.
        fitted = self.features_.get_params(deep=False)
        template = self.features_.new_encoder().get_params()
        codebook = template.pop("codebook")
        description = {
            "parameters": {
                **{name: _plain(fitted[name]) for name in _KEPT},
                **{name: _plain(self.fitted_as_[name]) for name in _FITTED},
            },
            "encoder": {
                "type": kind,
                "parameters": {name: _plain(value) for name, value in template.items()},
                "codebook_given": codebook is not None,
            },
            "classes": self.classes_.tolist(),
            "summary": self.summary_,
        }
        arrays = {"codebook": encoder.codebook_}
        for part, owner in (("encoder", encoder), ("svm", self.svm_)):
            for name in owner.derived:
                arrays[tensor_name(part, name)] = getattr(owner, name)
        write_model(path, description, arrays)

    def new_features(self) -> SpatialPyramidFeatures:
        """Unfitted features with this classifier's parameters."""
        method = find_method(self.method)
        return SpatialPyramidFeatures(
            encoder=method.encoder() if self.encoder is None else clone(self.encoder),
            levels=self.levels if method.pyramid else (1,),
            step=self.step,
            patch_size=self.patch_size,
            max_side=self.max_side,
            n_samples=self.n_samples,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            pooling=method.pooling if self.pooling is None else self.pooling,
            norm=method.norm,
            cache=self.cache,
        )

    def new_svm(self) -> LinearSVM | KernelSVM:
        """An unfitted support vector machine with this classifier's parameters."""
        kernel = find_method(self.method).kernel
        if kernel is None:
            return LinearSVM(C=self.C, n_jobs=self.n_jobs, random_state=self.random_state)
        return KernelSVM(kernel, C=self.C, n_jobs=self.n_jobs, random_state=self.random_state)

    def fit_svm(self, vectors: NDArray[np.float32], labels: NDArray[Any]) -> None:
        """Train the support vector machine alone, on vectors of features_."""
        self.svm_ = self.new_svm().fit(vectors, labels)
        self.fitted_as_ = {"method": self.method, "pooling": self.pooling, "C": self.C}
        self.classes_ = self.svm_.classes_
        counts = Counter(labels.tolist())
        per_class = {str(name): counts[name] for name in self.classes_.tolist()}
        self.summary_: dict[str, Any] = {"images": len(labels), "images_per_class": per_class}

    def _current_features(self) -> SpatialPyramidFeatures:
        """features_ with today's number of jobs and cache, no part of what was learnt."""
        self.svm_.set_params(n_jobs=self.n_jobs)
        return self.features_.set_params(n_jobs=self.n_jobs, cache=self.cache)


class Trained(NamedTuple):
    """What training one of several classifiers left behind."""

    vectors: NDArray[np.float32]
    encode_seconds: float
    train_seconds: float


def fit_together(
    classifiers: Sequence[ImageClassifier],
    images: Sequence[Image],
    labels: ArrayLike,
    members: Sequence[NDArray[np.int64]],
    stages: Stages,
    shared_codebook: bool = False,
    skipped: dict[int, str] | None = None,
    store: FeatureStore | None = None,
) -> list[Trained]:
    """Fit several classifiers, each to its own members of images, reading each image twice.

    Descriptors are computed twice rather than kept: twice 1 ms an image, but
    0.8 MB an image to keep. With ``shared_codebook`` features are fitted to
    all images, with the first classifier's seed, once for each kind.
    Returns for each classifier the vectors of all images and the seconds that
    were its own.

    With ``skipped`` given, images that cannot be read are added there, with
    the reason, and if there are any nothing is trained: the caller begins
    again without them. Without it the first one raises. A ``store`` of None
    is the classifiers' own.
    """
    y = _check_labels(labels, len(images))
    for classifier, indices in zip(classifiers, members, strict=True):
        # What cannot work should fail before the work, not after it.
        classifier.new_svm().check_parameters()
        encode_labels(y[indices])
    features, owners = _assign_features(classifiers, shared_codebook)
    everything = np.arange(len(images))
    parts = [
        everything if shared_codebook else members[owners.index(i)] for i in range(len(features))
    ]
    store = store or FeatureStore(features[0].cache)
    fit_all(features, images, parts, stages, skipped, store)
    if skipped:
        return []
    encode_seconds: list[float] = []
    matrices = transform_all(features, images, stages, skipped, encode_seconds, store)
    if skipped:
        return []

    trained = []
    for i in stages.track("training", range(len(classifiers)), len(classifiers)):
        owner = owners[i]
        classifiers[i].features_ = features[owner]
        start = time.perf_counter()
        classifiers[i].fit_svm(matrices[owner][members[i]], y[members[i]])
        seconds = time.perf_counter() - start
        stages.add("train", seconds)
        # Shared features were paid for once.
        encoded = encode_seconds[owner] if owners.index(owner) == i else 0.0
        trained.append(Trained(matrices[owner], encoded, seconds))
    return trained


def _assign_features(
    classifiers: Sequence[ImageClassifier], shared_codebook: bool
) -> tuple[list[SpatialPyramidFeatures], list[int]]:
    """Unfitted features, and the index of those that each classifier uses."""
    if not shared_codebook:
        return [c.new_features() for c in classifiers], list(range(len(classifiers)))
    shared: dict[str, SpatialPyramidFeatures] = {}
    keys = []
    for classifier in classifiers:
        feature = classifier.new_features().set_params(random_state=classifiers[0].random_state)
        keys.append(str(sorted(feature.get_params().items())))
        shared.setdefault(keys[-1], feature)
    return list(shared.values()), [list(shared).index(key) for key in keys]


def score_images(
    classifier: ImageClassifier,
    images: Sequence[Image],
    stages: Stages,
    skipped: dict[int, str] | None,
) -> NDArray[Any]:
    """Scores of images, (N, n_classes), whatever the number of classes.

    Images that cannot be read are left out and added to ``skipped``; where
    that is None the first one raises.
    """
    vectors = transform_all([classifier._current_features()], images, stages, skipped)[0]
    if not len(vectors):
        return np.empty((0, len(classifier.classes_)), np.float32)
    return score_columns(classifier.svm_.decision_function(vectors))


def rank(
    classifier: ImageClassifier,
    images: Sequence[Image],
    top: int,
    stages: Stages,
    skipped: dict[int, str] | None,
) -> list[list[tuple[str, float]]]:
    """The best classes of each image and their scores, best first.

    Images that cannot be read are treated as in :func:`score_images`.
    """
    scores = score_images(classifier, images, stages, skipped)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    names = [str(name) for name in classifier.classes_]
    return [
        [(names[c], float(row[c])) for c in best] for row, best in zip(scores, order, strict=True)
    ]


def _check_labels(labels: ArrayLike, n_images: int) -> NDArray[Any]:
    y = column_or_1d(labels)
    if len(y) != n_images:
        raise ValueError(f"{n_images} images, but {len(y)} labels")
    return y


def _plain(value: Any) -> Any:
    """A parameter as JSON takes it; what JSON cannot hold is left out as None."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (int, float, str, bool)) else None


def load_model(path: str | os.PathLike[str]) -> ImageClassifier:
    """Read a classifier that :meth:`ImageClassifier.save` wrote.

    Its scores are those of the classifier that was saved, bit for bit. A file
    from a stranger is safe to load: nothing in it is code or names another
    file, and its arrays are read only once they are known to fit together.
    """
    with open_model(path) as file:
        try:
            return _restore(file)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelFileError(
                f"{os.fspath(path)}: damaged: its parts do not fit together ({error!r:.300})"
            ) from error


def _restore(file: ModelFile) -> ImageClassifier:
    description = file.description
    kind = _ENCODERS[description["encoder"]["type"]]
    given = dict(description["encoder"]["parameters"])
    defaults = kind().get_params()
    del defaults["codebook"]
    check_kinds(given, defaults)
    parameters = dict(description["parameters"])
    defaults = {name: getattr(ImageClassifier(), name) for name in (*_KEPT, *_FITTED)}
    check_kinds(parameters, {**defaults, "levels": []})
    parameters["levels"] = tuple(parameters["levels"])
    model = ImageClassifier(encoder=kind(**given), **parameters)
    model.classes_ = check_classes(description["classes"])
    model.summary_ = check_summary(description["summary"])
    model.fitted_as_ = {name: getattr(model, name) for name in _FITTED}

    features = model.new_features()
    encoder, svm = features.new_encoder(), model.new_svm()
    encoder.check_parameters()
    svm.check_parameters()
    check_sizes(model.step, model.patch_size, model.max_side)
    width = check_tensors(file.tensors, encoder, svm, features.pyramid().n_cells, model.classes_)
    arrays = file.read()
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite numbers")

    encoder.codebook_ = arrays["codebook"]
    encoder.n_features_in_ = N_VALUES
    if description["encoder"]["codebook_given"]:
        for template in (model.encoder, features.encoder, encoder):
            template.set_params(codebook=arrays["codebook"])
    for part, owner in (("encoder", encoder), ("svm", svm)):
        for name in owner.derived:
            setattr(owner, name, arrays[tensor_name(part, name)])
    encoder.ready()
    features.encoder_ = encoder
    svm.classes_ = model.classes_
    svm.n_features_in_ = width
    model.features_, model.svm_ = features, svm
    return model
