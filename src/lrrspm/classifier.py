"""ImageClassifier: features and a support vector machine together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from . import config
from .encoders import LRREncoder
from .features import Image, SpatialPyramidFeatures, check_images, fit_all, transform_all
from .modelfile import ModelFileError, read_model, write_model
from .sift import dense_sift
from .stages import Stages
from .svm import LinearSVM, encode_labels, predict_labels

_ENCODERS = {"LRREncoder": LRREncoder}
# Parameters that a model file keeps. The number of jobs belongs to a machine.
_KEPT = ("levels", "step", "patch_size", "max_side", "n_samples", "C", "random_state")


class ImageClassifier(ClassifierMixin, BaseEstimator):
    """Classify images: dense SIFT, encoder, spatial pyramid, linear SVM.

    Parameters
    ----------
    encoder : encoder or None
        None is ``LRREncoder()``.
    levels, step, patch_size, max_side, n_samples
        See :class:`lrrspm.SpatialPyramidFeatures`.
    C : float
        Penalty of the support vector machine.
    n_jobs : int or None
        Threads; None is 1, -1 all cores. The result has the same bits for
        any number.
    random_state : int, RandomState instance or None
        Seed of everything random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    features_ : SpatialPyramidFeatures
    svm_ : LinearSVM
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
        return self.svm_.decision_function(self._current_features().transform(X))

    def predict(self, X: Iterable[Image]) -> NDArray[Any]:
        """Labels of images, (N,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which :func:`lrrspm.load_model` reads."""
        check_is_fitted(self)
        encoder = self.features_.encoder_
        kind = type(encoder).__name__
        if _ENCODERS.get(kind) is not type(encoder):
            raise ValueError(f"models with a {kind} cannot be saved, only: {', '.join(_ENCODERS)}")
        # What it was fitted with, whatever set_params has said since.
        fitted = {**self.features_.get_params(deep=False), **self.svm_.get_params()}
        template = self.features_.new_encoder().get_params()
        codebook = template.pop("codebook")
        description = {
            "parameters": {name: _plain(fitted[name]) for name in _KEPT},
            "encoder": {
                "type": kind,
                "parameters": {name: _plain(value) for name, value in template.items()},
                "codebook_given": codebook is not None,
            },
            "classes": self.classes_.tolist(),
            "summary": self.summary_,
        }
        arrays = {
            "codebook": encoder.codebook_,
            "projection": encoder.projection_,
            "total": encoder.total_,
            "coef": self.svm_.coef_,
            "intercept": self.svm_.intercept_,
        }
        write_model(path, description, arrays)

    def new_features(self) -> SpatialPyramidFeatures:
        """Unfitted features with this classifier's parameters."""
        return SpatialPyramidFeatures(
            encoder=self.encoder,
            levels=self.levels,
            step=self.step,
            patch_size=self.patch_size,
            max_side=self.max_side,
            n_samples=self.n_samples,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def new_svm(self) -> LinearSVM:
        """An unfitted support vector machine with this classifier's parameters."""
        return LinearSVM(C=self.C, n_jobs=self.n_jobs, random_state=self.random_state)

    def fit_svm(self, vectors: NDArray[np.float32], labels: NDArray[Any]) -> None:
        """Train the support vector machine alone, on vectors of features_."""
        self.svm_ = self.new_svm().fit(vectors, labels)
        self.classes_ = self.svm_.classes_
        counts = Counter(labels.tolist())
        per_class = {str(name): counts[name] for name in self.classes_.tolist()}
        self.summary_: dict[str, Any] = {"images": len(labels), "images_per_class": per_class}

    def _current_features(self) -> SpatialPyramidFeatures:
        """features_ with today's number of jobs, which is not part of what was learnt."""
        return self.features_.set_params(n_jobs=self.n_jobs)


def fit_together(
    classifiers: Sequence[ImageClassifier],
    images: Sequence[Image],
    labels: ArrayLike,
    members: Sequence[NDArray[np.int64]],
    stages: Stages,
    shared_codebook: bool = False,
) -> list[NDArray[np.float32]]:
    """Fit several classifiers, each to its own members of images, reading each image twice.

    Descriptors are computed twice rather than kept: twice 1 ms an image, but
    0.8 MB an image to keep. With ``shared_codebook`` the first classifier's
    features are fitted to all images and serve every classifier. Returns the
    vectors of all images, one matrix a classifier.
    """
    y = _check_labels(labels, len(images))
    for classifier in classifiers:
        classifier.new_svm().check_parameters()
    for indices in members:
        encode_labels(y[indices])  # one class alone should fail before the work, not after it
    if shared_codebook:
        shared = classifiers[0].new_features()
        fit_all([shared], images, [np.arange(len(images))], stages)
        matrices = transform_all([shared], images, stages) * len(classifiers)
        features = [shared] * len(classifiers)
    else:
        features = [classifier.new_features() for classifier in classifiers]
        fit_all(features, images, members, stages)
        matrices = transform_all(features, images, stages)
    with stages.timed("train"):
        jobs = list(zip(classifiers, features, matrices, members, strict=True))
        for classifier, feature, vectors, indices in stages.track("training", jobs, len(jobs)):
            classifier.features_ = feature
            classifier.fit_svm(vectors[indices], y[indices])
    return matrices


def rank(
    classifier: ImageClassifier,
    images: Sequence[Image],
    top: int,
    stages: Stages,
    skipped: dict[int, str],
) -> list[list[tuple[str, float]]]:
    """The best classes of each image and their scores, best first.

    Images that cannot be read are left out and added to ``skipped``.
    """
    vectors = transform_all([classifier._current_features()], images, stages, skipped)[0]
    if not len(vectors):
        return []
    scores = classifier.svm_.decision_function(vectors)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1)
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


