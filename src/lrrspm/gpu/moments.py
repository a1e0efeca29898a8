"""Kernels of Triton: moments weighted by low-rank codes, which are never written.

One program has the patches of one finest cell. Weights of a few patches at a time are in
registers, and so are the sums that they are multiplied into; both products are of matrix
units. In single precision a product is the sum of three in tf32, which is the same up to
2^-21 of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from ..pooling import SpatialPyramid
from .batches import Members
from .device import launched_there, precision_of_products, send

_TILES = (32, 4, 1)
"""Patches per tile, warps and stages: the fastest on an H200."""
_MOST = 64 * 64
"""Most atoms times values of which a program keeps the sums."""


def products() -> str:
    """Return Triton's word for products: three of tf32, or one where torch may take tf32."""
    return "tf32x3" if precision_of_products() == "highest" else "tf32"


def fit_program(k: int, m: int) -> bool:
    """True if sums of k atoms and m values fit into the registers of one program."""
    return _power(k) * _power(m) <= _MOST


def _power(length: int) -> int:
    """Sides of products are powers of two, and at least 16."""
    return max(16, triton.next_power_of_2(length))


@launched_there
def sum_moments(
    projected: torch.Tensor,
    origin: torch.Tensor,
    members: Members,
    position: float,
    projection: torch.Tensor,
    offset: torch.Tensor,
    survivors: float,
    power: float,
    order: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sums of weights (B, cells, k), and of weighted values and squares, (.., order, k, m).

    Where there are many atoms, a kernel before finds the largest entry of each patch and what
    its shares sum to, by streaming over the atoms twice.

    Parameters
    ----------
    projected : tensor of shape (B, n, p)
        Descriptors times components, in rows of at least ``len(origin)`` values.
    origin : tensor of shape (kept,)
        What to subtract from them.
    members : Members
    position : float
        Weight of the place, which follows the values where it is not 0.
    projection, offset : tensors of shape (m, k) and (k,)
        Of :class:`lrrspm.encoders.LRRWeightEncoder`, whose ``survivors`` and ``power`` follow.
    order : {1, 2}
    """
    images, n, stride = projected.shape
    cells, most = members.rows.shape[1:]
    m, k = projection.shape
    patches, warps, stages = _TILES
    whole = fit_program(k, m)
    atoms = _power(k) if whole else max(16, _MOST // _power(m))
    about = (
        projected, origin, members.rows, members.places, members.counts,
        projection.contiguous(), offset,
    )  # fmt: skip
    sizes = n, stride, most, k, m, len(origin), position, float(survivors), float(power)
    kinds: dict[str, Any] = {
        "M": _power(m), "K": atoms, "PATCHES": patches, "SQUARED": power == 2,
        "PRODUCT": products(), "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    tops = projected.new_empty((images, cells, 1 if whole else most, 3))
    if not whole:
        _find_tops[(cells, images)](*about, tops, *sizes, **kinds)
    totals = projected.new_empty((images, cells, k))
    sums = projected.new_empty((images, cells, order, k, m))
    _sum_moments[(cells, images, triton.cdiv(k, atoms))](
        *about, tops, totals, sums, *sizes, ORDER=order, WHOLE=whole, **kinds
    )
    return totals, sums


@triton.jit
def _take(
    projected, origin, rows, places, count, start, cell, n, stride, most, m, kept, position,
    M: tl.constexpr, PATCHES: tl.constexpr,
):  # fmt: skip
    """Values (PATCHES, M) of some patches of a cell, places behind them, and which there are."""
    j = tl.arange(0, M)
    number = start + tl.arange(0, PATCHES)
    known = number < count
    row = tl.load(rows + cell * most + number, mask=known, other=0)
    source = projected + tl.program_id(1).to(tl.int64) * n * stride
    here = known[:, None] & (j < kept)[None, :]
    x = tl.load(source + row[:, None] * stride + j[None, :], mask=here, other=0.0)
    x -= tl.where(here, tl.load(origin + j, mask=j < kept, other=0.0)[None, :], 0.0)
    place = places + 2 * (cell * most + number)
    across = tl.load(place, mask=known, other=0.0) * position
    down = tl.load(place + 1, mask=known, other=0.0) * position
    if m > kept:
        x = tl.where((j == kept)[None, :], across[:, None], x)
        x = tl.where((j == kept + 1)[None, :], down[:, None], x)
    return x, known


@triton.jit
def _multiply(
    x, projection, offset, first, k, m,
    M: tl.constexpr, K: tl.constexpr, PRODUCT: tl.constexpr,
):  # fmt: skip
    """Entries (patches, K) of a block of atoms, -inf where there are no more."""
    j, atom = tl.arange(0, M), first + tl.arange(0, K)
    inside = (j < m)[:, None] & (atom < k)[None, :]
    p = tl.load(projection + j[:, None] * k + atom[None, :], mask=inside, other=0.0)
    added = tl.load(offset + atom, mask=atom < k, other=float("-inf"))
    return tl.dot(x, p, input_precision=PRODUCT) + added[None, :]


@triton.jit
def _share(z, largest, survivors, power, SQUARED: tl.constexpr):
    share = tl.where(z >= survivors * largest, z / largest, 0.0)
    if SQUARED:
        return share * share
    return tl.where(share > 0, tl.exp2(power * tl.log2(share)), 0.0)


@triton.jit(do_not_specialize=["n", "stride", "most"])
def _find_tops(
    projected, origin, rows, places, counts, projection, offset, tops,
    n, stride, most, k, m, kept, position, survivors, power,
    M: tl.constexpr, K: tl.constexpr, PATCHES: tl.constexpr, SQUARED: tl.constexpr,
    PRODUCT: tl.constexpr,
):  # fmt: skip
    """Largest entry of each patch of a cell, its atom, and the sum of the shares."""
    cell = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    count = tl.load(counts + cell)
    for start in range(0, count, PATCHES):
        x, known = _take(
            projected, origin, rows, places, count, start, cell, n, stride, most, m, kept,
            position, M, PATCHES,
        )  # fmt: skip
        largest = tl.full((PATCHES,), float("-inf"), tl.float32)
        best = tl.zeros((PATCHES,), tl.int32)
        for first in range(0, k, K):
            z = _multiply(x, projection, offset, first, k, m, M, K, PRODUCT)
            top, place = tl.max(z, 1, return_indices=True)
            best = tl.where(top > largest, first + place, best)
            largest = tl.maximum(top, largest)
        total = tl.zeros((PATCHES,), tl.float32)
        for first in range(0, k, K):
            z = _multiply(x, projection, offset, first, k, m, M, K, PRODUCT)
            total += tl.sum(_share(z, largest[:, None], survivors, power, SQUARED), 1)
        target = tops + 3 * (cell * most + start + tl.arange(0, PATCHES))
        tl.store(target, largest, mask=known)
        tl.store(target + 1, best.to(tl.float32), mask=known)
        tl.store(target + 2, total, mask=known)


@triton.jit(do_not_specialize=["n", "stride", "most"])
def _sum_moments(
    projected, origin, rows, places, counts, projection, offset, tops, totals, sums,
    n, stride, most, k, m, kept, position, survivors, power,
    M: tl.constexpr, K: tl.constexpr, PATCHES: tl.constexpr, SQUARED: tl.constexpr,
    PRODUCT: tl.constexpr, ORDER: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Weights of the patches of a cell, a few at a time, and their products with the values."""
    cell = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    block = tl.program_id(2) * K
    j, atom = tl.arange(0, M), block + tl.arange(0, K)
    weight = tl.zeros((K,), tl.float32)
    first = tl.zeros((K, M), tl.float32)
    second = tl.zeros((K, M), tl.float32)
    count = tl.load(counts + cell)
    for start in range(0, count, PATCHES):
        x, known = _take(
            projected, origin, rows, places, count, start, cell, n, stride, most, m, kept,
            position, M, PATCHES,
        )  # fmt: skip
        z = _multiply(x, projection, offset, block, k, m, M, K, PRODUCT)
        if WHOLE:
            largest, best = tl.max(z, 1, return_indices=True)
            largest = largest[:, None]
            share = _share(z, largest, survivors, power, SQUARED)
            total = tl.sum(share, 1)
        else:
            top = tops + 3 * (cell * most + start + tl.arange(0, PATCHES))
            largest = tl.load(top, mask=known, other=1.0)[:, None]
            best = tl.load(top + 1, mask=known, other=0.0).to(tl.int32)
            total = tl.load(top + 2, mask=known, other=1.0)
            # The largest survives, also if this product rounds otherwise than the one before.
            z = tl.where(atom[None, :] == best[:, None], largest, z)
            share = _share(z, largest, survivors, power, SQUARED)
        # Where no entry is positive, the largest one has it all.
        only = tl.where(atom[None, :] == best[:, None], 1.0, 0.0)
        q = tl.where(largest > 0, share / total[:, None], only)
        q = tl.where(known[:, None], q, 0.0)
        weight += tl.sum(q, 0)
        turned = tl.trans(q)
        first = tl.dot(turned, x, first, input_precision=PRODUCT)
        if ORDER == 2:
            second = tl.dot(turned, x * x, second, input_precision=PRODUCT)
    tl.store(totals + cell * k + atom, weight, mask=atom < k)
    target = sums + cell * ORDER * k * m + atom[:, None] * m + j[None, :]
    inside = (atom < k)[:, None] & (j < m)[None, :]
    tl.store(target, first, mask=inside)
    if ORDER == 2:
        tl.store(target + k * m, second, mask=inside)


@launched_there
def finish_moments(
    totals: torch.Tensor,
    sums: torch.Tensor,
    pyramid: SpatialPyramid,
    means: torch.Tensor,
    slopes: torch.Tensor,
    inverse: torch.Tensor,
    bend: torch.Tensor,
) -> torch.Tensor:
    """Return vectors (B, cells of all levels * width), each cell normalized; not the whole.

    Parameters
    ----------
    totals, sums : tensors of shape (B, cells, k) and (B, cells, order, k, m)
        Of :func:`sum_moments`.
    means, slopes, inverse : tensors of shape (k, m)
        Means, 1 / (sigma sqrt(pi)) and 1 / sigma^2.
    bend : tensor of shape (k,)
        1 / sqrt(2 pi).
    """
    images, cells, order, k, m = sums.shape
    parts, bounds, sizes = _regions(pyramid, totals.device)
    out = totals.new_empty((images, pyramid.n_cells * order * k * m))
    _finish_moments[(pyramid.n_cells, images)](
        totals, sums, parts, bounds, sizes, means, slopes, inverse, bend, out,
        cells, pyramid.n_cells, k, m, _power(m), _power(k), order, num_warps=8,
    )  # fmt: skip
    return out


@lru_cache(maxsize=64)
def _regions(pyramid: SpatialPyramid, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Finest cells of the cells of all levels, where those of each begin, and cells per level."""
    parts, sizes = [], []
    for grid in pyramid.grids():
        n = grid.rows.stop - grid.rows.start
        parts += [np.flatnonzero(grid.parents == cell) for cell in range(n)]
        sizes += [n] * n
    bounds = np.cumsum([0, *map(len, parts)])
    found = (
        np.concatenate(parts).astype(np.int32),
        bounds.astype(np.int32),
        np.array(sizes, np.float32),
    )
    return tuple(send(part, device) for part in found)


@triton.jit(do_not_specialize=["cells", "regions"])
def _finish_moments(
    totals, sums, parts, bounds, sizes, means, slopes, inverse, bend, out,
    cells, regions, k, m, M: tl.constexpr, K: tl.constexpr, ORDER: tl.constexpr,
):  # fmt: skip
    """Center the sums of a cell of a level, take signed roots and normalize them."""
    region, image = tl.program_id(0), tl.program_id(1).to(tl.int64)
    j, atom = tl.arange(0, M)[None, :], tl.arange(0, K)
    inside = (atom < k)[:, None] & (j < m)
    entry = atom[:, None] * m + j
    weight = tl.zeros((K,), tl.float32)
    first = tl.zeros((K, M), tl.float32)
    second = tl.zeros((K, M), tl.float32)
    for place in range(tl.load(bounds + region), tl.load(bounds + region + 1)):
        cell = image * cells + tl.load(parts + place)
        weight += tl.load(totals + cell * k + atom, mask=atom < k, other=0.0)
        source = sums + cell * ORDER * k * m + entry
        first += tl.load(source, mask=inside, other=0.0)
        if ORDER == 2:
            second += tl.load(source + k * m, mask=inside, other=0.0)
    mean = tl.load(means + entry, mask=inside, other=0.0)
    n = weight[:, None]
    u = (first - n * mean) * tl.load(slopes + entry, mask=inside, other=0.0)
    length = tl.sum(tl.sum(tl.abs(u), 1), 0)
    target = out + (image * regions + region) * ORDER * k * m + entry
    if ORDER == 2:
        spread = second - mean * (2 * first - n * mean)
        v = spread * tl.load(inverse + entry, mask=inside, other=0.0) - n
        v *= tl.load(bend + atom, mask=atom < k, other=0.0)[:, None]
        length += tl.sum(tl.sum(tl.where(inside, tl.abs(v), 0.0), 1), 0)
    scale = length * tl.load(sizes + region)
    scale = tl.where(scale > 0, 1.0 / tl.sqrt(tl.where(scale > 0, scale, 1.0)), 1.0)
    root = tl.sqrt(tl.abs(u)) * scale
    tl.store(target, tl.where(u < 0, -root, root), mask=inside)
    if ORDER == 2:
        root = tl.sqrt(tl.abs(v)) * scale
        tl.store(target + k * m, tl.where(v < 0, -root, root), mask=inside)
