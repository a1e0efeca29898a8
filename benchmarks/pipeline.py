"""How many images per second, from image file to vector?

1500 images of LS (the first 100 of each class), k = 256, files in the
system's cache. Targets: 500 per second on two threads; the second thread gives
1.7 times. Then the share of reading (decoding, gray, shrinking), dense SIFT
and coding on one thread.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from lrrspm import SpatialPyramidFeatures, dense_sift, find_images, read_image
from lrrspm._support.parallel import single_blas_thread

from ._measure import best_of, data_folder, figure, measure, show

PER_CLASS = 100
STAGES = ("reading", "dense_sift", "coding")


def images() -> list[str]:
    """Return the first images of each class of LS."""
    paths, labels = find_images(data_folder("LS"))
    first = {label: labels.index(label) for label in labels}
    return [
        path
        for i, (path, label) in enumerate(zip(paths, labels, strict=True))
        if i - first[label] < PER_CLASS
    ]


def run() -> dict[str, Any]:
    """Measure images per second on one and two threads, and the shares of the stages."""
    paths = images()
    # The speed does not depend on how good the codebook is.
    features = SpatialPyramidFeatures(n_samples=20_000, n_jobs=-1, random_state=0).fit(paths)

    def transform(threads: int) -> None:
        features.set_params(n_jobs=threads).transform(paths)

    best = best_of(3, {"1": lambda: transform(1), "2": lambda: transform(2)})
    rate = {threads: len(paths) / value for threads, value in best.items()}
    stages = _stages(features, paths)
    total = sum(stages.values())
    enough = (os.cpu_count() or 1) >= 2
    return {
        "figures": [
            figure("file to vector: images a second, one thread", rate["1"]),
            figure(
                "file to vector: images a second, two threads",
                rate["2"] if enough else None,
                ">= 500",
            ),
            figure(
                "file to vector: two threads over one",
                rate["2"] / rate["1"] if enough else None,
                ">= 1.7",
            ),
            *(
                figure(f"file to vector: share of {name}, %", 100 * ms / total)
                for name, ms in stages.items()
            ),
        ],
        "images": len(paths),
        "images_per_second": rate,
        "milliseconds_an_image": stages,
    }


def _stages(features: SpatialPyramidFeatures, paths: list[str]) -> dict[str, float]:
    """Measure each stage's milliseconds per image on one thread, the best of three passes."""
    (channel,) = features.channels_
    best = np.full(3, np.inf)
    with single_blas_thread():
        for _ in range(3):
            taken = np.zeros(3)
            for path in paths:
                times = [time.perf_counter()]
                gray = read_image(path)
                times.append(time.perf_counter())
                descriptors = dense_sift(gray)
                times.append(time.perf_counter())
                channel.vector(descriptors)
                times.append(time.perf_counter())
                taken += np.diff(times)
            best = np.minimum(best, 1e3 * taken / len(paths))
    return dict(zip(STAGES, best.tolist(), strict=True))


def main() -> None:
    show("pipeline", measure("pipeline", run))


if __name__ == "__main__":
    main()
