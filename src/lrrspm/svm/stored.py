"""Vectors wherever they are, in memory, in shards or on a device: products and scores of all."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.devices import Accelerator, Held
from .._support.parallel import single_blas_thread
from .._support.shards import Shard, Shards
from .dual import Floats, gram_matrix
from .long import long_gram_matrix

GRAM_BYTES = 4e9
"""Most bytes of a Gram matrix of vectors in shards, and of its factor for the loss "squared"."""


def gram_fits(n: int, loss: str) -> bool:
    """True if n vectors in shards are few enough for their Gram matrix; else the primal is solved.

    31,622 vectors, or 18,257 with the loss "squared": the same on every machine.
    """
    return n**2 * (12 if loss == "squared" else 4) <= GRAM_BYTES


def score_rows(
    machine: Any,
    X: NDArray[Any] | Shards | Held,
    rows: NDArray[np.bool_],
    executor: Executor | None,
) -> Floats:
    """Return a machine's scores of some rows of X (n, d), a shard at a time."""
    if isinstance(X, Held):
        return np.asarray(machine.scores(X, executor)[rows])
    if not isinstance(X, Shards):
        # All rows are not copied: long vectors leave little room.
        return np.asarray(machine.scores(X if rows.all() else X[rows], executor))
    chosen = ((shard, rows[shard.start : shard.stop]) for shard in X)
    parts = [part for part in chosen if part[1].any()]
    if X.spread is not None:
        return np.concatenate(list(X.spread(_score_shards, parts, machine)))
    return np.concatenate([_score_shard(machine, part, executor) for part in parts])


def _score_shards(
    machine: Any, parts: Sequence[tuple[Shard, NDArray[np.bool_]]]
) -> list[NDArray[Any]]:
    return [_score_shard(machine, part, None) for part in parts]


def _score_shard(
    machine: Any, part: tuple[Shard, NDArray[np.bool_]], executor: Executor | None
) -> NDArray[Any]:
    shard, rows = part
    return np.asarray(machine.scores(shard.read()[rows], executor))


def linear_gram(X: Floats | Shards | Held, executor: Executor | None) -> Floats:
    """X X' (n, n) of samples (n, d); of those in half precision or in shards, in float32."""
    if isinstance(executor, Accelerator) and not isinstance(X, Shards) and X.dtype != np.float64:
        gram = executor.gram(X)
        if gram is not None:
            return gram
    if isinstance(X, Held):
        X = np.asarray(X)
    with single_blas_thread():
        if isinstance(X, Shards) or X.dtype == np.float16:
            return long_gram_matrix(X, executor)
        return gram_matrix(X, executor)
