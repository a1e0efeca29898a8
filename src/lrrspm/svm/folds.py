"""Folds: every image is tested once, by a machine that was trained without it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import config


def stratified_folds(
    labels: NDArray[Any],
    seed: int,
    groups: NDArray[Any] | None = None,
    n_folds: int = config.FOLDS,
) -> NDArray[np.int64]:
    """Return the fold of each image, (n,), with each class spread evenly over the folds.

    Images of one group are in one fold. Classes of one group alone are in no
    fold, -1: without it nothing would be known of them. So are all images where
    fewer than two classes can be tested.
    """
    names, indices = np.unique(labels, return_inverse=True)
    groups = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    folds = np.full(len(labels), -1)
    alone = [len(np.unique(groups[indices == c])) < 2 for c in range(len(names))]
    tested = ~np.array(alone)[indices]
    if len(np.unique(indices[tested])) < 2:
        return folds
    counts = np.zeros((len(names), n_folds), np.int64)
    rng = np.random.default_rng(seed)
    members: dict[int, list[int]] = {}
    for i in rng.permutation(np.flatnonzero(tested)).tolist():
        members.setdefault(int(groups[i]), []).append(i)
    # Large groups first: small ones even out what they leave.
    for group in sorted(members.values(), key=len, reverse=True):
        added = np.bincount(indices[group], minlength=len(names))
        # Where its classes are rarest so far; then where there are fewest images.
        crowded = added @ counts
        fold = np.lexsort((counts.sum(axis=0), crowded))[0]
        folds[group] = fold
        counts[:, fold] += added
    _spare_lost(folds, indices)
    return _renumber(folds)


def _spare_lost(folds: NDArray[np.int64], indices: NDArray[np.int64]) -> None:
    """Test no image of a class that is all in one fold."""
    for c in np.unique(indices[folds >= 0]):
        rows = np.flatnonzero((indices == c) & (folds >= 0))
        trained = (indices == c) & (folds < 0)
        if len(np.unique(folds[rows])) < 2 and not trained.any():
            folds[rows] = -1


def _renumber(folds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out folds without images."""
    used = np.unique(folds[folds >= 0])
    places = np.full(int(folds.max()) + 2, -1)
    places[used] = np.arange(len(used))
    return np.where(folds < 0, -1, places[folds])
