"""RootSIFT at several patch sizes, of gray or of opponent colors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.loops import compiled, reciprocal
from .base import Descriptor, LocalDescriptors, PatchGrid, placed
from .shared_bins import shares_bins, sum_bands
from .sift import FAINT_ROOTED, N_BINS, N_VALUES, check_grids, raw_sift

FLAT = np.float32(1e-6)


class RootSIFT(Descriptor):
    r"""Square roots of dense SIFT at several patch sizes, every patch normalized.

    .. math:: v = \sqrt{s / \|s\|_1}, \qquad
              s = \min(d / \|d\|_2,\ 0.2) / \|\min(d / \|d\|_2,\ 0.2)\|_2

    with d the descriptors of :func:`lrrspm.dense_sift` before normalization. Before
    patches of p > 16 pixels the image is smoothed with a Gaussian of standard
    deviation :math:`0.6 \sqrt{p / 16}`. Roots enlarge what is rounding in flat areas, so
    there gradients g shorter than :math:`10^{-6}` count :math:`(|g| / 10^{-6})^8` as
    much, and a patch whose d is shorter than 0.001 becomes 0.

    Parameters
    ----------
    patch_sizes : tuple of int
        Sides of the patches in pixels, multiples of 4.
    steps : tuple of int
        Distances between neighboring patches, one per patch size.
    """

    def __init__(
        self,
        patch_sizes: tuple[int, ...] = config.PATCH_SIZES,
        steps: tuple[int, ...] = config.STEPS,
    ) -> None:
        self.patch_sizes = patch_sizes
        self.steps = steps

    @property
    def n_values(self) -> int:
        """Values per descriptor: 128."""
        return N_VALUES

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        check_grids(self.steps, self.patch_sizes)

    def describe(self, pixels: NDArray[np.float32]) -> LocalDescriptors:
        """Describe the patches of an image, all sizes one after another."""
        self.check_parameters()
        side = max(self.patch_sizes)
        planes = [self.pad(plane, side) for plane in self._planes(pixels)]
        grids = [
            PatchGrid(planes[0].shape, int(size), int(step))
            for size, step in zip(self.patch_sizes, self.steps, strict=True)
        ]
        values = np.empty((sum(grid.n_patches for grid in grids), self.n_values), np.float32)
        start = 0
        for grid in grids:
            part = values[start : start + grid.n_patches]
            for i, plane in enumerate(planes):
                _describe_plane(plane, grid, part, i * N_VALUES)
            start += grid.n_patches
        return placed(values, grids)

    def _planes(self, pixels: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        return [pixels]


class OpponentSIFT(RootSIFT):
    r"""RootSIFT of the two opponent color planes, side by side.

    .. math:: O_1 = (R - G) / \sqrt 2, \qquad O_2 = (R + G - 2 B) / \sqrt 6

    Parameters
    ----------
    patch_sizes, steps
        See :class:`RootSIFT`.
    """

    color: ClassVar[bool] = True

    def __init__(
        self,
        patch_sizes: tuple[int, ...] = config.OPPONENT_PATCH_SIZES,
        steps: tuple[int, ...] = config.OPPONENT_STEPS,
    ) -> None:
        super().__init__(patch_sizes, steps)

    @property
    def n_values(self) -> int:
        """Values per descriptor: 256."""
        return 2 * N_VALUES

    def _planes(self, pixels: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        red, green, blue = (pixels[..., i] for i in range(3))
        first = (red - green) * np.float32(0.5**0.5)
        second = (red + green - 2 * blue) * np.float32(6**-0.5)
        return [np.ascontiguousarray(first), np.ascontiguousarray(second)]


def _describe_plane(
    plane: NDArray[np.float32], grid: PatchGrid, values: NDArray[np.float32], first: int
) -> None:
    """Write RootSIFT of one plane into 128 columns of values."""
    if grid.size > 16:
        plane = smoothed(plane, 0.6 * (grid.size / 16) ** 0.5)
    if not shares_bins(grid.step, grid.size):
        values[:, first : first + N_VALUES] = raw_sift(
            plane, grid.step, grid.size, FAINT_ROOTED
        ).values
        _root_normalize(values, 0, len(values), first)
        return
    bands, down, across = sum_bands(plane, grid)
    numbers = values.view(np.float64), bands.view(np.float64)
    _gather(values, first, *numbers, down.bands, down.shifts, across.bands, across.shifts, grid.nx)


def smoothed(image: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Smooth an image (h, w) with a Gaussian, cut at three deviations, borders repeated."""
    return _smooth(image, gaussian_taps(sigma))


