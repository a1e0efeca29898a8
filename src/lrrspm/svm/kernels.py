"""Kernels on non-negative vectors, in float32, a band of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled
from .._support.parallel import ordered_map

_BAND = 64  # rows a task
_TILE = 4  # rows of X and of Y whose sums are kept in registers together


def kernel_matrix(
    name: str,
    X: NDArray[np.float32],
    Y: NDArray[np.float32],
    executor: Executor | None,
) -> NDArray[np.float32]:
    r"""Kernel of every row of X with every row of Y, (n, p).

    .. math:: k_\cap(x, y) = \sum_d \min(x_d, y_d), \qquad
              k_{\chi^2}(x, y) = \sum_d \frac{2 x_d y_d}{x_d + y_d}

    n p d minima and additions (or divisions); the sums are formed in an order
    that depends on nothing but d, so the result has the same bits for any
    number of threads, and a row's values do not depend on the other rows.
    """
    fill = KERNELS[name]
    # Whole tiles: rows of zeros at the end cost less than a second code path.
    padded = _pad(Y)
    out = np.empty((len(X), len(padded)), np.float32)

    def band(start: int) -> None:
        rows = _pad(X[start : start + _BAND])
        part = np.empty((len(rows), len(padded)), np.float32)
        fill(rows, padded, part)
        out[start : start + _BAND] = part[: len(X) - start]

    for _ in ordered_map(band, range(0, len(X), _BAND), executor):
        pass
    return out[:, : len(Y)]


def _pad(X: NDArray[np.float32]) -> NDArray[np.float32]:
    missing = -len(X) % _TILE
    return np.pad(X, ((0, missing), (0, 0))) if missing else X


def intersection_weights(
    x: NDArray[np.float32], Y: NDArray[np.float32], coefficients: NDArray[Any]
) -> NDArray[np.float64]:
    r"""Weights w for which w . x is the sum of a row's weighted intersection kernels.

    .. math:: w_d = \frac{1}{x_d} \sum_i a_i \min(x_d, y_{id})

    and 0 where x_d is: the kernel is a sum over columns, so a score is one
    too. p d minima, in float64 since the coefficients nearly cancel.
    """
    sums = _sum_minima(x, Y, coefficients.astype(np.float64))
    return np.divide(sums, x, out=np.zeros_like(sums), where=x > 0)


@compiled("contract")
def _sum_minima(
    x: NDArray[np.float32], Y: NDArray[np.float32], coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Reads Y once; the sums stay in cache."""
    sums = np.zeros(x.size, np.float64)
    for i in range(Y.shape[0]):
        row = Y[i]
        for t in range(x.size):
            sums[t] += coefficients[i] * np.float64(min(x[t], row[t]))
    return sums


@compiled("contract", "reassoc", "nnan", "nsz")
def _fill_intersection(
    X: NDArray[np.float32],
    Y: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write sums of minima into out, 4 x 4 rows at a time.

    Sixteen sums stay in registers, so eight loads feed sixteen minima and
    sixteen additions.
    """
    zero = np.float32(0)
    for i in range(0, X.shape[0], 4):
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        for j in range(0, Y.shape[0], 4):
            y0, y1, y2, y3 = Y[j], Y[j + 1], Y[j + 2], Y[j + 3]
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            c0, c1, c2, c3 = zero, zero, zero, zero
            d0, d1, d2, d3 = zero, zero, zero, zero
            for t in range(X.shape[1]):
                p, q, r, s = x0[t], x1[t], x2[t], x3[t]
                u, v, w, z = y0[t], y1[t], y2[t], y3[t]
                a0 += min(p, u)
                a1 += min(p, v)
                a2 += min(p, w)
                a3 += min(p, z)
                b0 += min(q, u)
                b1 += min(q, v)
                b2 += min(q, w)
                b3 += min(q, z)
                c0 += min(r, u)
                c1 += min(r, v)
                c2 += min(r, w)
                c3 += min(r, z)
                d0 += min(s, u)
                d1 += min(s, v)
                d2 += min(s, w)
                d3 += min(s, z)
            out[i, j] = a0
            out[i, j + 1] = a1
            out[i, j + 2] = a2
            out[i, j + 3] = a3
            out[i + 1, j] = b0
            out[i + 1, j + 1] = b1
            out[i + 1, j + 2] = b2
            out[i + 1, j + 3] = b3
            out[i + 2, j] = c0
            out[i + 2, j + 1] = c1
            out[i + 2, j + 2] = c2
            out[i + 2, j + 3] = c3
            out[i + 3, j] = d0
            out[i + 3, j + 1] = d1
            out[i + 3, j + 2] = d2
            out[i + 3, j + 3] = d3


@compiled("contract", "reassoc", "nnan", "nsz")
def _fill_chi2(
    X: NDArray[np.float32],
    Y: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write sums of 2xy / (x + y) into out; 0 where both are 0.

    The division takes so long that nothing else matters.
    """
    tiny = np.float32(1e-30)
    for i in range(X.shape[0]):
        x = X[i]
        for j in range(Y.shape[0]):
            y = Y[j]
            total = np.float32(0)
            for t in range(X.shape[1]):
                total += x[t] * y[t] / max(x[t] + y[t], tiny)
            out[i, j] = 2 * total


KERNELS: dict[str, Callable[[Any, Any, Any], None]] = {
    "chi2": _fill_chi2,
    "intersection": _fill_intersection,
}
