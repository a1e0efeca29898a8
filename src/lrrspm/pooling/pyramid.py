"""Spatial pyramid: the cells of several grids over one image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled

_FINEST = 64

Level = int | tuple[int, int]
"""Cells along each side of a grid, or its rows and columns."""


class Grid(NamedTuple):
    """One level of a pyramid.

    ``rows`` are its cells among those of all levels; ``parents`` says in which
    of its cells each cell of the finest grid lies, (n_finest,).
    """

    level: Level
    rows: slice
    parents: NDArray[np.int64]


@dataclass(frozen=True)
class SpatialPyramid:
    """Grids of cells over an image, such as 1x1, 2x2 and 4x4.

    Parameters
    ----------
    levels : tuple of int or (int, int)
        Grids: cells along each side, or rows and columns. The least common
        multiples of all rows and of all columns are at most 64.

    Notes
    -----
    Every cell is a union of cells of the finest grid, whose rows and columns are
    the least common multiples of those of the levels. So codes are pooled once,
    there.
    """

    levels: tuple[Level, ...] = config.LEVELS

    def __post_init__(self) -> None:
        given = self.levels if isinstance(self.levels, (tuple, list)) else ()
        levels = tuple(tuple(one) if isinstance(one, list) else one for one in given)
        sizes = [n for one in levels for n in (one if isinstance(one, tuple) else (one, one))]
        if not sizes or len(sizes) != 2 * len(levels) or any(int(n) != n or n < 1 for n in sizes):
            raise ValueError(
                "levels must be positive whole numbers in a tuple, or pairs of them, "
                f"got {self.levels}"
            )
        whole = tuple(
            (int(one[0]), int(one[1])) if isinstance(one, tuple) else int(one) for one in levels
        )
        object.__setattr__(self, "levels", whole)
        if max(self.shape) > _FINEST:
            raise ValueError(
                f"the least common multiple of levels must be at most {_FINEST}, got {levels}"
            )

    @property
    def _sizes(self) -> list[tuple[int, int]]:
        return [one if isinstance(one, tuple) else (one, one) for one in self.levels]

    @property
    def n_cells(self) -> int:
        """Cells of all levels together."""
        return sum(rows * columns for rows, columns in self._sizes)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the finest grid."""
        rows, columns = zip(*self._sizes, strict=True)
        return math.lcm(*rows), math.lcm(*columns)

    @property
    def n_finest(self) -> int:
        """Cells of the finest grid."""
        return self.shape[0] * self.shape[1]

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
        return _cells(xs, ys, width, height, *self.shape)

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return tuple(self._make_grids())

    def grids(self) -> tuple[Grid, ...]:
        """Return the levels, in the order of the vector."""
        return self._grids

    def _make_grids(self) -> Iterator[Grid]:
        first = 0
        for level, (rows, columns) in zip(self.levels, self._sizes, strict=True):
            down = np.arange(self.shape[0]) // (self.shape[0] // rows)
            across = np.arange(self.shape[1]) // (self.shape[1] // columns)
            parents = np.add.outer(down * columns, across).ravel()
            yield Grid(level, slice(first, first + rows * columns), parents)
            first += rows * columns


def known_pyramid(levels: tuple[Level, ...]) -> SpatialPyramid:
    """Return the pyramid of these levels, the same object every time: its grids are kept."""
    try:
        return _kept_pyramid(levels)
    except TypeError:  # lists
        return SpatialPyramid(levels)


_kept_pyramid = lru_cache(maxsize=64)(SpatialPyramid)


@compiled()
def _cells(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    width: int,
    height: int,
    rows: int,
    columns: int,
) -> NDArray[np.int64]:
    """ceil(p / (size / cells)) for the 1-based positions p, counted from 0.

    Positions are half pixels, so the quotient is a whole number exactly when
    it should be. Two divisions per patch.
    """
    cells = np.empty(x.size, np.int64)
    for i in range(x.size):
        column = int(np.ceil((np.float64(x[i]) + 1) * columns / width)) - 1
        row = int(np.ceil((np.float64(y[i]) + 1) * rows / height)) - 1
        cells[i] = min(max(row, 0), rows - 1) * columns + min(max(column, 0), columns - 1)
    return cells
