"""Crossing: scores of every sample by machines that were trained without its fold."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import config
from .dual import Floats
from .kernel import KernelSVM
from .labels import score_columns


def cross_scores(
    gram: Floats,
    y: NDArray[Any],
    folds: NDArray[np.int64],
    C: float = config.C,
    random_state: Any = None,
    executor: Executor | None = None,
) -> NDArray[np.float64]:
    """Return scores (n, n_classes) from a Gram matrix (n, n), 0 where the fold (n,) is -1.

    Those of :class:`LinearSVM` on the vectors, or of :class:`KernelSVM`, up to
    rounding; but no weights (n_classes, d) are made, so another C costs only the dual.
    """
    scores = np.zeros((len(y), len(np.unique(y))))

    def test(fold: int, machine: KernelSVM) -> None:
        rows = folds == fold
        scores[rows] = score_columns(machine.scores(gram[rows]))

    machine = KernelSVM("precomputed", C=C, random_state=random_state)
    machine.fit_folds(gram, y, folds, executor, tell=test)
    return scores
