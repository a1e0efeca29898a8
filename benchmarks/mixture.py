"""How long do posteriors of a Gaussian mixture take, and its fit?

Made descriptors of 82 values, one thread, 64 and 256 Gaussians. ``encode`` of
3400 descriptors, as many as an image has in FV, against the bare product of the
same shape and its exponentials: target at most 1.5. Five steps of expectation
maximization on 40,000 descriptors against scikit-learn's ``GaussianMixture``
from the same start (likelihoods compared).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from lrrspm._support.parallel import single_blas_thread
from lrrspm.encoders import BLOCK, MixtureEncoder
from lrrspm.encoders.mixture import Mixture, improve

from ._measure import best_of, figure, measure, show

SIZES = (64, 256)
VALUES = 82
STEPS = 5


def run() -> dict[str, Any]:
    """Measure the ratio of encoding to its lower bound, and of two fits, for each size."""
    rng = np.random.default_rng(0)
    places = rng.standard_normal((1000, VALUES))
    noise = rng.standard_normal((40_000, VALUES))
    values = (places[rng.integers(1000, size=40_000)] + noise).astype(np.float32)
    figures, sizes = [], {}
    for size in SIZES:
        coding, fitting = _coding(values, size), _fitting(values, size)
        sizes[str(size)] = {"encode": coding, "fit": fitting}
        figures += [
            figure(
                f"mixture, k = {size}: posteriors over product and exp", coding["ratio"], "<= 1.5"
            ),
            figure(
                f"mixture, k = {size}: scikit-learn fit seconds over ours", fitting["ratio"], ">= 1"
            ),
        ]
    return {"figures": figures, "sizes": sizes}


def _coding(values: NDArray[np.float32], size: int) -> dict[str, float]:
    encoder = MixtureEncoder(size, random_state=0).fit(values[:10_000])
    blocks = [values[start : start + BLOCK] for start in range(0, 3400, BLOCK)]
    # One block over and over: the lower bound reads from cache.
    powers = np.hstack([blocks[0], blocks[0] ** 2])
    factors = np.zeros((2 * VALUES, size), np.float32)
    codes = np.empty((BLOCK, size), np.float32)

    def encode() -> None:
        for block in blocks:
            encoder.encode(block, codes[: len(block)])

    def floor() -> None:
        for block in blocks:
            np.matmul(powers[: len(block)], factors, out=codes[: len(block)])
            np.exp(codes[: len(block)], out=codes[: len(block)])

    with single_blas_thread():
        best = best_of(100, {"encode": encode, "floor": floor})
    return {f"{name}_ms": 1e3 * value for name, value in best.items()} | {
        "ratio": best["encode"] / best["floor"]
    }


def _fitting(values: NDArray[np.float32], size: int) -> dict[str, float]:
    spread = values.std(axis=0, dtype=np.float64)
    start = Mixture(
        np.full(size, 1 / size), values[:size].astype(np.float64), np.tile(spread, (size, 1))
    )
    exact = values.astype(np.float64)
    found = {}

    def ours() -> None:
        mixture = start
        for _ in range(STEPS):
            mixture, likelihood = improve(values, mixture, np.full(VALUES, 1e-6), None)
        found["ours"] = likelihood

    def theirs() -> None:
        peer = GaussianMixture(
            size, covariance_type="diag", tol=0, reg_covar=0, max_iter=STEPS,
            weights_init=start.shares, means_init=start.means,
            precisions_init=start.deviations**-2.0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found["scikit-learn"] = peer.fit(exact).lower_bound_

    with single_blas_thread():
        best = best_of(3, {"ours": ours, "scikit-learn": theirs})
    return {
        **{f"{name}_s": value for name, value in best.items()},
        **{f"{name}_likelihood": float(value) for name, value in found.items()},
        "ratio": best["scikit-learn"] / best["ours"],
    }


def main() -> None:
    show("mixture", measure("mixture", run))


if __name__ == "__main__":
    main()
