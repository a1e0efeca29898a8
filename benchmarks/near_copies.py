"""How does looking for near copies grow with the number of images?

Patterns of blends of two images of LS each, half and half: as unlike each other as images of
a few kinds are. Seconds of grouping 25,000 and 100,000, and of comparing all pairs of
25,000, which must give the same groups.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lrrspm import find_images
from lrrspm._support.parallel import ordered_map, workers
from lrrspm.images import near_copies
from lrrspm.images.decoding import opened, upright
from lrrspm.images.near_copies import Pattern, brightness_pattern, group_near

from ._measure import data_folder, figure, measure, show

FEW, MANY = 25_000, 100_000


def run() -> dict[str, Any]:
    """Time both ways."""
    patterns = blends(MANY)
    few = patterns[:FEW]
    group_near(few[:1000])
    start = time.perf_counter()
    groups = group_near(few)
    seconds = {FEW: time.perf_counter() - start}
    start = time.perf_counter()
    group_near(patterns)
    seconds[MANY] = time.perf_counter() - start
    reach, near_copies._REACH = near_copies._REACH, np.inf
    start = time.perf_counter()
    same = group_near(few) == groups
    pairs = time.perf_counter() - start
    near_copies._REACH = reach
    return {
        "figures": [
            figure("near copies among 100,000 images: seconds", seconds[MANY]),
            figure("near copies: 100,000 images over 25,000", seconds[MANY] / seconds[FEW]),
            figure("near copies: all pairs of 25,000 over those compared", pairs / seconds[FEW]),
            figure("near copies: groups are those of all pairs", float(same), ">= 1"),
        ],
        "seconds": {str(n): value for n, value in seconds.items()},
        "all_pairs_seconds": pairs,
        "groups": len(groups),
    }


def blends(count: int) -> list[Pattern]:
    """Return patterns of the mean of two random images each, mirrored at random."""
    with workers(2) as executor:
        paths = find_images(data_folder("LS"))[0]
        images = list(ordered_map(_small, paths, executor))
    rng, found = np.random.default_rng(0), list[Pattern]()
    while len(found) < count:
        one, other = (images[i] for i in rng.integers(len(images), size=2))
        rows, columns = np.minimum(one.shape, other.shape)
        blend = one[:rows, :columns] / 2 + other[:rows, :columns][:, :: rng.choice([-1, 1])] / 2
        pattern = brightness_pattern(blend.astype(np.uint8))
        if pattern is not None:
            found.append(pattern)
    return found


def _small(path: str) -> Any:
    with opened(path, 2 * 13) as image:
        return upright(image).pixels


def main() -> None:
    show("near", measure("near_copies", run))


if __name__ == "__main__":
    main()
