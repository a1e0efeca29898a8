"""What each stage from file to vector costs, and the least it could cost.

A stage's floor is its operations, each kind at the rate of a bare loop that does nothing
else on numbers in the first-level cache, measured on one thread in the same run:

- product: multiply-adds of a matrix product
- sum: multiply-adds that load one number each, as in weighted sums of rows
- update: multiply-adds that load two numbers and store one
- vote: additions to a bin that is looked up
- root: square roots
- byte: bytes of the stage's input and output, copied in the second-level cache

Stages are those of balanced on LS, and of its color on Caltech101. Before that, CPU
milliseconds per image from file to vector of each preset on two threads: CPU time hardly
changes with what else the machine does. 200 images per second are 10 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrrspm import SpatialPyramidFeatures, find_images
from lrrspm._support.halves import in_precision
from lrrspm._support.loops import compiled
from lrrspm._support.parallel import single_blas_thread
from lrrspm.channels import Channel
from lrrspm.descriptors import LBP, LocalColor, LocalDescriptors, RootSIFT
from lrrspm.descriptors.base import PatchGrid
from lrrspm.descriptors.root_sift import gaussian_taps
from lrrspm.descriptors.shared_bins import shared_axis
from lrrspm.encoders import BLOCK

from ._measure import data_folder, figure, measure, show
from .presets import TARGETS, colored_images, fit_preset

_REPEATS = 5
_SIDE, _LENGTH, _BYTES = 512, 1024, 2**18


def run() -> dict[str, Any]:
    """Measure CPU time of the presets, and the stages of balanced."""
    paths, _ = find_images(data_folder("LS"))
    some = [paths[i] for i in np.random.default_rng(0).permutation(len(paths))[:100]]
    made = {name: fit_preset(name, some) for name in TARGETS}
    used = _cpu_seconds({name: partial(f.transform, some) for name, f in made.items()})
    most = {"balanced": "<= 10", "best": "<= 50"}
    figures = [
        figure(
            f"{name}, file to vector: CPU ms per image, two threads",
            1e3 * spent / len(some),
            most.get(name),
        )
        for name, spent in used.items()
    ]
    found = measure_stages(made["balanced"], some[:50])
    colored = colored_images(100)
    inside = measure_stages(fit_preset("balanced", colored), colored[:50])["stages"]
    found["stages"] += [row for row in inside if row["stage"].startswith(LocalColor.__name__)]
    figures += [
        figure(f"balanced, {row['stage']}, over its floor", row["ms"] / row["floor_ms"], "<= 1.5")
        for row in found["stages"]
        if "floor_ms" in row
    ]
    return {"figures": figures, "images": len(some), **found}


def _cpu_seconds(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least CPU seconds of all threads that each call takes, of five."""
    used = dict.fromkeys(calls, np.inf)
    for _ in range(5):
        for name, call in calls.items():
            start = time.process_time()
            call()
            used[name] = min(used[name], time.process_time() - start)
    return used


