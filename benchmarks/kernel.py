"""How fast is the intersection kernel?

1500 x 4485 vectors of 5376 entries, one thread. Target: 5 times as fast as the
best way that SciPy and scikit-learn offer, which is the Manhattan distance
(sum of minima = half of what the sums exceed it by). The floor is one minimum
and one addition per entry at full vector width: what the same loop reaches on
a few short rows that stay in first-level cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances
from threadpoolctl import threadpool_limits

from lrrspm._support.loops import compiled
from lrrspm.svm.kernels import _fill_intersection, kernel_matrix

from ._measure import best_of, figure, measure, show

N, P, D = 1500, 4485, 5376
SMALL = 256


def run() -> dict[str, Any]:
    """Measure seconds, ratios and agreement."""
    rng = np.random.default_rng(0)
    X, Y = (rng.random((rows, D), dtype=np.float32) for rows in (N, P))
    x, y = X[:4, :SMALL].copy(), Y[:20, :SMALL].copy()

    with threadpool_limits(1):
        best = best_of(3, {"lrrspm": lambda: kernel_matrix("intersection", X, Y, None)})
        peers = {
            "scipy": lambda: cdist(X, Y, "cityblock"),
            "scikit-learn": lambda: manhattan_distances(X, Y),
        }
        best.update(best_of(2, peers, warm_up=False))
        floor = _in_cache(x, y)
        part = kernel_matrix("intersection", X[:50], Y[:50], None)
    sums = X[:50].sum(axis=1, dtype=np.float64)[:, None] + Y[:50].sum(axis=1, dtype=np.float64)
    expected = (sums - cdist(X[:50], Y[:50], "cityblock")) / 2
    difference = np.abs(part / expected - 1).max()
    peer = min(best["scipy"], best["scikit-learn"])
    floor_seconds = N * P * D / floor
    return {
        "figures": [
            figure("intersection kernel: best peer over ours", peer / best["lrrspm"], ">= 5"),
            figure("intersection kernel: ours over the floor", best["lrrspm"] / floor_seconds),
            figure("intersection kernel: seconds", best["lrrspm"]),
        ],
        "shape": [N, P, D],
        "seconds": {**best, "floor": floor_seconds},
        "billion_minima_a_second": N * P * D / best["lrrspm"] / 1e9,
        "largest_relative_difference": float(difference),
    }


def _in_cache(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
    """Measure minima and additions per second on rows that stay in first-level cache."""

    @compiled()
    def repeat(a: Any, b: Any, out: Any, times: int) -> None:
        for _ in range(times):
            _fill_intersection(a, b, out)

    times, out = 20_000, np.empty((len(x), len(y)), np.float32)
    best = best_of(3, {"floor": lambda: repeat(x, y, out, times)})["floor"]
    return times * x.size * len(y) / best


def main() -> None:
    show("kernel", measure("kernel", run))


if __name__ == "__main__":
    main()
