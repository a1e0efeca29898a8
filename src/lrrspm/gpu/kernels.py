"""Kernels of Triton: smoothed planes of images, dense SIFT, and the patches of cells."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from ..descriptors.root_sift import FLAT
from ..descriptors.sift import FAINT, FAINT_ROOTED, TAPS, bin_weights
from .device import launched_there

_PIXELS = 128
_SUMS = 1024
_PATCHES = 16


@launched_there
def planes(
    pixels: torch.Tensor,
    table: torch.Tensor,
    shape: tuple[int, int],
    taps: NDArray[np.float32],
    opponent: bool = False,
    cut: bool = True,
) -> torch.Tensor:
    """Return smoothed canvases (B, planes, h, w) of a batch, 0 outside the padded images.

    One kernel per axis; one in all where nothing is smoothed.

    Parameters
    ----------
    pixels : tensor of shape (n, 1 or 3), float32 or uint8
    table : tensor of shape (B, 9)
        Of :meth:`.batches.Batch.table`, with a margin that the taps do not shorten.
    shape : (h, w)
    taps : ndarray of shape (reach + 1,)
    opponent : bool
        Return the two opponent planes of colors.
    cut : bool
        False repeats borders instead of zeros.
    """
    height, width = shape
    reach, images = len(taps) - 1, len(table)
    n_planes = 2 if opponent else 1
    wide = width + 2 * reach
    sent = _sent(taps.tobytes(), pixels.device)
    whole = not pixels.is_floating_point()
    columns = torch.empty((images, n_planes, height, wide), device=pixels.device)
    grid: tuple[int, ...] = (triton.cdiv(height * wide, _SUMS), images)
    _smooth_columns[grid](
        pixels, table, sent, columns, height, wide,
        reach, opponent, whole, cut and not reach, _SUMS,
    )  # fmt: skip
    if not reach:
        return columns
    out = torch.empty((images, n_planes, height, width), device=pixels.device)
    grid = (triton.cdiv(height * width, _SUMS), images * n_planes)
    _smooth_rows[grid](columns, table, sent, out, height, width, n_planes, reach, _SUMS)
    return out


@lru_cache(maxsize=32)
def _sent(taps: bytes, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(taps, np.float32).copy()).to(device)


@triton.jit(do_not_specialize=["height", "width"])
def _smooth_columns(
    pixels, table, taps, out, height, width,
    REACH: tl.constexpr, OPPONENT: tl.constexpr, WHOLE: tl.constexpr, CUT: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """Weighted sums along columns: 2 REACH + 1 reads per pixel and plane, most from cache."""
    image = tl.program_id(1).to(tl.int64)
    at = table + image * 9
    source = pixels + tl.load(at) * (3 if OPPONENT else 1)
    h, w = tl.load(at + 1).to(tl.int32), tl.load(at + 2).to(tl.int32)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    y, x = pixel // width, pixel % width
    row = y + tl.load(at + 3).to(tl.int32)
    column = tl.minimum(tl.maximum(x - REACH + tl.load(at + 4).to(tl.int32), 0), w - 1)
    a = tl.zeros((PIXELS,), tl.float32)
    b = tl.zeros((PIXELS,), tl.float32)
    for t in tl.static_range(2 * REACH + 1):
        inside = tl.minimum(tl.maximum(row + (t - REACH), 0), h - 1)
        place = inside * w + column
        tap = tl.load(taps + (REACH - t if t < REACH else t - REACH))
        if OPPONENT:
            red = tl.load(source + 3 * place, mask=known, other=0).to(tl.float32)
            green = tl.load(source + 3 * place + 1, mask=known, other=0).to(tl.float32)
            blue = tl.load(source + 3 * place + 2, mask=known, other=0).to(tl.float32)
            a += tap * ((red - green) * 0.7071067811865476)
            b += tap * ((red + green - 2 * blue) * 0.4082482904638631)
        else:
            a += tap * tl.load(source + place, mask=known, other=0).to(tl.float32)
    if WHOLE:
        a, b = tl.div_rn(a, 255.0), tl.div_rn(b, 255.0)
    if CUT:
        row, column = y + tl.load(at + 5), x + tl.load(at + 6)
        shown = (row >= 0) & (row < tl.load(at + 7)) & (column >= 0) & (column < tl.load(at + 8))
        a, b = tl.where(shown, a, 0.0), tl.where(shown, b, 0.0)
    target = out + image * (2 if OPPONENT else 1) * height * width + pixel
    tl.store(target, a, mask=known)
    if OPPONENT:
        tl.store(target + height * width, b, mask=known)


@triton.jit(do_not_specialize=["height", "width", "planes"])
def _smooth_rows(
    columns, table, taps, out, height, width, planes, REACH: tl.constexpr, PIXELS: tl.constexpr
):
    """Weighted sums along rows, 0 outside the padded images."""
    plane = tl.program_id(1).to(tl.int64)
    at = table + plane // planes * 9
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    y, x = pixel // width, pixel % width
    source = columns + plane * height * (width + 2 * REACH) + y * (width + 2 * REACH) + x
    a = tl.zeros((PIXELS,), tl.float32)
    for t in tl.static_range(2 * REACH + 1):
        tap = tl.load(taps + (REACH - t if t < REACH else t - REACH))
        a += tap * tl.load(source + t, mask=known, other=0.0)
    row, column = y + tl.load(at + 5), x + tl.load(at + 6)
    shown = (row >= 0) & (row < tl.load(at + 7)) & (column >= 0) & (column < tl.load(at + 8))
    tl.store(out + plane * height * width + pixel, tl.where(shown, a, 0.0), mask=known)


@launched_there
def sift(
    planes: torch.Tensor, size: int, step: int, root: bool, values: torch.Tensor, first: int = 0
) -> None:
    """Write descriptors of planes (B, planes, h + 4, w + 4) to values (B, n, 128 planes).

    Three kernels: orientation maps (8 per pixel), sums over the rows of each patch
    (32 per pixel and row of patches), sums over its columns with the normalization.
    Patches are written from row ``first`` on.
    """
    images, n_planes = planes.shape[:2]
    height, width = planes.shape[2] - 4, planes.shape[3] - 4
    ny, nx = (height - size) // step + 1, (width - size) // step + 1
    maps = orientation_maps(planes.flatten(0, 1), root)
    weights = _weights(size, planes.device)
    rows = planes.new_empty((images * n_planes, ny, width, 32))
    grid: tuple[int, ...] = (triton.cdiv(8 * width, _SUMS), ny, images * n_planes)
    _sum_rows[grid](maps, weights, rows, height, width, ny, step, size, _SUMS)
    grid = (triton.cdiv(ny * nx, _PATCHES), images * n_planes)
    _sum_columns[grid](
        rows, weights, values, width, ny, nx, step, FLAT.item(),
        values.shape[1], first, n_planes, size, root, _PATCHES,
    )  # fmt: skip


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


@triton.jit(do_not_specialize=["height", "width"])
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


@triton.jit(do_not_specialize=["height", "width", "ny", "step", "size"])
def _sum_rows(maps, weights, rows, height, width, ny, step, size, SUMS: tl.constexpr):
    """Four vertical bins of one row of patches: ``size`` reads, 4 writes per column and map."""
    gy, image = tl.program_id(1), tl.program_id(2).to(tl.int64)
    j = tl.program_id(0) * SUMS + tl.arange(0, SUMS)
    known = j < 8 * width
    source = maps + (image * height + gy * step) * width * 8 + j
    a = tl.zeros((SUMS,), tl.float32)
    b = tl.zeros((SUMS,), tl.float32)
    c = tl.zeros((SUMS,), tl.float32)
    d = tl.zeros((SUMS,), tl.float32)
    for t in range(size):
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


@triton.jit(do_not_specialize=["width", "ny", "nx", "step", "n", "first", "planes", "size"])
def _sum_columns(
    rows, weights, values, width, ny, nx, step, flat, n, first, planes, size,
    ROOT: tl.constexpr, PATCHES: tl.constexpr,
):  # fmt: skip
    """Four horizontal bins of patches, normalized: 32 ``size`` reads, 128 writes per patch."""
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
    for t in range(size):
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
    place = (image // planes * n + first + patch) * planes + image % planes
    target = values + place[:, None] * 128 + j
    tl.store(target, a, mask=known)
    tl.store(target + 32, b, mask=known)
    tl.store(target + 64, c, mask=known)
    tl.store(target + 96, d, mask=known)


@launched_there
def list_members(
    table: torch.Tensor, n_rows: int, n_columns: int, most: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows (B, cells, most) and places (B, cells, most, 2) of :class:`.batches.Members`.

    Parameters
    ----------
    table : tensor of shape (B, grids, n_rows + n_columns + 10), int32
        Of :func:`.batches.member_table`.
    """
    images, grids, _ = table.shape
    cells = n_rows * n_columns
    rows = table.new_empty((images, cells, most))
    places = table.new_empty((images, cells, most, 2), dtype=torch.float32)
    _list_members[(cells, images)](table, rows, places, grids, n_rows, n_columns, most, _PIXELS)
    return rows, places


