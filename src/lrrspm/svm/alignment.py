"""Alignment: how well products of vectors tell whether two samples are of one class."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.devices import Held
from .stored import linear_gram

_MOST = 512


def class_alignment(
    X: NDArray[Any] | Held,
    labels: NDArray[Any],
    members: NDArray[np.int64],
    executor: Executor | None,
    columns: slice = slice(None),
) -> float:
    r"""Correlate the inner products of samples with sharing a class.

    .. math:: \frac{\sum_{i \ne j} K_{ij} Y_{ij}}
              {\sqrt{\sum_{i \ne j} K_{ij}^2 \sum_{i \ne j} Y_{ij}^2}}

    with K the centered Gram matrix of the members' rows of X (n, d), and Y the centered
    matrix of 1 for two members of one class and 0 for others. A sample's product with
    itself says nothing, and would count more the fewer samples a class has. Of more than
    512 members, 512 random ones, always the same, are used. 0 where all members are of
    one class, or all products the same.
    """
    members = members[aligned_rows(len(members))]
    labels = labels[members]
    if isinstance(X, Held):
        rows: NDArray[Any] | Held = X.some(members, columns)
    else:
        rows = np.ascontiguousarray(X[:, columns][members])
    products = _centered(linear_gram(rows, executor).astype(np.float64))
    alike = _centered((labels[:, None] == labels).astype(np.float64))
    scale = np.sqrt((products**2).sum() * (alike**2).sum())
    return float((products * alike).sum() / scale) if scale > 0 else 0.0


def aligned_rows(n: int) -> NDArray[np.int64]:
    """Return the sorted indices of those of n members that an alignment uses."""
    if n <= _MOST:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:_MOST])


def _centered(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract the means of rows and columns, then leave out the diagonal."""
    means = gram.mean(axis=0)
    centered = gram - means - means[:, None] + gram.mean()
    np.fill_diagonal(centered, 0)
    return centered
