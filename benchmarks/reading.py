"""How long does reading take beside decoding alone?

JPEG files of Caltech101 in color that need no shrinking, one thread, files in
the system's cache. Pillow's decoding to an array of RGB is the floor: target at
most 1.3 times, for gray (which weighs colors) and for color.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lrrspm import config, find_images
from lrrspm.images import read_pixels

from ._measure import best_of, data_folder, figure, measure, show

IMAGES = 200


def run() -> dict[str, Any]:
    """Measure milliseconds per image, and ratios to Pillow."""
    paths = _images()
    calls: dict[str, Callable[[str], object]] = {
        "pillow": _decode,
        "gray": lambda path: read_pixels(path, config.MAX_SIDE),
        "color": lambda path: read_pixels(path, config.MAX_SIDE, gray=False, color=True),
        "both": lambda path: read_pixels(path, config.MAX_SIDE, color=True),
    }
    taken = dict.fromkeys(calls, 0.0)
    for path in paths:
        # Turns are short, so that a change of the machine's speed affects all alike.
        best = best_of(9, {name: partial(call, path) for name, call in calls.items()})
        for name, value in best.items():
            taken[name] += 1e3 * value / len(paths)
    pillow = taken["pillow"]
    return {
        "figures": [
            figure(f"reading {name}: time over Pillow's decoding", taken[name] / pillow, "<= 1.3")
            for name in calls
            if name != "pillow"
        ],
        "milliseconds_per_image": taken,
        "images": len(paths),
    }


def _images() -> list[str]:
    """Return color JPEG files of all classes that are read in their own size."""
    paths, _ = find_images(data_folder("Caltech101"))
    fitting = []
    for path in paths[:: len(paths) // (2 * IMAGES)]:
        with Image.open(path) as image:
            if image.mode == "RGB" and max(image.size) <= config.MAX_SIDE:
                fitting.append(path)
    return fitting[:IMAGES]


def _decode(path: str) -> NDArray[np.uint8]:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def main() -> None:
    show("reading", measure("reading", run))


if __name__ == "__main__":
    main()
