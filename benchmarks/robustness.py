"""What do the checks of image files cost, and what does reduced decoding of photographs gain?

1500 images of LS (the first 100 of each class), k = 256, file to vector on one
thread, once as we read them and once with Pillow's ``open`` and ``convert``
and nothing else; target: at most 1.1 times the seconds. Then photographs of 6000
x 4000 pixels, made from LS by enlarging, with noise, as JPEG of quality 90:
seconds and memory of reading them reduced and in full, and how far the vectors
are apart (they have length 1).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lrrspm import SpatialPyramidFeatures, config, read_image
from lrrspm.images import Pixels, resize

from ._measure import RESULTS, best_of, figure, measure, show
from .pipeline import PER_CLASS, images

PHOTOGRAPHS = 10
WIDTH, HEIGHT = 6000, 4000

# A process's peak begins with what its parent held, so a small one stands between.
_BETWEEN = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
_GROWTH = """
import resource, sys
from lrrspm import read_image
from lrrspm.images import resize

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

small, large, how = sys.argv[1:]
resize(read_image(small, None), 100)
before = peak()
read_image(large) if how == "reduced" else resize(read_image(large, None), 300)
print(peak() - before)
"""


def run() -> dict[str, Any]:
    """Measure ratios of seconds and bytes."""
    paths = images()
    # The speed does not depend on how good the codebook is.
    features = SpatialPyramidFeatures(n_samples=20_000, random_state=0).fit(paths[::5])

    def transform_bare() -> None:
        with patch("lrrspm.pipeline.chunks.read_pixels", read_bare):
            features.transform(paths)

    best = best_of(3, {"ours": lambda: features.transform(paths), "bare": transform_bare})
    with tempfile.TemporaryDirectory() as folder:
        photographs = make_photographs(paths[:: PER_CLASS + 50][:PHOTOGRAPHS], Path(folder))
        reading = best_of(
            2,
            {
                "reduced": lambda: [read_image(path) for path in photographs],
                "full": lambda: [read_full(path) for path in photographs],
            },
        )
        reduced = features.transform(photographs)
        full = features.transform([read_full(path) for path in photographs])
        growth = {how: _growth(paths[0], photographs[0], how) for how in ("reduced", "full")}
    distances = np.linalg.norm(reduced - full, axis=1)
    return {
        "figures": [
            figure(
                "file to vector: with checks over without", best["ours"] / best["bare"], "<= 1.1"
            ),
            figure("24 MP photograph: ms to read, reduced", 1e3 * reading["reduced"] / PHOTOGRAPHS),
            figure("24 MP photograph: in full over reduced", reading["full"] / reading["reduced"]),
            figure("24 MP photograph: MB to read, reduced", growth["reduced"] / 1e6),
            figure("24 MP photograph: MB to read, in full", growth["full"] / 1e6),
            figure("24 MP photograph: distance of the vectors, mean", float(distances.mean())),
            figure("24 MP photograph: distance of the vectors, largest", float(distances.max())),
        ],
        "images": len(paths),
        "photographs": len(photographs),
        "milliseconds_an_image": {name: 1e3 * s / len(paths) for name, s in best.items()},
    }


def read_bare(path: str, max_side: int | None, gray: bool, color: bool) -> Pixels:
    """Read an image as anybody would: without limits, orientation or checks."""
    with Image.open(path) as image:
        values = np.asarray(image.convert("L"))
    plane = resize(np.divide(values, 255, dtype=np.float32), max_side)
    return Pixels(plane, None, (values.shape[0], values.shape[1]))


def read_full(path: str) -> NDArray[np.float32]:
    """Decode an image in full, then shrink it."""
    return resize(read_image(path, None), config.MAX_SIDE)


def make_photographs(
    paths: list[str], folder: Path, shape: tuple[int, int] = (HEIGHT, WIDTH)
) -> list[str]:
    """Write large color JPEGs with the noise of a sensor."""
    rng = np.random.default_rng(0)
    made = []
    for number, path in enumerate(paths):
        with Image.open(path) as image:
            large = image.convert("L").resize(shape[::-1], Image.Resampling.LANCZOS)
        noisy = np.asarray(large) + rng.normal(0, 6, shape)
        name = str(folder / f"{number}.jpg")
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).convert("RGB").save(name, quality=90)
        made.append(name)
    return made


def _growth(small: str, large: str, how: str) -> int:
    """Measure by how many bytes the peak grows when a photograph is read."""
    command = [sys.executable, "-c", _BETWEEN, sys.executable, "-c", _GROWTH, small, large, how]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(output) * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    show("robustness", measure("robustness", run))


def say_photographs() -> str:
    """Say what reduced decoding gains, from the stored result."""
    result = json.loads((RESULTS / "robustness.json").read_text())["result"]
    start = "24 MP photograph: "
    found = {line["what"].removeprefix(start): line["value"] for line in result["figures"]}
    near, far = (found[f"distance of the vectors, {which}"] for which in ("mean", "largest"))
    full, reduced = (found[f"MB to read, {how}"] for how in ("in full", "reduced"))
    return (
        f"On {result['photographs']} photographs of {WIDTH} x {HEIGHT} pixels, made from 15-Scene, "
        f"reading in full takes {found['in full over reduced']:.1f} times as long and {full:.0f} "
        f"MB in place of {reduced:.0f}. The vectors, of length 1, are {near:.4f} apart on average "
        f"and {far:.4f} at most. From `benchmarks/results/robustness.json`."
    )


if __name__ == "__main__":
    main()
