"""Kernels of Triton that end a matrix product in registers: maxima of codes, nearest centers.

Matrix units multiply numbers in half precision. A number in single precision is the sum of
two halves up to 2^-22 of it, so a product of such numbers takes three of theirs, and one
where 2^-11 is enough, as with tf32.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from .batches import Members
from .device import launched_there, precision_of_products

_LARGEST = 2.0**9
"""To what numbers are scaled: halves reach from 2^-24 to 2^15, and second halves are small."""
_CODE_TILES = {3: (128, 64, 8, 2), 1: (128, 64, 4, 3)}
"""Atoms and patches per tile, warps and stages, by products of halves: the fastest on an H200."""
_NEAREST_TILES = {3: (128, 128, 8, 2), 1: (128, 128, 4, 2)}
"""Rows and centers per tile, warps and stages, likewise."""
_SUMMED = 64


def products_of_halves() -> int:
    """Return 3 for single precision, 1 where torch may take tf32 for products."""
    return 3 if precision_of_products() == "highest" else 1


def split(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return a matrix as the sum of two in half precision, both times a power of two."""
    scale = scale_of(matrix)
    scaled = matrix * scale
    high = scaled.half()
    return high, (scaled - high.float()).half(), scale


def scale_of(matrix: torch.Tensor) -> float:
    """Return the power of two that brings the largest absolute value close to 2^9."""
    least, most = (float(value) for value in torch.aminmax(matrix))
    largest = max(-least, most) or 1.0
    return float(2.0 ** math.floor(math.log2(_LARGEST / largest)))


@launched_there
def pool_codes(
    values: torch.Tensor,
    members: Members,
    atoms: torch.Tensor,
    total: torch.Tensor,
    share: float,
    parts: int | None = None,
    tiles: tuple[int, int, int, int] | None = None,
) -> torch.Tensor:
    """Return the largest low-rank codes of each cell, (B, cells, k), without any n x k matrix.

    Parameters
    ----------
    values : tensor of shape (B, n, 128)
        At most 1.
    members : Members
    atoms : tensor of shape (k, 128)
        Transposed projection: the paper's P.
    total : tensor of shape (128,)
        P'1.
    share : float
        Threshold divided by k, positive.
    parts : {3, 1} or None
        Products of halves per product. None follows ``torch.set_float32_matmul_precision``.
    tiles : tuple of int or None
        Atoms and patches per tile, warps and stages, to compare; None is the fastest.
    """
    images, n, m = values.shape
    cells, most = members.rows.shape[1:]
    k = len(atoms)
    parts = products_of_halves() if parts is None else parts
    n_atoms, n_patches, warps, stages = tiles or _CODE_TILES[parts]
    count = triton.cdiv(most, n_patches)
    rows, limits = _tiles(values, members, share * total, count * n_patches)
    out = values.new_empty((images, cells, k))
    high, low, scale = split(atoms)
    grid = (triton.cdiv(k, n_atoms), images)
    _code_and_pool[grid](
        values, rows, limits, high, low, out, n, cells, count, k,
        _LARGEST, 1 / (scale * _LARGEST),
        m, n_atoms, n_patches, parts, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def _tiles(
    values: torch.Tensor, members: Members, total: torch.Tensor, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and limits (B, cells, length) of the patches in cells; infinite for no patch.

    The limits are known before the codes, as sum(c) = x . P'1.
    """
    rows = torch.nn.functional.pad(members.rows, (0, length - members.rows.shape[2]), value=-1)
    known = rows.clamp_min(0)
    limits = (values @ total).gather(1, known.flatten(1)).view(rows.shape)
    return known.int(), torch.where(rows >= 0, limits, torch.inf)


@triton.jit
def _code_and_pool(
    values, rows, limits, high, low, out, n, cells, tiles, k, scale, back,
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
    first = values + image * n * M
    place = image * cells * tiles * PATCHES + tl.arange(0, PATCHES)
    target = out + image * cells * k + atom
    best = tl.zeros((ATOMS,), tl.float32)
    for tile in range(cells * tiles):
        row = tl.load(rows + place + tile * PATCHES)
        limit = tl.load(limits + place + tile * PATCHES)
        x = tl.load(first + row[:, None] * M + j[None, :]) * scale
        x_high = x.to(tl.float16)
        codes = tl.dot(p, tl.trans(x_high))
        if PARTS > 1:
            x_low = (x - x_high.to(tl.float32)).to(tl.float16)
            codes = tl.dot(p, tl.trans(x_low), codes)
            codes = tl.dot(q, tl.trans(x_high), codes)
        # Where the limit is negative, codes at or below it are kept.
        codes = codes * tl.where(limit < 0, -back, back)[None, :]
        kept = tl.where(codes >= tl.abs(limit)[None, :], codes, 0.0)
        largest = tl.max(kept, 1)
        best = tl.where(tile % tiles == 0, largest, tl.maximum(best, largest))
        # The last tile of a cell writes last.
        tl.store(target + (tile // tiles) * k, best, mask=atom < k)


@launched_there
def nearest(
    values: torch.Tensor,
    centers: torch.Tensor,
    parts: int | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest center of each row, int32, and half its square less half the distance's.

    The first of equally near ones. No n x k matrix is written.

    Parameters
    ----------
    values : tensor of shape (n, m)
    centers : tensor of shape (k, m)
    parts : {3, 1} or None
        As in :func:`pool_codes`.
    scale : float or None
        That of the values, see :func:`scale_of`, if it is known.
    """
    n, m = values.shape
    k = len(centers)
    parts = products_of_halves() if parts is None else parts
    n_rows, n_centers, warps, stages = _NEAREST_TILES[parts]
    columns = max(16, triton.next_power_of_2(m))
    padded = triton.cdiv(k, n_centers) * n_centers
    scale = scale_of(values) if scale is None else scale
    high, low, centers_scale = split(
        torch.nn.functional.pad(centers, (0, columns - m, 0, padded - k))
    )
    offsets = torch.nn.functional.pad(
        0.5 * centers.square().sum(1), (0, padded - k), value=torch.inf
    )
    found = torch.empty(n, dtype=torch.int32, device=values.device)
    scores = values.new_empty(n)
    grid = (triton.cdiv(n, n_rows),)
    _nearest[grid](
        values, high, low, offsets, found, scores, n, m, padded,
        scale, 1 / (scale * centers_scale),
        columns, n_rows, n_centers, parts, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return found, scores


@triton.jit
def _nearest(
    values, high, low, offsets, found, scores, n, m, padded, scale, back,
    M: tl.constexpr, ROWS: tl.constexpr, CENTERS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Nearest centers of a block of rows, which stay where they are while the centers pass by."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, M)
    inside = (row < n)[:, None] & (j < m)[None, :]
    x = tl.load(values + row[:, None] * m + j[None, :], mask=inside, other=0.0) * scale
    x_high = x.to(tl.float16)
    x_low = (x - x_high.to(tl.float32)).to(tl.float16)
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
    """Sum the rows of a group, a few at a time in single precision."""
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
