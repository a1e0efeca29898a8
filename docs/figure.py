"""Draw docs/pipeline.png, from a photograph to a vector, and docs/evidence.png.

The photograph is scikit-learn's sample image ``china.jpg`` by danielbuechele, CC BY 2.0.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sklearn.datasets import load_sample_image

from lrrspm import (
    Channel,
    ImageClassifier,
    LRREncoder,
    SpatialPyramidFeatures,
    dense_sift,
    find_images,
)
from lrrspm.images import resize
from lrrspm.images.decoding import weigh_colors
from lrrspm.report.draw import draw_explanation

from .parts import draw_folder, draw_part

BLUE, ORANGE, GRAY = "#1f6fb4", "#d1620a", "#8a8a8a"


def draw(path: Path) -> None:
    """Draw four panels: patches and cells, one descriptor, its code, the vector."""
    rgb = load_sample_image("china.jpg")
    gray = (rgb @ np.array([0.2989, 0.5870, 0.1140])).round().astype(np.float32) / 255
    image = resize(gray, 300)
    channel = Channel(LRREncoder(codebook_size=64))
    features = SpatialPyramidFeatures([channel], random_state=0).fit([image])
    encoder = features.channels_[0].encoder_
    values, x, y, _, width, height = dense_sift(image)
    chosen = int(np.argmin((x - 150) ** 2 + (y - 75) ** 2))
    whole = LRREncoder(threshold=0, codebook=encoder.codebook_).fit(values)
    code = whole.transform(values[[chosen]])[0]
    kept = encoder.transform(values[[chosen]])[0] != 0

    figure = Figure(figsize=(12, 5.6), layout="constrained", dpi=100)
    axes = figure.subplots(2, 2, width_ratios=[1, 1.25])
    photo, descriptor, coefficients, vector = axes[0, 0], axes[0, 1], axes[1, 0], axes[1, 1]

    photo.imshow(image, cmap="gray", vmin=0, vmax=1)
    photo.scatter(x, y, s=1, color=BLUE)
    for n in range(1, 4):
        photo.axhline(height * n / 4 - 0.5, color="white", lw=1)
        photo.axvline(width * n / 4 - 0.5, color="white", lw=1)
    corner = (x[chosen] - 8, y[chosen] - 8)
    photo.add_patch(Rectangle(corner, 16, 16, fill=False, color=ORANGE, lw=2))
    photo.set_title(f"1. {len(values)} patches, 4 x 4 cells, one patch marked")
    photo.set_axis_off()

    descriptor.bar(np.arange(128), values[chosen], width=1, color=ORANGE)
    descriptor.set_title("2. dense SIFT: the marked patch in 128 numbers")
    descriptor.set_xlabel("entry (8 directions x 16 bins)")
    descriptor.set_ylabel("value")

    colors = np.where(kept, ORANGE, GRAY)
    coefficients.bar(np.arange(len(code)), code, color=colors)
    coefficients.axhline(0.98 * code.mean(), color=BLUE, lw=1, ls="--")
    coefficients.set_title("3. LRR code: one projection; gray entries become 0")
    coefficients.set_xlabel("atom of the codebook")
    coefficients.set_ylabel("coefficient")

    pooled = features.transform([image])[0].reshape(21, -1)
    vector.imshow(pooled, aspect="auto", cmap="Blues", interpolation="nearest")
    vector.set_title("4. the vector: largest coefficient in each of 21 cells")
    vector.set_xlabel("atom of the codebook")
    vector.set_yticks([0, 2.5, 12.5], ["1 x 1", "2 x 2", "4 x 4"])
    for axis in (descriptor, coefficients):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Software": None})


def draw_evidence(path: Path) -> None:
    """Draw the evidence over a made image of a stained part."""
    with tempfile.TemporaryDirectory() as folder:
        draw_folder(Path(folder), per_class=150)
        model = ImageClassifier(random_state=0, n_jobs=-1).fit(*find_images(folder))
    image = draw_part("stained", np.random.default_rng(99))
    examined = model.examine(weigh_colors(image))
    draw_explanation(path, image, examined.explain("stained"), examined.ranked())


if __name__ == "__main__":
    draw(Path(__file__).with_name("pipeline.png"))
    draw_evidence(Path(__file__).with_name("evidence.png"))
