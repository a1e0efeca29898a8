"""The primal problems of one-vs-rest machines, solved in passes over vectors in shards."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._support.parallel import ordered_map, single_blas_thread
from .._support.shards import Shard, Shards

Doubles = NDArray[np.float64]
Progress = Callable[[int, float], None]
"""Called after every pass, with their number and the share of the way to the solution, and at
the end with a share of 1."""

# Residual of a Newton step over that of none, and the least share of the decrease that the
# slope promises with which a step is taken.
_RESIDUAL = 0.3
_DECREASE = 0.01
_SHORTEST = 2.0**-20
# Most products for a Newton step; share of an objective that may be rounding alone.
_PRODUCTS = 100
_ROUNDING = 1e-7
# Shards under way: their sums, (classes, d) each, are in memory.
_AHEAD = 4


class Sums(NamedTuple):
    """What a shard adds: to losses (classes,) and products (classes, d); and who is active.

    ``active`` has the bits of (rows, classes), eight rows to a byte: True for samples
    whose margin is below 1.
    """

    losses: Doubles
    products: Doubles
    active: NDArray[np.uint8]


class Task(NamedTuple):
    """What is asked of all shards: weights (classes, d), and the numbers of these classes.

    Losses and gradients at these weights; with ``curved``, products of the weights
    with the second derivative, at the samples that are active.
    """

    weights: NDArray[np.float32]
    classes: NDArray[np.int64]
    squared: bool
    curved: bool


class Rows(NamedTuple):
    """Samples of a shard: numbers of their classes (n,), costs 2 C v (n,), who is active."""

    indices: NDArray[np.int64]
    costs: NDArray[np.float32]
    active: NDArray[np.uint8]


def shard_products(task: Task, shard: Shard, rows: Rows) -> Sums:
    r"""Sum over the samples of one shard; a plain function, for workers of any kind.

    .. math:: \sum_i \tfrac{c_i}{2} s_{ik}^2, \quad -\sum_i c_i y_{ik} s_{ik} x_i,
              \quad \text{or} \quad \sum_{i: s_{ik} > 0} c_i (v_k^T x_i) x_i

    with costs c and slacks s. Products of a block of rows are in float32, and are
    added up in float64.
    """
    n_classes, length = task.weights.shape
    constant = length > shard.columns  # an intercept: every sample ends with a 1
    losses, products = np.zeros(n_classes), np.zeros(task.weights.shape)
    active = np.unpackbits(rows.active, axis=0, count=len(shard)).view(bool)
    with single_blas_thread():
        for some, X in shard.blocks():
            scores = X @ task.weights[:, : shard.columns].T
            if constant:
                scores += task.weights[:, -1]
            costs = rows.costs[some, None]
            if task.curved:
                changes = scores * (costs * active[some])
            else:
                signs = np.where(rows.indices[some, None] == task.classes, 1, -1).astype(np.float32)
                slacks = 1 - signs * scores
                if not task.squared:
                    active[some] = slacks > 0
                    slacks *= active[some]
                changes = -costs * signs * slacks
                losses -= 0.5 * np.einsum("ij,ij->j", changes, signs * slacks, dtype=np.float64)
            products[:, : shard.columns] += changes.T @ X
            if constant:
                products[:, -1] += changes.sum(axis=0, dtype=np.float64)
    return Sums(losses, products, np.packbits(active, axis=0))


def _call(task: Task, part: tuple[Shard, Rows]) -> Sums:
    return shard_products(task, *part)


def primal_weights(
    shards: Shards,
    indices: NDArray[np.int64],
    classes: NDArray[np.int64],
    costs: NDArray[np.float32],
    squared: bool,
    tol: float,
    max_iter: int,
    executor: Executor | None,
    intercept: bool = False,
    start: Doubles | None = None,
    progress: Progress | None = None,
) -> tuple[Doubles, int]:
    r"""Solve the primal problems of several classes by Newton's method.

    .. math:: \min_w \tfrac12 \|w\|^2 + \sum_i \tfrac{c_i}{2} \max(0, 1 - y_i w^T x_i)^2

    or without the maximum where ``squared``. A Newton step is found by conjugate
    gradients; every product with the second derivative, and every trial of a step, is
    a pass over the shards for all classes at once. The gradient g bounds the distance
    to the dual's solution: with :math:`\alpha_i = c_i s_i` in the dual, the two objectives
    differ by exactly :math:`\tfrac12 \|g\|^2`, and a class is done when that is below
    ``tol`` times the primal one.

    Parameters
    ----------
    shards : Shards of shape (n, d)
    indices : array of shape (n,)
        Number of each sample's class.
    classes : array of shape (classes,)
        Numbers of the classes that are held against the rest.
    costs : array of shape (n,)
        c, 2 C times the weight of each sample.
    intercept : bool
        End every sample with a 1.
    start : array of shape (classes, d) or None
        Weights to begin with; None is 0.

    Returns
    -------
    weights : array of shape (classes, d), d + 1 with an intercept
    passes : int

    Notes
    -----
    In memory are nine float64 matrices (classes, d), those of the shards that are under
    way, a block of rows per worker, and a bit for each sample and class: nothing
    else that grows with n. Sums are formed in the order of the shards, so the result
    has the same bits for any number of workers.
    """
    passes = _Passes(shards, indices, classes, costs, squared, executor, progress)
    length = shards.shape[1] + intercept
    weights = np.zeros((len(classes), length)) if start is None else start.copy()
    values, gradients = passes.evaluate(weights, np.arange(len(classes)))
    gaps = first = least = _gaps(values, gradients)
    falling = True
    while True:
        left = np.flatnonzero(gaps > tol)
        passes.share = max(passes.share, _share(first, gaps, tol))
        if not len(left) or not falling or passes.count >= max_iter:
            break
        steps = _newton_steps(passes, gradients[left], left, max_iter)
        before = values.copy()
        _search(passes, weights, values, gradients, left, steps)
        gaps = _gaps(values, gradients)
        # Close to the solution there is only rounding left, and no end to it.
        falling = bool(
            (before - values > _ROUNDING * values).any() or (gaps[left] < least[left] / 2).any()
        )
        least = np.minimum(least, gaps)
    if progress is not None:
        progress(passes.count, 1.0)
    if len(left):
        warnings.warn(
            f"{len(left)} of {len(classes)} problems have not converged after {passes.count} "
            "passes; scale the data, or raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return weights, passes.count


class _Passes:
    """Passes over the shards; counts them, and keeps who is active.

    ``share`` is how far the solution has come.
    """

    def __init__(
        self,
        shards: Shards,
        indices: NDArray[np.int64],
        classes: NDArray[np.int64],
        costs: NDArray[np.float32],
        squared: bool,
        executor: Executor | None,
        progress: Progress | None,
    ) -> None:
        self._shards, self._classes, self._squared = list(shards), classes, squared
        self._indices, self._costs, self._executor = indices, costs, executor
        self._active = [
            np.full((-(-len(shard) // 8), len(classes)), 255, np.uint8) for shard in self._shards
        ]
        self.count, self.share, self._progress = 0, 0.0, progress

    def evaluate(self, weights: Doubles, chosen: NDArray[np.int64]) -> tuple[Doubles, Doubles]:
        """Return objectives and gradients of some classes at their weights."""
        losses, products = self._sum(weights, chosen, curved=False)
        return losses + 0.5 * np.einsum("ij,ij->i", weights, weights), products + weights

    def curve(self, vectors: Doubles, chosen: NDArray[np.int64]) -> Doubles:
        """Return products with the second derivative where it was last evaluated."""
        return self._sum(vectors, chosen, curved=True)[1] + vectors

    def _sum(
        self, weights: Doubles, chosen: NDArray[np.int64], curved: bool
    ) -> tuple[Doubles, Doubles]:
        task = Task(weights.astype(np.float32), self._classes[chosen], self._squared, curved)
        parts = (
            (shard, Rows(self._indices[rows], self._costs[rows], active[:, chosen]))
            for shard, active in zip(self._shards, self._active, strict=True)
            for rows in [slice(shard.start, shard.stop)]
        )
        losses, products = np.zeros(len(chosen)), np.zeros(weights.shape)
        found = ordered_map(partial(_call, task), parts, self._executor, _AHEAD)
        for active, sums in zip(self._active, found, strict=True):
            losses += sums.losses
            products += sums.products
            active[:, chosen] = sums.active
        self.count += 1
        if self._progress is not None:
            self._progress(self.count, self.share)
        return losses, products


def _newton_steps(
    passes: _Passes, gradients: Doubles, chosen: NDArray[np.int64], max_iter: int
) -> Doubles:
    """Solve for steps (classes, d) by conjugate gradients, all classes in step."""
    steps, residuals = np.zeros_like(gradients), -gradients
    directions = residuals.copy()
    squares = np.einsum("ij,ij->i", residuals, residuals)
    limits = _RESIDUAL**2 * squares
    left = np.arange(len(chosen))
    for _ in range(_PRODUCTS):
        if not len(left) or passes.count >= max_iter:
            break
        products = passes.curve(directions[left], chosen[left])
        lengths = squares[left] / np.einsum("ij,ij->i", directions[left], products)
        steps[left] += lengths[:, None] * directions[left]
        residuals[left] -= lengths[:, None] * products
        before = squares[left]
        squares[left] = np.einsum("ij,ij->i", residuals[left], residuals[left])
        directions[left] *= (squares[left] / before)[:, None]
        directions[left] += residuals[left]
        left = left[squares[left] > limits[left]]
    return steps


def _search(
    passes: _Passes,
    weights: Doubles,
    values: Doubles,
    gradients: Doubles,
    left: NDArray[np.int64],
    steps: Doubles,
) -> None:
    """Move weights along steps, in place, as far as objectives fall."""
    lengths = np.ones(len(left))
    slopes = np.einsum("ij,ij->i", gradients[left], steps)
    waiting = np.arange(len(left))
    while len(waiting):
        some = left[waiting]
        trial = weights[some] + lengths[waiting, None] * steps[waiting]
        found, their = passes.evaluate(trial, some)
        good = found <= values[some] + _DECREASE * lengths[waiting] * slopes[waiting]
        good |= lengths[waiting] < _SHORTEST
        weights[some[good]], values[some[good]] = trial[good], found[good]
        gradients[some[good]] = their[good]
        # The slope is nearly a line: its zero, between here and there.
        bad = waiting[~good]
        ends = np.einsum("ij,ij->i", their[~good], steps[bad])
        shares = slopes[bad] / (slopes[bad] - ends)
        lengths[bad] *= np.clip(shares, 0.1, 0.5)
        waiting = bad


def _gaps(values: Doubles, gradients: Doubles) -> Doubles:
    """Primal minus dual objective, over the primal one."""
    return 0.5 * np.einsum("ij,ij->i", gradients, gradients) / values


def _share(first: Doubles, gaps: Doubles, tol: float) -> float:
    """Return how far the slowest class has come, in digits of its gap."""
    way = np.log(np.maximum(first, tol) / tol)
    rest = np.log(np.maximum(gaps, tol) / tol)
    return float(np.min(1 - rest / np.where(way > 0, way, 1)))
