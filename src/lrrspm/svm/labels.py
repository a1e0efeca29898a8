"""Labels and scores: what both support vector machines share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from .dual import Floats


def check_solver(C: float, tol: float, max_iter: int) -> None:
    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive, got {C}")
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sorted classes and each sample's index among them; at least two classes."""
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"Unknown label type: {kind}; labels are names or whole numbers")
    classes, indices = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"a classifier needs at least two classes, got one class: {classes[0]}")
    return classes, indices


def one_vs_rest(indices: NDArray[np.int64], n_classes: int, dtype: Any) -> Floats:
    """+1 and -1, (n_classes, n), or (1, n) for two classes."""
    rows = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(indices == rows[:, None], 1, -1).astype(dtype)


def predict_labels(classes: NDArray[Any], scores: Floats) -> NDArray[Any]:
    """Return the class of the largest score of each row, (n,)."""
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[best]


def score_columns(scores: Floats) -> Floats:
    """Scores with a column for each class, also where there are two."""
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
