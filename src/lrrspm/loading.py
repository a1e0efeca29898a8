"""Loading: a classifier from its model file, and scores of images from a classifier."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
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
from .pipeline import block_size, open_engine, stream_vectors
from .svm import score_columns


def load_model(path: str | os.PathLike[str]) -> ImageClassifier:
    """Read a classifier that :meth:`ImageClassifier.save` wrote.

    Its scores are those of the classifier that was saved, bit for bit. A file
    from a stranger is safe to load: nothing in it is code or names another
    file, and its arrays are read only after their names and shapes are checked.
    One at an address, such as ``s3://bucket/my.lrrspm``, is copied to this machine first.
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
    # What the method takes by itself is no choice: another method makes its own.
    if model.own_min_side() != features.min_side:
        model.min_side = features.min_side
    model.features_, model.svm_, model.classes_ = features, svm, classes
    model.summary_, model.fitted_method_ = summary, method
    model.temperature_ = check_temperature(description.get("temperature"))
    model.digests_, model.kept_ = arrays.get(DIGESTS), None
    model.familiar_ = check_familiar(description.get("familiar"))
    return model


class Scored(NamedTuple):
    """Scores (n, n_classes) of the images that could be read, and why others could not.

    ``images`` is the number of both.
    """

    scores: NDArray[Any]
    skipped: dict[int, str]
    images: int


def score_images(
    classifier: ImageClassifier, images: Sequence[Image], stages: Stages, skip: bool
) -> Scored:
    """Compute scores of images, one column per class, also for two classes.

    With ``skip``, images that cannot be read have no row; without, the first
    one raises.
    """
    parts = list(stream_scores(classifier, images, stages, skip))
    skipped = {i: reason for part in parts for i, reason in part.skipped.items()}
    scores = [part.scores for part in parts if len(part.scores)] or [_no_scores(classifier)]
    return Scored(np.concatenate(scores), skipped, len(images))


def stream_scores(
    classifier: ImageClassifier,
    images: Sequence[Image],
    stages: Stages,
    skip: bool,
    first: int = 0,
    small: bool = False,
) -> Iterator[Scored]:
    """Yield the scores of some images after another, in memory that does not grow with them.

    As :func:`score_images`; numbers of skipped images are those among all. Begins with
    the image ``first``. With ``small``, scores come more often, those of
    :func:`scored_together` images; ``first`` is then a multiple of it.
    """
    check_is_fitted(classifier)
    with open_engine(classifier.n_jobs, classifier.engine, classifier.device) as engine:
        blocks = stream_vectors(
            classifier.svm_.scores, classifier.features_, images, engine, stages, skip,
            classifier.store(), first, small,
        )  # fmt: skip
        with closing(blocks):  # what is under way ends before its engine
            for block in blocks:
                found = block.result
                scores = _no_scores(classifier) if found is None else score_columns(found)
                yield Scored(scores, block.skipped, block.images)


def scored_together(classifier: ImageClassifier) -> int:
    """Return how many images :func:`stream_scores` scores at a time in small blocks."""
    return block_size(classifier.features_, small=True)


def _no_scores(classifier: ImageClassifier) -> NDArray[Any]:
    return np.empty((0, len(classifier.classes_)), np.float32)


def rank(classes: NDArray[Any], scores: NDArray[Any], top: int) -> list[list[tuple[str, float]]]:
    """Return the best classes of each row of scores, with their scores, best first."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    names = [str(name) for name in classes]
    return [
        [(names[c], float(row[c])) for c in best] for row, best in zip(scores, order, strict=True)
    ]
