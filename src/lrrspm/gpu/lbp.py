"""Local binary patterns of many images at once."""

from __future__ import annotations

from functools import reduce

import numpy as np
import torch

from ..descriptors import LBP
from ..descriptors.lbp import BINS, LEAST, N_PATTERNS
from .batches import Batch, Grids
from .device import has_kernels

_AROUND = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


def describe_lbp(descriptor: LBP, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the values (B, n, 236) of :class:`lrrspm.descriptors.LBP`, and their grids."""
    least = max(descriptor.patch_sizes)
    kinds = [
        Grids(batch.shapes, least, int(size), int(step))
        for size, step in zip(descriptor.patch_sizes, descriptor.steps, strict=True)
    ]
    sizes = list(zip(kinds, map(int, descriptor.radii), strict=True))
    if not has_kernels(batch.pixels):
        found = [
            describe_plainly(batch.canvas(grids, radius)[:, 0], radius, grids.step, grids.size)
            for grids, radius in sizes
        ]
        return torch.cat(found, 1), kinds
    from .histograms import lbp
    from .kernels import planes

    n = sum(grids.n for grids in kinds)
    values = torch.empty((len(batch.shapes), n, descriptor.n_values), device=batch.pixels.device)
    first, taps = 0, np.ones(1, np.float32)
    for grids, radius in sizes:
        canvas = planes(batch.pixels, batch.about, grids, radius, taps, cut=False)
        lbp(canvas[:, 0], radius, grids.step, grids.size, values, first)
        first += grids.n
    return values, kinds


def describe_plainly(canvas: torch.Tensor, radius: int, step: int, size: int) -> torch.Tensor:
    """Return values (B, ny * nx, 236) of canvases (B, h + 2 radius, w + 2 radius)."""
    return _sum_cells(_block_histograms(canvas, radius, step), size // 2 // step)


def _block_histograms(canvas: torch.Tensor, radius: int, step: int) -> torch.Tensor:
    """Histograms (B, rows, columns, 59) of blocks: one pass over the pixels per pattern."""
    height, width = (length - 2 * radius for length in canvas.shape[1:])
    center = canvas[:, radius : radius + height, radius : radius + width]
    patterns = torch.zeros(center.shape, dtype=torch.int64, device=canvas.device)
    weights = torch.zeros_like(center)
    for bit, (down, right) in enumerate(_AROUND):
        y, x = radius * (1 + down), radius * (1 + right)
        away = canvas[:, y : y + height, x : x + width] - center
        patterns |= (away > 0).long() << bit
        weights += away.abs()
    weights = torch.where(weights >= LEAST.item(), weights, 0.0)
    bins = torch.from_numpy(BINS).to(canvas.device)[patterns]
    bins, weights = (
        plane.view(len(plane), height // step, step, width // step, step)
        for plane in (bins, weights)
    )
    histograms = [
        torch.where(bins == number, weights, 0.0).sum((2, 4)) for number in range(N_PATTERNS)
    ]
    return torch.stack(histograms, 3)


def _sum_cells(blocks: torch.Tensor, cell: int) -> torch.Tensor:
    """Descriptors (B, ny * nx, 236) from block histograms: four cells of cell x cell blocks."""
    for axis in (1, 2):
        length = blocks.shape[axis] - cell + 1
        parts = [blocks.narrow(axis, t, length) for t in range(cell)]
        blocks = reduce(torch.add, parts)
    ny, nx = (length - cell for length in blocks.shape[1:3])
    parts = [blocks[:, y : y + ny, x : x + nx] for y in (0, cell) for x in (0, cell)]
    values = torch.cat(parts, 3).flatten(1, 2)
    total = values.sum(2, keepdim=True)
    return (values / torch.where(total > 0, total, 1.0)).sqrt()
