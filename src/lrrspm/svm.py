"""Support vector machines: one-vs-rest, squared hinge, many classes at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import config
from .parallel import ordered_map, single_blas_thread, workers
from .simd import compiled

Floats = NDArray[np.floating[Any]]

# Samples a block, sweeps over it, classes a task, rows a task of the Gram
# matrix: fixed, so that the result does not depend on the number of threads.
_BLOCK = 64
_SWEEPS = 5
_CLASSES = 128
_ROWS = 512


class LinearSVM(ClassifierMixin, BaseEstimator):
    r"""Linear support vector machine, one against the rest.

    .. math:: \min_w \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i w^T x_i)^2

    Parameters
    ----------
    C : float
        Penalty of margin violations, positive.
    fit_intercept : bool
        Add a constant 1 to every sample (so the intercept is penalised too).
    tol : float
        A class is done when primal and dual objective differ by less than
        this share of the primal one. In float32 about 1e-6 is the limit.
    max_iter : int
        Passes over the samples; a warning says when they did not suffice.
    n_jobs : int or None
        Threads, for the Gram matrix and for groups of 128 classes; the result
        has the same bits for any number.
    random_state : int, RandomState instance or None
        Seed of the order in which samples are visited.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, d), or (1, d) for two classes
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    n_iter_ : int
        Passes of the slowest class.
    n_features_in_ : int

    Notes
    -----
    Dual coordinate descent in random blocks. Inside a block of 64 samples
    the coordinates of all classes are updated one after the other on the
    block's own Gram matrix, in cache; what the block changes elsewhere is one
    matrix product. With at most as many samples as dimensions n <= d the
    Gram matrix of all samples is made once (n^2 d) and serves every class: a
    pass is n^2 products a class. With more samples it is never made, and a
    pass is 2 n d products a class. Computed in float32 if X is, else in float64.

    As with every dual coordinate descent, samples of norm 1 need tens of
    passes, and unscaled or strongly correlated columns with n > d thousands.
    """

    def __init__(
        self,
        C: float = config.C,
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, d) and labels y (n,)."""
        self.check_parameters()
        samples, labels = validate_data(self, X, y, dtype=[np.float32, np.float64], order="C")
        self.classes_, indices = encode_labels(labels)
        signs = one_vs_rest(indices, len(self.classes_), samples.dtype)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self.fit_intercept:
            samples = np.hstack([samples, np.ones((len(samples), 1), samples.dtype)])
        with workers(self.n_jobs) as executor:
            if len(samples) <= samples.shape[1]:
                gram = gram_matrix(samples, executor)

                def products() -> _Products:
                    return _GramProducts(gram)
            else:

                def products() -> _Products:
                    return _LinearProducts(samples)

            alphas, self.n_iter_ = solve_dual(
                products, signs, self.C, self.tol, self.max_iter, seed, executor
            )
            weights = (alphas * signs) @ samples
        self.coef_ = weights[:, : self.n_features_in_].copy()
        constant = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        self.intercept_ = constant.astype(weights.dtype)
        return self

    def check_parameters(self) -> None:
        """Raise where a parameter is out of range."""
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be positive, got {self.C}")
        if not self.tol > 0:
            raise ValueError(f"tol must be positive, got {self.tol}")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}")

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores, (n, n_classes), or (n,) for two classes (positive: the second)."""
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=[np.float32, np.float64], order="C", reset=False)
        with single_blas_thread():
            scores = samples @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the largest score of each row, (n,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sorted classes and each sample's index among them; at least two classes."""
    check_classification_targets(y)
    classes, indices = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"a classifier needs at least two classes, got one class: {classes[0]}")
    return classes, indices


def one_vs_rest(indices: NDArray[np.int64], n_classes: int, dtype: Any) -> Floats:
    """+1 and -1, (n_classes, n), or (1, n) for two classes."""
    rows = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(indices == rows[:, None], 1, -1).astype(dtype)


def predict_labels(classes: NDArray[Any], scores: Floats) -> NDArray[Any]:
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[best]


def gram_matrix(X: Floats, executor: Executor | None) -> Floats:
    """X X' (n, n), its lower half in bands of rows, the upper mirrored: n^2 d products."""
    gram = np.empty((len(X), len(X)), X.dtype)

    def band(start: int) -> None:
        stop = min(start + _ROWS, len(X))
        np.matmul(X[start:stop], X[:stop].T, out=gram[start:stop, :stop])

    for _ in ordered_map(band, range(0, len(X), _ROWS), executor):
        pass
    for start in range(0, len(X), _ROWS):
        stop = min(start + _ROWS, len(X))
        gram[:start, start:stop] = gram[start:stop, :start].T
    return gram


