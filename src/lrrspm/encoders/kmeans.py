"""Codebooks: k-means on sampled descriptors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from .. import config
from .._support.devices import Accelerator, Clustered, Nearest
from .._support.loops import compiled, first_maximum
from .._support.parallel import ordered_map, single_blas_thread, workers
from .._support.shards import Shard, Shards

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
    descriptors: ArrayLike | Shards,
    size: int,
    random_state: Any,
    executor: Executor | None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """:func:`learn_codebook` on the workers of an executor.

    Descriptors may be in shards of a multiple of 8192 rows, float32: then the executor
    may be of any kind, only sums come back from it, and the bits are the same. A device
    beside the executor takes large problems; last bits differ there.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    values = _place(descriptors, size, executor)
    if size > len(values):
        warnings.warn(
            f"a codebook of {size} atoms was requested, but there are only {len(values)} "
            f"descriptors; it will have {len(values)}",
            stacklevel=2,
        )
        size = len(values)
    rng = check_random_state(random_state)
    # Distances come from differences of squares, which lose digits far from zero.
    origin = values.center()
    centers = values.take(_distinct_rows(values, size, rng))
    before = np.inf
    with single_blas_thread():
        for iteration in range(1, _MAX_ITER + 1):
            centers, total = _improve(values, centers, executor)
            if progress is not None:
                progress(iteration, _MAX_ITER)
            if before - total <= _TOL * total:
                break
            before = total
    if progress is not None:
        progress(_MAX_ITER, _MAX_ITER)
    return centers + origin


def _place(descriptors: ArrayLike | Shards, size: int, executor: Executor | None) -> Clustered:
    if isinstance(descriptors, Shards):
        return _OnDisk(descriptors)
    checked = check_array(descriptors, dtype=np.float32, order="C")
    placed = executor.cluster(checked, size) if isinstance(executor, Accelerator) else None
    return _InMemory(checked) if placed is None else placed


class _InMemory:
    """Descriptors (n, m) in an array, which threads share."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self._values = values
        self._norms = _norms(values)

    def __len__(self) -> int:
        return len(self._values)

    def center(self) -> NDArray[np.float32]:
        """Subtract the mean, and return it."""
        origin: NDArray[np.float32] = self._values.mean(axis=0, dtype=np.float64).astype(np.float32)
        self._values = self._values - origin
        self._norms = _norms(self._values)
        return origin

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some rows."""
        return self._values[rows]

    def nearest(self, centers: NDArray[np.float32], executor: Executor | None) -> Nearest:
        """Assign every row to its nearest center."""
        transposed, offsets = _prepared(centers)

        def some(start: int) -> _Assigned:
            rows = slice(start, start + _TASK)
            return _assign(self._values[rows], self._norms[rows], transposed, offsets)

        return _collect(ordered_map(some, range(0, len(self), _TASK), executor), centers)


class _OnDisk:
    """Descriptors (n, m) in shards, which workers read."""

    def __init__(self, shards: Shards) -> None:
        if shards.dtype != np.float32 or any(shard.start % _TASK for shard in shards):
            raise ValueError(
                f"descriptors in shards are float32, and shards have a multiple of {_TASK} rows"
            )
        self._shards = shards
        self._origin = np.zeros(shards.shape[1], np.float32)
        self._pieces = [
            Piece(shard, first) for shard in shards for first in range(0, len(shard), _TASK)
        ]

    def __len__(self) -> int:
        return self._shards.shape[0]

    def center(self) -> NDArray[np.float32]:
        """Subtract the mean from whatever is read, and return it."""
        total = np.zeros(self._shards.shape[1])
        for piece in self._pieces:  # row after row: as the mean of an array is formed
            total = np.vstack([total, piece.read()]).sum(axis=0)
        self._origin = (total / len(self)).astype(np.float32)
        return self._origin

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some rows."""
        return np.asarray(self._shards.take(rows) - self._origin)

    def nearest(self, centers: NDArray[np.float32], executor: Executor | None) -> Nearest:
        """Assign every row to its nearest center."""
        work = partial(assign_piece, self._origin, *_prepared(centers))
        return _collect(ordered_map(work, self._pieces, executor), centers)


class Piece(NamedTuple):
    """Up to 8192 rows of a shard, from its own row ``first`` on; can be pickled."""

    shard: Shard
    first: int

    def read(self) -> NDArray[np.float32]:
        return self.shard.read(self.first, self.first + _TASK)


def assign_piece(
    origin: NDArray[np.float32],
    transposed: NDArray[np.float32],
    offsets: NDArray[np.float32],
    piece: Piece,
) -> _Assigned:
    """Assign the rows of a piece, less an origin (m,), to centers; for workers of any kind."""
    values = piece.read() - origin
    with single_blas_thread():
        return _assign(values, _norms(values), transposed, offsets)


_Assigned = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]


def _norms(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.einsum("ij,ij->i", values, values))


def _prepared(
    centers: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Centers (k, m) transposed, and half their squared norms."""
    return np.ascontiguousarray(centers.T), 0.5 * np.einsum("ij,ij->i", centers, centers)


def _collect(parts: Iterator[_Assigned], centers: NDArray[np.float32]) -> Nearest:
    """Add up what tasks found, in order."""
    sums, counts, distances = np.zeros(centers.shape), np.zeros(len(centers)), []
    for part in parts:
        sums += part[0]
        counts += part[1]
        distances.append(part[2])
    distance = np.concatenate(distances)

    def farthest(count: int) -> NDArray[np.int64]:
        rows = np.argsort(-distance, kind="stable")[:count]
        return rows[distance[rows] > 0]

    return Nearest(sums, counts, float(distance.sum(dtype=np.float64)), farthest)


def _improve(
    values: Clustered,
    centers: NDArray[np.float32],
    executor: Executor | None,
) -> tuple[NDArray[np.float32], float]:
    """One iteration of Lloyd's algorithm: new centers, and the sum for the old ones.

    2 n k m operations, nearly all in the matrix product.
    """
    found = values.nearest(centers, executor)
    moved = centers.copy()
    filled = found.counts > 0
    moved[filled] = found.sums[filled] / found.counts[filled, None]
    empty = np.flatnonzero(~filled)
    if len(empty):
        farthest = found.farthest(len(empty))
        moved[empty[: len(farthest)]] = values.take(farthest)
    return moved, found.total


def _distinct_rows(values: Clustered, size: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Indices of random rows, all different as long as there are enough of them.

    Flat patches have identical descriptors; two equal centers would waste one.
    """
    order = rng.permutation(len(values))
    candidates = order[: 4 * size]
    first = np.unique(values.take(candidates), axis=0, return_index=True)[1]
    if len(first) < size:
        candidates = order
        first = np.unique(values.take(candidates), axis=0, return_index=True)[1]
    chosen = np.sort(first)[:size]
    rest = np.setdiff1d(np.arange(len(candidates)), chosen)[: size - len(chosen)]
    return candidates[np.concatenate([chosen, rest])]


def _assign(
    values: NDArray[np.float32],
    norms: NDArray[np.float32],
    transposed: NDArray[np.float32],
    offsets: NDArray[np.float32],
) -> _Assigned:
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
