"""Kernels of Triton that end a matrix product in registers: maxima of codes, nearest centers.

Matrix units multiply numbers in half precision. A number in single precision is the sum of
two halves up to 2^-22 of it, so a product of such numbers takes three of theirs, and one
where 2^-11 is enough, as with tf32.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from .batches import Members
from .device import launched_there, precision_of_products

_LARGEST = 2.0**9
"""To what numbers are scaled: halves reach from 2^-24 to 2^15, and second halves are small."""
_CODE_TILES = {3: (128, 64, 4, 3), 1: (128, 128, 8, 2)}
_MANY_CODES, _MANY_CODE_TILES = 1024, {**_CODE_TILES, 3: (256, 64, 8, 3)}
"""Atoms and patches per tile, warps and stages, by products of halves: the fastest on an H200.

The second ones are for many atoms."""
_NEAREST_TILES = {3: (128, 128, 8, 2), 1: (128, 128, 4, 2)}
"""Rows and centers per tile, warps and stages, likewise."""
_SMALL_TILES = (64, 32, 4, 2)
"""Tiles of both kernels for GPUs with less shared memory."""
_SUMMED = 64
_SORTED = 16
_SPARE = 2**10
"""Bytes of shared memory for other things."""


def products_of_halves() -> tuple[int, torch.dtype]:
    """Return how many products make one, and of what: three of halves in single precision.

    Where torch may take tf32, one of halves, which have the same 11 bits; where it may take
    bfloat16, one of these, which have 8.
    """
    word = precision_of_products()
    if word == "highest":
        return 3, torch.float16
    return 1, torch.bfloat16 if word == "medium" else torch.float16


def fitting(
    tiles: tuple[int, int, int, int], parts: int, m: int, device: torch.device
) -> tuple[int, int, int, int]:
    """Return tiles, or small ones where their halves of m values exceed the shared memory."""
    held, passing, _, stages = tiles
    needed = 2 * m * (2 if parts > 1 else 1) * (held + stages * passing) + _SPARE
    return tiles if needed <= _shared_memory(device) else _SMALL_TILES


@lru_cache(maxsize=16)
def _shared_memory(device: torch.device) -> int:
    """Bytes that a program may share."""
    if device.type == "cpu":  # Triton's interpreter has no such limit
        return 2**30
    about = torch.cuda.get_device_properties(device)
    return int(getattr(about, "shared_memory_per_block_optin", 2**30))  # ROCm is silent


class Halves(NamedTuple):
    """A matrix times a power of two, as the sum of two in half precision, or the first alone."""

    high: torch.Tensor
    low: torch.Tensor | None
    scale: float


def split(matrix: torch.Tensor, products: tuple[int, torch.dtype] | None = None) -> Halves:
    """Split a matrix for products of so many products, by default what torch's precision asks."""
    parts, kind = products or products_of_halves()
    scale = scale_of(matrix)
    scaled = matrix * scale
    high = scaled.to(kind)
    return Halves(high, (scaled - high.float()).to(kind) if parts > 1 else None, scale)


def split_atoms(projection: torch.Tensor) -> Halves:
    """Split a projection (128, k) for :func:`pool_codes`."""
    return split(projection.T.contiguous())


def scale_of(matrix: torch.Tensor) -> float:
    """Return the power of two that brings the largest absolute value close to 2^9."""
    least, most = (float(value) for value in torch.aminmax(matrix))
    largest = max(-least, most) or 1.0
    return float(2.0 ** math.floor(math.log2(_LARGEST / largest)))