def gaussian_taps(sigma: float) -> NDArray[np.float32]:
    """Return the taps at 0, 1, ... of a Gaussian that is cut at three deviations and sums to 1."""
    reach = max(1, round(3 * sigma))
    taps = np.exp(-(np.arange(reach + 1) ** 2) / (2 * sigma**2))
    taps /= taps[0] + 2 * taps[1:].sum()
    return taps.astype(np.float32)


@compiled("contract")
def _smooth(image: NDArray[np.float32], taps: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns, then rows: 4 reach + 2 operations per pixel, two taps in a pass."""
    height, width = image.shape
    reach = taps.size - 1
    out = np.empty_like(image)
    padded = np.empty(width + 2 * reach, np.float32)
    row = padded[reach : reach + width]
    tap0 = taps[0]
    for y in range(height):
        for axis in range(2):
            center, target = (image[y], row) if axis == 0 else (row, out[y])
            if reach % 2:
                a = image[max(y - 1, 0)] if axis == 0 else padded[reach - 1 :]
                b = image[min(y + 1, height - 1)] if axis == 0 else padded[reach + 1 :]
                tap1 = taps[1]
                for x in range(width):
                    target[x] = tap0 * center[x] + tap1 * (a[x] + b[x])
            else:
                for x in range(width):
                    target[x] = tap0 * center[x]
            for t in range(1 + reach % 2, reach, 2):
                if axis == 0:
                    a, b = image[max(y - t, 0)], image[min(y + t, height - 1)]
                    c, d = image[max(y - t - 1, 0)], image[min(y + t + 1, height - 1)]
                else:
                    a, b = padded[reach - t :], padded[reach + t :]
                    c, d = padded[reach - t - 1 :], padded[reach + t + 1 :]
                tap1, tap2 = taps[t], taps[t + 1]
                for x in range(width):
                    target[x] += tap1 * (a[x] + b[x]) + tap2 * (c[x] + d[x])
            if axis == 0:
                padded[:reach] = row[0]
                padded[reach + width :] = row[width - 1]
    return out


@compiled("contract", "reassoc", inline=True)
def _normalize_rows(values: NDArray[np.float32], start: int, stop: int, first: int) -> None:
    """Normalize, clip, normalize, take roots of 128 columns, in place, in three passes."""
    limit, zero = np.float32(0.2), np.float32(0)
    for i in range(start, stop):
        v = values[i, first : first + N_VALUES]
        square = zero
        for j in range(N_VALUES):
            square += v[j] * v[j]
        if square <= FLAT:
            v[:] = 0
            continue
        scale = reciprocal(np.sqrt(square))
        total = zero
        for j in range(N_VALUES):
            v[j] = min(v[j] * scale, limit)
            total += v[j]
        # The second l2 norm cancels: the values are divided by their sum.
        scale = reciprocal(total)
        for j in range(N_VALUES):
            v[j] = np.sqrt(v[j] * scale)


@compiled("contract", "reassoc")
def _root_normalize(values: NDArray[np.float32], start: int, stop: int, first: int) -> None:
    _normalize_rows(values, start, stop, first)


@compiled("contract", "reassoc")
def _gather(
    values: NDArray[np.float32],
    first: int,
    out: NDArray[np.float64],
    bands: NDArray[np.float64],
    rows: NDArray[np.int64],
    row_shifts: NDArray[np.int64],
    columns: NDArray[np.int64],
    column_shifts: NDArray[np.int64],
    nx: int,
) -> None:
    """Put the bins of each patch side by side and normalize, one row of patches at a time.

    128 numbers per patch are copied as 64 doubles: out is a view of values.
    """
    for gy in range(values.shape[0] // nx):
        for xbin in range(N_BINS):
            for ybin in range(N_BINS):
                run = bands[rows[ybin], gy + row_shifts[ybin], columns[xbin]]
                run = run[4 * column_shifts[xbin] :]
                column = first // 2 + 4 * (ybin + 4 * xbin)
                for gx in range(nx):
                    source, target = run[4 * gx : 4 * gx + 4], out[gy * nx + gx]
                    target = target[column : column + 4]
                    for a in range(4):
                        target[a] = source[a]
        _normalize_rows(values, gy * nx, gy * nx + nx, first)
