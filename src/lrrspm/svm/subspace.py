"""Minima of one-vs-rest problems in a few directions, from the samples' scores there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled

Doubles = NDArray[np.float64]

# Newton steps, and trials of each; the share of an objective that none of them must bring, and
# of the decrease that a slope promises with which a step is taken.
_STEPS, _TRIALS = 30, 10
_ENOUGH = 1e-12
_DECREASE = 0.01
# Added to the diagonal of a second derivative that is scaled to 1: directions may be dependent,
# and what scores in float32 say of smaller eigenvalues is rounding.
_RIDGE = 1e-6


class Samples(NamedTuple):
    """Signs (n,) of the samples for one class, their costs (n,), and the loss."""

    signs: NDArray[np.int8]
    costs: NDArray[np.float32]
    squared: bool


class Found(NamedTuple):
    """Coefficients (k,) of the directions, and the objective there."""

    mix: Doubles
    value: float


def subspace_minimum(strips: NDArray[np.float32], products: Doubles, samples: Samples) -> Found:
    r"""Minimize the objective over combinations of k directions by Newton's method.

    .. math:: \min_u \tfrac12 u^T M u + \sum_i \tfrac{c_i}{2} \max(0, 1 - y_i z_i^T u)^2

    or without the maximum. It takes nothing but the directions' products M (k, k) and the
    samples' scores z in them, so no pass over the vectors. 2 k operations per sample and trial,
    k^2 more for those with a loss.

    Parameters
    ----------
    strips : array of shape (k, n)
        Scores of all samples in each direction. The first one is that of the current
        weights, where the search begins.
    products : array of shape (k, k)
    """
    mix = np.zeros(len(products))
    mix[0] = 1
    value, slope, curve = _objective(strips, products, samples, mix)
    for _ in range(_STEPS):
        step = _newton_step(slope, curve)
        promised = float(slope @ step)
        if not promised < -_ENOUGH * value:
            break
        length = 1.0
        for _ in range(_TRIALS):
            trial = mix + length * step
            there, new_slope, new_curve = _objective(strips, products, samples, trial)
            if there <= value + _DECREASE * length * promised:
                break
            # The slope is nearly a line: its zero, between here and there.
            end = float(new_slope @ step)
            length *= min(max(promised / (promised - end), 0.1), 0.5)
        else:
            break
        mix, value, slope, curve = trial, there, new_slope, new_curve
    return Found(mix, value)


def _newton_step(slope: Doubles, curve: Doubles) -> Doubles:
    scales = 1 / np.sqrt(np.maximum(np.diag(curve), np.finfo(float).tiny))
    system = curve * np.outer(scales, scales)
    system.flat[:: len(system) + 1] += _RIDGE
    return -scales * np.linalg.solve(system, scales * slope)


def _objective(
    strips: NDArray[np.float32], products: Doubles, samples: Samples, mix: Doubles
) -> tuple[float, Doubles, Doubles]:
    """Return the objective at a mix of directions, its slope (k,) and curvature (k, k)."""
    slope, curve = np.zeros(len(mix)), np.zeros((len(mix), len(mix)))
    loss = _add_losses(strips, mix, *samples, slope, curve)
    curve += np.tril(curve, -1).T
    pull = products @ mix
    return loss + float(mix @ pull) / 2, slope + pull, curve + products


@compiled("contract")
def _add_losses(
    strips: NDArray[np.float32],
    mix: Doubles,
    signs: NDArray[np.int8],
    costs: NDArray[np.float32],
    squared: bool,
    slope: Doubles,
    curve: Doubles,
) -> float:
    """Return the samples' loss, and add what it brings to the slope and half the curvature."""
    k, n = strips.shape
    loss = 0.0
    own = np.empty(k)
    for i in range(n):
        score = 0.0
        for j in range(k):
            own[j] = strips[j, i]
            score += mix[j] * own[j]
        slack = 1 - signs[i] * score
        if slack <= 0 and not squared:
            continue
        cost = np.float64(costs[i])
        loss += 0.5 * cost * slack * slack
        change = -cost * signs[i] * slack
        for j in range(k):
            slope[j] += change * own[j]
            for other in range(j + 1):
                curve[j, other] += cost * own[j] * own[other]
    return loss


@compiled("contract")
def advance(strips: NDArray[np.float32], change: Doubles, place: int) -> None:
    """Add a mix of strips (k, n) to the first one, and keep it as another."""
    k, n = strips.shape
    for i in range(n):
        moved = 0.0
        for j in range(k):
            moved += change[j] * strips[j, i]
        strips[0, i] += np.float32(moved)
        strips[place, i] = np.float32(moved)


def class_signs(indices: NDArray[Any], number: int) -> NDArray[np.int8]:
    """Return 1 for samples (n,) of a class, and -1 for those of others."""
    return np.where(indices == number, 1, -1).astype(np.int8)
