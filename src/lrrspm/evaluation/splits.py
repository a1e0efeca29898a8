"""Splits: which images train and which test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.text import plural


def split_seeds(seed: int, splits: int) -> list[int]:
    """Return a seed per split; more splits do not change the seeds of the first ones."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(splits) >> 1]


def split_by_class(labels: NDArray[Any], train_per_class: int, seed: int) -> NDArray[np.int64]:
    """Draw the same number of training images from each class; returns sorted indices."""
    if train_per_class < 1:
        raise ValueError(f"train_per_class must be at least 1, got {train_per_class}")
    names, counts = np.unique(labels, return_counts=True)
    name, least = names[counts.argmin()], counts.min()
    if least <= train_per_class:
        raise ValueError(
            f"class '{name}' has {plural(least, 'image')}; {train_per_class} for training "
            f"leave none to test; "
            + (f"use at most {least - 1} per class, or " if least > 1 else "")
            + "leave the class out"
        )
    rng = np.random.default_rng(seed)
    chosen = [
        rng.choice(np.flatnonzero(labels == name), train_per_class, replace=False) for name in names
    ]
    return np.sort(np.concatenate(chosen))
