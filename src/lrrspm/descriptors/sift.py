"""Dense SIFT: 128 values per patch, patches on a regular grid."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled
from ..images import as_gray
from .base import Descriptor, LocalDescriptors, PatchGrid

_LARGEST_PATCH = 4096
N_BINS = 4
N_ORIENTATIONS = 8
N_VALUES = N_BINS * N_BINS * N_ORIENTATIONS
FAINT = np.float32(1e-30)
"""Square of a gradient that is numerically flat: the floor keeps 0/0 out."""
FAINT_ROOTED = np.float32(1e-12)
"""The same for roots, which enlarge rounding: in flat areas it makes gradients of up to 1e-7."""


class SIFT(Descriptor):
    """Dense SIFT as a descriptor; see :func:`lrrspm.dense_sift` for the formula.

    Parameters
    ----------
    step : int
        Distance between neighboring patches in pixels.
    patch_size : int
        Side of a patch in pixels, a multiple of 4.
    """

    def __init__(self, step: int = config.STEP, patch_size: int = config.PATCH_SIZE) -> None:
        self.step = step
        self.patch_size = patch_size

    @property
    def n_values(self) -> int:
        """Values per descriptor: 128."""
        return N_VALUES

    def describe(self, pixels: NDArray[np.float32]) -> LocalDescriptors:
        """Describe the patches of a gray image (h, w)."""
        return dense_sift(pixels, self.step, self.patch_size)

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        check_grid(self.step, self.patch_size)


def dense_sift(
    image: ArrayLike, step: int = config.STEP, patch_size: int = config.PATCH_SIZE
) -> LocalDescriptors:
    r"""SIFT descriptors on a regular grid.

    With :math:`I_x, I_y` the image correlated with derivatives of a 5x5
    Gaussian (sigma 0.8) and :math:`\theta` the gradient's direction, the eight
    orientation maps are

    .. math:: O_a = |\nabla I| \max(0, \cos(\theta - a\pi/4))^9

    and a patch contributes :math:`W^T O_a W`, with W the triangular weights of
    4 bins along each side. Flat index: ``a + 8 * (ybin + 4 * xbin)``. A
    descriptor of norm 1 or more is divided by its norm, clipped at 0.2 and
    divided by its new norm; a shorter one is clipped at 0.2 and stays short.

    Parameters
    ----------
    image : array of shape (h, w)
        Gray values, float in [0, 1] or uint8.
    step : int
        Distance between neighboring patches in pixels.
    patch_size : int
        Side of a patch in pixels, a multiple of 4.

    Returns
    -------
    LocalDescriptors
        ``n = nx * ny`` with ``nx = (w - patch_size) // step + 1`` and ``ny``
        likewise. The grid is centered: its first corner is at
        ``((w - patch_size) % step) // 2``.

    Notes
    -----
    Outside the image the derivative filters read zeros, as in the authors'
    program, which draws a false edge along the border. An image smaller than
    a patch is padded to the patch's size, its border pixels repeated evenly
    on both sides: any image down to 1x1 has at least one descriptor.
    """
    found = raw_sift(as_gray(image), step, patch_size)
    _normalize(found.values)
    return found


def raw_sift(
    pixels: NDArray[np.float32], step: int, patch_size: int, least: np.float32 = FAINT
) -> LocalDescriptors:
    """Compute the descriptors of :func:`dense_sift` before they are normalized.

    Gradients whose square is below ``least`` fade.
    """
    check_grid(step, patch_size)
    step, patch_size = int(step), int(patch_size)
    array = Descriptor.pad(pixels, patch_size)
    grid = PatchGrid(array.shape, patch_size, step)
    left, top, nx, ny = grid.left, grid.top, grid.nx, grid.ny
    values = np.empty((ny * nx, N_VALUES), np.float32)
    smooth, slope = TAPS
    weights, first, last = bin_weights(patch_size)
    _describe(array, step, left, top, nx, ny, smooth, slope, least, weights, first, last, values)
    return grid.place(values)


def check_grid(step: int, patch_size: int) -> None:
    """Raise ValueError where a step or a patch size is out of range."""
    if step < 1 or step != int(step):
        raise ValueError(f"step must be a whole number of at least 1, got {step}")
    if patch_size < N_BINS or patch_size % N_BINS:
        raise ValueError(f"patch_size must be a positive multiple of {N_BINS}, got {patch_size}")
    if patch_size > _LARGEST_PATCH:  # small images are padded to it
        raise ValueError(f"patch_size must be at most {_LARGEST_PATCH}, got {patch_size}")


def check_grids(steps: tuple[int, ...], patch_sizes: tuple[int, ...]) -> None:
    """Raise ValueError where steps or patch sizes are out of range, or not one per other."""
    if not patch_sizes or len(patch_sizes) != len(steps):
        raise ValueError(f"there must be one step per patch size, got {patch_sizes} and {steps}")
    for step, patch_size in zip(steps, patch_sizes, strict=True):
        check_grid(step, patch_size)


def _gaussian_taps() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Smoothing taps, and derivative taps whose absolute values sum to 2."""
    t = np.arange(-2, 3)
    smooth = np.exp(-(t**2) / (2 * 0.8**2))
    smooth /= smooth.sum()
    slope = np.gradient(smooth)
    slope *= 2 / np.abs(slope).sum()
    return smooth.astype(np.float32), slope.astype(np.float32)


