"""Least squares in place of the squared hinge: one linear system for all classes."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._support.parallel import ordered_map
from .dual import ROWS, Floats


def squared_betas(gram: Floats, signs: Floats, C: float, weights: Floats | None) -> Floats:
    r"""Solve for the coefficients of samples from their Gram matrix.

    .. math:: \big(K + \operatorname{diag}(\tfrac{1}{2 C v})\big) \beta = y

    One Cholesky factorization in float64 serves all classes: n^3 / 3 operations, and
    n^2 numbers besides K.

    Parameters
    ----------
    gram : array of shape (n, n)
        K.
    signs : array of shape (classes, n), +1 and -1
        y of each class.
    weights : array of shape (n,) or None
        v; None is 1 for all. Samples of weight 0 do not count.

    Returns
    -------
    array of shape (classes, n)
        0 for samples of weight 0.
    """
    v = np.ones(len(gram)) if weights is None else weights.astype(np.float64)
    used = np.flatnonzero(v)
    system = np.empty((len(used), len(used)))
    for row, i in zip(system, used, strict=True):  # a row at a time: no second copy
        row[:] = gram[i, used]
    betas = np.zeros_like(signs)
    betas[:, used] = _solve(system, 1 / (2 * C * v[used]), signs[:, used])
    return betas


def squared_weights(
    samples: Floats, signs: Floats, C: float, weights: Floats | None, executor: Executor | None
) -> Floats:
    r"""Solve for weights of columns, where samples (n, d) are more than columns.

    .. math:: \big(X^T V X + \tfrac{1}{2 C} I\big) w = X^T V y

    n d^2 products and d^3 / 3 operations for all classes, and nothing of size n x n.

    Returns
    -------
    array of shape (classes, d)
    """
    n, d = samples.shape
    v = np.ones(n) if weights is None else weights.astype(np.float64)

    def some(start: int) -> tuple[Floats, Floats]:
        rows = slice(start, start + ROWS)
        block = samples[rows].astype(np.float64)
        weighed = v[rows, None] * block
        return weighed.T @ block, signs[:, rows] @ weighed

    system, targets = np.zeros((d, d)), np.zeros((len(signs), d))
    for square, sums in ordered_map(some, range(0, n, ROWS), executor, ahead=2):
        system += square
        targets += sums
    return _solve(system, np.full(d, 1 / (2 * C)), targets).astype(samples.dtype)


def _solve(system: NDArray[np.float64], ridges: NDArray[np.float64], targets: Floats) -> Floats:
    """Solve (A + diag(ridges)) b = t for rows t of targets; A (m, m) is overwritten."""
    system.flat[:: len(system) + 1] += ridges
    try:
        # A is symmetric; its transpose is as LAPACK wants it, and is not copied.
        factor = cho_factor(system.T, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            "the penalty C times the largest weight is too large for vectors of this scale and "
            "precision; lower C, scale the vectors, or use float64"
        ) from None
    return np.asarray(cho_solve(factor, targets.T.astype(np.float64), check_finite=False).T)
