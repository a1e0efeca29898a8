"""What limits each step on a GPU: bytes and operations, counted from the code in lrrspm.gpu.

Nothing is measured here; times and ceilings are those of ``benchmarks/results/gpu.json``.
Bytes are those of the arrays that a step reads and writes, each once per kernel or operation
of torch; what a kernel reads several times is taken to come from cache. Operations are those
that run: where a tile or a cell is padded, padding counts, and a product in single precision
is three of halves. An operation is an addition, a product, a comparison or a selection.

Steps are those of images of 300x200 pixels: SIFT and maxima of ``fast``, and the channels of
``balanced``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lrrspm import config
from lrrspm.descriptors import LBP, SIFT, LocalColor, OpponentSIFT, RootSIFT
from lrrspm.descriptors.base import PatchGrid
from lrrspm.descriptors.lbp import N_PATTERNS
from lrrspm.descriptors.root_sift import gaussian_taps
from lrrspm.pooling import SpatialPyramid

from ._measure import RESULTS

SHAPE = 200, 300
PRODUCTS = {"single": 3, "half": 1}
"""Products of halves per product."""
TILE = 64
"""Patches per tile of the kernel of codes and maxima."""
PER_PIXEL = 5 * 7 + 4 * 9 + 5 + 8 * 9
"""Operations of the orientation maps: derivatives over five rows, the inverse length, and nine
per direction."""
CHOICES = 21
"""Times that the weights are read or written until they are: one operation of torch after
another, see ``gpu.pooling._weights``."""


class Step(NamedTuple):
    """Bytes and operations of a step, the ceiling of the latter if known, and measured seconds."""

    what: str
    nbytes: float
    operations: float
    ceiling: str | None = "float32"
    seconds: float | None = None


def grids(sizes: Sequence[int], steps: Sequence[int]) -> list[PatchGrid]:
    """Return the patches of several sizes in an image."""
    return [PatchGrid(SHAPE, size, step) for size, step in zip(sizes, steps, strict=True)]


def canvas(grid: PatchGrid, margin: int) -> int:
    """Pixels from the first patch to the last, with a margin."""
    ny, nx = grid.ny, grid.nx
    sides = ((n - 1) * grid.step + grid.size + 2 * margin for n in (ny, nx))
    return int(np.prod([*sides]))


def fullest(kinds: Sequence[PatchGrid], pyramid: SpatialPyramid) -> int:
    """Patches in the finest cell that has most."""
    counts = np.zeros(pyramid.n_finest, np.int64)
    for grid in kinds:
        found = grid.place(np.empty((grid.n_patches, 0), np.float32))
        cells = pyramid.cells(found.x, found.y, *SHAPE[::-1])
        counts += np.bincount(cells, minlength=len(counts))
    return int(counts.max())


def tiled() -> tuple[int, int]:
    """Patches of ``fast``, and slots of the tiles that take them."""
    (grid,), pyramid = grids([config.PATCH_SIZE], [config.STEP]), SpatialPyramid()
    slots = pyramid.n_finest * -(-fullest([grid], pyramid) // TILE) * TILE
    return grid.n_patches, slots


def _canvas_bytes(pixels: int, planes: int = 1, cut: bool = True) -> int:
    """Bytes of ``Batch.canvas``: places, bytes found there, in float32, divided by 255.

    ``cut`` ones are multiplied by what is inside.
    """
    each = 2 * 8 + planes * (1 + 1 + 1 + 4 + 4 + 4)
    return pixels * (each + (1 + 1 + 4 + 4 + planes * (4 + 4) if cut else 0))


def sift_steps() -> list[Step]:
    """Return the canvas and the three kernels of dense SIFT."""
    size = config.PATCH_SIZE
    (grid,) = grids([size], [config.STEP])
    ny, nx, pixels = grid.ny, grid.nx, canvas(grid, 0)
    width = (nx - 1) * grid.step + size
    maps, sums, values = 4 * 8 * pixels, 4 * 32 * ny * width, 4 * 128 * ny * nx
    return [
        Step("SIFT: canvas (torch)", _canvas_bytes(canvas(grid, 2)), 2 * canvas(grid, 2)),
        Step("SIFT: orientation maps", 4 * canvas(grid, 2) + maps, PER_PIXEL * pixels),
        Step("SIFT: sums over rows", maps + sums, 8 * width * ny * size * 4 * 2),
        # Four bins of 32 sums, and seven operations per number to normalize.
        Step("SIFT: sums over columns", sums + values, ny * nx * (32 * size * 4 * 2 + 7 * 128)),
    ]


def root_sift_step() -> Step:
    """Return the same for RootSIFT over patches of three sizes, whose pixels are smoothed."""
    nbytes = operations = 0
    for grid in grids(config.PATCH_SIZES, config.STEPS):
        size, reach = grid.size, len(gaussian_taps(0.6 * (grid.size / 16) ** 0.5)) - 1
        pixels, around = canvas(grid, 0), canvas(grid, 2 + reach)
        width = (grid.nx - 1) * grid.step + size
        maps, sums, values = 4 * 8 * pixels, 4 * 32 * grid.ny * width, 4 * 128 * grid.n_patches
        # Along both axes: one tap reads and writes, the others add in place.
        nbytes += _canvas_bytes(around) + 2 * 4 * around * (2 + 3 * 2 * reach)
        nbytes += 4 * canvas(grid, 2) + 2 * maps + 2 * sums + values + 4 * values  # joined twice
        operations += 2 * around * 2 * (2 * reach + 1) + PER_PIXEL * pixels
        operations += 8 * width * grid.ny * size * 4 * 2
        operations += grid.n_patches * (32 * size * 4 * 2 + 8 * 128)
    return Step("RootSIFT, three patch sizes", nbytes, operations)


def lbp_step() -> Step:
    """Return all kernels of local binary patterns, over patches of two sizes."""
    nbytes = operations = 0
    kinds = grids(config.LBP_PATCH_SIZES, config.LBP_STEPS)
    for grid, radius in zip(kinds, config.LBP_RADII, strict=True):
        pixels, around = canvas(grid, 0), canvas(grid, radius)
        blocks, cell = pixels // grid.step**2, grid.size // 2 // grid.step
        values = 4 * 4 * N_PATTERNS * grid.n_patches
        nbytes += _canvas_bytes(around, cut=False) + 4 * around + 2 * 5 * pixels
        nbytes += 2 * 4 * 64 * blocks + values + 2 * values  # and joined with the other size
        # Eight neighbors, 64 bins of which one is chosen, cells of blocks, roots.
        operations += pixels * (8 * 5 + 3 * 64)
        operations += grid.n_patches * 4 * (cell**2 * 64 + 3 * N_PATTERNS)
    return Step("LBP, two patch sizes", nbytes, operations)


def color_step() -> Step:
    """Return the statistics of color, which torch computes in double precision."""
    nbytes = operations = 0
    for grid in grids(config.COLOR_PATCH_SIZES, config.COLOR_STEPS):
        pixels = canvas(grid, 0)
        nbytes += _canvas_bytes(pixels, 3, cut=False)
        # To doubles and squares; of both: two cumulative sums, a border, two differences.
        nbytes += 3 * pixels * (4 + 8 + 8 + 8 + 2 * (2 * 16 + 16 + 2 * 24))
        # Means of both kinds, their difference and root, joined, in single precision.
        nbytes += grid.n_patches * 48 * (2 * 4 * 8 + 7 * 8 + 4 * 8 + 8 + 4)
        operations += 3 * pixels * (1 + 2 * 4) + grid.n_patches * 48 * 6
    return Step("color, three patch sizes", nbytes, operations, None)


def moment_steps(what: str, kinds: Sequence[PatchGrid], m: int, k: int) -> list[Step]:
    """Return projection, weights and moments of descriptors of m values over k atoms."""
    pyramid = SpatialPyramid(config.REGIONS)
    patches, p = sum(grid.n_patches for grid in kinds), config.N_COMPONENTS
    width, slots = p + 2, pyramid.n_finest * fullest(kinds, pyramid)
    # The product, less the origin; taken by cell, masked, and the places appended.
    moved = 4 * (patches * (m + 4 * p) + slots * (4 * p + 2 * width))
    weighed = 4 * slots * (width + CHOICES * k)
    # Squares, joined with the values; the product of weights and both; counts.
    summed = 4 * slots * (6 * width + 2 * k) + 4 * pyramid.n_finest * k * 2 * width
    return [
        Step(f"{what}: projection (torch)", moved, 2 * patches * m * p),
        Step(f"{what}: weights, k = {k} (torch)", weighed, slots * k * (2 * width + CHOICES)),
        Step(f"{what}: moments (torch)", summed, 2 * slots * k * 2 * width),
    ]


def code_steps(result: dict[str, Any]) -> list[Step]:
    """Return codes and maxima of each codebook that was measured, in both modes."""
    (patches, slots), steps = tiled(), []
    for row in result["codes"]:
        k = row["k"]
        # Descriptors for the limits and for the codes; rows and limits of slots; maxima.
        nbytes = 4 * (2 * patches * 128 + 16 * k) + slots * (8 + 2 * 4 + 4 + 4)
        for key, mode in (("half", "as tf32"), ("single", "single precision")):
            seconds = 1 / row[key]["images_per_second"]
            work = 2 * slots * 128 * k * PRODUCTS[key]
            steps.append(Step(f"codes and maxima, k = {k}, {mode}", nbytes, work, "tf32", seconds))
    return steps


def other_steps(result: dict[str, Any]) -> list[Step]:
    """Return steps of which an image is not the unit: k-means and support vector machines."""
    found, steps = result["kmeans"], []
    n, m, k = found["n"], found["m"], found["k"]
    for key, mode in (("half", "as tf32"), ("single", "single precision")):
        seconds = found["precisions"][key]["assignment_seconds"]
        work = 2.0 * n * m * k * PRODUCTS[key]
        what = f"k-means: {n // 10**6} million descriptors to {k} centers, {mode}"
        steps.append(Step(what, n * (4 * m + 8), work, "tf32", seconds))
    n, classes, d = 3060, 102, best_length()
    blocks = -(-d // 4096)
    gram = 2 * n * d + blocks * 3 * 4 * n**2  # each block's product is added to the matrix
    what = f"Gram matrix of {n:,} vectors of `best`"
    steps.append(Step(what, gram, 2.0 * n**2 * d, "tf32"))
    seconds = result["machines"]["squared"]["cuda"]
    work = n**3 / 3 + 2 * classes * n**2  # a factorization, two triangular systems per class
    what = f"{classes} SVMs, least squares, {n:,} images, in float64"
    steps.append(Step(what, 8 * (4 * n**2 + 3 * classes * n), work, "float64", seconds))
    return steps


def best_length() -> int:
    """Length of a vector of ``best``, of an image with color."""
    values = [RootSIFT(), RootSIFT(), LBP(), OpponentSIFT(), LocalColor()]
    widths = [min(config.N_COMPONENTS, one.n_values) + 2 for one in values]
    return SpatialPyramid(config.REGIONS).n_cells * config.WEIGHT_ATOMS * 2 * sum(widths)


def gray_steps() -> list[Step]:
    """Return the steps of the two channels of ``balanced`` that read gray pixels."""
    k = config.BALANCED_ATOMS
    sift = grids(config.PATCH_SIZES, config.STEPS)
    lbp = grids(config.LBP_PATCH_SIZES, config.LBP_STEPS)
    return [
        root_sift_step(), *moment_steps("RootSIFT", sift, SIFT().n_values, k),
        lbp_step(), *moment_steps("LBP", lbp, LBP().n_values, k),
    ]  # fmt: skip


def floor(step: Step, limits: dict[str, float]) -> tuple[float, str]:
    """Return the least seconds of a step, and which ceiling binds."""
    copied = step.nbytes / limits["copy"], "memory"
    if step.ceiling is None:
        return copied
    return max(copied, (step.operations / limits[step.ceiling], step.ceiling))


def table() -> str:
    """Return bytes, operations, floor and time of each step."""
    result = json.loads((RESULTS / "gpu.json").read_text())["result"]
    limits, sift, gray = result["limits"], sift_steps(), gray_steps()
    shown = [*sift, *code_steps(result), *gray[:5], color_step(), *other_steps(result)]
    lines = [
        "| step | MB | million operations | binds | least time, µs | measured, µs |",
        "|---|---|---|---|---|---|",
    ]
    for step in shown:
        cells = [_digits(step.nbytes / 1e6), _digits(step.operations / 1e6)]
        told = "not timed alone" if step.seconds is None else _digits(1e6 * step.seconds)
        if step.ceiling in (None, *limits):
            least, binds = floor(step, limits)
            told += f" ({least / step.seconds:.2f})" if step.seconds is not None else ""
            cells += [binds, _digits(1e6 * least), told]
        else:
            cells += ["not known", "", told]
        lines.append(f"| {step.what} | {' | '.join(cells)} |")
    patches, slots = tiled()
    bare = result["codes"][-1]
    written = 4 * patches * bare["k"]
    rates = result["images_per_second"]
    notes = [
        _sum_of("The four steps of SIFT", sift, limits, result["sift"]["images_per_second"]),
        _sum_of("All steps of two channels of `balanced`", gray, limits, rates["balanced"]),
        f"{slots:,} slots in tiles of {TILE} patches hold {patches:,} patches: "
        f"{100 * (1 - patches / slots):.0f} % are padding.",
        f"At k = {bare['k']} the bare product writes {written / 1e6:.0f} MB per image, at least "
        f"{1e6 * written / limits['copy']:.1f} of its "
        f"{1e6 / bare['bare']['images_per_second']:.1f} µs.",
        f"Ceilings, measured: {limits['copy'] / 1e12:.2f} TB/s of memory, "
        f"{limits['tf32'] / 1e12:.0f} and {limits['float32'] / 1e12:.0f} million operations per "
        "µs of products in tf32 and float32; that of float64 was not. In brackets: the least time "
        "over the measured. It can exceed 1 where products of halves run, which matrix units "
        "multiply faster than tf32.",
    ]
    return "\n".join([*lines, "", " ".join(notes)])


def _sum_of(what: str, some: Sequence[Step], limits: dict[str, float], rate: float) -> str:
    """Compare the floors of steps with the images per second that they reach together."""
    least = sum(floor(step, limits)[0] for step in some)
    return (
        f"{what} move {sum(step.nbytes for step in some) / 1e6:.1f} MB, take at least "
        f"{1e6 * least:.1f} µs, and were timed together: {1e6 / rate:.1f} µs ({least * rate:.2f})."
    )


def _digits(value: float) -> str:
    """Return three significant digits without an exponent."""
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if short >= 100 else f"{short:g}"
