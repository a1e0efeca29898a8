"""Loading: a classifier from its model file, and scores of images from a classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ._support.stages import Stages
from .classifier import ImageClassifier
from .features import Image
from .methods import find_method, method_names
from .modelfile import (
    DIGESTS,
    MissingPackageError,
    ModelFile,
    ModelFileError,
    check_class_weight,
    check_classes,
    check_digests,
    check_familiar,
    check_summary,
    check_temperature,
    fill,
    open_model,
    restore,
)
from .pipeline import map_vectors, open_engine
from .svm import score_columns


def load_model(path: str | os.PathLike[str]) -> ImageClassifier:
    """Read a classifier that :meth:`ImageClassifier.save` wrote.

    Its scores are those of the classifier that was saved, bit for bit. A file
    from a stranger is safe to load: nothing in it is code or names another
    file, and its arrays are read only after their names and shapes are checked.
    """
    with open_model(path) as file:
        try:
            return _restore(file)
        except MissingPackageError as error:
            raise ModelFileError(f"{os.fspath(path)}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelFileError(
                f"{os.fspath(path)}: damaged: its parts do not fit together ({error!r:.300})"
            ) from error


def _restore(file: ModelFile) -> ImageClassifier:
    description = file.description
    restored = restore(description)
    classes = check_classes(description["classes"])
    summary = check_summary(description["summary"])
    method = description["method"]
    if method is not None and not isinstance(method, str):
        raise ValueError(f"method is {str(method)[:100]!r}")
    method = method if method in method_names() else None
    kernel = getattr(restored.svm, "kernel", None)
    if method is not None and find_method(method).kernel != kernel:
        raise ValueError(f"{method} has another kernel than {kernel!r}")
    tensors = dict(file.tensors)
    check_digests(tensors.pop(DIGESTS, None), classes, summary)
    arrays = fill(restored, description, tensors, classes, file.read)
    features, svm = restored
    model = ImageClassifier(
        method=method,
        channels=features.channels,
        max_side=features.max_side,
        n_samples=features.n_samples,
        C=svm.C,
        random_state=features.random_state,
        class_weight=check_class_weight(description.get("class_weight")),
    )
    model.features_, model.svm_, model.classes_ = features, svm, classes
    model.summary_, model.fitted_method_ = summary, method
    model.temperature_ = check_temperature(description.get("temperature"))
    model.digests_, model.kept_ = arrays.get(DIGESTS), None
    model.familiar_ = check_familiar(description.get("familiar"))
    return model


class Scored(NamedTuple):
    """Scores (n, n_classes) of the images that could be read, and why others could not."""

    scores: NDArray[Any]
    skipped: dict[int, str]


def score_images(
    classifier: ImageClassifier, images: Sequence[Image], stages: Stages, skip: bool
) -> Scored:
    """Compute scores of images, one column per class, also for two classes.

    With ``skip``, images that cannot be read have no row; without, the first
    one raises.
    """
    check_is_fitted(classifier)
    with open_engine(classifier.n_jobs, classifier.engine, classifier.device) as engine:
        score = partial(classifier.svm_.scores, executor=engine.threads)
        found = map_vectors(
            score, classifier.features_, images, engine, stages, skip, classifier.store()
        )
    if not found.results:
        return Scored(np.empty((0, len(classifier.classes_)), np.float32), found.skipped)
    return Scored(score_columns(np.concatenate(found.results)), found.skipped)


def rank(classes: NDArray[Any], scores: NDArray[Any], top: int) -> list[list[tuple[str, float]]]:
    """Return the best classes of each row of scores, with their scores, best first."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    names = [str(name) for name in classes]
    return [
        [(names[c], float(row[c])) for c in best] for row, best in zip(scores, order, strict=True)
    ]
