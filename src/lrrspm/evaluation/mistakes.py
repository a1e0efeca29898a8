"""Mistakes: test images that were confused with another class, and the models that did it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifier import ImageClassifier
from ..svm import score_columns

MOST = 12
"""Mistakes that are kept per test."""


class Mistake(NamedTuple):
    """An image confused with another class.

    It keeps the model that did so, since no other can explain it.
    """

    path: str
    label: Any
    predicted: Any
    score: float
    """Of the predicted class."""
    true_score: float
    """Of the class that the image belongs to."""
    split: int
    """Number of the split it happened in, from 1."""
    model: ImageClassifier
    probability: float
    """Of the predicted class."""
    true_probability: float
    """Of the class that the image belongs to."""

    @property
    def lead(self) -> float:
        """How far the predicted class was ahead of the true one: 0 or more."""
        return self.score - self.true_score


def find_mistakes(
    model: ImageClassifier,
    paths: Sequence[str],
    truth: NDArray[Any],
    scores: NDArray[Any],
    split: int = 1,
) -> list[Mistake]:
    """List the most confident mistakes, at most :data:`MOST`, most confident first.

    Parameters
    ----------
    model : ImageClassifier
    paths, truth : N paths and their labels, all of them classes of the model
    scores : ndarray of shape (N, n_classes), or (N,) for two classes
        Its ``decision_function`` of these images.
    split : int
    """
    names = model.classes_.tolist()
    columns = score_columns(scores)
    rows = np.arange(len(columns))
    best = columns.argmax(axis=1)
    place = {str(name): i for i, name in enumerate(names)}
    true = np.array([place[str(name)] for name in truth], np.int64)
    lead = columns[rows, best] - columns[rows, true]
    wrong = np.flatnonzero(best != true)
    chosen = wrong[np.argsort(-lead[wrong], kind="stable")][:MOST]
    chances = model.probabilities(columns[chosen])
    return [
        Mistake(
            paths[i], names[true[i]], names[best[i]], float(columns[i, best[i]]),
            float(columns[i, true[i]]), split, model, float(row[best[i]]), float(row[true[i]]),
        )
        for i, row in zip(chosen, chances, strict=True)
    ]  # fmt: skip


def most_confident(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Return the most confident of several tests' mistakes, at most :data:`MOST`, one per image."""
    first: dict[str, Mistake] = {}
    for mistake in sorted(mistakes, key=lambda mistake: -mistake.lead):
        first.setdefault(mistake.path, mistake)
    return list(first.values())[:MOST]
