"""Local color statistics of many images at once."""

from __future__ import annotations

import torch

from ..descriptors import LocalColor
from ..descriptors.local_color import N_CELLS
from .batches import Batch, Grids
from .device import has_kernels


def describe_local_color(descriptor: LocalColor, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the values (B, n, 96) of :class:`lrrspm.descriptors.LocalColor`, and their grids."""
    least = max(descriptor.patch_sizes)
    kinds = [
        Grids(batch.shapes, least, int(size), int(step))
        for size, step in zip(descriptor.patch_sizes, descriptor.steps, strict=True)
    ]
    if not has_kernels(batch.pixels):
        return torch.cat([describe_plainly(batch, grids) for grids in kinds], 1), kinds
    from .histograms import local_color

    n = sum(grids.n for grids in kinds)
    values = torch.empty((len(batch.shapes), n, descriptor.n_values), device=batch.pixels.device)
    first = 0
    for grids in kinds:
        local_color(batch.pixels, batch.about, grids, values, first)
        first += grids.n
    return values, kinds


def describe_plainly(batch: Batch, grids: Grids) -> torch.Tensor:
    """Return the values (B, ny * nx, 96) of patches of one size."""
    # Doubles: a deviation is a small difference of large sums.
    canvas = batch.canvas(grids, 0).double()
    means, squares = (_cell_means(planes, grids) for planes in (canvas, canvas.square()))
    deviations = (squares - means.square()).clamp_min(0).sqrt()
    values = torch.cat([means, deviations], -1)  # (B, ny, nx, 4, 4, 6)
    return values.flatten(3).flatten(1, 2).float()


def _cell_means(planes: torch.Tensor, grids: Grids) -> torch.Tensor:
    """Means (B, ny, nx, 4, 4, 3) of planes (B, 3, h, w) in the cells of all patches."""
    cell = grids.size // N_CELLS
    corners = torch.nn.functional.pad(planes.cumsum(2).cumsum(3), (1, 0, 1, 0))
    sums = corners[:, :, cell:] - corners[:, :, :-cell]
    sums = sums[..., cell:] - sums[..., :-cell]  # of every cell x cell square
    at = (
        torch.arange(N_CELLS, device=planes.device) * cell
        + torch.arange(n, device=planes.device)[:, None] * grids.step
        for n in (grids.ny, grids.nx)
    )
    rows, columns = at
    found = sums[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    return found.movedim(1, -1) / cell**2