class _Clock:
    """CPU seconds of this thread by stage, the least of several passes; operations by kind."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}
        self.work: dict[str, dict[str, float]] = {}
        self._now: dict[str, float] = {}

    def start_pass(self) -> None:
        self._now, self.work = {}, {}

    def end_pass(self) -> None:
        self.best = {name: min(s, self.best.get(name, np.inf)) for name, s in self._now.items()}

    def time(self, name: str, call: Callable[[], Any]) -> Any:
        """Call, and add its seconds to a stage."""
        start = time.thread_time()
        found = call()
        self._now[name] = self._now.get(name, 0.0) + time.thread_time() - start
        return found

    def count(self, name: str, **work: float) -> None:
        """Add operations to a stage."""
        known = self.work.setdefault(name, {})
        for kind, amount in work.items():
            known[kind] = known.get(kind, 0.0) + float(amount)


def measure_stages(features: SpatialPyramidFeatures, paths: list[str]) -> dict[str, Any]:
    """Return operations per second by kind; ms, operations and floor per image by stage."""
    clock = _Clock()
    with single_blas_thread():
        for _ in range(_REPEATS):
            clock.start_pass()
            for path in paths:
                _one_image(clock, features, path)
            clock.end_pass()
        rates = _rates()
    stages = []
    for name, seconds in clock.best.items():
        row: dict[str, Any] = {"stage": name, "ms": 1e3 * seconds / len(paths)}
        if name in clock.work:
            row["work"] = {kind: n / len(paths) for kind, n in clock.work[name].items()}
            row["floor_ms"] = 1e3 * sum(n / rates[kind] for kind, n in row["work"].items())
        stages.append(row)
    return {"rates": rates, "stages": stages}


def _one_image(clock: _Clock, features: SpatialPyramidFeatures, path: str) -> None:
    pixels = clock.time("read", lambda: features.read(path))
    for channel in features.channels_:
        name = type(channel.descriptor).__name__
        image = channel.descriptor.pick(pixels)
        found = _describe(clock, f"{name}: describe", channel.descriptor, image)
        _vector(clock, name, channel, found)


def _describe(
    clock: _Clock, stage: str, descriptor: Any, image: NDArray[np.float32]
) -> LocalDescriptors:
    found: LocalDescriptors = clock.time(stage, lambda: descriptor.describe(image))
    clock.count(stage, byte=image.nbytes + found.values.nbytes)
    height, width = image.shape[:2]
    if isinstance(descriptor, LocalColor):
        clock.count(stage, sum=15 * height * width)  # squares, and sums along both sides
    for size, step in zip(descriptor.patch_sizes, descriptor.steps, strict=True):
        grid = PatchGrid(image.shape, size, step)
        patches = grid.nx * grid.ny
        if isinstance(descriptor, RootSIFT):
            taps = len(gaussian_taps(0.6 * (size / 16) ** 0.5)) if size > 16 else 0
            pixel = max(4 * taps - 2, 0) + 35  # smoothing, orientation maps
            down, across = shared_axis(grid.ny, step, size), shared_axis(grid.nx, step, size)
            rows = len(down.triangle) * 8
            bins = rows * width * down.counts.sum()
            bins += rows * across.counts.sum() * (down.counts * down.n_parts).sum()
            normalize = 3 * 128 * patches
            clock.count(stage, sum=height * width * pixel + bins + normalize, root=128 * patches)
        elif isinstance(descriptor, LocalColor):
            cells = 16 * patches  # six sums of three additions each, means and variances
            clock.count(stage, sum=(6 * 3 + 6 + 3) * cells, root=3 * cells)
        else:
            assert isinstance(descriptor, LBP)
            side = size // 2 // step
            cells = (grid.nx + side) * (grid.ny + side)
            signs = 12 * height * width  # pairs of differences, signs, absolute values
            summing = 59 * side**2 * cells + 236 * patches
            clock.count(stage, sum=signs + summing, vote=height * width, root=59 * cells)
    return found


def _vector(clock: _Clock, name: str, channel: Channel, found: LocalDescriptors) -> None:
    """Do what ``Channel.vector`` does, one stage after another."""
    encoder, pooling, pyramid = channel.encoder_, channel.pooling_, channel.pyramid
    cells = pyramid.cells(found.x, found.y, found.width, found.height)
    stage = f"{name}: project"
    values = clock.time(stage, lambda: channel.project(found))
    product = found.values.size * values.shape[1]
    clock.count(stage, product=product, byte=found.values.nbytes + values.nbytes)
    stage = f"{name}: weights"
    codes = np.empty((len(values), encoder.n_atoms), np.float32)

    def weigh() -> None:
        for start in range(0, len(values), BLOCK):
            encoder.encode(values[start : start + BLOCK], codes[start : start + BLOCK])

    clock.time(stage, weigh)
    product = values.size * codes.shape[1]
    clock.count(stage, product=product, sum=4 * codes.size, byte=values.nbytes + codes.nbytes)
    stage = f"{name}: moments"
    state = pooling.start(pyramid, encoder.n_atoms, values.shape[1])
    clock.time(stage, lambda: pooling.add(state, values, codes, cells))
    updates = 2 * values.shape[1] * np.count_nonzero(codes)
    # The sums are larger than the first-level cache: every update fetches a row and puts it back.
    clock.count(stage, update=updates, byte=values.nbytes + codes.nbytes + 8 * updates)
    stage = f"{name}: roots and halves"
    vector = clock.time(
        stage, lambda: in_precision(pooling.finish(state, pyramid), pooling.precision)
    )
    # Sums of cells, centered, scaled; then the norm, and rounding.
    size = state.sums.nbytes + vector.nbytes
    clock.count(stage, sum=8 * vector.size, root=vector.size, byte=size)


def _rates() -> dict[str, float]:
    """Measure operations per second by kind."""
    a = np.ones((_SIDE, _SIDE), np.float32)
    out = np.empty_like(a)
    rows = np.ones((5, _LENGTH), np.float32)
    bins = np.random.default_rng(0).integers(0, 59, _LENGTH).astype(np.uint8)
    source = np.ones(_BYTES, np.uint8)
    target = np.empty_like(source)
    tiny = np.float32(1e-9)
    return {
        "product": _SIDE**3 / _least(lambda: np.matmul(a, a, out=out)),
        "sum": 400 * _LENGTH / _least(lambda: _sum_rows(rows, tiny, 100)),
        "update": 100 * _LENGTH / _least(lambda: _update_row(rows, tiny, 100)),
        "vote": 100 * _LENGTH / _least(lambda: _vote(rows, bins, 100)),
        "root": 100 * _LENGTH / _least(lambda: _roots(rows, 100)),
        "byte": 2 * _BYTES / _least(lambda: np.copyto(target, source)),
    }


@compiled("contract")
def _sum_rows(rows: NDArray[np.float32], weight: np.float32, times: int) -> None:
    total, a, b, c, d = rows[0], rows[1], rows[2], rows[3], rows[4]
    for _ in range(times):
        for j in range(total.size):
            value = total[j] + weight * a[j]
            value += weight * b[j]
            value += weight * c[j]
            total[j] = value + weight * d[j]


@compiled("contract")
def _update_row(rows: NDArray[np.float32], weight: np.float32, times: int) -> None:
    total, a = rows[0], rows[1]
    for _ in range(times):
        for j in range(total.size):
            total[j] += weight * a[j]


@compiled("contract")
def _vote(rows: NDArray[np.float32], bins: NDArray[np.uint8], times: int) -> None:
    histogram, votes = rows[0], rows[1]
    for _ in range(times):
        for j in range(bins.size):
            histogram[bins[j]] += votes[j]


@compiled("contract")
def _roots(rows: NDArray[np.float32], times: int) -> None:
    out, source = rows[0], rows[1]
    for _ in range(times):
        for j in range(out.size):
            out[j] = np.sqrt(source[j])


def _least(call: Callable[[], object]) -> float:
    """Return the least CPU seconds of a call, of many."""
    found = []
    for _ in range(200):
        start = time.thread_time()
        call()
        found.append(time.thread_time() - start)
    return float(np.min(found))


def main() -> None:
    show("floors", measure("floors", run))


if __name__ == "__main__":
    main()
