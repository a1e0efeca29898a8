"""Crossing: scores of every sample by machines that were trained without its fold."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.parallel import single_blas_thread
from .dual import Floats
from .kernel import KernelSVM
from .labels import encode_labels, one_vs_rest, score_columns
from .squared import squared_betas


def cross_scores(
    gram: Floats,
    y: NDArray[Any],
    folds: NDArray[np.int64],
    C: float = config.C,
    random_state: Any = None,
    executor: Executor | None = None,
    loss: str = "squared_hinge",
) -> NDArray[np.float64]:
    """Return scores (n, n_classes) from a Gram matrix (n, n), 0 where the fold (n,) is -1.

    Those of :class:`LinearSVM` with this loss on the vectors, or of :class:`KernelSVM`,
    up to rounding; but no weights (n_classes, d) are made, so another C costs only the dual.
    """
    classes, indices = encode_labels(y)
    scores = np.zeros((len(y), len(classes)))
    if loss == "squared":
        signs = one_vs_rest(indices, len(classes), gram.dtype)
        with single_blas_thread():
            for fold in range(int(folds.max()) + 1):
                rows = folds == fold
                found = gram[rows] @ squared_betas(gram, signs, C, (~rows).astype(gram.dtype)).T
                scores[rows] = score_columns(found[:, 0] if len(classes) == 2 else found)
        return scores

    def test(fold: int, machine: KernelSVM) -> None:
        rows = folds == fold
        scores[rows] = score_columns(machine.scores(gram[rows]))

    machine = KernelSVM("precomputed", C=C, random_state=random_state)
    machine.fit_folds(gram, y, folds, executor, tell=test)
    return scores
