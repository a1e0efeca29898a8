"""The primal problems of one-vs-rest machines, solved in passes over vectors in shards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
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
# Most products for a Newton step; share of an objective that may be rounding alone, and the
# steps that may bring no more.
_PRODUCTS = 100
_ROUNDING = 1e-7
_IDLE = 3
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

    Losses and gradients at these weights; for classes that are ``curved``, (classes,),
    products of the weights with the second derivative, at the samples that are active.
    """

    weights: NDArray[np.float32]
    classes: NDArray[np.int64]
    curved: NDArray[np.bool_]
    squared: bool


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
            signs = np.where(rows.indices[some, None] == task.classes, 1, -1).astype(np.float32)
            slacks = 1 - signs * scores
            if not task.squared:
                active[some] = np.where(task.curved, active[some], slacks > 0)
            changes = np.where(task.curved, scores, -signs * slacks)
            changes *= rows.costs[some, None] * active[some]
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
    gradients; it takes products with the second derivative, and trials. A pass over the
    shards answers what every class asks next. The gradient g bounds the distance
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
    In memory are seven float64 matrices (classes, d), those of up to four shards that are
    under way, a block of rows per worker, and a bit for each sample and class: nothing
    else that grows with n. Sums are formed in the order of the shards, so the result
    has the same bits for any number of workers.
    """
    length = shards.shape[1] + intercept
    weights = np.zeros((len(classes), length)) if start is None else start.copy()
    states = [_State(tol) for _ in classes]
    asking = {c: _minimize(weights[c], states[c]) for c in range(len(classes))}
    asked = {c: next(problem) for c, problem in asking.items()}
    passes = _Passes(shards, indices, classes, costs, squared, executor)
    count = 0
    while asked and count < max_iter:
        answers = passes.run(asked)
        count += 1
        for c, answer in zip(list(asked), answers, strict=True):
            try:
                asked[c] = asking[c].send(answer)
            except StopIteration:
                del asked[c]
        if progress is not None:
            progress(count, min(state.share for state in states))
    failed = sum(not state.done for state in states)
    if progress is not None:
        progress(count, 1.0)
    if failed:
        warnings.warn(
            f"{failed} of {len(classes)} problems have not converged after {count} passes; "
            "scale the data, or raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return weights, count


class _Passes:
    """Passes over the shards, for some classes each; keeps who is active."""

    def __init__(
        self,
        shards: Shards,
        indices: NDArray[np.int64],
        classes: NDArray[np.int64],
        costs: NDArray[np.float32],
        squared: bool,
        executor: Executor | None,
    ) -> None:
        self._shards, self._classes, self._squared = list(shards), classes, squared
        self._indices, self._costs, self._executor = indices, costs, executor
        self._active = [
            np.full((-(-len(shard) // 8), len(classes)), 255, np.uint8) for shard in self._shards
        ]

    def run(self, asked: dict[int, _Question]) -> list[_Answer]:
        """Answer the questions of some classes, in order."""
        chosen = np.array(list(asked))
        weights = np.stack([question.weights for question in asked.values()]).astype(np.float32)
        curved = np.array([question.curved for question in asked.values()])
        task = Task(weights, self._classes[chosen], curved, self._squared)
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
        return list(zip(losses, products, strict=True))


class _Question(NamedTuple):
    """What a class asks of a pass: loss and gradient at some weights (d,), or a product."""

    weights: Doubles
    curved: bool


_Answer = tuple[float, Doubles]
_Asking = Generator[_Question, _Answer, None]


class _State:
    """How far a class has come: ``share`` of the way, in digits of its gap."""

    def __init__(self, tol: float) -> None:
        self.tol, self.share, self.done = tol, 0.0, False
        self._first: float | None = None

    def note(self, gap: float) -> None:
        """Take in the gap between primal and dual objective, over the primal one."""
        self._first = gap if self._first is None else self._first
        self.done = gap <= self.tol
        way, rest = (np.log(max(value, self.tol) / self.tol) for value in (self._first, gap))
        self.share = max(self.share, 1.0 if self.done else float(1 - rest / way))


def _minimize(weights: Doubles, state: _State) -> _Asking:
    """Move the weights (d,) of one class to the minimum, in place, by Newton's method."""
    loss, product = yield _Question(weights, False)
    value, gradient = loss + _half_square(weights), weights + product
    before = least = np.inf
    idle = 0
    while True:
        gap = _half_square(gradient) / value
        state.note(gap)
        # Close to the solution there may be only rounding left, and no end to it.
        moving = before - value > _ROUNDING * value or gap < least / 2
        idle = 0 if moving else idle + 1
        if state.done or idle > _IDLE:
            return
        before, least = value, min(least, gap)
        step = yield from _newton_step(gradient)
        value, gradient = yield from _search(weights, value, gradient, step)


def _half_square(vector: Doubles) -> float:
    return float(vector @ vector) / 2


def _newton_step(gradient: Doubles) -> Generator[_Question, _Answer, Doubles]:
    """Solve for a step (d,) by conjugate gradients."""
    step, residual = np.zeros_like(gradient), -gradient
    direction = residual.copy()
    square = residual @ residual
    limit = _RESIDUAL**2 * square
    for _ in range(_PRODUCTS):
        _, product = yield _Question(direction, True)
        product += direction
        length = square / (direction @ product)
        step += length * direction
        residual -= length * product
        before, square = square, residual @ residual
        if square <= limit:
            break
        direction *= square / before
        direction += residual
    return step


def _search(
    weights: Doubles, value: float, gradient: Doubles, step: Doubles
) -> Generator[_Question, _Answer, tuple[float, Doubles]]:
    """Move weights (d,) along a step, in place, as far as the objective falls.

    Returns the objective and the gradient there.
    """
    length, slope = 1.0, float(gradient @ step)
    while True:
        trial = weights + length * step
        loss, product = yield _Question(trial, False)
        found, there = loss + _half_square(trial), trial + product
        end = float(there @ step)
        falls = found <= value + _DECREASE * length * slope
        # Where rounding hides a decrease, slopes still tell that it is one.
        flat = found <= value * (1 + _ROUNDING) and end <= (2 * _DECREASE - 1) * slope
        if falls or flat or length < _SHORTEST:
            weights[:] = trial
            return found, there
        # The slope is nearly a line: its zero, between here and there.
        length *= min(max(slope / (slope - end), 0.1), 0.5)
