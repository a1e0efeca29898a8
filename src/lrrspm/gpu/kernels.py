"""Kernels of Triton: smoothed planes of images, and dense SIFT."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from ..descriptors.root_sift import FLAT
from ..descriptors.sift import FAINT, FAINT_ROOTED, TAPS, bin_weights
from .batches import Grids
from .device import launched_there

_PIXELS = 128
_SUMS = 1024
_PATCHES = 16


@launched_there
def planes(
    pixels: torch.Tensor,
    about: torch.Tensor,
    grids: Grids,
    margin: int,
    taps: NDArray[np.float32],
    opponent: bool = False,
    cut: bool = True,
) -> torch.Tensor:
    """Return smoothed canvases (B, planes, h, w) of a batch, 0 outside the padded images.

    One kernel per axis; one in all where nothing is smoothed. Operations are those of the CPU,
    one by one, and so are the bits: roots enlarge what another order would round otherwise.

    Parameters
    ----------
    pixels : tensor of shape (n, 1 or 3), float32 or uint8
    about : tensor of shape (B, 3), int64
        First pixel and sides of each image, see :class:`.batches.Batch`.
    grids : Grids
    margin : int
        Pixels of canvases around the patches.
    taps : ndarray of shape (reach + 1,)
    opponent : bool
        Return the two opponent planes of colors.
    cut : bool
        False repeats borders instead of zeros.
    """
    height, width = (side + 2 * margin for side in grids.sides)
    reach, images = len(taps) - 1, len(about)
    place = grids.least, grids.size, grids.step, margin
    n_planes = 2 if opponent else 1
    wide = width + 2 * reach
    sent = _sent(taps.tobytes(), pixels.device)
    whole = not pixels.is_floating_point()
    columns = torch.empty((images, n_planes, height, wide), device=pixels.device)
    grid: tuple[int, ...] = (triton.cdiv(height * wide, _SUMS), images)
    _smooth_columns[grid](
        pixels, about, sent, _levels(pixels.device), columns, height, wide, *place,
        reach, opponent, whole, cut and not reach, _SUMS, enable_fp_fusion=False,
    )  # fmt: skip
    if not reach:
        return columns
    out = torch.empty((images, n_planes, height, width), device=pixels.device)
    grid = (triton.cdiv(height * width, _SUMS), images * n_planes)
    _smooth_rows[grid](columns, about, sent, out, height, width, n_planes, *place, reach, _SUMS)
    return out


@lru_cache(maxsize=32)
def _sent(taps: bytes, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(taps, np.float32).copy()).to(device)


@lru_cache(maxsize=8)
def _levels(device: torch.device) -> torch.Tensor:
    """Bytes over 255: a table, since a GPU divides approximately unless told otherwise."""
    return torch.from_numpy(np.arange(256, dtype=np.float32) / np.float32(255)).to(device)


@triton.jit
def locate(about, image, least, size, step):
    """First pixel and sides of an image, the first patch in it, and the same once it is padded."""
    at = about + 3 * image
    h, w = tl.load(at + 1).to(tl.int32), tl.load(at + 2).to(tl.int32)
    tall, wide = tl.maximum(h, least), tl.maximum(w, least)
    top, left = (tall - size) % step // 2, (wide - size) % step // 2
    return tl.load(at), h, w, top - (tall - h) // 2, left - (wide - w) // 2, top, left, tall, wide


@triton.jit
def _pixel(source, levels, row, column, h, w, known, OPPONENT: tl.constexpr, WHOLE: tl.constexpr):
    """Gray, or the two opponent values of a color; rows beyond the border are those at it."""
    place = tl.minimum(tl.maximum(row, 0), h - 1) * w + column
    if OPPONENT:
        red = tl.load(source + 3 * place, mask=known, other=0)
        green = tl.load(source + 3 * place + 1, mask=known, other=0)
        blue = tl.load(source + 3 * place + 2, mask=known, other=0)
        if WHOLE:
            red, green = tl.load(levels + red), tl.load(levels + green)
            blue = tl.load(levels + blue)
        first, second = (red - green) * 0.7071067811865476, (red + green) - 2 * blue
        return first, second * 0.4082482904638631
    gray = tl.load(source + place, mask=known, other=0)
    if WHOLE:
        gray = tl.load(levels + gray)
    return gray, gray


@triton.jit
def _pair(source, levels, row, t, column, h, w, known, OPPONENT: tl.constexpr, WHOLE: tl.constexpr):
    """Sums of the pixels t above and t below."""
    a, b = _pixel(source, levels, row - t, column, h, w, known, OPPONENT, WHOLE)
    c, d = _pixel(source, levels, row + t, column, h, w, known, OPPONENT, WHOLE)
    return a + c, b + d


@triton.jit(do_not_specialize=["height", "width", "least", "size", "step", "margin"])
def _smooth_columns(
    pixels, about, taps, levels, out, height, width, least, size, step, margin,
    REACH: tl.constexpr, OPPONENT: tl.constexpr, WHOLE: tl.constexpr, CUT: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """Weighted sums along columns: 2 REACH + 1 reads per pixel and plane, most from cache."""
    image = tl.program_id(1).to(tl.int64)
    first, h, w, y0, x0, y1, x1, tall, wide = locate(about, image, least, size, step)
    source = pixels + first * (3 if OPPONENT else 1)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    y, x = pixel // width, pixel % width
    row = y + y0 - margin
    column = tl.minimum(tl.maximum(x + x0 - margin - REACH, 0), w - 1)
    a, b = _pixel(source, levels, row, column, h, w, known, OPPONENT, WHOLE)
    tap = tl.load(taps)
    if REACH % 2 == 0:
        a, b = tl.fma(a, tap, 0.0), tl.fma(b, tap, 0.0)  # rounded before sums
    else:
        c, d = _pair(source, levels, row, 1, column, h, w, known, OPPONENT, WHOLE)
        near = tl.load(taps + 1)
        a, b = tl.fma(a, tap, c * near), tl.fma(b, tap, d * near)
    for t in tl.static_range(1 + REACH % 2, REACH, 2):
        c, d = _pair(source, levels, row, t, column, h, w, known, OPPONENT, WHOLE)
        e, f = _pair(source, levels, row, t + 1, column, h, w, known, OPPONENT, WHOLE)
        near, far = tl.load(taps + t), tl.load(taps + t + 1)
        a, b = a + tl.fma(c, near, e * far), b + tl.fma(d, near, f * far)
    if CUT:
        row, column = y + y1 - margin, x + x1 - margin
        shown = (row >= 0) & (row < tall) & (column >= 0) & (column < wide)
        a, b = tl.where(shown, a, 0.0), tl.where(shown, b, 0.0)
    target = out + image * (2 if OPPONENT else 1) * height * width + pixel
    tl.store(target, a, mask=known)
    if OPPONENT:
        tl.store(target + height * width, b, mask=known)


@triton.jit(do_not_specialize=["height", "width", "planes", "least", "size", "step", "margin"])
def _smooth_rows(
    columns, about, taps, out, height, width, planes, least, size, step, margin,
    REACH: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Weighted sums along rows, 0 outside the padded images."""
    plane = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    y, x = pixel // width, pixel % width
    source = columns + plane * height * (width + 2 * REACH) + y * (width + 2 * REACH) + x
    center, tap = tl.load(source + REACH, mask=known, other=0.0), tl.load(taps)
    if REACH % 2 == 0:
        a = tl.fma(center, tap, 0.0)
    else:
        c = tl.load(source + REACH - 1, mask=known, other=0.0)
        c += tl.load(source + REACH + 1, mask=known, other=0.0)
        a = tl.fma(center, tap, c * tl.load(taps + 1))
    for t in tl.static_range(1 + REACH % 2, REACH, 2):
        c = tl.load(source + REACH - t, mask=known, other=0.0)
        c += tl.load(source + REACH + t, mask=known, other=0.0)
        e = tl.load(source + REACH - t - 1, mask=known, other=0.0)
        e += tl.load(source + REACH + t + 1, mask=known, other=0.0)
        a += tl.fma(c, tl.load(taps + t), e * tl.load(taps + t + 1))
    _, _, _, _, _, y1, x1, tall, wide = locate(about, plane // planes, least, size, step)
    row, column = y + y1 - margin, x + x1 - margin
    shown = (row >= 0) & (row < tall) & (column >= 0) & (column < wide)
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


@triton.jit
def _column(at, line, known, g0, g1, g2, d0, d1):
    """Smoothed and differentiated pixels of a column, with the CPU's operations: the same bits."""
    a = tl.load(at, mask=known, other=0.0)
    b = tl.load(at + line, mask=known, other=0.0)
    c = tl.load(at + 2 * line, mask=known, other=0.0)
    d = tl.load(at + 3 * line, mask=known, other=0.0)
    e = tl.load(at + 4 * line, mask=known, other=0.0)
    smooth = tl.fma(c, g2, tl.fma(b, g1, a * g0))
    slope = tl.fma(b, d1, a * d0)
    return tl.fma(e, g0, tl.fma(d, g1, smooth)), tl.fma(e, -d0, tl.fma(d, -d1, slope))


@triton.jit(do_not_specialize=["height", "width"])
def _orientations(plane, maps, height, width, g0, g1, g2, d0, d1, least, PIXELS: tl.constexpr):
    """Eight maps per pixel: 25 reads, most of them from cache, and 8 writes."""
    image = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    known = pixel < height * width
    y, x = pixel // width, pixel % width
    line = width + 4
    corner = plane + image * (height + 4) * line + y * line + x
    a, f = _column(corner, line, known, g0, g1, g2, d0, d1)
    b, g = _column(corner + 1, line, known, g0, g1, g2, d0, d1)
    _, h = _column(corner + 2, line, known, g0, g1, g2, d0, d1)
    d, i = _column(corner + 3, line, known, g0, g1, g2, d0, d1)
    e, j = _column(corner + 4, line, known, g0, g1, g2, d0, d1)
    ix = tl.fma(a - e, d0, (b - d) * d1)
    iy = tl.fma(f + j, g0, tl.fma(g + i, g1, h * g2))
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
