"""Local binary patterns: histograms of signs around each pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.loops import compiled
from .base import Descriptor, LocalDescriptors, PatchGrid, placed

N_PATTERNS = 59
"""58 uniform patterns of eight signs, and one bin for all others."""

LEAST = np.float32(1e-4)


class LBP(Descriptor):
    r"""Histograms of uniform local binary patterns in 2 x 2 cells of each patch.

    The pattern of a pixel is the signs of eight neighbors at a distance r
    (pixels on a square) minus the pixel; its vote is weighted by the sum of
    the absolute differences, or 0 where that is rounding. A descriptor is the
    histograms h of the four cells,

    .. math:: v = \sqrt{h / \|h\|_1}

    and 0 for a patch without any contrast.

    Parameters
    ----------
    patch_sizes : tuple of int
        Sides of the patches in pixels, multiples of 4.
    steps : tuple of int
        Distances between neighboring patches, one per patch size; each divides
        half of its patch size.
    radii : tuple of int
        Distances of the neighbors, one per patch size.
    """

    def __init__(
        self,
        patch_sizes: tuple[int, ...] = config.LBP_PATCH_SIZES,
        steps: tuple[int, ...] = config.LBP_STEPS,
        radii: tuple[int, ...] = config.LBP_RADII,
    ) -> None:
        self.patch_sizes = patch_sizes
        self.steps = steps
        self.radii = radii

    @property
    def n_values(self) -> int:
        """Values per descriptor: 236."""
        return 4 * N_PATTERNS

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        sizes, steps, radii = self.patch_sizes, self.steps, self.radii
        if not sizes or not len(sizes) == len(steps) == len(radii):
            raise ValueError(
                "there must be one step and one radius per patch size, got "
                f"{sizes}, {steps} and {radii}"
            )
        for size, step, radius in zip(sizes, steps, radii, strict=True):
            if not 4 <= size <= 4096 or size % 4 or step < 1 or (size // 2) % step:
                raise ValueError(
                    "patch sizes must be multiples of 4, and steps must divide half of them, "
                    f"got {size} and {step}"
                )
            if not 1 <= radius <= 64:
                raise ValueError(f"radii must be 1 to 64, got {radius}")

    def describe(self, pixels: NDArray[np.float32]) -> LocalDescriptors:
        """Describe the patches of a gray image, all sizes one after another."""
        self.check_parameters()
        image = self.pad(pixels, max(self.patch_sizes))
        grids = [
            PatchGrid(image.shape, int(size), int(step))
            for size, step in zip(self.patch_sizes, self.steps, strict=True)
        ]
        values = np.empty((sum(grid.n_patches for grid in grids), self.n_values), np.float32)
        start = 0
        for grid, radius in zip(grids, self.radii, strict=True):
            part = values[start : start + grid.n_patches]
            blocks = _block_histograms(image, radius, grid.step, grid.left, grid.top, BINS)
            _sum_cells(blocks, grid.size // 2 // grid.step, grid.nx, grid.ny, part)
            start += grid.n_patches
        return placed(values, grids)


def _uniform_bins() -> NDArray[np.uint8]:
    """Return the bin of each of the 256 patterns: at most two changes around the circle."""
    bins = np.full(256, N_PATTERNS - 1, np.uint8)
    place = 0
    for pattern in range(256):
        changes = bin(pattern ^ ((pattern >> 1) | ((pattern & 1) << 7))).count("1")
        if changes <= 2:
            bins[pattern] = place
            place += 1
    return bins


BINS = _uniform_bins()


@compiled("contract")
def _block_histograms(
    image: NDArray[np.float32],
    radius: int,
    step: int,
    left: int,
    top: int,
    bins: NDArray[np.uint8],
) -> NDArray[np.float32]:
    """Histograms (rows, columns, 59) of blocks of step x step pixels.

    Eight comparisons and one addition to a histogram per pixel; borders repeated.
    """
    height, width = image.shape
    rows, columns = (height - top) // step, (width - left) // step
    out = np.zeros((rows, columns, N_PATTERNS), np.float32)
    codes, weights = np.empty(width, np.int32), np.empty(width, np.float32)
    padded = np.empty((3, width + 2 * radius), np.float32)
    zero, none = np.float32(0), np.int32(0)
    for y in range(top, top + rows * step):
        for line in range(3):
            source = image[min(max(y + (line - 1) * radius, 0), height - 1)]
            row = padded[line]
            for x in range(radius):
                row[x] = source[0]
                row[radius + width + x] = source[width - 1]
            row[radius : radius + width] = source
        above, center, below = padded[0], padded[1], padded[2]
        # Around the pixel from the upper left, clockwise.
        up, right, down = above[radius:], center[2 * radius :], below[radius:]
        corner, low = above[2 * radius :], below[2 * radius :]
        middle = center[radius:]
        for x in range(width):
            value = middle[x]
            a, b, c, d = above[x] - value, up[x] - value, corner[x] - value, right[x] - value
            e, f, g, h = low[x] - value, down[x] - value, below[x] - value, center[x] - value
            codes[x] = (
                (np.int32(1) if a > zero else none)
                | (np.int32(2) if b > zero else none)
                | (np.int32(4) if c > zero else none)
                | (np.int32(8) if d > zero else none)
                | (np.int32(16) if e > zero else none)
                | (np.int32(32) if f > zero else none)
                | (np.int32(64) if g > zero else none)
                | (np.int32(128) if h > zero else none)
            )
            total = abs(a) + abs(b) + abs(c) + abs(d) + abs(e) + abs(f) + abs(g) + abs(h)
            # Less than a fortieth of a gray level is rounding, as resizing leaves it on flat areas.
            weights[x] = total if total >= LEAST else zero
        target = out[(y - top) // step]
        for column in range(columns):
            histogram = target[column]
            for x in range(left + column * step, left + (column + 1) * step):
                histogram[bins[np.uint8(codes[x])]] += weights[x]
    return out


@compiled("contract", "reassoc")
def _sum_cells(
    blocks: NDArray[np.float32], cell: int, nx: int, ny: int, out: NDArray[np.float32]
) -> None:
    """Fill out (ny * nx, 236) with descriptors from block histograms.

    Neighboring patches share cells, so each cell is summed once, cell^2 * 59 additions,
    and has its roots taken once: sqrt(h / t) = sqrt(h) / sqrt(t). A patch costs 236 products.
    """
    n = blocks.shape[2]
    roots = np.zeros((ny + cell, nx + cell, n), np.float32)
    totals = np.empty((ny + cell, nx + cell), np.float32)
    for y in range(ny + cell):
        for x in range(nx + cell):
            target = roots[y, x]
            for by in range(cell):
                for bx in range(cell):
                    block = blocks[y + by, x + bx]
                    for j in range(n):
                        target[j] += block[j]
            total = np.float32(0)
            for j in range(n):
                total += target[j]
                target[j] = np.sqrt(target[j])
            totals[y, x] = total
    for gy in range(ny):
        for gx in range(nx):
            above, below = totals[gy], totals[gy + cell]
            total = above[gx] + above[gx + cell] + below[gx] + below[gx + cell]
            scale = np.float32(1) / np.sqrt(total) if total > 0 else np.float32(0)
            for part in range(4):
                source = roots[gy + (part // 2) * cell, gx + (part % 2) * cell]
                target = out[gy * nx + gx, part * n : (part + 1) * n]
                for j in range(n):
                    target[j] = source[j] * scale
