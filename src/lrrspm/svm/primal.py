"""The primal problems of one-vs-rest machines, solved in passes over vectors in shards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._support.parallel import ordered_map, single_blas_thread
from .._support.shards import Beside, Shard, Shards
from .subspace import Doubles, Samples, advance, class_signs, subspace_minimum

Progress = Callable[[int, float], None]
"""Called after every pass, with their number and the share of the way to the solution, and at
the end with a share of 1."""

# Earlier steps that the next one is combined with.
_STEPS = 16
# Places of the current weights and of the new direction among those that are combined.
_HERE, _NEW = 0, 1
# Share of an objective that may be rounding alone, and the steps that may bring no more.
_ROUNDING = 1e-7
_IDLE = 3
# Shards under way: their sums, (classes, d) each, are in memory.
_AHEAD = 4


class Part(NamedTuple):
    """A shard, and a number for each of its rows and classes, (rows, classes)."""

    shard: Shard
    changes: NDArray[np.float32]


def shard_scores(weights: NDArray[np.float32], shards: Sequence[Shard]) -> list[Any]:
    """Return X W' (rows, classes) of each shard, for weights (classes, d).

    A plain function, for workers of any kind. One more column of weights than the
    shard has is an intercept: every sample ends with a 1.
    """
    return [_scores(weights, shard) for shard in shards]


def _scores(weights: NDArray[np.float32], shard: Shard) -> NDArray[np.float32]:
    out = np.empty((len(shard), len(weights)), np.float32)
    with single_blas_thread():
        for rows, X in shard.blocks():
            np.matmul(X, weights[:, : shard.columns].T, out=out[rows])
    if weights.shape[1] > shard.columns:
        out += weights[:, -1]
    return out


def shard_sums(intercept: bool, parts: Sequence[Part]) -> list[Any]:
    """Return R' X (classes, d) of each shard with numbers R for its rows.

    A plain function, for workers of any kind. Products of a block of rows are in
    float32, and are added up in float64.
    """
    return [_sums(intercept, part) for part in parts]


def _sums(intercept: bool, part: Part) -> Doubles:
    columns = part.shard.columns
    total = np.zeros((part.changes.shape[1], columns + intercept))
    with single_blas_thread():
        for rows, X in part.shard.blocks():
            total[:, :columns] += part.changes[rows].T @ X
    if intercept:
        total[:, -1] = part.changes.sum(axis=0, dtype=np.float64)
    return total


class Problem(NamedTuple):
    """What is solved: vectors, the classes that are held against the rest, and the loss."""

    shards: Shards
    indices: NDArray[np.int64]
    classes: NDArray[np.int64]
    costs: NDArray[np.float32]
    squared: bool
    intercept: bool

    @property
    def length(self) -> int:
        return self.shards.shape[1] + self.intercept


def primal_weights(
    problem: Problem,
    tol: float,
    max_iter: int,
    executor: Executor | None,
    start: Doubles | None = None,
    progress: Progress | None = None,
) -> tuple[Doubles, int]:
    r"""Solve the primal problems of several classes by sequential subspace optimization.

    .. math:: \min_w \tfrac12 \|w\|^2 + \sum_i \tfrac{c_i}{2} \max(0, 1 - y_i w^T x_i)^2

    or without the maximum where ``squared``. Each round moves w to the minimum over all
    combinations of itself, the gradient, and the last 16 steps. That takes two passes
    over the shards for all classes: one for the gradient, one for the samples' scores in
    its direction. The minimum itself is found from scores alone, which are kept on disk
    beside the shards. With the loss "squared" these are conjugate gradients.

    The gradient g bounds the distance to the dual's solution: with
    :math:`\alpha_i = c_i s_i` in the dual, the two objectives differ by exactly
    :math:`\tfrac12 \|g\|^2`, and a class is done when that is below ``tol`` times the
    primal one, at scores that were computed anew.

    Parameters
    ----------
    problem : Problem
        Shards of shape (n, d); the number of each sample's class, (n,); the numbers of the
        classes to solve for; c, 2 C times the weight of each sample, (n,); ``squared``; and
        ``intercept``, True to end every sample with a 1.
    start : array of shape (classes, d) or None
        Weights to begin with; None is 0.

    Returns
    -------
    weights : array of shape (classes, d), d + 1 with an intercept
    passes : int

    Notes
    -----
    In memory are a few matrices (classes, d): two in float64, 17 in float32, and those of
    the shards that are under way; a block of rows per worker; and the scores of the
    shards under way. What grows with n is on disk: 18 scores of each sample and class in
    float32. Sums are formed in the order of the shards, so the result has the same bits
    for any number of workers.
    """
    solver = _Solver(problem, tol, executor, progress)
    try:
        weights = solver.solve(max_iter, start)
    finally:
        solver.strips.delete()  # those of many folds may not fit
    failed = sum(not state.done for state in solver.states)
    if progress is not None:
        progress(solver.passes, 1.0)
    if failed:
        warnings.warn(
            f"{failed} of {len(weights)} problems have not converged after {solver.passes} "
            "passes; scale the data, or raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return weights, solver.passes


class _State:
    """How far a class has come.

    ``share`` is that of the way, in digits of its gap; ``near`` says that the gap is small
    at scores with the rounding of many steps, ``done`` at new ones.
    """

    def __init__(self, tol: float) -> None:
        self._tol, self.share, self.near, self.done, self.stuck = tol, 0.0, False, False, False
        self._first: float | None = None
        self._value = self._least = np.inf
        self._idle = 0

    def note(self, value: float, gap: float, exact: bool) -> None:
        """Take in the objective, and the gap between primal and dual one over it."""
        self._first = gap if self._first is None else self._first
        self.near = gap <= self._tol
        self.done = self.near and exact
        way, rest = (np.log(max(g, self._tol) / self._tol) for g in (self._first, gap))
        # All but a last check of the gap.
        self.share = max(self.share, 1.0 if self.done else min(0.99, float(1 - rest / (way or 1))))
        # Close to the solution there may be only rounding left, and no end to it.
        moving = self._value - value > _ROUNDING * value or gap < self._least / 2
        self._idle = 0 if moving else self._idle + 1
        self.stuck = self._idle > _IDLE
        self._value, self._least = value, min(self._least, gap)


class _Solver:
    """Rounds for all classes that are not done yet."""

    def __init__(
        self, problem: Problem, tol: float, executor: Executor | None, progress: Progress | None
    ) -> None:
        self._problem, self._executor, self._progress = problem, executor, progress
        self.states = [_State(tol) for _ in problem.classes]
        self.passes = 0
        n_classes, n = len(problem.classes), problem.shards.shape[0]
        # Filled, not zeroed by the system when touched: memory is taken now or never.
        self._weights = np.full((n_classes, problem.length), 0.0)
        self._gradients = np.full_like(self._weights, 0)
        self._steps = np.full((_STEPS, *self._weights.shape), 0, np.float32)
        # The samples' scores, (2 + steps, classes, n): of the weights, the gradients, the steps.
        self.strips = problem.shards.beside((2 + _STEPS, n_classes, n))
        self._rounds = np.zeros(n_classes, int)

    def solve(self, max_iter: int, start: Doubles | None) -> Doubles:
        everyone = np.arange(len(self.states))
        exact = True
        if start is not None:
            self._weights[:] = start
            self._score(everyone, _HERE, self._weights)
        asking = everyone
        while True:
            self._differentiate(asking, exact)
            asking = np.array([c for c in asking if not self._rests(self.states[c])], int)
            if self.passes + 2 > max_iter:
                return self._weights
            exact = not len(asking)
            if exact:
                asking = np.array([c for c in everyone if self._unsure(self.states[c])], int)
                if not len(asking):
                    return self._weights
                self._score(asking, _HERE, self._weights)
                self._rounds[asking] = 0  # scores of earlier steps have the rounding, too
                continue
            self._score(asking, _NEW, self._gradients)
            with single_blas_thread():
                for _ in ordered_map(self._move, asking.tolist(), self._threads):
                    pass

    @property
    def _threads(self) -> Executor | None:
        """Return the executor where it shares memory."""
        return self._executor if isinstance(self._executor, ThreadPoolExecutor) else None

    @staticmethod
    def _rests(state: _State) -> bool:
        return state.near or state.stuck

    @staticmethod
    def _unsure(state: _State) -> bool:
        return state.near and not state.done

    def _move(self, c: int) -> None:
        """Move the weights of a class to the minimum in its directions."""
        problem = self._problem
        place = self._rounds[c] % _STEPS
        used = 2 + min(self._rounds[c], _STEPS)
        steps = self._steps[: used - 2, c].astype(np.float64)
        directions = np.vstack([self._weights[c], self._gradients[c], steps])
        signs = class_signs(problem.indices, problem.classes[c])
        strips = self.strips.opened()[:, c]
        found = subspace_minimum(
            strips[:used],
            directions @ directions.T,
            Samples(signs, problem.costs, problem.squared),
        )
        change = found.mix
        change[_HERE] -= 1
        step = change @ directions
        self._weights[c] += step
        self._steps[place, c] = step
        whole = np.zeros(2 + _STEPS)
        whole[:used] = change
        advance(strips, whole, 2 + place)
        self._rounds[c] += 1

    def _score(self, asking: NDArray[np.int64], place: int, vectors: Doubles) -> None:
        """Keep the scores of all samples in one direction of each class."""
        given = vectors[asking].astype(np.float32)
        found = self._spread(shard_scores, list(self._problem.shards), given)
        for shard, scores in zip(self._problem.shards, found, strict=True):
            strips = self.strips.opened()[place]
            for c, column in zip(asking, scores.T, strict=True):
                strips[c, shard.start : shard.stop] = column
        self._passed()

    def _differentiate(self, asking: NDArray[np.int64], exact: bool) -> None:
        """Compute the gradients of some classes, and how far these have come."""
        problem = self._problem
        parts = _Parts(problem, self.strips, asking)
        gradients, losses = self._weights[asking], np.zeros(len(asking))
        found = self._spread(shard_sums, parts, problem.intercept)
        for shard, sums in zip(problem.shards, found, strict=True):
            gradients += sums
            losses += parts.losses.pop(shard.start)
        self._gradients[asking] = gradients
        for c, gradient, loss in zip(asking, gradients, losses, strict=True):
            value = loss + float(self._weights[c] @ self._weights[c]) / 2
            self.states[c].note(value, float(gradient @ gradient) / 2 / value, exact)
        self._passed()

    def _passed(self) -> None:
        self.passes += 1
        if self._progress is not None:
            self._progress(self.passes, min(state.share for state in self.states))

    def _spread(
        self, function: Callable[..., list[Any]], parts: Sequence[Any], shared: object
    ) -> Iterator[Any]:
        """Compute something from each shard, in order: where the shards' owner says, or here."""
        spread = self._problem.shards.spread
        if spread is not None:
            return spread(function, parts, shared)
        return ordered_map(partial(_first, function, shared), parts, self._executor, _AHEAD)


def _first(function: Callable[..., list[Any]], shared: object, part: Any) -> Any:
    return function(shared, [part])[0]


class _Parts(Sequence[Part]):
    """Shards with the derivatives of the losses of some classes; made when they are asked for.

    ``losses`` are their sums (classes,) by the first row of a shard.
    """

    def __init__(self, problem: Problem, strips: Beside, asking: NDArray[np.int64]) -> None:
        self._problem, self._strips, self._asking = problem, strips, asking
        self.losses: dict[int, Doubles] = {}

    def __len__(self) -> int:
        return len(self._problem.shards)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        problem, shard = self._problem, self._problem.shards[number]
        rows = slice(shard.start, shard.stop)
        signs = np.where(
            problem.indices[rows] == problem.classes[self._asking, None], np.float32(1), -1
        )
        slacks = 1 - signs * self._strips.opened()[_HERE][self._asking, rows]
        if not problem.squared:
            np.maximum(slacks, 0, out=slacks)
        changes = slacks * problem.costs[rows]
        self.losses[shard.start] = 0.5 * np.einsum("ij,ij->i", changes, slacks, dtype=np.float64)
        changes *= -signs
        return Part(shard, np.ascontiguousarray(changes.T))
