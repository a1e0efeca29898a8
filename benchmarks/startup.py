"""How long until the command answers?

``lrrspm --help``: target under 0.4 s. A first prediction on one image:
target under 3 s with numba's cache in place and under 20 s with an empty one.
Best of several processes; the model is small and trained on made images.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ._measure import figure, made_image, measure, seconds, show

CLASSES, IMAGES = 3, 4


def run() -> dict[str, Any]:
    """Measure the seconds of each start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, image = _model(folder)
        predict = ["predict", str(model), str(image)]
        help_ = min(_start(["--help"], folder / "cache") for _ in range(5))
        _start(predict, folder / "cache")
        warm = min(_start(predict, folder / "cache") for _ in range(5))
        cold = min(_start(predict, folder / f"empty{i}") for i in range(2))
    return {
        "figures": [
            figure("lrrspm --help: seconds", help_, "< 0.4"),
            figure("first prediction, cache in place: seconds", warm, "< 3"),
            figure("first prediction, empty cache: seconds", cold, "< 20"),
        ],
        "seconds": {"help": help_, "predict_warm": warm, "predict_cold": cold},
    }


def _model(folder: Path) -> tuple[Path, Path]:
    """Train a model on made images; returns it and one of the images."""
    for i in range(CLASSES * IMAGES):
        where = folder / "images" / f"class{i % CLASSES}"
        where.mkdir(parents=True, exist_ok=True)
        pixels = (255 * made_image(200, 300, seed=i)).astype(np.uint8)
        Image.fromarray(pixels).save(where / f"{i}.png")
    model = folder / "small.lrrspm"
    command = [
        "train",
        str(folder / "images"),
        "-o",
        str(model),
        "--no-estimate",
        "--method",
        "LrrSPM",
    ]
    _start(command, folder / "cache")
    return model, where / f"{i}.png"


def _start(arguments: list[str], cache: Path) -> float:
    """Measure the seconds of one run of the command."""
    command = [sys.executable, "-m", "lrrspm", *arguments]
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return seconds(
        lambda: subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL)
    )


def main() -> None:
    show("startup", measure("startup", run))


if __name__ == "__main__":
    main()