TAPS = _gaussian_taps()


@lru_cache(maxsize=32)
def bin_weights(
    patch_size: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Triangular weights (4, patch_size) and where each row's support begins and ends."""
    bin_size = patch_size / N_BINS
    centers = (np.arange(N_BINS) + 0.5) * bin_size - 0.5
    triangles = 1 - np.abs(np.arange(patch_size) - centers[:, None]) / bin_size
    weights = np.maximum(triangles, 0).astype(np.float32)
    first = (weights > 0).argmax(axis=1)
    last = patch_size - (weights[:, ::-1] > 0).argmax(axis=1)
    return weights, first, last


@compiled("contract", inline=True)
def orientation_row(
    image: NDArray[np.float32],
    y: int,
    smooth: NDArray[np.float32],
    slope: NDArray[np.float32],
    least: np.float32,
    work: NDArray[np.float32],
    maps: NDArray[np.float32],
) -> None:
    """Write the eight orientation maps of row y into maps (8, w).

    Gradients whose square is below ``least`` fade. 60 operations and a division per
    pixel. One short loop per quantity, each over contiguous rows: that is what LLVM's loop
    vectorizer takes. Work is (6, w + 4): the last row, and two columns on both sides of
    the first two, must be 0.
    """
    height, width = image.shape
    zero, one = np.float32(0), np.float32(1)
    half = np.float32(np.sqrt(0.5))
    smoothed, sloped, ix, iy, inverse = work[0], work[1], work[2], work[3], work[4]
    outside = work[5]
    row0 = image[y - 2] if y >= 2 else outside
    row1 = image[y - 1] if y >= 1 else outside
    row2 = image[y]
    row3 = image[y + 1] if y + 1 < height else outside
    row4 = image[y + 2] if y + 2 < height else outside
    for t in range(2):
        taps, target = (smooth, smoothed[2:]) if t == 0 else (slope, sloped[2:])
        t0, t1, t2, t3, t4 = taps[0], taps[1], taps[2], taps[3], taps[4]
        for x in range(width):
            value = zero + t0 * row0[x]
            value += t1 * row1[x]
            value += t2 * row2[x]
            value += t3 * row3[x]
            target[x] = value + t4 * row4[x]
    g0, g1, g2 = smooth[0], smooth[1], smooth[2]
    d0, d1 = slope[0], slope[1]
    for x in range(width):
        ix[x] = d0 * (smoothed[x] - smoothed[x + 4]) + d1 * (smoothed[x + 1] - smoothed[x + 3])
    for x in range(width):
        iy[x] = g0 * (sloped[x] + sloped[x + 4]) + (
            g1 * (sloped[x + 1] + sloped[x + 3]) + g2 * sloped[x + 2]
        )
    for x in range(width):
        inverse[x] = one / max(ix[x] * ix[x] + iy[x] * iy[x], least)
    for a in range(4):
        if a == 0:
            c, s = one, zero
        elif a == 1:
            c, s = half, half
        elif a == 2:
            c, s = zero, one
        else:
            c, s = -half, half
        positive, negative = maps[a], maps[a + 4]
        for x in range(width):
            p = c * ix[x] + s * iy[x]
            q = p * p * inverse[x]
            q *= q
            p *= q * q
            positive[x] = max(p, zero)
            negative[x] = max(-p, zero)


@compiled("contract")
def _describe(
    image: NDArray[np.float32],
    step: int,
    left: int,
    top: int,
    nx: int,
    ny: int,
    smooth: NDArray[np.float32],
    slope: NDArray[np.float32],
    least: np.float32,
    weights: NDArray[np.float32],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Fill out (ny * nx, 128) with unnormalised descriptors.

    Orientation maps are made once a row and kept in a ring of patch_size
    rows, so the buffers (200 KB at a width of 300) stay in the second-level
    cache whatever the image's height. For each row of patches, 28 rows are
    added into 4 vertical bins (28 * 8 * w multiply-adds); these are then laid
    out by x modulo step, which makes the patches' pixels neighbours, so that
    the horizontal bins are sums of contiguous runs too (28 * 32 * nx).
    """
    width = image.shape[1]
    patch_size = weights.shape[1]
    work = np.zeros((6, width + 4), np.float32)
    ring = np.empty((patch_size, 8, width), np.float32)
    rows = ring.reshape(patch_size, 8 * width)
    binned = np.empty((8, width), np.float32)
    flat = binned.reshape(8 * width)
    n_runs = nx + (patch_size - 1) // step
    phases = np.zeros((min(step, patch_size), 8 * n_runs), np.float32)
    total = np.empty(8 * nx, np.float32)
    ready = 0
    for gy in range(ny):
        corner = top + gy * step
        ready = max(ready, corner)
        while ready < corner + patch_size:
            orientation_row(image, ready, smooth, slope, least, work, ring[ready % patch_size])
            ready += 1
        for ybin in range(4):
            flat[:] = 0
            t = first[ybin]
            # Four rows at a time: the sums are read and written a quarter as often.
            while t + 4 <= last[ybin]:
                w0, w1 = weights[ybin, t], weights[ybin, t + 1]
                w2, w3 = weights[ybin, t + 2], weights[ybin, t + 3]
                row0, row1 = rows[(corner + t) % patch_size], rows[(corner + t + 1) % patch_size]
                row2 = rows[(corner + t + 2) % patch_size]
                row3 = rows[(corner + t + 3) % patch_size]
                for j in range(flat.size):
                    value = flat[j] + w0 * row0[j]
                    value += w1 * row1[j]
                    value += w2 * row2[j]
                    flat[j] = value + w3 * row3[j]
                t += 4
            while t < last[ybin]:
                w = weights[ybin, t]
                row = rows[(corner + t) % patch_size]
                for j in range(flat.size):
                    flat[j] += w * row[j]
                t += 1
            for r in range(phases.shape[0]):
                phase = phases[r]
                for q in range(min(n_runs, (width - left - r - 1) // step + 1)):
                    x = left + q * step + r
                    for a in range(8):
                        phase[8 * q + a] = binned[a, x]
            for xbin in range(4):
                total[:] = 0
                t = first[xbin]
                while t + 4 <= last[xbin]:
                    w0, w1 = weights[xbin, t], weights[xbin, t + 1]
                    w2, w3 = weights[xbin, t + 2], weights[xbin, t + 3]
                    run0 = phases[t % step, 8 * (t // step) :]
                    run1 = phases[(t + 1) % step, 8 * ((t + 1) // step) :]
                    run2 = phases[(t + 2) % step, 8 * ((t + 2) // step) :]
                    run3 = phases[(t + 3) % step, 8 * ((t + 3) // step) :]
                    for j in range(total.size):
                        value = total[j] + w0 * run0[j]
                        value += w1 * run1[j]
                        value += w2 * run2[j]
                        total[j] = value + w3 * run3[j]
                    t += 4
                while t < last[xbin]:
                    w = weights[xbin, t]
                    run = phases[t % step, 8 * (t // step) :]
                    for j in range(total.size):
                        total[j] += w * run[j]
                    t += 1
                column = 8 * (ybin + 4 * xbin)
                for gx in range(nx):
                    for a in range(8):
                        out[gy * nx + gx, column + a] = total[8 * gx + a]


@compiled("contract", "reassoc")
def _normalize(values: NDArray[np.float32]) -> None:
    """Normalize descriptors in place: three passes over 128 values each."""
    one, limit = np.float32(1), np.float32(0.2)
    for i in range(values.shape[0]):
        v = values[i]
        square = np.float32(0)
        for j in range(v.size):
            square += v[j] * v[j]
        scale = one / np.sqrt(square) if square >= one else one
        clipped = np.float32(0)
        for j in range(v.size):
            value = min(v[j] * scale, limit)
            clipped += value * value
            v[j] = value
        if square >= one:
            scale = one / np.sqrt(clipped)
            for j in range(v.size):
                v[j] *= scale
