"""Spatial pyramid: the cells of several grids over one image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled

_FINEST = 64


class Grid(NamedTuple):
    """One level: n x n cells.

    ``rows`` are its cells among those of all levels; ``parents`` says in which
    of its cells each cell of the finest grid lies, (side * side,).
    """

    n: int
    rows: slice
    parents: NDArray[np.int64]


@dataclass(frozen=True)
class SpatialPyramid:
    """Grids of cells over an image, such as 1x1, 2x2 and 4x4.

    Parameters
    ----------
    levels : tuple of int
        Cells along each side, one number per grid. Their least common multiple
        is at most 64.

    Notes
    -----
    Every cell is a union of cells of the finest grid, whose side is the least
    common multiple of the levels. So codes are pooled once, there.
    """

    levels: tuple[int, ...] = config.LEVELS

    def __post_init__(self) -> None:
        levels = self.levels if isinstance(self.levels, (tuple, list)) else ()
        if not levels or any(int(n) != n or n < 1 for n in levels):
            raise ValueError(f"levels must be positive whole numbers in a tuple, got {self.levels}")
        levels = tuple(int(n) for n in levels)
        if math.lcm(*levels) > _FINEST:
            raise ValueError(
                f"the least common multiple of levels must be at most {_FINEST}, got {levels}"
            )
        object.__setattr__(self, "levels", levels)

    @property
    def n_cells(self) -> int:
        """Cells of all levels together."""
        return sum(n * n for n in self.levels)

    @property
    def side(self) -> int:
        """Cells along each side of the finest grid."""
        return math.lcm(*self.levels)

    def cells(self, x: ArrayLike, y: ArrayLike, width: int, height: int) -> NDArray[np.int64]:
        """Find the cell of every patch in the finest grid.

        Parameters
        ----------
        x, y : array of shape (n,)
            Patch centers, 0-based.
        width, height : int
            Size of the image in pixels.

        Returns
        -------
        ndarray of shape (n,)
            Cells counted row by row.
        """
        for size in (width, height):
            if size < 1:
                raise ValueError(f"width and height must be at least 1, got {size}")
        xs, ys = np.asarray(x, np.float32), np.asarray(y, np.float32)
        if xs.ndim != 1 or xs.shape != ys.shape:
            raise ValueError(f"x and y must have one shape (n,), got {xs.shape} and {ys.shape}")
        return _cells(xs, ys, width, height, self.side)

    def grids(self) -> Iterator[Grid]:
        """Iterate over the levels, in the order of the vector."""
        side, first = self.side, 0
        for n in self.levels:
            lines = np.arange(side) // (side // n)
            yield Grid(n, slice(first, first + n * n), np.add.outer(lines * n, lines).ravel())
            first += n * n


@compiled()
def _cells(
    x: NDArray[np.float32], y: NDArray[np.float32], width: int, height: int, side: int
) -> NDArray[np.int64]:
    """ceil(p / (size / side)) for the 1-based positions p, counted from 0.

    Positions are half pixels, so the quotient is a whole number exactly when
    it should be. Two divisions per patch.
    """
    cells = np.empty(x.size, np.int64)
    for i in range(x.size):
        column = int(np.ceil((np.float64(x[i]) + 1) * side / width)) - 1
        row = int(np.ceil((np.float64(y[i]) + 1) * side / height)) - 1
        cells[i] = min(max(row, 0), side - 1) * side + min(max(column, 0), side - 1)
    return cells
