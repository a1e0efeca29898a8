"""Dense SIFT of many images at once, separable: patches are never cut out."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from ..descriptors import SIFT, OpponentSIFT, RootSIFT
from ..descriptors.root_sift import FLAT, gaussian_taps
from ..descriptors.sift import FAINT, FAINT_ROOTED, N_BINS, TAPS, bin_weights
from .batches import Batch, Grids
from .device import has_kernels

_REACH = 2  # of the derivative filters
_LIMIT = 0.2
_HALF = 0.5**0.5
COSINES = (1.0, _HALF, 0.0, -_HALF, -1.0, -_HALF, 0.0, _HALF)
SINES = COSINES[-2:] + COSINES[:-2]


def describe_sift(descriptor: SIFT, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the descriptors (B, ny * nx, 128) of :func:`lrrspm.dense_sift`, and their grid."""
    size, step = int(descriptor.patch_size), int(descriptor.step)
    kinds = [Grids(batch.shapes, size, size, step)]
    return _describe(batch, kinds, [np.ones(1, np.float32)], root=False), kinds


def describe_root_sift(descriptor: RootSIFT, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the values (B, n, m) of RootSIFT or OpponentSIFT, sizes one after another."""
    sizes, least = descriptor.patch_sizes, max(descriptor.patch_sizes)
    kinds = [
        Grids(batch.shapes, least, int(size), int(step))
        for size, step in zip(sizes, descriptor.steps, strict=True)
    ]
    taps = [
        gaussian_taps(0.6 * (size / 16) ** 0.5) if size > 16 else np.ones(1, np.float32)
        for size in sizes
    ]
    opponent = isinstance(descriptor, OpponentSIFT)
    return _describe(batch, kinds, taps, root=True, opponent=opponent), kinds


def _describe(
    batch: Batch,
    kinds: list[Grids],
    smooth: list[NDArray[np.float32]],
    root: bool,
    opponent: bool = False,
) -> torch.Tensor:
    """Return the descriptors (B, n, 128 or 256) of patches, sizes one after another.

    ``smooth`` has the taps before the patches of each size.
    """
    if not has_kernels(batch.pixels):
        return torch.cat(
            [
                _describe_plainly(batch, grids, taps, root, opponent)
                for grids, taps in zip(kinds, smooth, strict=True)
            ],
            1,
        )
    from .kernels import planes, sift

    n, width = sum(grids.n for grids in kinds), 256 if opponent else 128
    values = torch.empty((len(batch.shapes), n, width), device=batch.pixels.device)
    first = 0
    for grids, taps in zip(kinds, smooth, strict=True):
        found = planes(batch.pixels, batch.about, grids, _REACH, taps, opponent)
        sift(found, grids.size, grids.step, root, values, first)
        first += grids.n
    return values


def _describe_plainly(
    batch: Batch, grids: Grids, taps: NDArray[np.float32], root: bool, opponent: bool
) -> torch.Tensor:
    """Return the descriptors of patches of one size."""
    planes = smooth_plainly(batch, grids, _REACH, taps, opponent)
    parts = [
        bin_maps(orientations(plane, root), grids.size, grids.step) for plane in planes.unbind(1)
    ]
    finish = normalize_root if root else normalize
    return torch.cat([finish(part) for part in parts], 2)


def smooth_plainly(
    batch: Batch, grids: Grids, margin: int, taps: NDArray[np.float32], opponent: bool
) -> torch.Tensor:
    """Return smoothed canvases (B, planes, h, w), 0 outside the padded images."""
    canvas = batch.canvas(grids, margin + len(taps) - 1)
    planes = _opponent(canvas) if opponent else canvas
    return _smooth(_smooth(planes, taps, 2), taps, 3) * batch.inside(grids, margin)


def _opponent(canvas: torch.Tensor) -> torch.Tensor:
    red, green, blue = canvas.unbind(1)
    first = (red - green) * np.float32(0.5**0.5).item()
    second = (red + green - 2 * blue) * np.float32(6**-0.5).item()
    return torch.stack([first, second], 1)


def _smooth(planes: torch.Tensor, taps: NDArray[np.float32], axis: int) -> torch.Tensor:
    """Smooth along an axis, which becomes shorter by the reach of the taps on both sides.

    With the operations of the CPU's loop, one by one, for the same bits: sums with ``alpha``
    are fused multiply-adds, as LLVM makes them there. Where an image is nearly flat, roots
    enlarge what another order would round otherwise.
    """
    first, *others = taps.tolist()
    reach = len(others)
    length = planes.shape[axis] - 2 * reach
    at = [planes.narrow(axis, t, length) for t in range(2 * reach + 1)]
    pairs = [at[reach - t] + at[reach + t] for t in range(1, reach + 1)]
    odd, center = reach % 2, at[reach]
    total = (pairs[0] * others[0]).add_(center, alpha=first) if odd else center * first
    for t in range(odd, reach, 2):
        total += (pairs[t + 1] * others[t + 1]).add_(pairs[t], alpha=others[t])
    return total


def gradients(plane: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlate planes (B, h + 4, w + 4) with the derivatives, likewise with the CPU's bits."""
    height, width = (length - 2 * _REACH for length in plane.shape[1:])
    rows = [plane.narrow(1, t, height) for t in range(2 * _REACH + 1)]
    summed = []
    for taps in TAPS:
        first, *others = taps.tolist()
        total = rows[0] * first
        for row, tap in zip(rows[1:], others, strict=True):
            total.add_(row, alpha=tap)
        summed.append([total.narrow(2, t, width) for t in range(2 * _REACH + 1)])
    (g0, g1, g2), (d0, d1) = TAPS[0][:3].tolist(), TAPS[1][:2].tolist()
    s, d = summed
    ix = ((s[1] - s[3]) * d1).add_(s[0] - s[4], alpha=d0)
    iy = (d[2] * g2).add_(d[1] + d[3], alpha=g1).add_(d[0] + d[4], alpha=g0)
    return ix, iy


def orientations(plane: torch.Tensor, root: bool = False) -> torch.Tensor:
    """Return the eight orientation maps, (B, 8, h, w), of planes (B, h + 4, w + 4)."""
    ix, iy = gradients(plane)
    inverse = 1 / (ix * ix + iy * iy).clamp_min(float(FAINT_ROOTED if root else FAINT))
    maps = []
    for c, s in zip(COSINES, SINES, strict=True):
        p = c * ix + s * iy
        q = p * p * inverse
        q = q * q
        maps.append((p * (q * q)).clamp_min(0))
    return torch.stack(maps, 1)


def bin_maps(maps: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """Sum maps (B, 8, h, w) in the bins of all patches: (B, ny * nx, 128), not normalized.

    Two products with banded matrices, one per axis.
    """
    down, across = (_bands(length, size, step).to(maps.device) for length in maps.shape[2:])
    binned = down @ maps @ across.T
    images, n_maps = maps.shape[:2]
    grid = binned.view(images, n_maps, len(down) // N_BINS, N_BINS, -1, N_BINS)
    # Patch by patch: horizontal bin, vertical bin, orientation.
    return grid.permute(0, 2, 4, 5, 3, 1).reshape(images, -1, N_BINS * N_BINS * n_maps)


@lru_cache(maxsize=64)
def _bands(length: int, size: int, step: int) -> torch.Tensor:
    """Weights (4 n, length) of the n patches along an axis, four bins each."""
    weights, _, _ = bin_weights(size)
    n = (length - size) // step + 1
    bands = np.zeros((n, N_BINS, length), np.float32)
    for i in range(n):
        bands[i, :, i * step : i * step + size] = weights
    return torch.from_numpy(bands.reshape(-1, length))


def normalize(values: torch.Tensor) -> torch.Tensor:
    """Normalize descriptors (..., 128) as :func:`lrrspm.dense_sift` does."""
    square = values.square().sum(-1, keepdim=True)
    long = square >= 1
    clipped = (values * torch.where(long, square.rsqrt(), 1.0)).clamp_max(_LIMIT)
    again = clipped.square().sum(-1, keepdim=True)
    return clipped * torch.where(long, again.rsqrt(), 1.0)


def normalize_root(values: torch.Tensor) -> torch.Tensor:
    """Normalize descriptors (..., 128) as :class:`lrrspm.descriptors.RootSIFT` does."""
    square = values.square().sum(-1, keepdim=True)
    clipped = (values * square.clamp_min(FLAT.item()).rsqrt()).clamp_max(_LIMIT)
    total = clipped.sum(-1, keepdim=True)
    flat = square <= FLAT.item()
    return torch.where(flat, 0.0, clipped / torch.where(flat, 1.0, total)).sqrt()
