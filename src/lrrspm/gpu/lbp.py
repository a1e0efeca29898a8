"""Local binary patterns of many images at once."""

from __future__ import annotations

import torch

from ..descriptors import LBP
from ..descriptors.lbp import BINS, LEAST, N_PATTERNS
from .batches import Batch, Grids

_AROUND = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


def describe_lbp(descriptor: LBP, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the values (B, n, 236) of :class:`lrrspm.descriptors.LBP`, and their grids."""
    found, kinds = [], []
    least = max(descriptor.patch_sizes)
    sizes = zip(descriptor.patch_sizes, descriptor.steps, descriptor.radii, strict=True)
    for size, step, radius in sizes:
        grids = Grids(batch.shapes, least, size, step)
        blocks = _block_histograms(batch.canvas(grids, radius)[:, 0], radius, step)
        found.append(_sum_cells(blocks, size // 2 // step, grids))
        kinds.append(grids)
    return torch.cat(found, 1), kinds


def _block_histograms(canvas: torch.Tensor, radius: int, step: int) -> torch.Tensor:
    """Histograms (B, rows, columns, 59) of blocks of step x step pixels."""
    if canvas.is_cuda:
        from .kernels import lbp

        return lbp(canvas, radius, step)
    return block_histograms(canvas, radius, step)


def block_histograms(canvas: torch.Tensor, radius: int, step: int) -> torch.Tensor:
    """Compute histograms in plain operations: one pass over the pixels per pattern."""
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


def _sum_cells(blocks: torch.Tensor, cell: int, grids: Grids) -> torch.Tensor:
    """Descriptors (B, ny * nx, 236) from block histograms: four cells of cell x cell blocks."""
    for axis in (1, 2):
        length = blocks.shape[axis] - cell + 1
        blocks = sum(blocks.narrow(axis, t, length) for t in range(cell))
    parts = [blocks[:, y : y + grids.ny, x : x + grids.nx] for y in (0, cell) for x in (0, cell)]
    values = torch.cat(parts, 3).flatten(1, 2)
    total = values.sum(2, keepdim=True)
    return (values / torch.where(total > 0, total, 1.0)).sqrt()
