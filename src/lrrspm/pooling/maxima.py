"""Maxima: the strongest code of each cell."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled
from .base import Pooling
from .pyramid import SpatialPyramid


class MaxPooling(Pooling):
    r"""Largest absolute value of each entry in each cell (LRR, sparse codes).

    .. math:: z_{cj} = \max_{i \in c} |c_{ij}|, \qquad v = z / \|z\|_2

    Empty cells are 0, and so is the vector of an image whose codes are all 0.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by.
    """

    _empty: ClassVar[float] = 0.0
    _absolute: ClassVar[bool] = True

    def start(self, pyramid: SpatialPyramid, n_atoms: int, n_values: int) -> NDArray[np.float32]:
        return np.full((pyramid.n_finest, n_atoms), self._empty, np.float32)

    def add(
        self,
        state: NDArray[np.float32],
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
    ) -> None:
        (_pool_max if self._absolute else _pool_signed_max)(codes, cells, state)

    def merge(self, state: NDArray[np.float32], pyramid: SpatialPyramid) -> NDArray[np.float32]:
        cells = np.empty((pyramid.n_cells, state.shape[1]), np.float32)
        for _, rows, parents in pyramid.grids():
            _merge_max(state, parents, cells[rows])
        cells[np.isneginf(cells)] = 0  # empty cells of a signed maximum
        return cells

    def attribute(
        self,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
        weights: NDArray[Any],
        pyramid: SpatialPyramid,
    ) -> NDArray[np.float64]:
        r"""Credit each maximum to the patch that has it, the first of several equal ones.

        .. math:: e_i = \sum_{c, j} w_{cj} v_{cj} \, [i = \arg\max_{l \in c} |c_{lj}|]

        One comparison per code entry; coarser levels come from the finest grid.
        """
        fine = self.start(pyramid, codes.shape[1], values.shape[1])
        self.add(fine, values, codes, cells)
        merged = self.merge(fine, pyramid)
        slopes = weights.astype(np.float64).reshape(merged.shape)
        slopes /= self.length(merged.ravel()) or 1
        shares = np.zeros(len(codes))
        first = _first_of_maxima(codes, cells, fine, self._absolute)
        for _, rows, parents in pyramid.grids():
            evidence = slopes[rows] * merged[rows]
            _credit(fine, first, parents, merged[rows], evidence, shares)
        return shares


class SignedMaxPooling(MaxPooling):
    r"""Largest value of each entry in each cell, with its sign (LLC).

    .. math:: z_{cj} = \max_{i \in c} c_{ij}, \qquad v = z / \|z\|_2

    Empty cells are 0.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by.
    """

    _empty: ClassVar[float] = -np.inf
    _absolute: ClassVar[bool] = False


@compiled()
def _pool_max(
    codes: NDArray[np.float32], cells: NDArray[np.int64], pooled: NDArray[np.float32]
) -> None:
    """One maximum per code entry: reads n * k floats, the grid stays in cache."""
    for i in range(codes.shape[0]):
        code, cell = codes[i], pooled[cells[i]]
        for j in range(code.size):
            cell[j] = max(cell[j], abs(code[j]))


@compiled()
def _pool_signed_max(
    codes: NDArray[np.float32], cells: NDArray[np.int64], pooled: NDArray[np.float32]
) -> None:
    """As _pool_max, with the sign."""
    for i in range(codes.shape[0]):
        code, cell = codes[i], pooled[cells[i]]
        for j in range(code.size):
            cell[j] = max(cell[j], code[j])


@compiled()
def _merge_max(
    fine: NDArray[np.float32], parents: NDArray[np.int64], out: NDArray[np.float32]
) -> None:
    """Maxima of the finest cells into those of a level: one pass over the fine ones."""
    out[:, :] = -np.inf
    for cell in range(len(parents)):
        source, target = fine[cell], out[parents[cell]]
        for j in range(source.size):
            target[j] = max(target[j], source[j])


@compiled()
def _first_of_maxima(
    codes: NDArray[np.float32],
    cells: NDArray[np.int64],
    pooled: NDArray[np.float32],
    absolute: bool,
) -> NDArray[np.int64]:
    """The first patch of each finest cell whose code is its maximum; n where there is none.

    From the last patch to the first, so that each may overwrite the one before:
    one comparison per code entry, without a branch.
    """
    first = np.full(pooled.shape, len(codes), np.int64)
    for i in range(len(codes) - 1, -1, -1):
        code, best, winner = codes[i], pooled[cells[i]], first[cells[i]]
        for j in range(code.size):
            value = abs(code[j]) if absolute else code[j]
            winner[j] = i if value == best[j] else winner[j]
    return first


@compiled()
def _credit(
    fine: NDArray[np.float32],
    first: NDArray[np.int64],
    parents: NDArray[np.int64],
    values: NDArray[np.float32],
    evidence: NDArray[np.float64],
    shares: NDArray[np.float64],
) -> None:
    """Add the evidence of one level's cells to the first patches that have their values."""
    winners = np.full(values.shape, len(shares), np.int64)
    for cell in range(len(parents)):
        best, winner = values[parents[cell]], winners[parents[cell]]
        for j in range(best.size):
            if fine[cell, j] == best[j]:
                winner[j] = min(winner[j], first[cell, j])
    for c in range(len(values)):
        for j in range(values.shape[1]):
            if winners[c, j] < len(shares):
                shares[winners[c, j]] += evidence[c, j]
