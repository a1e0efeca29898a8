"""Seconds of work that several workers do at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from .._support.stages import Stages


@contextmanager
def divided(stages: Stages, names: Sequence[str]) -> Iterator[NDArray[np.float64]]:
    """Add the wall-clock time spent inside to several stages.

    Workers run at the same time, so their own seconds, added to the array that
    this yields, only say how the wall-clock time divides. They are scaled to
    it in place.
    """
    spent = np.zeros(len(names))
    start = time.perf_counter()
    yield spent
    if spent.any():
        spent *= (time.perf_counter() - start) / spent.sum()
    stages.add_all(zip(names, spent.tolist(), strict=True))
