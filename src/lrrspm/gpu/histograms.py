"""Kernels of Triton: histograms of local binary patterns, and statistics of colors."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl

from ..descriptors.lbp import BINS, LEAST, N_PATTERNS
from ..descriptors.local_color import N_CELLS
from .batches import Grids
from .device import launched_there
from .kernels import locate

_PIXELS = 1024
_BLOCKS = 64
_PATCHES = 16
_VALUES = 256
_LARGEST = 512
"""Side of a patch whose sums of squares of bytes are below 2^31."""


@launched_there
def lbp(
    canvas: torch.Tensor, radius: int, step: int, size: int, values: torch.Tensor, first: int = 0
) -> None:
    """Write local binary patterns in patches to values (B, n, 236), from row ``first`` on.

    Three kernels: pattern and weight of each pixel, histograms of blocks of step x step
    pixels, and patches of four cells of blocks, normalized.

    Parameters
    ----------
    canvas : tensor of shape (B, h + 2 radius, w + 2 radius)
        Begins ``radius`` before the first patch and ends so after the last.
    """
    images, height, width = (
        canvas.shape[0], canvas.shape[1] - 2 * radius, canvas.shape[2] - 2 * radius,
    )  # fmt: skip
    bins = canvas.new_empty((images, height, width), dtype=torch.int8)
    weights = canvas.new_empty((images, height, width))
    grid = (triton.cdiv(height * width, _PIXELS), images)
    _patterns[grid](
        canvas, _known(canvas.device), bins, weights, height, width, radius, width + 2 * radius,
        radius * (width + 2 * radius), LEAST.item(), _PIXELS,
    )  # fmt: skip
    rows, columns = height // step, width // step
    blocks = canvas.new_empty((images, rows, columns, 64))
    grid = (triton.cdiv(rows * columns, _BLOCKS), images)
    _block_histograms[grid](bins, weights, blocks, height, width, rows, columns, step, _BLOCKS)
    cell = size // 2 // step
    ny, nx = rows - 2 * cell + 1, columns - 2 * cell + 1
    grid = (triton.cdiv(ny * nx, _PATCHES), images)
    _sum_cells[grid](
        blocks, values, rows, columns, ny, nx, values.shape[1], first, N_PATTERNS, cell, _PATCHES
    )


@lru_cache(maxsize=8)
def _known(device: torch.device) -> torch.Tensor:
    return torch.from_numpy(BINS.astype(np.int32)).to(device)


@triton.jit(do_not_specialize=["height", "width", "radius", "line", "up"])
def _patterns(
    canvas, known_bins, bins, weights, height, width, radius, line, up, least,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """Bin and weight of each pixel: nine reads, most of them from cache, and two writes."""
    image = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    at = canvas + image * (height + 2 * radius) * line + up + radius
    at += (pixel // width) * line + pixel % width
    center = tl.load(at, mask=known, other=0.0)
    total = tl.zeros((PIXELS,), tl.float32)
    pattern = tl.zeros((PIXELS,), tl.int32)
    # Around the pixel from the upper left, clockwise.
    for bit in tl.static_range(8):
        down = -up if bit < 3 else (up if bit >= 4 and bit < 7 else 0)
        right = radius if bit >= 2 and bit < 5 else (-radius if bit == 0 or bit > 5 else 0)
        away = tl.load(at + down + right, mask=known, other=0.0) - center
        total += tl.abs(away)
        pattern |= tl.where(away > 0, 1 << bit, 0)
    place = image * height * width + pixel
    tl.store(bins + place, tl.load(known_bins + pattern).to(tl.int8), mask=known)
    tl.store(weights + place, tl.where(total >= least, total, 0.0), mask=known)


@triton.jit(do_not_specialize=["height", "width", "rows", "columns"])
def _block_histograms(
    bins, weights, blocks, height, width, rows, columns, STEP: tl.constexpr, BLOCKS: tl.constexpr
):
    """Histograms of blocks of pixels: 64 comparisons per pixel, in the pixels' order.

    A thread has several bins of a few blocks, so that a pixel is read for many comparisons.
    """
    image = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    known = block < rows * columns
    corner = image * height * width + (block // columns) * STEP * width + (block % columns) * STEP
    number = tl.arange(0, 64)[:, None]
    histogram = tl.zeros((64, BLOCKS), tl.float32)
    for y in range(STEP):
        for x in tl.static_range(STEP):
            place = corner + y * width + x
            own = tl.load(bins + place, mask=known, other=0).to(tl.int32)
            weight = tl.load(weights + place, mask=known, other=0.0)
            histogram += tl.where(own[None, :] == number, weight[None, :], 0.0)
    target = blocks + (image * rows * columns + block)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(target, tl.trans(histogram), mask=known[:, None])


@triton.jit(do_not_specialize=["rows", "columns", "ny", "nx", "n", "first"])
def _sum_cells(
    blocks, values, rows, columns, ny, nx, n, first,
    PATTERNS: tl.constexpr, CELL: tl.constexpr, PATCHES: tl.constexpr,
):  # fmt: skip
    """Four cells of CELL x CELL blocks per patch, normalized."""
    image = tl.program_id(1).to(tl.int64)
    patch = tl.program_id(0) * PATCHES + tl.arange(0, PATCHES)
    known = (patch < ny * nx)[:, None]
    number = tl.arange(0, 64)[None, :]
    corner = image * rows * columns + (patch // nx) * columns + patch % nx
    source = blocks + corner[:, None] * 64 + number
    a = tl.zeros((PATCHES, 64), tl.float32)
    b = tl.zeros((PATCHES, 64), tl.float32)
    c = tl.zeros((PATCHES, 64), tl.float32)
    d = tl.zeros((PATCHES, 64), tl.float32)
    for t in range(CELL * CELL):
        at = source + ((t // CELL) * columns + t % CELL) * 64
        a += tl.load(at, mask=known, other=0.0)
        b += tl.load(at + CELL * 64, mask=known, other=0.0)
        c += tl.load(at + CELL * columns * 64, mask=known, other=0.0)
        d += tl.load(at + (CELL * columns + CELL) * 64, mask=known, other=0.0)
    total = tl.sum(a + b + c + d, 1)[:, None]
    scale = tl.where(total > 0, 1.0 / tl.where(total > 0, total, 1.0), 0.0)
    target = values + (image * n + first + patch)[:, None] * (4 * PATTERNS) + number
    inside = known & (number < PATTERNS)
    tl.store(target, tl.sqrt(a * scale), mask=inside)
    tl.store(target + PATTERNS, tl.sqrt(b * scale), mask=inside)
    tl.store(target + 2 * PATTERNS, tl.sqrt(c * scale), mask=inside)
    tl.store(target + 3 * PATTERNS, tl.sqrt(d * scale), mask=inside)


@launched_there
def local_color(
    pixels: torch.Tensor, about: torch.Tensor, grids: Grids, values: torch.Tensor, first: int = 0
) -> None:
    """Write means and deviations of colors in patches to values (B, n, 96), from ``first`` on.

    Parameters
    ----------
    pixels : tensor of shape (n, 3), float32 or uint8
    about : tensor of shape (B, 3)
        As in :func:`.kernels.planes`.
    grids : Grids
    """
    grid = (triton.cdiv(grids.n * 3 * N_CELLS**2, _VALUES), len(about))
    _statistics[grid](
        pixels, about, values, grids.ny, grids.nx, values.shape[1], first,
        grids.least, grids.size, grids.step,
        N_CELLS, not pixels.is_floating_point(), grids.size <= _LARGEST, _VALUES,
    )  # fmt: skip


@triton.jit(do_not_specialize=["ny", "nx", "n", "first", "least", "size", "step"])
def _statistics(
    pixels, about, values, ny, nx, n, first, least, size, step,
    CELLS: tl.constexpr, WHOLE: tl.constexpr, SMALL: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Mean and deviation of a color in a cell: a read per pixel, most from cache, two writes.

    Sums of bytes are whole numbers, others doubles: a deviation is a small difference of them.
    """
    kind: tl.constexpr = tl.int32 if WHOLE and SMALL else tl.float64
    image = tl.program_id(1).to(tl.int64)
    start, h, w, top, left, _, _, _, _ = locate(about, image, least, size, step)
    side = size // CELLS
    j = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    known = j < ny * nx * 3 * CELLS * CELLS
    color, cell, patch = j % 3, j // 3 % (CELLS * CELLS), j // (3 * CELLS * CELLS)
    top += (patch // nx) * step + (cell // CELLS) * side
    left += (patch % nx) * step + (cell % CELLS) * side
    source = pixels + 3 * start + color
    total = tl.zeros((VALUES,), kind)
    squares = tl.zeros((VALUES,), kind)
    for y in range(side):
        row = tl.minimum(tl.maximum(top + y, 0), h - 1) * w
        for x in range(side):
            place = row + tl.minimum(tl.maximum(left + x, 0), w - 1)
            value = tl.load(source + 3 * place, mask=known, other=0).to(kind)
            total += value
            squares += value * value
    total, squares = total.to(tl.float64), squares.to(tl.float64)
    mean = total / (side * side)
    deviation = tl.sqrt(tl.maximum(squares / (side * side) - mean * mean, 0.0))
    if WHOLE:
        mean, deviation = mean / 255, deviation / 255
    target = values + (image * n + first + patch) * (6 * CELLS * CELLS) + 6 * cell + color
    tl.store(target, mean.to(tl.float32), mask=known)
    tl.store(target + 3, deviation.to(tl.float32), mask=known)
