"""Leaving out: scores of every sample by a machine trained without it, in closed form."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._support.parallel import ordered_map, single_blas_thread
from .dual import Floats

MOST_OPERATIONS = 4e12
"""Products that may be spent; more would take longer than training in folds."""


def leave_out(
    gram: Floats,
    scores: Floats,
    signs: Floats,
    costs: NDArray[np.float64],
    groups: NDArray[np.int64] | None = None,
    squared: bool = False,
    executor: Executor | None = None,
) -> NDArray[np.float64] | None:
    r"""Return what each sample's scores would be had the machine not been trained on it.

    The samples A whose margin is below 1 make the machine, a linear system:

    .. math:: \big(K_{AA} + \operatorname{diag}(1 / c_A)\big) \beta = y_A, \qquad
              s^{-i}_i = y_i - \beta_i / H_{ii}

    with H the inverse of that matrix. Others leave the machine as it is. For the loss
    "squared" A is every sample, and this is exact. For the squared hinge it is exact
    as long as no other sample's margin crosses 1 when i is left out.

    Parameters
    ----------
    gram : array of shape (n, n)
        K.
    scores : array of shape (n, m)
        Of the samples, by the m machines that were trained on them.
    signs : array of shape (m, n), +1 and -1
        y of each machine.
    costs : array of shape (n,)
        c = 2 C v with the weights v; samples of 0 were not trained on.
    groups : array of shape (n,) or None
        Samples of one number are left out together; None is each alone.
    squared : bool
        True for the loss "squared".

    Returns
    -------
    array of shape (n, m), or None
        None where it would take too long, or the system has no solution in float64.
    """
    trained = costs > 0
    active = [
        trained if squared else trained & (sign * column < 1)
        for sign, column in zip(signs, scores.T, strict=True)
    ]
    spent = [float(rows.sum()) ** 3 for rows in (active[:1] if squared else active)]
    if sum(spent) > MOST_OPERATIONS:
        return None
    together = _larger_groups(groups)
    shared = _invert(gram, active[0], costs) if squared else None

    def leave(number: int) -> NDArray[np.float64] | None:
        rows = np.flatnonzero(active[number])
        inverse = shared if squared else _invert(gram, active[number], costs)
        if inverse is None:
            return None
        found = scores[:, number].astype(np.float64)
        y = signs[number, rows].astype(np.float64)
        betas = inverse @ y
        found[rows] = y - betas / np.diag(inverse)
        for members in together:
            own = np.flatnonzero(np.isin(rows, members))
            block = np.linalg.solve(inverse[np.ix_(own, own)], betas[own])
            rest = betas - inverse[:, own] @ block
            rest[own] = 0
            found[members] = gram[np.ix_(members, rows)] @ rest
        return found

    with single_blas_thread():
        columns = list(ordered_map(leave, range(len(signs)), executor, ahead=2))
    if any(column is None for column in columns):
        return None
    return np.stack([column for column in columns if column is not None], axis=1)


def _larger_groups(groups: NDArray[np.int64] | None) -> list[NDArray[np.int64]]:
    """Return the members of each group of two or more."""
    if groups is None:
        return []
    numbers, counts = np.unique(groups, return_counts=True)
    return [np.flatnonzero(groups == number) for number in numbers[counts > 1]]


def _invert(
    gram: Floats, active: NDArray[np.bool_], costs: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the inverse of K + diag(1 / c) of the active samples; None if it has none."""
    rows = np.flatnonzero(active)
    system = gram[np.ix_(rows, rows)].astype(np.float64)
    system.flat[:: len(rows) + 1] += 1 / costs[rows]
    try:
        factor = cho_factor(system.T, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return np.asarray(cho_solve(factor, np.eye(len(rows)), check_finite=False))