@triton.jit(do_not_specialize=["grids", "n_rows", "n_columns", "most"])
def _list_members(table, rows, places, grids, n_rows, n_columns, most, NUMBERS: tl.constexpr):
    """Patches of a cell, a rectangle of each grid after another: three writes per patch."""
    cell, image = tl.program_id(0), tl.program_id(1).to(tl.int64)
    wide = n_rows + n_columns + 10
    for first in range(0, most, NUMBERS):
        number = first + tl.arange(0, NUMBERS)
        row = tl.full((NUMBERS,), -1, tl.int32)
        across = tl.zeros((NUMBERS,), tl.float32)
        down = tl.zeros((NUMBERS,), tl.float32)
        before = 0
        for grid in range(grids):
            at = table + (image * grids + grid) * wide
            y, end = tl.load(at + cell // n_columns), tl.load(at + cell // n_columns + 1)
            at += n_rows + 1
            x, stop = tl.load(at + cell % n_columns), tl.load(at + cell % n_columns + 1)
            at += n_columns + 1
            own, width = number - before, tl.maximum(stop - x, 1)
            count = (end - y) * (stop - x)
            inside = (own >= 0) & (own < count)
            i, j = y + own // width, x + own % width
            row = tl.where(inside, tl.load(at + 7) + i * tl.load(at + 6) + j, row)
            step, half = tl.load(at + 4), 0.5 * tl.load(at + 5).to(tl.float32)
            # The center of the first pixel is 0, and its place that of half a pixel.
            u = (tl.load(at + 1) + j * step).to(tl.float32) + half
            v = (tl.load(at) + i * step).to(tl.float32) + half
            u = tl.div_rn(u, tl.load(at + 3).to(tl.float32)) - 0.5
            v = tl.div_rn(v, tl.load(at + 2).to(tl.float32)) - 0.5
            across, down = tl.where(inside, u, across), tl.where(inside, v, down)
            before += count
        target = (image * tl.num_programs(0) + cell) * most + number
        tl.store(rows + target, row, mask=number < most)
        tl.store(places + 2 * target, across, mask=number < most)
        tl.store(places + 2 * target + 1, down, mask=number < most)
