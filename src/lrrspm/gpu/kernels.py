"""Kernels of Triton: dense SIFT and local binary patterns."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl

from ..descriptors.lbp import BINS, LEAST, N_PATTERNS
from ..descriptors.root_sift import FLAT
from ..descriptors.sift import FAINT, FAINT_ROOTED, TAPS, bin_weights
from .device import launched_there

_PIXELS = 128
_SUMS = 1024
_PATCHES = 16


@launched_there
def sift(plane: torch.Tensor, size: int, step: int, root: bool) -> torch.Tensor:
    """Return descriptors (B, ny * nx, 128) of planes (B, h + 4, w + 4).

    Three kernels: orientation maps (8 per pixel), sums over the rows of each patch
    (32 per pixel and row of patches), sums over its columns with the normalization.
    """
    plane = plane.contiguous()
    images, height, width = plane.shape[0], plane.shape[1] - 4, plane.shape[2] - 4
    ny, nx = (height - size) // step + 1, (width - size) // step + 1
    maps = orientation_maps(plane, root)
    weights = _weights(size, plane.device)
    rows = plane.new_empty((images, ny, width, 32))
    grid: tuple[int, ...] = (triton.cdiv(8 * width, _SUMS), ny, images)
    _sum_rows[grid](maps, weights, rows, height, width, ny, step, size, _SUMS)
    values = plane.new_empty((images, ny * nx, 128))
    grid = (triton.cdiv(ny * nx, _PATCHES), images)
    _sum_columns[grid](
        rows, weights, values, width, ny, nx, step, FLAT.item(), size, root, _PATCHES
    )
    return values


def orientation_maps(plane: torch.Tensor, root: bool) -> torch.Tensor:
    """Return the maps (B, h, w, 8) of contiguous planes (B, h + 4, w + 4)."""
    images, height, width = plane.shape[0], plane.shape[1] - 4, plane.shape[2] - 4
    maps = plane.new_empty((images, height, width, 8))
    grid = (triton.cdiv(height * width, _PIXELS), images)
    (g0, g1, g2, _, _), (d0, d1, _, _, _) = (taps.tolist() for taps in TAPS)
    least = (FAINT_ROOTED if root else FAINT).item()
    _orientations[grid](plane, maps, height, width, g0, g1, g2, d0, d1, least, _PIXELS)
    return maps


@lru_cache(maxsize=32)
def _weights(size: int, device: torch.device) -> torch.Tensor:
    """Triangular weights (size, 4) of the bins."""
    return torch.from_numpy(bin_weights(size)[0]).to(device).T.contiguous()


@triton.jit
def _orientations(plane, maps, height, width, g0, g1, g2, d0, d1, least, PIXELS: tl.constexpr):
    """Eight maps per pixel: 25 reads, most of them from cache, and 8 writes."""
    image = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    y, x = pixel // width, pixel % width
    corner = plane + image * (height + 4) * (width + 4) + y * (width + 4) + x
    ix = tl.zeros((PIXELS,), tl.float32)
    iy = tl.zeros((PIXELS,), tl.float32)
    for t in tl.static_range(5):
        row = corner + t * (width + 4)
        a = tl.load(row, mask=known, other=0.0)
        b = tl.load(row + 1, mask=known, other=0.0)
        c = tl.load(row + 2, mask=known, other=0.0)
        d = tl.load(row + 3, mask=known, other=0.0)
        e = tl.load(row + 4, mask=known, other=0.0)
        smooth = g0 if t == 0 or t == 4 else (g1 if t == 1 or t == 3 else g2)
        ix += smooth * (d0 * (a - e) + d1 * (b - d))
        if t != 2:
            slope = d0 if t == 0 or t == 4 else d1
            total = g0 * (a + e) + g1 * (b + d) + g2 * c
            iy += total * (slope if t < 2 else -slope)
    inverse = 1.0 / tl.maximum(ix * ix + iy * iy, least)
    direction = tl.arange(0, 8)
    half = 0.7071067811865476
    even = direction % 2 == 0
    quarter = direction // 2
    # Cosine and sine of direction * pi / 4.
    c = tl.where(quarter == 0, 1.0, tl.where(quarter == 2, -1.0, 0.0))
    s = tl.where(quarter == 1, 1.0, tl.where(quarter == 3, -1.0, 0.0))
    c, s = tl.where(even, c, (c - s) * half), tl.where(even, s, (c + s) * half)
    p = ix[:, None] * c[None, :] + iy[:, None] * s[None, :]
    q = p * p * inverse[:, None]
    q = q * q
    value = tl.maximum(p * (q * q), 0.0)
    place = image * height * width + pixel
    tl.store(maps + place[:, None] * 8 + direction[None, :], value, mask=known[:, None])


@triton.jit
def _sum_rows(maps, weights, rows, height, width, ny, step, SIZE: tl.constexpr, SUMS: tl.constexpr):
    """Four vertical bins of one row of patches: SIZE reads and 4 writes per column and map."""
    gy, image = tl.program_id(1), tl.program_id(2).to(tl.int64)
    j = tl.program_id(0) * SUMS + tl.arange(0, SUMS)
    known = j < 8 * width
    source = maps + (image * height + gy * step) * width * 8 + j
    a = tl.zeros((SUMS,), tl.float32)
    b = tl.zeros((SUMS,), tl.float32)
    c = tl.zeros((SUMS,), tl.float32)
    d = tl.zeros((SUMS,), tl.float32)
    for t in range(SIZE):
        value = tl.load(source + t * width * 8, mask=known, other=0.0)
        a += tl.load(weights + 4 * t) * value
        b += tl.load(weights + 4 * t + 1) * value
        c += tl.load(weights + 4 * t + 2) * value
        d += tl.load(weights + 4 * t + 3) * value
    target = rows + (image * ny + gy) * width * 32 + (j // 8) * 32 + j % 8
    tl.store(target, a, mask=known)
    tl.store(target + 8, b, mask=known)
    tl.store(target + 16, c, mask=known)
    tl.store(target + 24, d, mask=known)


@triton.jit
def _sum_columns(
    rows, weights, values, width, ny, nx, step, flat,
    SIZE: tl.constexpr, ROOT: tl.constexpr, PATCHES: tl.constexpr,
):  # fmt: skip
    """Four horizontal bins of patches, normalized: SIZE * 32 reads and 128 writes per patch."""
    image = tl.program_id(1).to(tl.int64)
    patch = tl.program_id(0) * PATCHES + tl.arange(0, PATCHES)
    known = (patch < ny * nx)[:, None]
    gy, gx = patch // nx, patch % nx
    j = tl.arange(0, 32)[None, :]
    source = rows + ((image * ny + gy) * width + gx * step)[:, None] * 32 + j
    a = tl.zeros((PATCHES, 32), tl.float32)
    b = tl.zeros((PATCHES, 32), tl.float32)
    c = tl.zeros((PATCHES, 32), tl.float32)
    d = tl.zeros((PATCHES, 32), tl.float32)
    for t in range(SIZE):
        value = tl.load(source + t * 32, mask=known, other=0.0)
        a += tl.load(weights + 4 * t) * value
        b += tl.load(weights + 4 * t + 1) * value
        c += tl.load(weights + 4 * t + 2) * value
        d += tl.load(weights + 4 * t + 3) * value
    square = tl.sum(a * a + b * b + c * c + d * d, 1)[:, None]
    flat_or_short = square <= flat if ROOT else square < 1.0
    scale = tl.where(flat_or_short, 0.0 if ROOT else 1.0, 1.0 / tl.sqrt(square))
    a, b = tl.minimum(a * scale, 0.2), tl.minimum(b * scale, 0.2)
    c, d = tl.minimum(c * scale, 0.2), tl.minimum(d * scale, 0.2)
    if ROOT:
        total = tl.sum(a + b + c + d, 1)[:, None]
        again = tl.where(flat_or_short, 0.0, 1.0 / total)
        a, b = tl.sqrt(a * again), tl.sqrt(b * again)
        c, d = tl.sqrt(c * again), tl.sqrt(d * again)
    else:
        square = tl.sum(a * a + b * b + c * c + d * d, 1)[:, None]
        again = tl.where(flat_or_short, 1.0, 1.0 / tl.sqrt(square))
        a, b, c, d = a * again, b * again, c * again, d * again
    target = values + (image * ny * nx + patch)[:, None] * 128 + j
    tl.store(target, a, mask=known)
    tl.store(target + 32, b, mask=known)
    tl.store(target + 64, c, mask=known)
    tl.store(target + 96, d, mask=known)


@launched_there
def lbp(canvas: torch.Tensor, radius: int, step: int, size: int) -> torch.Tensor:
    """Return the values (B, ny * nx, 236) of local binary patterns in patches.

    Three kernels: pattern and weight of each pixel, histograms of blocks of step x step
    pixels, and patches of four cells of blocks, normalized.

    Parameters
    ----------
    canvas : tensor of shape (B, h + 2 radius, w + 2 radius)
        Begins ``radius`` before the first patch and ends so after the last.
    """
    canvas = canvas.contiguous()
    images, height, width = (
        canvas.shape[0], canvas.shape[1] - 2 * radius, canvas.shape[2] - 2 * radius,
    )  # fmt: skip
    known = torch.from_numpy(BINS.astype(np.int32)).to(canvas.device)
    bins = canvas.new_empty((images, height, width), dtype=torch.int8)
    weights = canvas.new_empty((images, height, width))
    grid = (triton.cdiv(height * width, _SUMS), images)
    _patterns[grid](
        canvas, known, bins, weights, height, width, radius, width + 2 * radius,
        radius * (width + 2 * radius), LEAST.item(), _SUMS,
    )  # fmt: skip
    rows, columns = height // step, width // step
    blocks = canvas.new_empty((images, rows, columns, 64))
    grid = (triton.cdiv(rows * columns, _PATCHES), images)
    _block_histograms[grid](bins, weights, blocks, height, width, rows, columns, step, _PATCHES)
    cell = size // 2 // step
    ny, nx = rows - 2 * cell + 1, columns - 2 * cell + 1
    values = canvas.new_empty((images, ny * nx, 4 * N_PATTERNS))
    grid = (triton.cdiv(ny * nx, _PATCHES), images)
    _sum_cells[grid](blocks, values, rows, columns, ny, nx, N_PATTERNS, cell, _PATCHES)
    return values


@triton.jit
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


@triton.jit
def _block_histograms(
    bins, weights, blocks, height, width, rows, columns, STEP: tl.constexpr, BLOCKS: tl.constexpr
):
    """Histograms of blocks of pixels: 64 comparisons per pixel, in the pixels' order."""
    image = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    known = block < rows * columns
    corner = image * height * width + (block // columns) * STEP * width + (block % columns) * STEP
    number = tl.arange(0, 64)[None, :]
    histogram = tl.zeros((BLOCKS, 64), tl.float32)
    for y in range(STEP):
        for x in tl.static_range(STEP):
            place = corner + y * width + x
            own = tl.load(bins + place, mask=known, other=0).to(tl.int32)
            weight = tl.load(weights + place, mask=known, other=0.0)
            histogram += tl.where(own[:, None] == number, weight[:, None], 0.0)
    target = blocks + (image * rows * columns + block)[:, None] * 64 + number
    tl.store(target, histogram, mask=known[:, None])


@triton.jit
def _sum_cells(
    blocks, values, rows, columns, ny, nx,
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
    target = values + (image * ny * nx + patch)[:, None] * (4 * PATTERNS) + number
    inside = known & (number < PATTERNS)
    tl.store(target, tl.sqrt(a * scale), mask=inside)
    tl.store(target + PATTERNS, tl.sqrt(b * scale), mask=inside)
    tl.store(target + 2 * PATTERNS, tl.sqrt(c * scale), mask=inside)
    tl.store(target + 3 * PATTERNS, tl.sqrt(d * scale), mask=inside)
