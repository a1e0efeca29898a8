"""Do threshold and pooling come almost for free, and does the public call add little?

One 300x200 image (1488 descriptors), one thread. LRR projection, threshold
and pooling against the bare float32 product of the same shapes, for codebooks
of 256, 1024 and 4096 atoms: target at most 1.2. Then what
``SpatialPyramidFeatures.transform`` of one image adds to ``dense_sift`` and
coding: target under 0.3 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lrrspm import Channel, LRREncoder, SpatialPyramidFeatures, dense_sift
from lrrspm._support.parallel import single_blas_thread
from lrrspm.encoders import BLOCK

from ._measure import best_of, figure, made_image, measure, seconds, show

SIZES = (256, 1024, 4096)


def run() -> dict[str, Any]:
    """Measure the ratio to the product for each size, and the overhead of a call."""
    cases = {str(size): _coding(size) for size in SIZES}
    overhead = _overhead()
    figures = [
        figure(f"k = {size}: coding over bare product", case["ratio"], "<= 1.2")
        for size, case in cases.items()
    ]
    figures.append(figure("transform of one image: added ms", overhead, "< 0.3"))
    return {"figures": figures, "sizes": cases, "overhead_ms": overhead}


def _features(n_atoms: int) -> SpatialPyramidFeatures:
    """Return features with random atoms; no time here depends on their values."""
    atoms = np.abs(np.random.default_rng(0).standard_normal((n_atoms, 128))).astype(np.float32)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    features = SpatialPyramidFeatures([Channel(LRREncoder(codebook=atoms))])
    features.channels_ = [channel.fit_on(atoms) for channel in features.new_channels()]
    return features


def _coding(n_atoms: int) -> dict[str, float]:
    (channel,) = _features(n_atoms).channels_
    descriptors = dense_sift(made_image(200, 300))
    values, projection = descriptors.values, channel.encoder_.projection_
    whole = np.empty((len(values), n_atoms), np.float32)
    part = np.empty((BLOCK, n_atoms), np.float32)

    def in_blocks() -> None:
        for start in range(0, len(values), BLOCK):
            rows = values[start : start + BLOCK]
            np.matmul(rows, projection, out=part[: len(rows)])

    with single_blas_thread():
        best = best_of(
            30_000 // n_atoms + 20,
            {
                "coding": lambda: channel.vector(descriptors),
                "product": lambda: np.matmul(values, projection, out=whole),
                "product_in_blocks": in_blocks,
            },
        )
    operations = 2 * len(values) * n_atoms * values.shape[1]
    return {
        **{f"{name}_ms": 1e3 * value for name, value in best.items()},
        "ratio": best["coding"] / best["product"],
        "ratio_in_blocks": best["coding"] / best["product_in_blocks"],
        "product_gflops": operations / best["product"] / 1e9,
    }


def _overhead() -> float:
    """Measure the milliseconds that the public call adds, with setting the BLAS threads."""
    features = _features(256)
    (channel,) = features.channels_
    gray = made_image(200, 300)
    call = parts = np.inf
    for _ in range(200):
        call = min(call, seconds(lambda: features.transform([gray])))
        with single_blas_thread():
            parts = min(parts, seconds(lambda: channel.vector(dense_sift(gray))))
    return 1e3 * (call - parts)


def main() -> None:
    show("coding", measure("coding", run))


if __name__ == "__main__":
    main()
