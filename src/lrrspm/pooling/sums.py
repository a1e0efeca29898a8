"""Sums: histograms and averages of the codes of each cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled
from .base import Pooling
from .pyramid import Grid, SpatialPyramid


class Sums(NamedTuple):
    """Sums (side * side, k) and counts (side * side,) of the finest cells."""

    values: NDArray[np.float32]
    counts: NDArray[np.int64]


class HistogramPooling(Pooling):
    r"""Sum of the codes of each cell over the number of all codes, weighted by level (BOF, SPM).

    .. math:: z_{cj} = \frac{w_l}{n} \sum_{i \in c} c_{ij}, \qquad v = z / \|z\|

    With L + 1 levels, w is 1/2^L for the coarsest and 1/2^(L - l + 1) for the
    l-th after it: 1/4, 1/4 and 1/2 for three. A weighted histogram of one-hot
    codes sums to 1 as it is.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by.
    """

    def start(self, pyramid: SpatialPyramid, n_atoms: int, n_values: int) -> Sums:
        n_cells = pyramid.n_finest
        return Sums(np.zeros((n_cells, n_atoms), np.float32), np.zeros(n_cells, np.int64))

    def add(
        self,
        state: Sums,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
    ) -> None:
        _pool_sum(codes, cells, state.values)
        np.add.at(state.counts, cells, 1)

    def merge(self, state: Sums, pyramid: SpatialPyramid) -> NDArray[np.float32]:
        cells = np.empty((pyramid.n_cells, state.values.shape[1]), np.float32)
        for grid, scale in self._scales(state, pyramid):
            part = cells[grid.rows]
            _merge_sum(state.values, grid.parents, part)
            part *= scale.astype(np.float32)
        return cells

    def attribute(
        self,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
        weights: NDArray[Any],
        pyramid: SpatialPyramid,
    ) -> NDArray[np.float64]:
        """Divide each sum among the patches of its cell by their codes.

        One product per code entry; coarser levels come from the finest grid.
        """
        state = self.start(pyramid, codes.shape[1], values.shape[1])
        self.add(state, values, codes, cells)
        merged = self.merge(state, pyramid)
        slopes = weights.astype(np.float64).reshape(merged.shape)
        slopes /= self.length(merged.ravel()) or 1
        fine = np.zeros(state.values.shape)
        for grid, scale in self._scales(state, pyramid):
            fine += (slopes[grid.rows] * scale)[grid.parents]
        shares = np.zeros(len(codes))
        for cell in np.unique(cells):
            inside = cells == cell
            shares[inside] = codes[inside] @ fine[cell]
        return shares

    def _scales(
        self, state: Sums, pyramid: SpatialPyramid
    ) -> Iterator[tuple[Grid, NDArray[np.float64]]]:
        """Each level, and what the sums of its cells are multiplied by, (1, 1) or (n * n, 1)."""
        total = max(state.counts.sum(), 1)
        ranks = sorted(grid.rows.stop - grid.rows.start for grid in pyramid.grids())
        last = len(ranks) - 1
        for grid in pyramid.grids():
            rank = ranks.index(grid.rows.stop - grid.rows.start)
            yield grid, np.array([[0.5 ** (last - max(rank - 1, 0)) / total]])


class AveragePooling(HistogramPooling):
    r"""Mean of the codes of each cell.

    .. math:: z_{cj} = \frac{1}{|c|} \sum_{i \in c} c_{ij}, \qquad v = z / \|z\|_2

    Empty cells are 0.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by.
    """

    def _scales(
        self, state: Sums, pyramid: SpatialPyramid
    ) -> Iterator[tuple[Grid, NDArray[np.float64]]]:
        for grid in pyramid.grids():
            counts = np.bincount(grid.parents, state.counts)[:, None]
            yield grid, 1 / np.maximum(counts, 1)


@compiled()
def _pool_sum(
    codes: NDArray[np.float32], cells: NDArray[np.int64], pooled: NDArray[np.float32]
) -> None:
    """One addition per code entry. Counts of one-hot codes are exact up to 2^24."""
    for i in range(codes.shape[0]):
        code, cell = codes[i], pooled[cells[i]]
        for j in range(code.size):
            cell[j] += code[j]


@compiled()
def _merge_sum(
    fine: NDArray[np.float32], parents: NDArray[np.int64], out: NDArray[np.float32]
) -> None:
    """Sums of the finest cells into those of a level: one pass over the fine ones."""
    out[:, :] = 0
    for cell in range(len(parents)):
        source, target = fine[cell], out[parents[cell]]
        for j in range(source.size):
            target[j] += source[j]
