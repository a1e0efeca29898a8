"""Crossing: scores of every sample by machines that were trained without its fold."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._support.devices import Held
from .._support.parallel import single_blas_thread
from .._support.shards import Shards
from .dual import Floats
from .kernel import KernelSVM
from .labels import encode_labels, one_vs_rest, score_columns, weigh_samples
from .leaving import leave_out
from .linear import LinearSVM
from .primal import Progress
from .stored import gram_fits, linear_gram, score_rows

Tell = Callable[[int, Any], object]


class Crossed(NamedTuple):
    """Scores of n samples by machines that were trained without them, (n, n_classes)."""

    scores: NDArray[np.float64]
    """Trained without the sample's fold; 0 where that is -1."""
    left_out: NDArray[np.float64]
    """Trained without the sample and its group alone, see :func:`leave_out`; where that
    cannot be had, those of folds."""


def fit_crossed(
    svm: LinearSVM | KernelSVM,
    X: NDArray[Any] | Shards | Held,
    y: NDArray[Any],
    folds: NDArray[np.int64],
    executor: Executor | None,
    sample_weight: ArrayLike | None = None,
    tell: Tell | None = None,
    groups: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Crossed:
    """Fit a machine to all samples; returns scores of machines without each fold, or sample.

    ``tell`` is called with each fold and its machine. Where nobody asks for the machines
    of long vectors, their scores come from the Gram matrix: weights of a fold are
    classes x d numbers and n x d products for each class. ``progress`` is told of vectors
    in shards.
    """
    sharded = isinstance(X, (Shards, Held))
    gram = None
    if isinstance(svm, LinearSVM) and not svm.fit_intercept and _has_gram(svm, X):
        gram = linear_gram(X, executor)
    if gram is not None and tell is None and (sharded or X.dtype == np.float16):
        assert isinstance(svm, LinearSVM)
        svm.fit_folds(X, y, None, executor, sample_weight, gram=gram)
        scores = cross_scores(gram, y, folds, svm, executor, sample_weight)
    else:
        scores = np.zeros((len(y), len(np.unique(y))))

        def test(fold: int, machine: LinearSVM | KernelSVM) -> None:
            rows = folds == fold
            scores[rows] = score_columns(score_rows(machine, X, rows, executor))
            if tell is not None:
                tell(fold, machine)

        given: dict[str, Any] = {} if gram is None else {"gram": gram}
        given |= {"progress": progress} if sharded else {}
        samples: Any = X  # in shards for a linear machine alone
        svm.fit_folds(samples, y, folds, executor, sample_weight, test, **given)
    left = None
    if gram is not None:
        assert isinstance(svm, LinearSVM)
        left = _leave_out(svm, X, y, gram, sample_weight, groups, executor)
    return Crossed(scores, scores.copy() if left is None else left)


def _has_gram(svm: LinearSVM, X: NDArray[Any] | Shards | Held) -> bool:
    """True where a machine is trained on the products of all pairs of samples."""
    n, d = X.shape
    if isinstance(X, Held):
        return True
    return gram_fits(n, svm.loss) if isinstance(X, Shards) else n <= d


def _leave_out(
    svm: LinearSVM,
    X: NDArray[Any] | Shards | Held,
    y: NDArray[Any],
    gram: Floats,
    sample_weight: ArrayLike | None,
    groups: NDArray[np.int64] | None,
    executor: Executor | None,
) -> NDArray[np.float64] | None:
    """Return scores (n, n_classes) of leaving out each sample, if they can be had."""
    classes, indices = encode_labels(y)
    scores = score_rows(svm, X, np.ones(len(y), bool), executor).reshape(len(y), -1)
    signs = one_vs_rest(indices, len(classes), np.float64)
    weights = weigh_samples(svm.class_weight, y, sample_weight, np.float64)
    costs = np.full(len(y), 2.0 * svm.C)
    costs *= 1 if weights is None else weights
    squared = svm.loss == "squared"
    found = leave_out(gram, scores, signs, costs, groups, squared, executor)
    if found is None:
        return None
    return score_columns(found[:, 0] if len(classes) == 2 else found).astype(np.float64)


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
