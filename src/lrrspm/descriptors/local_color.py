"""Local color statistics: means and deviations of red, green and blue."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.loops import compiled
from .base import Descriptor, LocalDescriptors, PatchGrid, placed
from .sift import check_grids

N_CELLS = 4
"""Cells along each side of a patch."""


class LocalColor(Descriptor):
    r"""Means and standard deviations of R, G and B in 4 x 4 cells of each patch.

    .. math:: \mu = \frac1n \sum_i c_i, \qquad \sigma = \sqrt{\frac1n \sum_i c_i^2 - \mu^2}

    over the n pixels of a cell, for each color c. A cell has six values: the
    means of red, green and blue, then their deviations; cells follow row by row.

    Parameters
    ----------
    patch_sizes : tuple of int
        Sides of the patches in pixels, multiples of 4.
    steps : tuple of int
        Distances between neighboring patches, one per patch size.
    """

    color: ClassVar[bool] = True

    def __init__(
        self,
        patch_sizes: tuple[int, ...] = config.COLOR_PATCH_SIZES,
        steps: tuple[int, ...] = config.COLOR_STEPS,
    ) -> None:
        self.patch_sizes = patch_sizes
        self.steps = steps

    @property
    def n_values(self) -> int:
        """Values per descriptor: 96."""
        return 6 * N_CELLS**2

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        check_grids(self.steps, self.patch_sizes)

    def describe(self, pixels: NDArray[np.float32]) -> LocalDescriptors:
        """Describe the patches of a color image (h, w, 3), all sizes one after another."""
        self.check_parameters()
        image = self.pad(pixels, max(self.patch_sizes))
        sums = _integrals(image)
        grids = [
            PatchGrid(image.shape, int(size), int(step))
            for size, step in zip(self.patch_sizes, self.steps, strict=True)
        ]
        values = np.empty((sum(grid.n_patches for grid in grids), self.n_values), np.float32)
        start = 0
        for grid in grids:
            part = values[start : start + grid.n_patches]
            cell = grid.size // N_CELLS
            _statistics(sums, cell, grid.step, grid.left, grid.top, grid.nx, grid.ny, part)
            start += grid.n_patches
        return placed(values, grids)


@compiled()
def _integrals(image: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sums (h + 1, w + 1, 6) of R, G, B and their squares above and left of each pixel.

    15 operations per pixel. Doubles: a deviation is a small difference of large sums.
    """
    height, width, _ = image.shape
    out = np.empty((height + 1, width + 1, 6), np.float64)
    out[0] = 0
    for y in range(height):
        above, here = out[y], out[y + 1]
        here[0] = 0
        for c in range(3):
            total, square = 0.0, 0.0
            for x in range(width):
                value = np.float64(image[y, x, c])
                total += value
                square += value * value
                here[x + 1, c] = above[x + 1, c] + total
                here[x + 1, c + 3] = above[x + 1, c + 3] + square
    return out


@compiled()
def _statistics(
    sums: NDArray[np.float64],
    cell: int,
    step: int,
    left: int,
    top: int,
    nx: int,
    ny: int,
    out: NDArray[np.float32],
) -> None:
    """Fill out (ny * nx, 96) with descriptors: 24 additions and three roots per cell."""
    scale = 1 / (cell * cell)
    for gy in range(ny):
        for gx in range(nx):
            v = out[gy * nx + gx]
            for part in range(N_CELLS * N_CELLS):
                y = top + gy * step + (part // N_CELLS) * cell
                x = left + gx * step + (part % N_CELLS) * cell
                a, b = sums[y, x], sums[y, x + cell]
                c, d = sums[y + cell, x], sums[y + cell, x + cell]
                for j in range(3):
                    mean = (d[j] - c[j] - b[j] + a[j]) * scale
                    square = (d[j + 3] - c[j + 3] - b[j + 3] + a[j + 3]) * scale
                    v[6 * part + j] = mean
                    v[6 * part + 3 + j] = np.sqrt(max(square - mean * mean, 0.0))
