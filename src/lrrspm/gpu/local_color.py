"""Local color statistics of many images at once."""

from __future__ import annotations

import torch

from ..descriptors import LocalColor
from ..descriptors.local_color import N_CELLS
from .batches import Batch, Grids


def describe_local_color(descriptor: LocalColor, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the values (B, n, 96) of :class:`lrrspm.descriptors.LocalColor`, and their grids."""
    found, kinds = [], []
    least = max(descriptor.patch_sizes)
    for size, step in zip(descriptor.patch_sizes, descriptor.steps, strict=True):
        grids = Grids(batch.shapes, least, int(size), int(step))
        # Doubles: a deviation is a small difference of large sums.
        canvas = batch.canvas(grids, 0).double()
        means, squares = (_cell_means(planes, grids) for planes in (canvas, canvas.square()))
        deviations = (squares - means.square()).clamp_min(0).sqrt()
        values = torch.cat([means, deviations], -1)  # (B, ny, nx, 4, 4, 6)
        found.append(values.flatten(3).flatten(1, 2).float())
        kinds.append(grids)
    return torch.cat(found, 1), kinds


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
