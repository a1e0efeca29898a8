"""What limits each kernel on a GPU: bytes and operations, counted from the code in lrrspm.gpu.

Nothing is measured here; times, ceilings and counters are those of ``benchmarks/results/gpu.json``,
and ``gpu_tables.py`` makes the table.
Bytes are those of the arrays that a kernel reads and writes, each once per launch; what it reads
several times is taken to come from cache. Arrays that images share, such as atoms, are not
counted. Operations are those that run: where a tile is padded, padding counts, and a product in
single precision is three, of halves or of tf32. An operation is an addition, a product, a
comparison or a selection. In ``_code_and_pool`` and ``_sum_moments`` only products count.

The ceiling of float32 is that of products: a multiply-add counts two. Kernels that mostly do
other things issue one instruction per operation, so half of it is their ceiling, "instructions";
places and loads count there too. It is an estimate: the speed at which the chip issues whole
numbers, roots and doubles was not measured.

Steps are those of color images of 300x200 pixels: ``fast``, and the channels of ``balanced``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lrrspm import config
from lrrspm.descriptors import LBP, SIFT, LocalColor, OpponentSIFT, RootSIFT
from lrrspm.descriptors.base import PatchGrid
from lrrspm.descriptors.lbp import N_PATTERNS
from lrrspm.descriptors.local_color import N_CELLS
from lrrspm.descriptors.root_sift import gaussian_taps
from lrrspm.pooling import SpatialPyramid

SHAPE = 200, 300
PIXELS = SHAPE[0] * SHAPE[1]
PRODUCTS = {"single": 3, "half": 1}
"""Products of halves per product."""
MODES = {"single": "single precision", "half": "as tf32"}
NAMES = {"projection": "projection (cuBLAS)", "other": "the rest (torch)"}
"""Of what is no kernel of ours."""
CODES = ("_sort_halves", "_code_and_pool")
CODE_TILES = {3: (128, 64), 1: (128, 128)}
MANY_CODES, MANY_CODE_TILES = 1024, {**CODE_TILES, 3: (256, 64)}
"""Atoms and patches per tile of ``_code_and_pool``, the second ones for many atoms."""
TILES = {
    "_smooth_columns": 1024, "_smooth_rows": 1024, "_orientations": 128, "_sum_rows": 1024,
    "_sum_columns": 16, "_patterns": 1024, "_block_histograms": 64, "_sum_cells": 16,
    "_statistics": 256, "_add_members": 128, "_sort_halves": 16, "_sum_moments": 32,
}  # fmt: skip
"""Of what each program of a kernel takes so many: pixels, sums, patches, blocks or values."""
REACH = 2
"""Of the derivatives."""

PER_PIXEL = 5 * 7 + 4 * 9 + 5 + 8 * 9
"""Orientation maps: derivatives over five rows, the inverse length, and nine per direction."""
PER_PATTERN = 8 * 6 + 6
"""Eight neighbors: load, subtract, add, compare, shift or select, combine; and the center."""
PER_COLOR = 8
"""One pixel's color: its place, which is kept inside the image, a load, and two sums."""


class Step(NamedTuple):
    """A kernel's bytes and operations, the ceiling of the latter if known, and its seconds."""

    what: str
    kernel: str
    nbytes: float
    operations: float
    ceiling: str | None = "float32"
    seconds: float | None = None
    counted: dict[str, Any] | None = None


def grids(sizes: Sequence[int], steps: Sequence[int]) -> list[PatchGrid]:
    """Return the patches of several sizes in an image."""
    return [PatchGrid(SHAPE, size, step) for size, step in zip(sizes, steps, strict=True)]


def sides(grid: PatchGrid, margin: int = 0) -> tuple[int, int]:
    """Pixels from the first patch to the last, down and across, with a margin."""
    down, across = ((n - 1) * grid.step + grid.size + 2 * margin for n in (grid.ny, grid.nx))
    return down, across


def cell_counts(kinds: Sequence[PatchGrid], pyramid: SpatialPyramid) -> NDArray[np.int64]:
    """Patches in each finest cell."""
    counts = np.zeros(pyramid.n_finest, np.int64)
    for grid in kinds:
        found = grid.place(np.empty((grid.n_patches, 0), np.float32))
        cells = pyramid.cells(found.x, found.y, *SHAPE[::-1])
        counts += np.bincount(cells, minlength=len(counts))
    return counts


