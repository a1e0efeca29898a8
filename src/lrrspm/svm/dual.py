"""The dual problems of one-vs-rest support vector machines with a squared hinge."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._support.loops import compiled
from .._support.parallel import ordered_map

Floats = NDArray[np.floating[Any]]

# Samples a block, sweeps over it, classes a task, rows a task of the Gram
# matrix: fixed, so that the result does not depend on the number of threads.
_BLOCK = 64
_SWEEPS = 5
_CLASSES = 128
ROWS = 512


def gram_matrix(X: Floats, executor: Executor | None) -> Floats:
    """X X' (n, n), its lower half in bands of rows, the upper mirrored: n^2 d products."""
    gram = np.empty((len(X), len(X)), X.dtype)

    def band(start: int) -> None:
        stop = min(start + ROWS, len(X))
        np.matmul(X[start:stop], X[:stop].T, out=gram[start:stop, :stop])

    for _ in ordered_map(band, range(0, len(X), ROWS), executor):
        pass
    mirror_lower(gram)
    return gram


def mirror_lower(gram: Floats) -> None:
    """Copy the lower half of a square matrix, in bands of rows, to the upper one."""
    for start in range(0, len(gram), ROWS):
        stop = min(start + ROWS, len(gram))
        gram[:start, start:stop] = gram[start:stop, :start].T


class Products(Protocol):
    """Products of samples with the current weights of several classes."""

    def begin(self, n_classes: int) -> None:
        """Start with zero weights."""

    def block(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Gram matrix (b, b) of a block and its scores (classes, b)."""

    def change(self, delta: Floats) -> None:
        """Add delta (classes, b) times the last block's samples to the weights."""

    def scores(self) -> Floats:
        """Scores of all samples, (classes, n)."""

    def keep(self, classes: NDArray[np.bool_]) -> None:
        """Forget the other classes."""


class GramProducts:
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


class LinearProducts:
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


class SomeProducts:
    """Products of some rows of the samples, made from those of all."""

    def __init__(self, products: Products, rows: NDArray[np.int64]) -> None:
        self._products, self._rows = products, rows
        self.begin: Callable[[int], None] = products.begin
        self.change: Callable[[Floats], None] = products.change
        self.keep: Callable[[NDArray[np.bool_]], None] = products.keep

    def block(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        return self._products.block(self._rows[rows])

    def scores(self) -> Floats:
        return self._products.scores()[:, self._rows]


def solve_dual(
    products: Callable[[], Products],
    signs: Floats,
    C: float,
    tol: float,
    max_iter: int,
    seed: int,
    executor: Executor | None,
    weights: Floats | None = None,
) -> tuple[Floats, int]:
    r"""Solve the duals of several one-vs-rest problems.

    .. math:: \max_{\alpha \ge 0} \sum_i \alpha_i - \tfrac12 \beta^T K \beta
              - \sum_i \frac{\alpha_i^2}{4 C w_i}, \qquad \beta_i = y_i \alpha_i

    Parameters
    ----------
    products : callable that makes the samples' products
    signs : array of shape (classes, n), +1 and -1
    weights : array of shape (n,) or None
        w, positive: how much each sample counts; None is 1 for all. Samples of
        weight 0 do not count, and keep an alpha of 0.

    Returns
    -------
    alphas : array of shape (classes, n)
    n_iter : int
        Passes over the samples of the slowest class.
    """

    used = None if weights is None or weights.all() else np.flatnonzero(weights)
    if used is not None:
        assert weights is not None
        alphas = np.zeros_like(signs)
        some = weights[used]
        alphas[:, used], n_iter = solve_dual(
            lambda: SomeProducts(products(), used),
            signs[:, used], C, tol, max_iter, seed, executor,
            None if (some == 1).all() else some,
        )  # fmt: skip
        return alphas, n_iter

    def solve(start: int) -> tuple[Floats, int, int]:
        return _solve_some(
            products(),
            signs[start : start + _CLASSES],
            C,
            weights,
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
    products: Products,
    signs: Floats,
    C: float,
    weights: Floats | None,
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
    ridges = np.full(n, 1 / (2 * C)) if weights is None else 1 / (2 * C * weights.astype(float))
    ridges = ridges.astype(signs.dtype)
    for iteration in range(1, max_iter + 1):
        # New blocks in every pass: with fixed ones it takes ten times as many.
        order = rng.permutation(n)
        for start in range(0, n, _BLOCK):
            rows = order[start : start + _BLOCK]
            gram, scores = products.block(rows)
            orders = np.stack([rng.permutation(len(rows)) for _ in range(_SWEEPS)])
            block = alphas[:, rows]
            delta = _descend(gram, scores, block, signs[:, rows], ridges[rows], orders)
            alphas[:, rows] = block
            products.change(delta)
        gap, primal = _duality_gap(products.scores(), alphas, signs, C, weights)
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


def _duality_gap(
    scores: Floats, alphas: Floats, signs: Floats, C: float, weights: Floats | None
) -> tuple[Floats, Floats]:
    """Primal minus dual objective and primal objective of each class."""
    square = np.einsum("ij,ij,ij->i", signs, alphas, scores, dtype=np.float64)
    slack = np.maximum(0, 1 - signs * scores)
    total = alphas.sum(axis=1, dtype=np.float64)
    if weights is not None:  # (w s) s is the square of the root of w times s
        roots = np.sqrt(weights)
        slack, alphas = slack * roots, alphas / roots
    primal = square / 2 + C * np.einsum("ij,ij->i", slack, slack, dtype=np.float64)
    dual = total - square / 2 - np.einsum("ij,ij->i", alphas, alphas, dtype=np.float64) / (4 * C)
    return primal - dual, primal


@compiled("contract")
def _descend(
    gram: Floats,
    scores: Floats,
    alphas: Floats,
    signs: Floats,
    ridges: Floats,
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
                gradient = sign[i] * score[i] - one + alpha[i] * ridges[i]
                new = max(alpha[i] - gradient / (gram[i, i] + ridges[i]), zero)
                if new != alpha[i]:
                    step = sign[i] * (new - alpha[i])
                    alpha[i] = new
                    delta[c, i] += step
                    row = gram[i]
                    for j in range(size):
                        score[j] += step * row[j]
    return delta