class _Products:
    """Products of samples with the current weights of several classes."""

    def begin(self, n_classes: int) -> None:
        """Start with zero weights."""
        raise NotImplementedError

    def block(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Gram matrix (b, b) of a block and its scores (classes, b)."""
        raise NotImplementedError

    def change(self, delta: Floats) -> None:
        """Add delta (classes, b) times the last block's samples to the weights."""
        raise NotImplementedError

    def scores(self) -> Floats:
        """Scores of all samples, (classes, n)."""
        raise NotImplementedError

    def keep(self, classes: NDArray[np.bool_]) -> None:
        """Forget the other classes."""
        raise NotImplementedError


class _GramProducts(_Products):
    """Scores of all samples are kept up to date from a Gram matrix."""

    def __init__(self, gram: Floats) -> None:
        self._gram = gram

    def begin(self, n_classes: int) -> None:
        self._scores = np.zeros((n_classes, len(self._gram)), self._gram.dtype)

    def block(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        self._rows = self._gram[rows]
        return self._rows[:, rows], self._scores[:, rows]

    def change(self, delta: Floats) -> None:
        self._scores += delta @ self._rows

    def scores(self) -> Floats:
        return self._scores

    def keep(self, classes: NDArray[np.bool_]) -> None:
        self._scores = self._scores[classes]


class _LinearProducts(_Products):
    """Weights are kept, scores made when asked for: nothing of size n x n."""

    def __init__(self, samples: Floats) -> None:
        self._samples = samples

    def begin(self, n_classes: int) -> None:
        self._weights = np.zeros((n_classes, self._samples.shape[1]), self._samples.dtype)

    def block(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        self._rows = self._samples[rows]
        return self._rows @ self._rows.T, self._weights @ self._rows.T

    def change(self, delta: Floats) -> None:
        self._weights += delta @ self._rows

    def scores(self) -> Floats:
        return self._weights @ self._samples.T

    def keep(self, classes: NDArray[np.bool_]) -> None:
        self._weights = self._weights[classes]


def solve_dual(
    products: Callable[[], _Products],
    signs: Floats,
    C: float,
    tol: float,
    max_iter: int,
    seed: int,
    executor: Executor | None,
) -> tuple[Floats, int]:
    r"""Solve the duals of several one-vs-rest problems.

    .. math:: \max_{\alpha \ge 0} \sum_i \alpha_i - \tfrac12 \beta^T K \beta
              - \tfrac1{4C} \|\alpha\|^2, \qquad \beta_i = y_i \alpha_i

    Parameters
    ----------
    products : callable that makes the samples' products
    signs : array of shape (classes, n), +1 and -1

    Returns
    -------
    alphas : array of shape (classes, n)
    n_iter : int
        Passes over the samples of the slowest class.
    """

    def solve(start: int) -> tuple[Floats, int, int]:
        return _solve_some(
            products(),
            signs[start : start + _CLASSES],
            C,
            tol,
            max_iter,
            np.random.RandomState(seed),
        )

    parts = list(ordered_map(solve, range(0, len(signs), _CLASSES), executor))
    unfinished = sum(part[2] for part in parts)
    if unfinished:
        warnings.warn(
            f"{unfinished} of {len(signs)} problems have not converged after {max_iter} passes; "
            "scale the data, or raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return np.concatenate([part[0] for part in parts]), max(part[1] for part in parts)


def _solve_some(
    products: _Products,
    signs: Floats,
    C: float,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
) -> tuple[Floats, int, int]:
    """Alphas of a few classes, the passes it took, and how many did not converge."""
    n_classes, n = signs.shape
    solution = np.zeros_like(signs)
    alphas = np.zeros_like(signs)
    active = np.arange(n_classes)
    products.begin(n_classes)
    ridge = signs.dtype.type(1 / (2 * C))
    for iteration in range(1, max_iter + 1):
        # New blocks in every pass: with fixed ones it takes ten times as many.
        order = rng.permutation(n)
        for start in range(0, n, _BLOCK):
            rows = order[start : start + _BLOCK]
            gram, scores = products.block(rows)
            orders = np.stack([rng.permutation(len(rows)) for _ in range(_SWEEPS)])
            block = alphas[:, rows]
            delta = _descend(gram, scores, block, signs[:, rows], ridge, orders)
            alphas[:, rows] = block
            products.change(delta)
        gap, primal = _duality_gap(products.scores(), alphas, signs, C)
        done = gap <= tol * primal
        if done.any():
            solution[active[done]] = alphas[done]
            keep = ~done
            active, alphas, signs = active[keep], alphas[keep], signs[keep]
            if not len(active):
                return solution, iteration, 0
            products.keep(keep)
    solution[active] = alphas
    return solution, max_iter, len(active)


def _duality_gap(scores: Floats, alphas: Floats, signs: Floats, C: float) -> tuple[Floats, Floats]:
    """Primal minus dual objective and primal objective of each class."""
    square = np.einsum("ij,ij,ij->i", signs, alphas, scores, dtype=np.float64)
    slack = np.maximum(0, 1 - signs * scores)
    primal = square / 2 + C * np.einsum("ij,ij->i", slack, slack, dtype=np.float64)
    dual = (
        alphas.sum(axis=1, dtype=np.float64)
        - square / 2
        - np.einsum("ij,ij->i", alphas, alphas, dtype=np.float64) / (4 * C)
    )
    return primal - dual, primal


@compiled("contract")
def _descend(
    gram: Floats,
    scores: Floats,
    alphas: Floats,
    signs: Floats,
    ridge: np.floating[Any],
    orders: NDArray[np.int64],
) -> Floats:
    """Coordinate descent on one block, alphas (classes, b) in place.

    Returns the changes of ``signs * alphas``. b multiply-adds for each
    coordinate that changes, in first-level cache.
    """
    n_classes, size = scores.shape
    delta = np.zeros_like(scores)
    zero, one = np.array([0, 1], scores.dtype)
    for c in range(n_classes):
        score, alpha, sign = scores[c].copy(), alphas[c], signs[c]
        for order in orders:
            for i in order:
                gradient = sign[i] * score[i] - one + alpha[i] * ridge
                new = max(alpha[i] - gradient / (gram[i, i] + ridge), zero)
                if new != alpha[i]:
                    step = sign[i] * (new - alpha[i])
                    alpha[i] = new
                    delta[c, i] += step
                    row = gram[i]
                    for j in range(size):
                        score[j] += step * row[j]
    return delta
