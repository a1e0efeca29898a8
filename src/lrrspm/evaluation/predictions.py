"""Predictions: what a model said about each test image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifier import ImageClassifier
from ..svm import score_columns
from .results import Evaluation

COLUMNS = ("path", "label", "predicted", "confidence", "score", "split", "method", "error")
"""Of a file of predictions. New ones come last."""

DIGITS = 6
"""Decimals of confidences and scores."""


class Prediction(NamedTuple):
    """A test image, its class, and the class that a model predicted."""

    path: str
    label: str
    predicted: str
    score: float
    """Of the predicted class."""
    confidence: float
    """Its probability."""
    split: int
    """Number of the split, from 1."""


def list_predictions(
    model: ImageClassifier,
    paths: Sequence[str],
    truth: Iterable[Any],
    scores: NDArray[Any],
    split: int = 1,
) -> list[Prediction]:
    """List a model's predictions for test images.

    Parameters
    ----------
    model : ImageClassifier
    paths, truth : N paths and their labels
    scores : ndarray of shape (N, n_classes), or (N,) for two classes
    split : int
    """
    columns = score_columns(scores)
    best = columns.argmax(axis=1)
    rows = np.arange(len(columns))
    winning = columns[rows, best].tolist()
    confidences = model.probabilities(columns)[rows, best].tolist()
    names = [str(name) for name in model.classes_]
    return [
        Prediction(path, str(label), names[place], score, confidence, split)
        for path, label, place, score, confidence in zip(
            paths, truth, best, winning, confidences, strict=True
        )
    ]


def prediction_rows(
    method: str, found: Evaluation, labels: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a row of :data:`COLUMNS` per prediction, then one per image that was left out.

    ``labels`` are those of all images, by path.
    """
    for one in found.predictions:
        yield {**one._asdict(), **rounded(one.score, one.confidence), "method": method}
    for left_out in found.skipped:
        label = labels.get(left_out.path)
        yield {"path": left_out.path, "label": label, "method": method, "error": left_out.reason}


def rounded(score: float, confidence: float) -> dict[str, float]:
    """Return both with the number of decimals that files have."""
    return {"score": round(score, DIGITS), "confidence": round(confidence, DIGITS)}
