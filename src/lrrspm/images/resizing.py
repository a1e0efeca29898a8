"""Resizing: antialiased bicubic, as the authors' program shrinks images."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled

# Weights of an axis that are kept, 12 bytes each: for 6,000 pixels shrunk to 300. With those of
# 256 axes that is at most 75 MB.
_KEPT_TAPS = 300 * 82


def scale_to(shape: tuple[int, ...], max_side: int | None, min_side: int | None = None) -> float:
    """Return what the sides of an image are multiplied by, so that the longer one is in range."""
    if max_side is not None and max_side < 1:
        raise ValueError(f"max_side must be at least 1, got {max_side}")
    if min_side is not None and (min_side < 1 or (max_side is not None and min_side > max_side)):
        raise ValueError(f"min_side must be from 1 to max_side, got {min_side} and {max_side}")
    longer = max(shape)
    if max_side is not None and longer > max_side:
        return max_side / longer
    return max(1.0, (min_side or 1) / longer)


def resize(
    image: NDArray[np.float32],
    max_side: int | None,
    min_side: int | None = None,
    shape: tuple[int, ...] | None = None,
    reduction: int = 1,
    excess: tuple[float, float] = (0.0, 0.0),
) -> NDArray[np.float32]:
    """Shrink or enlarge an image so that its longer side is within limits: bicubic.

    With ``s = max_side / longer side`` or ``min_side / longer side`` on both axes, and
    ``r = min(s, 1)`` against aliasing, output pixel i (1-based)
    samples the input at ``u = i/s + (1 - 1/s)/2`` with weights ``k(r (u - j))``
    scaled to sum 1, k being Keys' cubic with a = -0.5; outside the image the
    pixels are mirrored. The output has ``ceil(s * size - 1e-9)`` pixels per
    side and is not clipped. An image within the limits is returned as it is.

    An image (h, w) that was already reduced comes with the full ``shape``, the
    ``reduction`` and the ``excess`` of :class:`lrrspm.images.decoding.Decoded`.
    The formula then holds with a scale as many times as large, and output
    pixels lie where they would without the reduction.
    """
    shape = shape or image.shape
    scale = scale_to(shape, max_side, min_side)
    if scale == 1:
        return image
    (ysource, yweights), (xsource, xweights) = (
        _taps(size, scale * reduction, math.ceil(scale * full - 1e-9), offset)
        for size, full, offset in zip(image.shape, shape, excess, strict=True)
    )
    return _resample(image, ysource, yweights, xsource, xweights)


def _taps(
    size: int, scale: float, outputs: int, offset: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Source pixels and weights, both (outputs, taps), of one resized axis."""
    small = outputs * _count_taps(scale) <= _KEPT_TAPS
    return (_kept_taps if small else _kept_taps.__wrapped__)(size, scale, outputs, offset)


def _count_taps(scale: float) -> int:
    return math.ceil(4 / min(scale, 1)) + 2


@lru_cache(maxsize=256)  # images of one folder have few sizes
def _kept_taps(
    size: int, scale: float, outputs: int, offset: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    narrow = min(scale, 1)
    reach = 4 / narrow
    n_taps = _count_taps(scale)
    position = np.arange(1, outputs + 1) / scale + (1 - 1 / scale) / 2 + offset
    source = np.floor(position - reach / 2)[:, None] + np.arange(n_taps)
    t = np.abs(narrow * (position[:, None] - source))
    weights = np.where(
        t <= 1,
        1.5 * t**3 - 2.5 * t**2 + 1,
        np.where(t <= 2, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2, 0.0),
    )
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.mod(source.astype(np.int64) - 1, 2 * size)
    mirrored = np.where(mirrored < size, mirrored, 2 * size - 1 - mirrored)
    return mirrored, weights.astype(np.float32)


@compiled("contract")
def _resample(
    image: NDArray[np.float32],
    ysource: NDArray[np.int64],
    yweights: NDArray[np.float32],
    xsource: NDArray[np.int64],
    xweights: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Resize rows, then columns: taps * (w + w_out) multiply-adds per output row."""
    height, width = len(ysource), len(xsource)
    out = np.empty((height, width), np.float32)
    row = np.empty(image.shape[1], np.float32)
    for y in range(height):
        row[:] = 0
        for t in range(ysource.shape[1]):
            weight = yweights[y, t]
            if weight != 0:
                pixels = image[ysource[y, t]]
                for x in range(row.size):
                    row[x] += weight * pixels[x]
        for x in range(width):
            total = np.float32(0)
            for t in range(xsource.shape[1]):
                total += xweights[x, t] * row[xsource[x, t]]
            out[y, x] = total
    return out