def _check_classes(names: Any) -> NDArray[Any]:
    """Class names of a model file: two or more of one kind, sorted, all different."""
    if not isinstance(names, list) or len({type(name) for name in names}) != 1:
        raise ValueError("its class names are not a list of one kind")
    classes = np.array(names)
    if len(classes) < 2 or classes.ndim != 1 or not np.array_equal(classes, np.unique(classes)):
        raise ValueError("its class names are not two or more, sorted, all different")
    return classes


def load_model(path: str | os.PathLike[str]) -> ImageClassifier:
    """Read a classifier that :meth:`ImageClassifier.save` wrote.

    Its scores are those of the classifier that was saved, bit for bit.
    """
    description, arrays = read_model(path)
    try:
        return _restore(description, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"{os.fspath(path)}: damaged: its parts do not fit together ({error!r})"
        ) from error


def _restore(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> ImageClassifier:
    parameters = dict(description["parameters"])
    parameters["levels"] = tuple(parameters["levels"])
    if arrays["codebook"].ndim != 2 or arrays["coef"].ndim != 2:
        raise ValueError("codebook and coef must have two dimensions")
    template = _ENCODERS[description["encoder"]["type"]](**description["encoder"]["parameters"])
    if description["encoder"]["codebook_given"]:
        template.set_params(codebook=arrays["codebook"])
    model = ImageClassifier(encoder=template, **parameters)

    encoder = clone(template)
    encoder.codebook_ = arrays["codebook"]
    encoder.projection_ = arrays["projection"]
    encoder.total_ = arrays["total"]
    encoder.n_features_in_ = encoder.codebook_.shape[1]
    model.features_ = model.new_features()
    model.features_.encoder_ = encoder

    model.svm_ = LinearSVM(C=model.C, random_state=model.random_state)
    model.classes_ = _check_classes(description["classes"])
    model.svm_.classes_ = model.classes_
    model.svm_.coef_ = arrays["coef"]
    model.svm_.intercept_ = arrays["intercept"]
    model.svm_.n_features_in_ = model.svm_.coef_.shape[1]
    model.summary_ = dict(description["summary"])
    if not {"images", "images_per_class"} <= set(model.summary_):
        raise ValueError("its summary is incomplete")

    n_atoms, width = encoder.codebook_.shape
    rows = 1 if len(model.classes_) == 2 else len(model.classes_)
    shapes = {
        "projection": (width, n_atoms),
        "total": (width,),
        "coef": (rows, model.features_._n_features_out),
        "intercept": (rows,),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, expected {shape}")
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite numbers")
    encoder.check_parameters()
    model.new_svm().check_parameters()
    dense_sift(np.zeros((1, 1), np.float32), model.step, model.patch_size)
    return model
