"""Codebooks: k-means on sampled descriptors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from .. import config
from .._support.loops import compiled, first_maximum
from .._support.parallel import ordered_map, single_blas_thread, workers

Progress = Callable[[int, int], None]

_MAX_ITER = 100
_TOL = 1e-4
# Rows per task and per matrix product. Both are fixed, so that sums are
# formed in the same order for any number of threads.
_TASK = 8192
_BLOCK = 512


def learn_codebook(
    descriptors: ArrayLike,
    size: int = config.CODEBOOK_SIZE,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    r"""Learn a codebook by k-means.

    .. math:: \min_D \sum_i \min_j \|x_i - d_j\|_2^2

    Lloyd's algorithm from random descriptors as first centers, up to 100
    iterations; it stops early when an iteration lowers the sum by less than
    a ten-thousandth. A center that loses all its descriptors moves to the
    descriptor that is farthest from its own center.

    Parameters
    ----------
    descriptors : array of shape (n, m)
    size : int
        Number of centers k. More than n gives a warning and n centers.
    random_state : int, RandomState instance or None
    n_jobs : int or None
        Threads; the result has the same bits for any number.
    progress : callable or None
        Called as ``progress(iteration, 100)`` after every iteration, and with
        (100, 100) at the end.

    Returns
    -------
    ndarray of shape (k, m), float32
        One center per row, not normalized.

    Notes
    -----
    scikit-learn's ``KMeans`` gives other bits for other numbers of threads,
    which rules it out here; `benchmarks/codebook.py` has the speeds of both.
    """
    with workers(n_jobs) as executor:
        return kmeans(descriptors, size, random_state, executor, progress)


def kmeans(
    descriptors: ArrayLike,
    size: int,
    random_state: Any,
    executor: Executor | None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """:func:`learn_codebook` on the threads of an executor."""
    values = check_array(descriptors, dtype=np.float32, order="C")
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    if size > len(values):
        warnings.warn(
            f"a codebook of {size} atoms was asked for, but there are only {len(values)} "
            f"descriptors; it will have {len(values)}",
            stacklevel=2,
        )
        size = len(values)
    rng = check_random_state(random_state)
    # Distances come from differences of squares, which lose digits far from zero.
    origin = values.mean(axis=0, dtype=np.float64).astype(np.float32)
    values = values - origin
    centers = values[_distinct_rows(values, size, rng)]
    norms = np.einsum("ij,ij->i", values, values)
    before = np.inf
    with single_blas_thread():
        for iteration in range(1, _MAX_ITER + 1):
            centers, total = _improve(values, norms, centers, executor)
            if progress is not None:
                progress(iteration, _MAX_ITER)
            if before - total <= _TOL * total:
                break
            before = total
    if progress is not None:
        progress(_MAX_ITER, _MAX_ITER)
    return centers + origin


def _improve(
    values: NDArray[np.float32],
    norms: NDArray[np.float32],
    centers: NDArray[np.float32],
    executor: Executor | None,
) -> tuple[NDArray[np.float32], float]:
    """One iteration of Lloyd's algorithm: new centers, and the sum for the old ones.

    2 n k m operations, nearly all in the matrix product.
    """
    offsets = 0.5 * np.einsum("ij,ij->i", centers, centers)
    transposed = np.ascontiguousarray(centers.T)

    def assign(start: int) -> tuple[NDArray[Any], ...]:
        rows = slice(start, start + _TASK)
        return _assign(values[rows], norms[rows], transposed, offsets)

    sums, counts, distances = np.zeros(centers.shape), np.zeros(len(centers)), []
    for part in ordered_map(assign, range(0, len(values), _TASK), executor):
        sums += part[0]
        counts += part[1]
        distances.append(part[2])
    distance = np.concatenate(distances)

    moved = centers.copy()
    filled = counts > 0
    moved[filled] = sums[filled] / counts[filled, None]
    empty = np.flatnonzero(~filled)
    if len(empty):
        farthest = np.argsort(-distance, kind="stable")[: len(empty)]
        farthest = farthest[distance[farthest] > 0]
        moved[empty[: len(farthest)]] = values[farthest]
    return moved, float(distance.sum(dtype=np.float64))


def _distinct_rows(
    values: NDArray[np.float32], size: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Indices of random rows, all different as long as there are enough of them.

    Flat patches have identical descriptors; two equal centers would waste one.
    """
    order = rng.permutation(len(values))
    candidates = order[: 4 * size]
    first = np.unique(values[candidates], axis=0, return_index=True)[1]
    if len(first) < size:
        candidates = order
        first = np.unique(values[candidates], axis=0, return_index=True)[1]
    chosen = np.sort(first)[:size]
    rest = np.setdiff1d(np.arange(len(candidates)), chosen)[: size - len(chosen)]
    return candidates[np.concatenate([chosen, rest])]


def _assign(
    values: NDArray[np.float32],
    norms: NDArray[np.float32],
    transposed: NDArray[np.float32],
    offsets: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Sums (k, m) and counts (k,) of the rows nearest to each center, and squared distances."""
    m, k = transposed.shape
    sums, counts = np.zeros((k, m)), np.zeros(k)
    distances = np.empty(len(values), np.float32)
    products = np.empty((_BLOCK, k), np.float32)
    for start in range(0, len(values), _BLOCK):
        rows = slice(start, min(start + _BLOCK, len(values)))
        out = products[: rows.stop - rows.start]
        np.matmul(values[rows], transposed, out=out)
        _nearest(values[rows], norms[rows], out, offsets, sums, counts, distances[rows])
    return sums, counts, distances


@compiled()
def _nearest(
    values: NDArray[np.float32],
    norms: NDArray[np.float32],
    products: NDArray[np.float32],
    offsets: NDArray[np.float32],
    sums: NDArray[np.float64],
    counts: NDArray[np.float64],
    distances: NDArray[np.float32],
) -> None:
    """Add each row to its nearest center: 2 k comparisons and m additions per row.

    ||x - d||^2 = ||x||^2 - 2 (x.d - ||d||^2 / 2), so the nearest center has
    the largest bracket.
    """
    for i in range(products.shape[0]):
        row = products[i]
        for j in range(row.size):
            row[j] -= offsets[j]
        nearest = first_maximum(row)
        total, value = sums[nearest], values[i]
        for j in range(value.size):
            total[j] += value[j]
        counts[nearest] += 1
        distances[i] = max(norms[i] - 2 * row[nearest], np.float32(0))
