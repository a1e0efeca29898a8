"""Dense SIFT of many images at once, separable: patches are never cut out."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from ..descriptors import SIFT, OpponentSIFT, RootSIFT
from ..descriptors.root_sift import FLAT, gaussian_taps
from ..descriptors.sift import FAINT, FAINT_ROOTED, N_BINS, TAPS, bin_weights
from .batches import Batch, Grids

_REACH = 2  # of the derivative filters
_LIMIT = 0.2
_HALF = 0.5**0.5
COSINES = (1.0, _HALF, 0.0, -_HALF, -1.0, -_HALF, 0.0, _HALF)
SINES = COSINES[-2:] + COSINES[:-2]


def describe_sift(descriptor: SIFT, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the descriptors (B, ny * nx, 128) of :func:`lrrspm.dense_sift`, and their grid."""
    size, step = int(descriptor.patch_size), int(descriptor.step)
    grids = Grids(batch.shapes, size, size, step)
    canvas = batch.canvas(grids, _REACH) * batch.inside(grids, _REACH)
    return _describe(canvas[:, 0], size, step, root=False), [grids]


def describe_root_sift(descriptor: RootSIFT, batch: Batch) -> tuple[torch.Tensor, list[Grids]]:
    """Return the values (B, n, m) of RootSIFT or OpponentSIFT, sizes one after another."""
    found, kinds = [], []
    least = max(descriptor.patch_sizes)
    for size, step in zip(descriptor.patch_sizes, descriptor.steps, strict=True):
        grids = Grids(batch.shapes, least, size, step)
        taps = gaussian_taps(0.6 * (size / 16) ** 0.5) if size > 16 else np.ones(1, np.float32)
        canvas = batch.canvas(grids, _REACH + len(taps) - 1)
        planes = _opponent(canvas) if isinstance(descriptor, OpponentSIFT) else canvas
        planes = _smooth(_smooth(planes, taps, 2), taps, 3) * batch.inside(grids, _REACH)
        parts = [_describe(plane, size, step, root=True) for plane in planes.unbind(1)]
        found.append(torch.cat(parts, 2))
        kinds.append(grids)
    return torch.cat(found, 1), kinds


def _opponent(canvas: torch.Tensor) -> torch.Tensor:
    red, green, blue = canvas.unbind(1)
    first = (red - green) * np.float32(0.5**0.5).item()
    second = (red + green - 2 * blue) * np.float32(6**-0.5).item()
    return torch.stack([first, second], 1)


def _smooth(planes: torch.Tensor, taps: np.ndarray, axis: int) -> torch.Tensor:
    """Smooth along an axis, which becomes shorter by the reach of the taps on both sides."""
    both = [*taps[:0:-1].tolist(), *taps.tolist()]
    return _correlate(planes, both, axis)


def _correlate(planes: torch.Tensor, taps: list[float], axis: int) -> torch.Tensor:
    length = planes.shape[axis] - len(taps) + 1
    total = taps[0] * planes.narrow(axis, 0, length)
    for t, tap in enumerate(taps[1:], 1):
        total = total.add_(planes.narrow(axis, t, length), alpha=tap)
    return total


def _differentiate(planes: torch.Tensor, axis: int) -> torch.Tensor:
    """Correlate with the derivative taps, in pairs: flat areas are exactly 0."""
    length = planes.shape[axis] - 2 * _REACH
    far, near = TAPS[1][:_REACH].tolist()
    at = [planes.narrow(axis, t, length) for t in range(2 * _REACH + 1)]
    return far * (at[0] - at[4]) + near * (at[1] - at[3])


def _describe(plane: torch.Tensor, size: int, step: int, root: bool) -> torch.Tensor:
    """Descriptors (B, ny * nx, 128) of planes (B, h + 4, w + 4) that begin before a patch."""
    if plane.is_cuda:
        from .kernels import sift

        return sift(plane, size, step, root)
    maps = orientations(plane, root)
    values = bin_maps(maps, size, step)
    return normalize_root(values) if root else normalize(values)


def orientations(plane: torch.Tensor, root: bool = False) -> torch.Tensor:
    """Return the eight orientation maps, (B, 8, h, w), of planes (B, h + 4, w + 4)."""
    smooth = TAPS[0].tolist()
    ix = _differentiate(_correlate(plane, smooth, 1), 2)
    iy = _correlate(_differentiate(plane, 1), smooth, 2)
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
