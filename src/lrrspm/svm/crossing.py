"""Crossing: scores of every sample by machines that were trained without its fold."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._support.parallel import single_blas_thread
from .dual import Floats
from .kernel import KernelSVM
from .labels import encode_labels, one_vs_rest, score_columns, weigh_samples
from .linear import LinearSVM, linear_gram

Tell = Callable[[int, Any], object]


def fit_crossed(
    svm: LinearSVM | KernelSVM,
    X: NDArray[Any],
    y: NDArray[Any],
    folds: NDArray[np.int64],
    executor: Executor | None,
    sample_weight: ArrayLike | None = None,
    tell: Tell | None = None,
) -> NDArray[np.float64]:
    """Fit a machine to all samples; returns scores (n, n_classes) of machines without each fold.

    ``tell`` is called with each fold and its machine. Where nobody asks for the machines
    of long vectors, their scores come from the Gram matrix: weights of a fold are
    classes x d numbers and n x d products for each class.
    """
    long = X.dtype == np.float16 and len(X) <= X.shape[1]
    if tell is None and long and isinstance(svm, LinearSVM) and not svm.fit_intercept:
        gram = linear_gram(X, executor)
        svm.fit_folds(X, y, None, executor, sample_weight, gram=gram)
        return cross_scores(gram, y, folds, svm, executor, sample_weight)
    scores = np.zeros((len(y), len(np.unique(y))))

    def test(fold: int, machine: LinearSVM | KernelSVM) -> None:
        rows = folds == fold
        scores[rows] = score_columns(machine.scores(X[rows], executor))
        if tell is not None:
            tell(fold, machine)

    svm.fit_folds(X, y, folds, executor, sample_weight, test)
    return scores


def cross_scores(
    gram: Floats,
    y: NDArray[Any],
    folds: NDArray[np.int64],
    svm: LinearSVM,
    executor: Executor | None = None,
    sample_weight: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return scores (n, n_classes) from a Gram matrix (n, n), 0 where the fold (n,) is -1.

    Those of a machine with the parameters of ``svm`` on the vectors, up to rounding; but no
    weights (n_classes, d) are made, so another C costs only the dual.
    """
    classes, indices = encode_labels(y)
    signs = one_vs_rest(indices, len(classes), gram.dtype)
    weights = weigh_samples(svm.class_weight, y, sample_weight, gram.dtype)
    seed = int(check_random_state(svm.random_state).randint(2**31))
    scores = np.zeros((len(y), len(classes)))
    with single_blas_thread():
        for fold in range(int(folds.max()) + 1):
            rows = folds == fold
            some = np.ones(len(y), gram.dtype) if weights is None else weights.copy()
            some[rows] = 0
            betas, _ = svm.solve_betas(None, gram, signs, some, seed, executor)
            # Large coefficients of both signs nearly cancel; float64 keeps what is left.
            found = gram[rows].astype(np.float64) @ betas.T.astype(np.float64)
            scores[rows] = score_columns(found[:, 0] if len(classes) == 2 else found)
    return scores
