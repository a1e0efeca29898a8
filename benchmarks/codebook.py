"""How long does a codebook take, over its bare products and beside other k-means?

200 000 descriptors of LS, k = 256 and 1024. ``learn_codebook`` on one and two
threads; the matrix products of its iterations alone; scikit-learn's ``KMeans``
(Lloyd, random first centers) and ``faiss.Kmeans`` with as many iterations, on
one thread each. Each one's final sum of squared distances is given too: a
faster k-means that finds worse centers has not won. No target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from lrrspm import dense_sift, learn_codebook, read_image
from lrrspm._support.parallel import ordered_map, single_blas_thread, workers
from lrrspm.encoders import kmeans as codebook

from ._measure import best_of, figure, measure, show
from .pipeline import images

SIZES = (256, 1024)
SAMPLES = 200_000
REPEATS = 2
BLOCK = 512

Centers = NDArray[np.float32]


def run() -> dict[str, Any]:
    """Measure seconds and final sums for each size."""
    X = sample()
    cases = {str(size): _compare(X, size) for size in SIZES}
    figures = []
    for size, case in cases.items():
        spent = case["seconds"]
        ours = spent["lrrspm"]
        figures += [
            figure(f"codebook of {size}: seconds, one thread", ours),
            figure(f"codebook of {size}: ours over bare products", ours / spent["products"]),
            figure(
                f"codebook of {size}: two threads, times as fast",
                ours / spent["lrrspm_two_threads"],
            ),
            figure(
                f"codebook of {size}: scikit-learn seconds over ours", spent["scikit-learn"] / ours
            ),
            figure(
                f"codebook of {size}: faiss seconds over ours",
                spent["faiss"] / ours if "faiss" in spent else None,
            ),
        ]
    return {"figures": figures, "descriptors": len(X), "sizes": cases}


def sample() -> NDArray[np.float32]:
    """Draw random descriptors, the same number from each image."""
    paths = images()
    quota = -(-SAMPLES // len(paths))

    def draw(item: tuple[int, str]) -> NDArray[np.float32]:
        values = dense_sift(read_image(item[1])).values
        return np.random.default_rng(item[0]).permutation(values)[:quota]

    with workers(-1) as executor:
        parts = list(ordered_map(draw, enumerate(paths), executor))
    return np.random.default_rng(0).permutation(np.concatenate(parts))[:SAMPLES]


def _compare(X: NDArray[np.float32], size: int) -> dict[str, Any]:
    iterations = count_iterations(X, size)
    found: dict[str, Centers] = {}

    def keep(name: str, call: Callable[[], Centers]) -> Callable[[], None]:
        def kept() -> None:
            found[name] = call()

        return kept

    peers = {
        "scikit-learn": lambda: _scikit_learn(X, size, iterations),
        "faiss": _faiss(X, size, iterations),
    }
    calls = {
        "products": lambda: _products(X, size),
        "lrrspm": keep("lrrspm", lambda: learn_codebook(X, size, 0)),
        "lrrspm_two_threads": lambda: learn_codebook(X, size, 0, 2),
        **{name: keep(name, call) for name, call in peers.items() if call is not None},
    }
    with threadpool_limits(1):  # our two threads are not BLAS's
        best = best_of(REPEATS, calls, warm_up=False)
    best["products"] *= iterations
    return {
        "iterations": iterations,
        "seconds": best,
        "inertia": {name: inertia(X, centers) for name, centers in found.items()},
    }


def count_iterations(X: NDArray[np.float32], size: int) -> int:
    """Count the iterations of learn_codebook, which does not report them."""
    with mock.patch.object(codebook, "_improve", wraps=codebook._improve) as improve:
        learn_codebook(X, size, 0, -1)
    return improve.call_count


def _products(X: NDArray[np.float32], size: int) -> None:
    """The matrix products of one iteration, in the blocks of learn_codebook."""
    transposed = np.ascontiguousarray(X[:size].T)
    out = np.empty((BLOCK, size), np.float32)
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK]
        np.matmul(rows, transposed, out=out[: len(rows)])


def _scikit_learn(X: NDArray[np.float32], size: int, iterations: int) -> Centers:
    # Its tolerance is on the centers' movement, ours on the sum: 0 makes the work equal.
    model = KMeans(size, init="random", n_init=1, max_iter=iterations, tol=0, random_state=0)
    return model.fit(X).cluster_centers_


def _faiss(X: NDArray[np.float32], size: int, iterations: int) -> Callable[[], Centers] | None:
    try:
        import faiss
    except ImportError:
        return None

    def call() -> Centers:
        faiss.omp_set_num_threads(1)
        model = faiss.Kmeans(
            X.shape[1], size, niter=iterations, seed=0, max_points_per_centroid=len(X)
        )
        model.train(X)
        return np.asarray(model.centroids, np.float32)

    return call


def inertia(X: NDArray[np.float32], centers: Centers) -> float:
    """Sum of squared distances to the nearest center, in float64."""
    D = centers.astype(np.float64)
    total = 0.0
    with single_blas_thread():
        for start in range(0, len(X), 8192):
            rows = X[start : start + 8192].astype(np.float64)
            distances = (rows**2).sum(axis=1)[:, None] - 2 * rows @ D.T + (D**2).sum(axis=1)
            total += float(distances.min(axis=1).sum())
    return total


def main() -> None:
    show("codebook", measure("codebook", run))


if __name__ == "__main__":
    main()