@launched_there
def pool_codes(
    values: torch.Tensor,
    members: Members,
    atoms: Halves,
    total: torch.Tensor,
    share: float,
) -> torch.Tensor:
    """Return the largest low-rank codes of each cell, (B, cells, k), without any n x k matrix.

    Two kernels: one sorts descriptors by cell and splits them into halves, the other
    multiplies them by the atoms.

    Parameters
    ----------
    values : tensor of shape (B, n, 128)
        At most 1.
    members : Members
    atoms : Halves of shape (k, 128)
        Of the paper's P, see :func:`split_atoms`.
    total : tensor of shape (128,)
        P'1.
    share : float
        Threshold divided by k, positive.
    """
    images, n, m = values.shape
    cells, most = members.rows.shape[1:]
    high, low, scale = atoms
    k, kind, parts = len(high), high.dtype, 1 if low is None else 3
    tiles = _MANY_CODE_TILES if k >= _MANY_CODES else _CODE_TILES
    n_atoms, n_patches, warps, stages = fitting(tiles[parts], parts, m, values.device)
    count = triton.cdiv(most, n_patches)
    slots = cells * count * n_patches
    sorted_high = torch.empty((images, slots, m), dtype=kind, device=values.device)
    sorted_low = torch.empty_like(sorted_high) if parts > 1 else sorted_high
    limits = values.new_empty((images, slots))
    grid = (triton.cdiv(slots, _SORTED), images)
    _sort_halves[grid](
        values, members.rows, total, sorted_high, sorted_low, limits,
        n, most, count * n_patches, slots, float(share), _LARGEST, scale * _LARGEST,
        m, _SORTED, parts,
    )  # fmt: skip
    out = values.new_empty((images, cells, k))
    grid = (triton.cdiv(k, n_atoms), images)
    _code_and_pool[grid](
        sorted_high, sorted_low, limits, high, high if low is None else low, out,
        cells, count, k, 1 / (scale * _LARGEST), m, n_atoms, n_patches, parts,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["n", "most", "length", "slots"])
