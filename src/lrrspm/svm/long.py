"""Long vectors in half precision: products a block of columns at a time, in float32."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.devices import Accelerator, Held
from .._support.halves import all_finite, in_precision, widen_columns
from .._support.loops import compiled
from .._support.parallel import ordered_map, single_blas_thread
from .._support.shards import Shard, Shards, stacked_columns
from .dual import ROWS, Floats, mirror_lower

# Columns in float32 at a time, in products of many rows and of few; samples per
# task: fixed, so that the result does not depend on the number of threads.
_COLUMNS = 4096
_FEW_COLUMNS = 1024
_SAMPLES = 64
# Rows of a Gram matrix per task of another machine: 130 MB with 31,622 samples.
_BAND = 2 * ROWS
_MOST_CHANGE = 2.0**-10


def check_halves(X: NDArray[np.float16]) -> None:
    """Raise ValueError where a matrix (n, d) has values that are not finite."""
    if not all_finite(X):
        raise ValueError("Input X contains NaN or infinity.")


def long_gram_matrix(
    X: NDArray[np.float16] | Shards, executor: Executor | None
) -> NDArray[np.float32]:
    """X X' (n, n): n^2 d products, and one block of columns in float32 besides X.

    Where other machines read the shards, they are made there, in bands of rows: the same
    products in the same order.
    """
    n = X.shape[0]
    gram = np.zeros((n, n), np.float32)
    if isinstance(X, Shards) and X.spread is not None:
        # The longest bands first, so that no worker is left with one at the end.
        bands = [(start, min(start + _BAND, n)) for start in reversed(range(0, n, _BAND))]
        found = X.spread(gram_bands, bands, list(X))
        for (start, stop), band in zip(bands, found, strict=True):
            gram[start:stop, :stop] = band
    else:
        for first in range(0, X.shape[1], _COLUMNS):
            block = _wide_columns(X, first, min(first + _COLUMNS, X.shape[1]))
            add = partial(_add_band, gram, block, 0)
            for _ in ordered_map(add, reversed(range(0, n, ROWS)), executor):
                pass
    mirror_lower(gram)
    for start in range(0, n, ROWS):  # not every BLAS rounds both halves of a square alike
        square = gram[start : start + ROWS, start : start + ROWS]
        square[:] = np.tril(square) + np.tril(square, -1).T
    return gram


def _add_band(
    out: NDArray[np.float32], block: NDArray[np.float32], origin: int, start: int
) -> None:
    """Add the products of up to 512 rows of a block of columns (m, c) with those before them."""
    stop = min(start + ROWS, len(block))
    out[start - origin : stop - origin, :stop] += block[start:stop] @ block[:stop].T


def gram_bands(shards: Sequence[Shard], bands: Sequence[tuple[int, int]]) -> list[Any]:
    """Return rows (start, stop) of the Gram matrix of shards, up to the diagonal.

    A plain function, for workers of any kind. In memory are the rows, and a block of
    columns of all samples before their end.
    """
    return [_gram_band(shards, *band) for band in bands]


def _gram_band(shards: Sequence[Shard], start: int, stop: int) -> NDArray[np.float32]:
    out = np.zeros((stop - start, stop), np.float32)
    needed = [shard for shard in shards if shard.start < stop]
    with single_blas_thread():
        for first in range(0, shards[0].columns, _COLUMNS):
            last = min(first + _COLUMNS, shards[0].columns)
            block = stacked_columns(needed, needed[-1].stop, first, last)[:stop]
            for row in range(start, stop, ROWS):
                _add_band(out, block, start, row)
            del block  # before the next one is read
    return out


def long_weights(
    betas: Floats, X: NDArray[np.float16] | Shards | Held, executor: Executor | None
) -> Floats:
    """Return betas X, (classes, d), from coefficients (classes, n)."""
    if isinstance(executor, Accelerator) and isinstance(X, np.ndarray):
        X = executor.hold(X) or X
    if isinstance(X, Held):
        return X.weights(betas)
    weights = np.empty((len(betas), X.shape[1]), np.float32)
    starts = range(0, X.shape[1], _COLUMNS)
    if isinstance(X, Shards) and X.spread is not None:
        found = X.spread(weight_columns, list(starts), (betas, list(X)))
    else:
        found = ordered_map(partial(_weight_columns, betas, X), starts, executor, ahead=2)
    for first, columns in zip(starts, found, strict=True):
        weights[:, first : first + _COLUMNS] = columns
    return weights


def weight_columns(given: tuple[Floats, Sequence[Shard]], starts: Sequence[int]) -> list[Any]:
    """Return betas X (classes, 4096) for blocks of columns of shards X.

    A plain function, for workers of any kind.
    """
    betas, shards = given
    with single_blas_thread():
        return [_weight_columns(betas, shards, first) for first in starts]


def _weight_columns(
    betas: Floats, X: NDArray[np.float16] | Sequence[Shard], first: int
) -> NDArray[np.float32]:
    length = X.shape[1] if isinstance(X, np.ndarray) else X[0].columns
    stop = min(first + _COLUMNS, length)
    return np.matmul(betas, _wide_columns(X, first, stop)).astype(np.float32, copy=False)


def _wide_columns(
    X: NDArray[np.float16] | Sequence[Shard], first: int, stop: int
) -> NDArray[np.float32]:
    if isinstance(X, np.ndarray):
        return widen_columns(X, first, stop)
    return stacked_columns(X, X[-1].stop, first, stop)


def round_weights(weights: Floats) -> Floats:
    """Return weights (classes, d) in float16, where no row changes by 0.1 % of its norm.

    That is so unless weights are tiny or huge; then they stay as they are.
    """
    halves = np.empty(weights.shape, np.float16)
    for row, half in zip(weights, halves, strict=True):
        half[:] = in_precision(row, np.float16)
        change = widen_columns(half[None], 0, len(half))[0] - row
        if np.linalg.norm(change) > _MOST_CHANGE * np.linalg.norm(row):
            return weights
    return halves if all_finite(halves) else weights


def long_scores(X: Floats, weights: Floats, executor: Executor | None) -> Floats:
    """Return X W' (n, classes) for X (n, d) and weights W (classes, d), each of any precision.

    A row of the result has the same bits whatever other rows there are, which
    BLAS does not promise, and no device.
    """
    if isinstance(executor, Accelerator) and X.dtype == np.float16:
        held = executor.hold(X)
        if held is not None:
            return held.scores(weights)

    def some(start: int) -> NDArray[np.float32]:
        samples = X[start : start + _SAMPLES]
        out = np.zeros((len(samples), len(weights)), np.float32)
        for first in range(0, X.shape[1], _FEW_COLUMNS):
            stop = min(first + _FEW_COLUMNS, X.shape[1])
            _add_products(_columns(samples, first, stop), _columns(weights, first, stop), out)
        return out

    return np.concatenate(list(ordered_map(some, range(0, len(X), _SAMPLES), executor)))


def _columns(matrix: Floats, start: int, stop: int) -> NDArray[np.float32]:
    if matrix.dtype == np.float16:
        return widen_columns(matrix, start, stop)
    return np.ascontiguousarray(matrix[:, start:stop], np.float32)


@compiled("contract", "reassoc")
def _add_products(
    X: NDArray[np.float32], weights: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """Add X W' to out, four classes at a time: a multiply-add takes 5/4 loads."""
    n_classes = weights.shape[0]
    whole = n_classes - n_classes % 4
    for i in range(X.shape[0]):
        x = X[i]
        for c in range(0, whole, 4):
            w0, w1, w2, w3 = weights[c], weights[c + 1], weights[c + 2], weights[c + 3]
            s0 = s1 = s2 = s3 = np.float32(0)
            for j in range(x.size):
                s0 += x[j] * w0[j]
                s1 += x[j] * w1[j]
                s2 += x[j] * w2[j]
                s3 += x[j] * w3[j]
            out[i, c] += s0
            out[i, c + 1] += s1
            out[i, c + 2] += s2
            out[i, c + 3] += s3
        for c in range(whole, n_classes):
            w0 = weights[c]
            s0 = np.float32(0)
            for j in range(x.size):
                s0 += x[j] * w0[j]
            out[i, c] += s0
