"""How fast are the presets, and how near are LrrFV's loops to their lower bounds?

Images per second from file to vector on two threads, 300 images of LS, the presets
in turns; targets: 200 for balanced, 40 for best. The same for 300 images of Caltech101
that have color. Seconds to train balanced with its
estimate on 1000 images of 10 classes of LS, from nothing but compiled loops; target:
under 20; its CPU seconds too. Then, for the descriptors of those images and one thread:
low-rank weights over the bare product of the same shape, target at most 1.5; a channel's
vector over its two bare products (projection and weights).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from lrrspm import ImageClassifier, SpatialPyramidFeatures, config, find_images
from lrrspm._support.parallel import single_blas_thread
from lrrspm.channels import Channel
from lrrspm.encoders import BLOCK
from lrrspm.evaluation import train_with_estimate
from lrrspm.images import has_color
from lrrspm.images.reading import read_pixels

from ._measure import best_of, data_folder, figure, measure, show

TARGETS = {"fast": None, "balanced": ">= 200", "best": ">= 40"}
N_IMAGES = 300


def run() -> dict[str, Any]:
    """Measure images per second, seconds of training, and ratios to lower bounds."""
    paths, labels = find_images(data_folder("LS"))
    some = [paths[i] for i in np.random.default_rng(0).permutation(len(paths))[:N_IMAGES]]
    colored = colored_images(N_IMAGES)
    made = {name: fit_preset(name, some) for name in TARGETS}
    calls = {name: partial(features.transform, some) for name, features in made.items()}
    in_color = {f"{name}, color": fit_preset(name, colored) for name in TARGETS}
    calls |= {name: partial(features.transform, colored) for name, features in in_color.items()}
    best = best_of(5, calls)
    rate = {name: N_IMAGES / value for name, value in best.items()}
    figures = [
        figure(
            f"{name}, file to vector: images per second, two threads",
            rate[name],
            TARGETS[name.partition(",")[0]],
        )
        for name in calls
    ]
    figures += [
        figure(f"fast over {name}, file to vector: images per second", rate["fast"] / rate[name])
        for name in ("balanced", "best")
    ]
    seconds, cpu_seconds = _train(paths, labels)
    what = "train balanced on 1000 images, 10 classes"
    figures.append(figure(f"{what}: seconds", seconds, "< 20"))
    figures.append(figure(f"{what}: CPU seconds", cpu_seconds))
    for channel in made["balanced"].channels_:
        figures += _loops(channel, made["balanced"], some[:50])
    return {"figures": figures, "images": N_IMAGES, "images_per_second": rate}


def colored_images(count: int) -> list[str]:
    """Return the paths of some images of Caltech101 that have color."""
    paths, _ = find_images(data_folder("Caltech101"))
    found: list[str] = []
    for i in np.random.default_rng(0).permutation(len(paths)):
        pixels = read_pixels(paths[i], config.MAX_SIDE, gray=False, color=True).color
        if pixels is not None and has_color(pixels):
            found.append(paths[i])
        if len(found) == count:
            break
    return found


def fit_preset(method: str, paths: list[str]) -> SpatialPyramidFeatures:
    """Features of a preset; the speed does not depend on how good the codebook is."""
    model = ImageClassifier(method=method, n_samples=20_000, n_jobs=2, random_state=0)
    return model.new_features().fit(paths[:100])


def _train(paths: list[str], labels: list[str]) -> tuple[float, float]:
    """Return wall-clock and CPU seconds of training balanced, the best of two."""
    chosen = sorted(set(labels))[:10]
    kept = [i for name in chosen for i in np.flatnonzero(np.array(labels) == name)[:100]]
    images, names = [paths[i] for i in kept], [labels[i] for i in kept]

    def train() -> None:
        train_with_estimate(images, names, ImageClassifier(n_jobs=-1, random_state=0))

    found = []
    for _ in range(2):
        start = time.perf_counter(), time.process_time()
        train()
        found.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return min(found)


def _loops(
    channel: Channel, features: SpatialPyramidFeatures, paths: list[str]
) -> list[dict[str, Any]]:
    """Compare the loops of one channel with the matrix products that they cannot do without."""
    name = type(channel.descriptor).__name__
    found = [channel.descriptor.describe(channel.descriptor.pick(features.read(p))) for p in paths]
    projected = [channel.project(one) for one in found]
    encoder, projection = channel.encoder_, channel.projection_
    assert projection is not None
    codes = np.empty((BLOCK, encoder.n_atoms), np.float32)
    blocks = [
        one[start : start + BLOCK] for one in projected for start in range(0, len(one), BLOCK)
    ]

    def weights() -> None:
        for block in blocks:
            encoder.encode(block, codes[: len(block)])

    def product() -> None:
        for block in blocks:
            np.matmul(block, encoder.projection_, out=codes[: len(block)])

    def vectors() -> None:
        for one in found:
            channel.vector(one)

    def products() -> None:
        for one, values in zip(found, projected, strict=True):
            np.matmul(one.values, projection.components_)
            np.matmul(values, encoder.projection_)

    with single_blas_thread():
        best = best_of(
            5, {"weights": weights, "product": product, "vectors": vectors, "products": products}
        )
    return [
        figure(
            f"balanced, {name}: weights over bare product",
            best["weights"] / best["product"],
            "<= 1.5",
        ),
        figure(
            f"balanced, {name}: vector over its bare products", best["vectors"] / best["products"]
        ),
    ]


def main() -> None:
    show("presets", measure("presets", run))


if __name__ == "__main__":
    main()
