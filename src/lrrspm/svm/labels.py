"""Labels and scores: what both support vector machines share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import type_of_target

from .dual import Floats

Machine = TypeVar("Machine", bound=Any)
ClassWeight = str | dict[Any, float] | None
"""None, "balanced", or a weight per label."""


def check_solver(C: float, tol: float, max_iter: int, class_weight: ClassWeight) -> None:
    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive, got {C}")
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")
    if isinstance(class_weight, str) and class_weight != "balanced":
        raise ValueError(f"class_weight must be a dict or 'balanced', got {class_weight!r}")


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sorted classes and each sample's index among them; at least two classes."""
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"Unknown label type: {kind}; labels are names or whole numbers")
    classes, indices = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least two classes, got one class: {classes[0]}; add another"
        )
    return classes, indices


def weigh_samples(
    class_weight: ClassWeight, y: NDArray[Any], sample_weight: ArrayLike | None, dtype: Any
) -> Floats | None:
    """Weights of samples (n,), those of their classes included; None where all are 1."""
    if sample_weight is None and class_weight is None:
        return None
    if isinstance(class_weight, dict):
        names = np.unique(y).tolist()
        unknown = [name for name in class_weight if name not in names]
        if unknown and not set(names) <= set(class_weight):
            raise ValueError(
                f"class_weight: no class {unknown[0]!r:.100}; there are: {str(names)[1:-1]:.300}"
            )
    weights = compute_sample_weight(class_weight, y)
    if sample_weight is not None:
        given = np.asarray(sample_weight, np.float64)
        if given.shape not in ((), y.shape):
            raise ValueError(
                f"sample_weight has shape {given.shape}, expected one number per sample, {y.shape}"
            )
        weights = weights * given
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError("weights must be finite numbers, none below 0")
    if len(np.unique(y[weights > 0])) < 2:
        raise ValueError("a classifier needs two classes with samples whose weight is not zero")
    return None if (weights == 1).all() else weights.astype(dtype)


def without_folds(
    machine: Machine,
    folds: NDArray[np.int64] | None,
    weights: Floats | None,
    n: int,
    dtype: Any,
) -> Iterator[tuple[int, Machine, Floats | None]]:
    """-1, a machine and its weights of samples (n,); then each fold, whose samples weigh 0."""
    yield -1, machine, weights
    if folds is None:
        return
    for fold in range(int(folds.max()) + 1):
        other = clone(machine)
        other.classes_, other.n_features_in_ = machine.classes_, machine.n_features_in_
        some = np.ones(n, dtype) if weights is None else weights.copy()
        some[folds == fold] = 0
        yield fold, other, some


def one_vs_rest(indices: NDArray[np.int64], n_classes: int, dtype: Any) -> Floats:
    """+1 and -1, (n_classes, n), or (1, n) for two classes."""
    rows = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(indices == rows[:, None], 1, -1).astype(dtype)


def predict_labels(classes: NDArray[Any], scores: Floats) -> NDArray[Any]:
    """Return the class of the largest score of each row, (n,)."""
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[best]


def score_columns(scores: Floats) -> Floats:
    """Scores with a column for each class, even if there are only two."""
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
