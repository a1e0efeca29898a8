"""The seam: what every descriptor is, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.estimators import BaseEstimator
from ..images import Pixels


class LocalDescriptors(NamedTuple):
    """Descriptors of one image.

    Attributes
    ----------
    values : ndarray of shape (n, m), float32
    x, y : ndarray of shape (n,), float32
        Patch centers; the center of the top left pixel is (0, 0).
    size : ndarray of shape (n,), float32
        Side of each patch in pixels.
    width, height : int
        Size of the image that the patches cover. An image smaller than a patch
        is padded evenly on both sides first, and this is the padded size.
    """

    values: NDArray[np.float32]
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    size: NDArray[np.float32]
    width: int
    height: int


class PatchGrid(NamedTuple):
    """Patches of one size, ``step`` apart and centered in an image of a shape (h, w, ...).

    The first corner is at ``((w - size) % step) // 2``, and ``nx = (w - size) // step + 1``;
    ``top`` and ``ny`` likewise.
    """

    shape: tuple[int, ...]
    size: int
    step: int

    @property
    def left(self) -> int:
        return ((self.shape[1] - self.size) % self.step) // 2

    @property
    def top(self) -> int:
        return ((self.shape[0] - self.size) % self.step) // 2

    @property
    def nx(self) -> int:
        return (self.shape[1] - self.size) // self.step + 1

    @property
    def ny(self) -> int:
        return (self.shape[0] - self.size) // self.step + 1

    @property
    def n_patches(self) -> int:
        return self.nx * self.ny

    def place(self, values: NDArray[np.float32]) -> LocalDescriptors:
        """Add places to the values (ny * nx, m) of the patches, row by row."""
        return placed(values, [self])


def placed(values: NDArray[np.float32], grids: Sequence[PatchGrid]) -> LocalDescriptors:
    """Add places to the values (n, m) of the patches of grids, one grid after another."""
    x, y, size = np.empty((3, len(values)), np.float32)
    start = 0
    for grid in grids:
        own, shape = slice(start, start + grid.n_patches), (grid.ny, grid.nx)
        center = (grid.size - 1) / 2
        x[own].reshape(shape)[:] = np.arange(grid.nx) * grid.step + (grid.left + center)
        y[own].reshape(shape).T[:] = np.arange(grid.ny) * grid.step + (grid.top + center)
        size[own] = grid.size
        start = own.stop
    height, width = grids[0].shape[:2]
    return LocalDescriptors(values, x, y, size, width, height)


class Descriptor(BaseEstimator):
    """Base class of local descriptors.

    A subclass sets :attr:`color`, and defines :attr:`n_values` and :meth:`describe`.
    """

    color: ClassVar[bool] = False
    """True for descriptors of color pixels (h, w, 3), False for gray ones (h, w)."""

    @property
    def n_values(self) -> int:
        """Values per descriptor, m."""
        raise NotImplementedError

    def describe(self, pixels: NDArray[np.float32]) -> LocalDescriptors:
        """Describe the patches of one image, at least one."""
        raise NotImplementedError

    def pick(self, pixels: Pixels) -> NDArray[np.float32]:
        """Return the gray or the color pixels, whichever the descriptor reads."""
        picked = pixels.color if self.color else pixels.gray
        assert picked is not None
        return picked

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""

    @staticmethod
    def pad(pixels: NDArray[Any], side: int) -> NDArray[Any]:
        """Repeat the border of an image smaller than ``side``, evenly on both sides."""
        missing = [max(0, side - length) for length in pixels.shape[:2]]
        if not any(missing):
            return pixels
        widths = [(m // 2, m - m // 2) for m in missing]
        return np.pad(pixels, widths + [(0, 0)] * (pixels.ndim - 2), mode="edge")