def _sort_halves(
    values, rows, total, high, low, limits, n, most, length, slots, share, scale, forth,
    M: tl.constexpr, PATCHES: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Split descriptors into halves, sorted by cell, and find their limits.

    Limits are known before the codes, as sum(c) = x . P'1. They are of scaled codes, and
    infinite where there is no patch. Where one is negative, codes at or below it are kept;
    there it and the descriptor change their signs.
    """
    image = tl.program_id(1).to(tl.int64)
    slot = tl.program_id(0) * PATCHES + tl.arange(0, PATCHES)
    number, cell = slot % length, slot // length
    within = slot < slots
    place = image * (slots // length) * most + cell * most + number
    row = tl.load(rows + place, mask=within & (number < most), other=-1)
    known = row >= 0
    j = tl.arange(0, M)[None, :]
    x = tl.load(values + (image * n + row)[:, None] * M + j, mask=known[:, None], other=0.0)
    limit = share * tl.sum(x * tl.load(total + j), 1)
    x *= tl.where(limit < 0, -scale, scale)[:, None]
    x_high = x.to(high.dtype.element_ty)
    target = (image * slots + slot)[:, None] * M + j
    tl.store(high + target, x_high, mask=within[:, None])
    if PARTS > 1:
        x_low = (x - x_high.to(tl.float32)).to(low.dtype.element_ty)
        tl.store(low + target, x_low, mask=within[:, None])
    limit = tl.where(known, tl.abs(limit) * forth, float("inf"))
    tl.store(limits + image * slots + slot, limit, mask=within)


@triton.jit(do_not_specialize=["cells", "tiles"])
def _code_and_pool(
    x_high, x_low, limits, high, low, out, cells, tiles, k, back,
    M: tl.constexpr, ATOMS: tl.constexpr, PATCHES: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Largest codes of the patches of all cells of an image over a block of atoms.

    The atoms stay where they are while the tiles of patches pass by, cell after cell.
    """
    image = tl.program_id(1).to(tl.int64)
    atom = tl.program_id(0) * ATOMS + tl.arange(0, ATOMS)
    j = tl.arange(0, M)
    known = (atom < k)[:, None]
    p = tl.load(high + atom[:, None] * M + j[None, :], mask=known, other=0.0)
    q = tl.load(low + atom[:, None] * M + j[None, :], mask=known, other=0.0)
    patch = image * cells * tiles * PATCHES + tl.arange(0, PATCHES)
    place = patch[None, :] * M + j[:, None]
    target = out + image * cells * k + atom
    best = tl.zeros((ATOMS,), tl.float32)
    for tile in range(cells * tiles):
        x = tl.load(x_high + place + tile * PATCHES * M)
        limit = tl.load(limits + patch + tile * PATCHES)
        codes = tl.dot(p, x)
        if PARTS > 1:
            codes = tl.dot(p, tl.load(x_low + place + tile * PATCHES * M), codes)
            codes = tl.dot(q, x, codes)
        largest = tl.max(tl.where(codes >= limit[None, :], codes, 0.0), 1)
        best = tl.where(tile % tiles == 0, largest, tl.maximum(best, largest))
        # The last tile of a cell writes last.
        tl.store(target + (tile // tiles) * k, best * back, mask=atom < k)


@launched_there
def nearest(
    values: torch.Tensor,
    centers: torch.Tensor,
    products: tuple[int, torch.dtype] | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest center of each row, int32, and half its square less half the distance's.

    The first of equally near ones. No n x k matrix is written.

    Parameters
    ----------
    values : tensor of shape (n, m)
    centers : tensor of shape (k, m)
    products : (3 or 1, torch.dtype) or None
        As in :func:`split`.
    scale : float or None
        That of the values, see :func:`scale_of`, if it is known.
    """
    values, centers = values.contiguous(), centers.contiguous()
    n, m = values.shape
    k = len(centers)
    products = products or products_of_halves()
    parts = products[0]
    columns = max(16, triton.next_power_of_2(m))
    n_rows, n_centers, warps, stages = fitting(_NEAREST_TILES[parts], parts, columns, values.device)
    padded = triton.cdiv(k, n_centers) * n_centers
    scale = scale_of(values) if scale is None else scale
    high, low, centers_scale = split(
        torch.nn.functional.pad(centers, (0, columns - m, 0, padded - k)), products
    )
    offsets = torch.nn.functional.pad(
        0.5 * centers.square().sum(1), (0, padded - k), value=torch.inf
    )
    found = torch.empty(n, dtype=torch.int32, device=values.device)
    scores = values.new_empty(n)
    grid = (triton.cdiv(n, n_rows),)
    _nearest[grid](
        values, high, high if low is None else low, offsets, found, scores, n, m, padded,
        scale, 1 / (scale * centers_scale),
        columns, n_rows, n_centers, parts, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return found, scores


@triton.jit(do_not_specialize=["n"])
def _nearest(
    values, high, low, offsets, found, scores, n, m, padded, scale, back,
    M: tl.constexpr, ROWS: tl.constexpr, CENTERS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Nearest centers of a block of rows, which stay where they are while the centers pass by."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, M)
    inside = (row < n)[:, None] & (j < m)[None, :]
    x = tl.load(values + row[:, None] * m + j[None, :], mask=inside, other=0.0) * scale
    x_high = x.to(high.dtype.element_ty)
    x_low = (x - x_high.to(tl.float32)).to(high.dtype.element_ty)
    best = tl.full((ROWS,), float("-inf"), tl.float32)
    place = tl.zeros((ROWS,), tl.int32)
    number = tl.arange(0, CENTERS)
    for first in range(0, padded, CENTERS):
        center = first + number
        c = tl.load(high + center[None, :] * M + j[:, None])
        products = tl.dot(x_high, c)
        if PARTS > 1:
            d = tl.load(low + center[None, :] * M + j[:, None])
            products = tl.dot(x_high, d, products)
            products = tl.dot(x_low, c, products)
        products = products * back - tl.load(offsets + center)[None, :]
        largest, at = tl.max(products, 1, return_indices=True)
        better = largest > best
        best = tl.where(better, largest, best)
        place = tl.where(better, at + first, place)
    tl.store(found + row, place, mask=row < n)
    tl.store(scores + row, best, mask=row < n)


@launched_there
def sums_of_rows(values: torch.Tensor, order: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return the sums (k, m) of groups of rows, float64, always in the same order.

    Parameters
    ----------
    values : tensor of shape (n, m)
    order : tensor of shape (n,), int64
        Rows, group after group.
    starts : tensor of shape (k + 1,), int64
        Where each group begins in ``order``.
    """
    m = values.shape[1]
    out = torch.empty((len(starts) - 1, m), dtype=torch.float64, device=values.device)
    columns = max(16, triton.next_power_of_2(m))
    _sum_groups[(len(out),)](values, order, starts, out, m, columns, _SUMMED)
    return out


@triton.jit
def _sum_groups(values, order, starts, out, m, M: tl.constexpr, ROWS: tl.constexpr):
    """Sum the rows of a group, a few at a time, in double precision."""
    group = tl.program_id(0)
    j = tl.arange(0, M)
    first, last = tl.load(starts + group), tl.load(starts + group + 1)
    total = tl.zeros((M,), tl.float64)
    for start in range(first, last, ROWS):
        at = start + tl.arange(0, ROWS)
        row = tl.load(order + at, mask=at < last, other=0)
        inside = (at < last)[:, None] & (j < m)[None, :]
        x = tl.load(values + row[:, None] * m + j[None, :], mask=inside, other=0.0)
        total += tl.sum(x.to(tl.float64), 0)
    tl.store(out + group * m + j, total, mask=j < m)
