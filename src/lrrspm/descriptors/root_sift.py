"""RootSIFT at several patch sizes, of gray or of opponent colors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.loops import compiled
from .base import Descriptor, LocalDescriptors, joined
from .sift import N_VALUES, check_grids, raw_sift

FLAT = np.float32(1e-6)


class RootSIFT(Descriptor):
    r"""Square roots of dense SIFT at several patch sizes, every patch normalized.

    .. math:: v = \sqrt{s / \|s\|_1}, \qquad
              s = \min(d / \|d\|_2,\ 0.2) / \|\min(d / \|d\|_2,\ 0.2)\|_2

    with d the descriptors of :func:`lrrspm.dense_sift` before normalization. Before
    patches of p > 16 pixels the image is smoothed with a Gaussian of standard
    deviation :math:`0.6 \sqrt{p / 16}`. A patch whose d is
    shorter than 0.001, which is rounding, becomes 0.

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
        planes = self._planes(pixels)
        side = max(self.patch_sizes)
        planes = [self.pad(plane, side) for plane in planes]
        return joined(
            [
                self._one_size(planes, patch_size, step)
                for patch_size, step in zip(self.patch_sizes, self.steps, strict=True)
            ]
        )

    def _planes(self, pixels: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        return [pixels]

    def _one_size(
        self, planes: list[NDArray[np.float32]], patch_size: int, step: int
    ) -> LocalDescriptors:
        found = []
        for plane in planes:
            smooth = plane
            if patch_size > 16:
                smooth = smoothed(plane, 0.6 * (patch_size / 16) ** 0.5)
            one = raw_sift(smooth, step, patch_size)
            _root_normalize(one.values)
            found.append(one)
        if len(found) == 1:
            return found[0]
        return found[0]._replace(values=np.concatenate([one.values for one in found], axis=1))


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
    """Columns, then rows: 4 reach + 2 multiply-adds per pixel."""
    height, width = image.shape
    reach = taps.size - 1
    out = np.empty_like(image)
    padded = np.empty(width + 2 * reach, np.float32)
    row = padded[reach : reach + width]
    for y in range(height):
        center = image[y]
        for x in range(width):
            row[x] = taps[0] * center[x]
        for t in range(1, reach + 1):
            above, below = image[max(y - t, 0)], image[min(y + t, height - 1)]
            tap = taps[t]
            for x in range(width):
                row[x] += tap * (above[x] + below[x])
        for t in range(reach):
            padded[t] = row[0]
            padded[reach + width + t] = row[width - 1]
        target = out[y]
        for x in range(width):
            target[x] = taps[0] * padded[x + reach]
        for t in range(1, reach + 1):
            tap = taps[t]
            before, after = padded[reach - t :], padded[reach + t :]
            for x in range(width):
                target[x] += tap * (before[x] + after[x])
    return out


@compiled("contract", "reassoc")
def _root_normalize(values: NDArray[np.float32]) -> None:
    """Normalize, clip, normalize, take roots, in place: four passes over 128 values each."""
    one, limit, zero = np.float32(1), np.float32(0.2), np.float32(0)
    for i in range(values.shape[0]):
        v = values[i]
        square = zero
        for j in range(v.size):
            square += v[j] * v[j]
        if square <= FLAT:
            v[:] = 0
            continue
        scale = one / np.sqrt(square)
        total = zero
        for j in range(v.size):
            v[j] = min(v[j] * scale, limit)
            total += v[j]
        # The second l2 norm cancels: the values are divided by their sum.
        scale = one / total
        for j in range(v.size):
            v[j] = np.sqrt(v[j] * scale)