def padded(count: int, tile: int | str) -> int:
    """Return the next multiple of a tile, which may be that of a kernel."""
    size = TILES[tile] if isinstance(tile, str) else tile
    return -(-count // size) * size


def slots(key: str, k: int = 1) -> int:
    """Slots for the patches of ``fast`` in tiles, by precision and atoms."""
    pyramid = SpatialPyramid()
    room = most(grids([config.PATCH_SIZE], [config.STEP]), pyramid)
    return pyramid.n_finest * padded(room, code_tiles(key, k)[1])


def code_tiles(key: str, k: int) -> tuple[int, int]:
    """Atoms and patches per tile of ``_code_and_pool``."""
    return (MANY_CODE_TILES if k >= MANY_CODES else CODE_TILES)[PRODUCTS[key]]


def canvas_steps(grid: PatchGrid, margin: int, reach: int = 0) -> list[Step]:
    """Return one kernel, or one per axis where pixels are smoothed."""
    height, width = sides(grid, margin)
    wide, each = width + 2 * reach, 2 * (2 * reach + 1)
    name = "_smooth_columns"
    steps = [
        # Bytes are divided by 255.
        Step("", name, PIXELS + 4 * height * wide, padded(height * wide, name) * (each + 1)),
    ]
    if reach:
        name, nbytes = "_smooth_rows", 4 * height * (wide + width)
        steps.append(Step("", name, nbytes, padded(height * width, name) * each))
    return steps


def sift_steps(kinds: Sequence[PatchGrid], smooth: bool = False) -> list[Step]:
    """Return canvas, maps and sums of SIFT, or of RootSIFT, whose pixels may be smoothed."""
    steps = []
    for grid in kinds:
        size, (height, width) = grid.size, sides(grid)
        reach = len(gaussian_taps(0.6 * (size / 16) ** 0.5)) - 1 if smooth and size > 16 else 0
        canvas = 4 * (height + 2 * REACH) * (width + 2 * REACH)
        maps, sums, values = (
            4 * 8 * height * width, 4 * 32 * grid.ny * width, 4 * 128 * grid.n_patches,
        )  # fmt: skip
        mapped = PER_PIXEL * padded(height * width, "_orientations")
        down = grid.ny * padded(8 * width, "_sum_rows") * size * 8
        # Four bins of 32 sums, and seven operations per value to normalize.
        across = padded(grid.n_patches, "_sum_columns") * (32 * size * 8 + 7 * 128)
        steps += [
            *canvas_steps(grid, REACH, reach),
            Step("", "_orientations", canvas + maps, mapped),
            Step("", "_sum_rows", maps + sums, down),
            Step("", "_sum_columns", sums + values, across),
        ]
    return steps


def lbp_steps(kinds: Sequence[PatchGrid]) -> list[Step]:
    """Return canvas, patterns, histograms of blocks and their sums."""
    steps = []
    for grid, radius in zip(kinds, config.LBP_RADII, strict=True):
        (height, width), (tall, wide) = sides(grid), sides(grid, radius)
        pixels, n_blocks = height * width, (height // grid.step) * (width // grid.step)
        histograms, cell = 4 * 64 * n_blocks, grid.size // 2 // grid.step
        # Two loads per pixel; 64 bins are compared, selected and added to.
        binned = padded(n_blocks, "_block_histograms") * grid.step**2 * (2 + 64 * 3)
        # Cells of blocks: load and add; their total, scale and root.
        summed = padded(grid.n_patches, "_sum_cells") * 4 * 64 * (2 * cell**2 + 3)
        values = 4 * 4 * N_PATTERNS * grid.n_patches
        steps += [
            *canvas_steps(grid, radius),
            Step(
                "", "_patterns", 4 * tall * wide + 5 * pixels,
                PER_PATTERN * padded(pixels, "_patterns"), "instructions",
            ),
            Step("", "_block_histograms", 5 * pixels + histograms, binned, "instructions"),
            Step("", "_sum_cells", histograms + values, summed, "instructions"),
        ]  # fmt: skip
    return steps


def color_steps(kinds: Sequence[PatchGrid]) -> list[Step]:
    """Return the statistics of color."""
    steps, name = [], "_statistics"
    for grid in kinds:
        n = grid.n_patches * 3 * N_CELLS**2
        work = padded(n, name) * (grid.size // N_CELLS) ** 2 * PER_COLOR
        steps.append(Step("", name, 3 * PIXELS + 4 * 2 * n, work, "instructions"))
    return steps


def members_step(kinds: Sequence[PatchGrid], pyramid: SpatialPyramid) -> Step:
    """Return the listing of patches by cell, some 20 operations for each."""
    name = "_add_members"
    counts = (cell_counts([grid], pyramid) for grid in kinds)
    work = 20 * sum(padded(int(count), name) for each in counts for count in each)
    return Step("", name, listed(kinds, pyramid), work, "instructions")


def listed(kinds: Sequence[PatchGrid], pyramid: SpatialPyramid) -> int:
    """Bytes of the lists of cells: rows and places, and room for more of them."""
    return 12 * pyramid.n_finest * most(kinds, pyramid)


def most(kinds: Sequence[PatchGrid], pyramid: SpatialPyramid) -> int:
    """Patches for which the list of a cell has room."""
    return sum(
        math.prod(-(-side // (n * grid.step)) for side, n in zip(SHAPE, pyramid.shape, strict=True))
        for grid in kinds
    )


def moment_steps(kinds: Sequence[PatchGrid], m: int, k: int) -> list[Step]:
    """Return members, projection and moments of descriptors of m values over k atoms."""
    pyramid = SpatialPyramid(config.REGIONS)
    counts, p = cell_counts(kinds, pyramid), config.N_COMPONENTS
    patches, width, n = int(counts.sum()), p + 2, len(counts)
    name = "_sum_moments"
    members, fine = listed(kinds, pyramid), 4 * n * k * (2 * width + 1)
    tiled = sum(padded(int(count), name) for count in counts)
    vector = pyramid.n_cells * 2 * k * width
    # Weights, and both moments; each product is three of tf32.
    work = 3 * 3 * 2 * tiled * k * width
    # Cells of both levels are added, and centered, with two roots, in 12 operations per value.
    finished = 2 * n * 2 * k * width + 12 * vector
    # Lists are filled with what stays where they end; the norm reads the vector, the division
    # copies it.
    rest = members + 3 * 4 * vector
    return [
        members_step(kinds, pyramid),
        Step("", "projection", 4 * patches * (m + p), 2 * patches * m * p),
        Step("", name, 4 * patches * p + members + fine, work, "tf32"),
        Step("", "_finish_moments", fine + 4 * vector, finished, "instructions"),
        Step("", "other", rest, 3 * vector),
    ]


def code_steps(key: str, k: int) -> list[Step]:
    """Return the sorting of descriptors of ``fast``, and their codes' maxima over k atoms."""
    pyramid, kinds = SpatialPyramid(), grids([config.PATCH_SIZE], [config.STEP])
    taken, products, n = slots(key, k), PRODUCTS[key], pyramid.n_finest
    halves = taken * (128 * 2 * (2 if products > 1 else 1) + 4)  # with the limits
    sort = 4 * 128 * fast_patches() + 4 * n * most(kinds, pyramid) + halves
    work = 2 * taken * 128 * padded(k, code_tiles(key, k)[0]) * products
    return [
        # The limit, the change of sign and scale, and the second half.
        Step("", "_sort_halves", sort, taken * 128 * 5),
        Step("", "_code_and_pool", halves + 4 * n * k, work, "tf32"),
    ]


def fast_rest(k: int) -> Step:
    """Return what torch does for ``fast``: lists are filled, coarser cells and the norm follow."""
    pyramid = SpatialPyramid()
    lists = listed(grids([config.PATCH_SIZE], [config.STEP]), pyramid)
    fine, all_cells = pyramid.n_finest * k, pyramid.n_cells * k
    # Per level: cells are taken, copied and compared; then they are joined and divided.
    moved = 3 * 3 * fine + (1 + 2 + 3) * all_cells
    return Step("", "other", lists + 4 * moved, 3 * fine + 3 * all_cells)


def channel_steps() -> dict[tuple[str, str], list[Step]]:
    """Return the steps of ``fast`` and of the channels of ``balanced``, sizes added up."""
    k = config.BALANCED_ATOMS
    plain = grids([config.PATCH_SIZE], [config.STEP])
    root = grids(config.PATCH_SIZES, config.STEPS)
    lbp = grids(config.LBP_PATCH_SIZES, config.LBP_STEPS)
    color = grids(config.COLOR_PATCH_SIZES, config.COLOR_STEPS)
    first = [*sift_steps(plain), members_step(plain, SpatialPyramid())]
    codes = [*code_steps("single", config.CODEBOOK_SIZE), fast_rest(config.CODEBOOK_SIZE)]
    moments = {
        "RootSIFT": [*sift_steps(root, smooth=True), *moment_steps(root, SIFT().n_values, k)],
        "LBP": [*lbp_steps(lbp), *moment_steps(lbp, LBP().n_values, k)],
        "LocalColor": [*color_steps(color), *moment_steps(color, LocalColor().n_values, k)],
    }
    found = {("fast", "SIFT"): [*first, *codes]}
    found |= {("balanced", name): steps for name, steps in moments.items()}
    return {channel: added(steps) for channel, steps in found.items()}


def added(steps: Sequence[Step]) -> list[Step]:
    """Add up the steps of each kernel."""
    found: dict[str, Step] = {}
    for step in steps:
        if step.kernel in found:
            other = found[step.kernel]
            step = step._replace(
                nbytes=other.nbytes + step.nbytes, operations=other.operations + step.operations
            )
        found[step.kernel] = step
    return list(found.values())


def measured_steps(result: dict[str, Any]) -> dict[tuple[str, str], list[Step]]:
    """Return the steps of channels with what was measured of them."""
    return {
        (preset, channel): [
            step._replace(
                what=f"{channel}, {NAMES.get(step.kernel, f'`{step.kernel}`')}",
                seconds=_seconds(_inside(result, "kernels", preset, channel, step.kernel)),
                counted=_inside(result, "counters", preset, channel, step.kernel),
            )
            for step in steps
        ]
        for (preset, channel), steps in channel_steps().items()
    }


def measured_codes(result: dict[str, Any]) -> list[Step]:
    """Return the same of codes and maxima, by codebook and precision; sorting once for each."""
    sorting: list[Step] = []
    codes: list[Step] = []
    for row in result["codes"]:
        for key, mode in MODES.items():
            for step in code_steps(key, row["k"]):
                case = f"{row['k']} {key}"
                whole = step._replace(
                    what=f"`{step.kernel}`, k = {row['k']}, {mode}",
                    seconds=_seconds(row[key].get("kernels", {}).get(step.kernel)),
                    counted=_inside(result, "counters", "codes", case, step.kernel),
                )
                (sorting if step.kernel == CODES[0] else codes).append(whole)
    return [*sorting[: len(MODES)], *codes]


def _inside(found: Any, *keys: str) -> Any:
    """Return what is under keys one below another, or None."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else 1e-6 * microseconds


def other_steps(result: dict[str, Any]) -> list[Step]:
    """Return steps of which an image is not the unit: k-means and support vector machines."""
    found, steps = result["kmeans"], []
    n, m, k = found["n"], found["m"], found["k"]
    for key, mode in MODES.items():
        seconds = found["precisions"][key]["assignment_seconds"]
        work = 2.0 * n * m * k * PRODUCTS[key]
        what = f"k-means: {n // 10**6} million descriptors to {k} centers, {mode}"
        steps.append(Step(what, "_nearest", n * (4 * m + 8), work, "tf32", seconds))
    n, classes, d = 3060, 102, best_length()
    blocks = -(-d // 4096)
    gram = 2 * n * d + blocks * 3 * 4 * n**2  # each block's product is added to the matrix
    what = f"Gram matrix of {n:,} vectors of `best`"
    steps.append(Step(what, "", gram, 2.0 * n**2 * d, "tf32"))
    seconds = result["machines"]["squared"]["cuda"]
    work = n**3 / 3 + 2 * classes * n**2  # a factorization, two triangular systems per class
    what = f"{classes} SVMs, least squares, {n:,} images, in float64"
    steps.append(Step(what, "", 8 * (4 * n**2 + 3 * classes * n), work, None, seconds))
    return steps


def best_length() -> int:
    """Length of a vector of ``best``, of an image with color."""
    values = [RootSIFT(), RootSIFT(), LBP(), OpponentSIFT(), LocalColor()]
    widths = [min(config.N_COMPONENTS, one.n_values) + 2 for one in values]
    return SpatialPyramid(config.REGIONS).n_cells * config.WEIGHT_ATOMS * 2 * sum(widths)


def floor(step: Step, limits: dict[str, float]) -> tuple[float, str]:
    """Return the least seconds of a step whose ceiling is known, and which ceiling binds."""
    assert step.ceiling is not None
    copied = step.nbytes / limits["copy"], "memory"
    return max(copied, (step.operations / limits[step.ceiling], step.ceiling))


def ceilings(result: dict[str, Any]) -> dict[str, float]:
    """Return bytes and operations per second."""
    limits: dict[str, float] = result["limits"]
    return {**limits, "instructions": limits["float32"] / 2}


def fast_patches() -> int:
    """Patches of ``fast``."""
    return grids([config.PATCH_SIZE], [config.STEP])[0].n_patches
