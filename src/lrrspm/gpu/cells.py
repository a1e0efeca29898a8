"""Kernels of Triton: the patches of the cells of a pyramid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from .batches import Grids
from .device import launched_there
from .kernels import locate

_NUMBERS = 128


@launched_there
def list_members(
    about: torch.Tensor, kinds: Sequence[Grids], shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return rows, places and counts of :class:`.batches.Members`.

    Parameters
    ----------
    about : tensor of shape (B, 3)
        As in :func:`.kernels.planes`.
    kinds : sequence of Grids
    shape : (rows, columns)
        Of the finest cells.
    """
    # As many as a cell can have at most: an interval holds a patch per step.
    most = 0
    for grids in kinds:
        sides = zip(grids.largest, shape, strict=True)
        most += math.prod(triton.cdiv(side, n * grids.step) for side, n in sides)
    n_rows, n_columns = shape
    size = len(about), n_rows * n_columns
    # Before each grid, and after the last one: a program would race with itself over one number.
    counts = torch.zeros((len(kinds) + 1, *size), dtype=torch.int32, device=about.device)
    rows = torch.full((*size, most), -1, dtype=torch.int32, device=about.device)
    places = torch.zeros((*size, most, 2), device=about.device)
    first = 0
    for grids, before, after in zip(kinds, counts, counts[1:], strict=False):
        _add_members[size[::-1]](
            about, rows, places, before, after, n_rows, n_columns, most, first, grids.nx,
            grids.least, grids.size, grids.step, _NUMBERS,
        )  # fmt: skip
        first += grids.n
    return rows, places, counts[-1]


@triton.jit
def _first_patch(cell, cells, corner, length, size, step):
    """Number of the first patch with its center in a cell or after it.

    (corner + i step + (size + 1) / 2) cells / length > cell, in whole numbers.
    """
    above = 2 * cell * length - cells * (size + 1 + 2 * corner)
    found = above // (2 * cells * step) + 1
    # At most as many as there are; of what is below 0, quotients are not to be relied on.
    return tl.where(above < 0, 0, tl.minimum(found, (length - size) // step + 1))


@triton.jit(do_not_specialize=["n_columns", "most", "first", "nx", "least", "size", "step"])
def _add_members(
    about, rows, places, before, after, n_rows, n_columns, most, first, nx, least, size, step,
    NUMBERS: tl.constexpr,
):  # fmt: skip
    """Add the patches of a grid to a cell, a rectangle: three writes per patch."""
    cell, image = tl.program_id(0), tl.program_id(1).to(tl.int64)
    _, _, _, _, _, top, left, tall, wide = locate(about, image, least, size, step)
    down, across = cell // n_columns, cell % n_columns
    y = _first_patch(down, n_rows, top, tall, size, step)
    x = _first_patch(across, n_columns, left, wide, size, step)
    height = _first_patch(down + 1, n_rows, top, tall, size, step) - y
    width = _first_patch(across + 1, n_columns, left, wide, size, step) - x
    place = image * tl.num_programs(0) + cell
    own = place * most + tl.load(before + place)
    for start in range(0, height * width, NUMBERS):
        number = start + tl.arange(0, NUMBERS)
        known = number < height * width
        i, j = y + number // width, x + number % width
        # The center of the first pixel is 0, and its place that of half a pixel.
        u = (left + j * step).to(tl.float32) + 0.5 * size
        v = (top + i * step).to(tl.float32) + 0.5 * size
        target = own + number
        tl.store(rows + target, first + i * nx + j, mask=known)
        tl.store(places + 2 * target, tl.div_rn(u, wide.to(tl.float32)) - 0.5, mask=known)
        tl.store(places + 2 * target + 1, tl.div_rn(v, tall.to(tl.float32)) - 0.5, mask=known)
    tl.store(after + place, tl.load(before + place) + height * width)
