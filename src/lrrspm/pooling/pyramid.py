"""Spatial pyramid: codes of all patches -> one vector an image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled

POOLINGS = ("max", "signed_max", "average", "histogram")
NORMS = ("l2", "l1", None)
_FINEST = 64


class Pooled(NamedTuple):
    """Cells of the finest grid while an image's codes come in."""

    values: NDArray[np.float32]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class SpatialPyramid:
    r"""Pool codes in the cells of several grids and normalise the result.

    .. math:: z_{cj} = \max_{i \in c} |c_{ij}|, \qquad v = z / \|z\|_2

    for every cell c of the grids 1x1, 2x2 and 4x4. Empty cells are 0, and so
    is the vector of an image whose codes are all 0.

    Parameters
    ----------
    levels : tuple of int
        Cells along each side, one number a grid. Their least common multiple
        is at most 64.
    pooling : {"max", "signed_max", "average", "histogram"}
        "max" takes the largest absolute value (LRR, SC), "signed_max" the
        largest value (LLC), "average" the mean of a cell's codes, "histogram"
        their sum divided by the number of all codes, times the level's weight:
        1/4, 1/4 and 1/2 for three levels (BOF, SPM).
    norm : {"l2", "l1"} or None
        What the vector is divided by. A weighted histogram of one-hot codes
        sums to 1 as it is.

    Notes
    -----
    The final l2 normalisation is in the authors' program, not in the paper.
    Every level's cell is a union of cells of the grid of the levels' least
    common multiple, so codes are pooled once, there.
    """

    levels: tuple[int, ...] = config.LEVELS
    pooling: str = "max"
    norm: str | None = "l2"

    def __post_init__(self) -> None:
        levels = self.levels if isinstance(self.levels, (tuple, list)) else ()
        if not levels or any(int(n) != n or n < 1 for n in levels):
            raise ValueError(f"levels must be positive whole numbers in a tuple, got {self.levels}")
        levels = tuple(int(n) for n in levels)
        if math.lcm(*levels) > _FINEST:
            raise ValueError(
                f"the least common multiple of levels must be at most {_FINEST}, got {levels}"
            )
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {POOLINGS}, got {self.pooling!r}")
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {NORMS}, got {self.norm!r}")
        object.__setattr__(self, "levels", levels)

    @property
    def n_cells(self) -> int:
        """Cells of all levels together."""
        return sum(n * n for n in self.levels)

    def pool(
        self, codes: ArrayLike, x: ArrayLike, y: ArrayLike, width: int, height: int
    ) -> NDArray[np.float32]:
        """Pool the codes of one image.

        Parameters
        ----------
        codes : array of shape (n, k)
        x, y : array of shape (n,)
            Patch centres, 0-based.
        width, height : int
            Size of the image in pixels.

        Returns
        -------
        ndarray of shape (n_cells * k,), float32
            Cells row by row, the levels in their order; norm 1 (or 0).
        """
        codes = np.ascontiguousarray(codes, dtype=np.float32)
        if codes.ndim != 2:
            raise ValueError(f"codes must have shape (n, k), got {codes.shape}")
        cells = self.cells(x, y, width, height)
        if len(cells) != len(codes):
            raise ValueError(f"{len(codes)} codes, but {len(cells)} positions")
        pooled = self.start(codes.shape[1])
        self.add(pooled, codes, cells)
        return self.finish(pooled)

    # One image's codes may come in blocks: start, add for every block, finish.

    def cells(self, x: ArrayLike, y: ArrayLike, width: int, height: int) -> NDArray[np.int64]:
        """Cell of every patch centre in the finest grid, (n,)."""
        for size in (width, height):
            if size < 1:
                raise ValueError(f"an image has at least one pixel a side, got {size}")
        xs, ys = np.asarray(x, np.float32), np.asarray(y, np.float32)
        if xs.ndim != 1 or xs.shape != ys.shape:
            raise ValueError(f"x and y must have one shape (n,), got {xs.shape} and {ys.shape}")
        return _cells(xs, ys, width, height, math.lcm(*self.levels))

    def start(self, n_atoms: int) -> Pooled:
        """Empty cells of the finest grid, (side * side, k)."""
        n_cells = math.lcm(*self.levels) ** 2
        empty = -np.inf if self.pooling == "signed_max" else 0
        return Pooled(np.full((n_cells, n_atoms), empty, np.float32), np.zeros(n_cells, np.int64))

    def add(self, pooled: Pooled, codes: NDArray[np.float32], cells: NDArray[np.int64]) -> None:
        """Pool a block of codes (n, k) into the finest grid, in place."""
        if self.pooling == "max":
            _pool_max(codes, cells, pooled.values)
        elif self.pooling == "signed_max":
            _pool_signed_max(codes, cells, pooled.values)
        else:
            _pool_sum(codes, cells, pooled.values)
            np.add.at(pooled.counts, cells, 1)

    def finish(self, pooled: Pooled) -> NDArray[np.float32]:
        """The vector of an image from its finest grid."""
        vector = self._merge(pooled).ravel()
        norm = self._norm(vector)
        if norm > 0:
            vector *= np.float32(1 / norm)
        return vector

    def attribute(
        self, codes: NDArray[np.float32], cells: NDArray[np.int64], weights: NDArray[Any]
    ) -> NDArray[np.float64]:
        r"""What each patch adds to the product of weights and an image's vector.

        .. math:: e_i = \sum_{c, j} w_{cj} v_{cj} \, [i = \arg\max_{l \in c} |c_{lj}|]

        for maxima, the first of which has it all where several are equal.
        Means and sums are shared by all patches of a cell, each by its own
        code. Together the patches add ``weights @ vector``.

        Parameters
        ----------
        codes : array of shape (n, k), float32
        cells : array of shape (n,)
            What :meth:`cells` says of the patches.
        weights : array of shape (n_cells * k,)

        Returns
        -------
        ndarray of shape (n,), float64

        Notes
        -----
        One comparison or one product a code entry; coarser levels are made
        from the finest grid, as in pooling.
        """
        pooled = self.start(codes.shape[1])
        self.add(pooled, codes, cells)
        values = self._merge(pooled)
        slopes = weights.astype(np.float64).reshape(values.shape)
        slopes /= self._norm(values.ravel()) or 1
        shares = np.zeros(len(codes))
        if self.pooling in ("max", "signed_max"):
            first = _first_of_maxima(codes, cells, pooled.values, self.pooling == "max")
            for _, rows, parents in self._grids():
                evidence = slopes[rows] * values[rows]
                _credit(pooled.values, first, parents, values[rows], evidence, shares)
            return shares
        fine = np.zeros(pooled.values.shape)
        for (_, rows, parents), weight in zip(self._grids(), self._weights(), strict=True):
            if self.pooling == "average":
                counts = np.bincount(parents, pooled.counts)[:, None]
                fine += (slopes[rows] / np.maximum(counts, 1))[parents]
            else:
                fine += slopes[rows][parents] * (weight / max(pooled.counts.sum(), 1))
        for cell in np.unique(cells):
            inside = cells == cell
            shares[inside] = codes[inside] @ fine[cell]
        return shares

    def _grids(self) -> Iterator[tuple[int, slice, NDArray[np.int64]]]:
        """Of each level: cells along a side, its rows, and where each finest cell belongs."""
        side, first = math.lcm(*self.levels), 0
        for n in self.levels:
            lines = np.arange(side) // (side // n)
            yield n, slice(first, first + n * n), np.add.outer(lines * n, lines).ravel()
            first += n * n

    def _merge(self, pooled: Pooled) -> NDArray[np.float32]:
        """Cells of all levels, (n_cells, k), not normalised."""
        side = math.lcm(*self.levels)
        cells = np.empty((self.n_cells, pooled.values.shape[1]), np.float32)
        for (n, rows, _), weight in zip(self._grids(), self._weights(), strict=True):
            part = cells[rows]
            if self.pooling in ("max", "signed_max"):
                _merge_max(pooled.values, side, n, part)
                continue
            _merge_sum(pooled.values, side, n, part)
            if self.pooling == "average":
                fine = pooled.counts.reshape(n, side // n, n, side // n)
                part /= np.maximum(fine.sum(axis=(1, 3)).reshape(-1, 1), 1).astype(np.float32)
            else:
                part *= np.float32(weight / max(pooled.counts.sum(), 1))
        cells[np.isneginf(cells)] = 0  # empty cells of a signed maximum
        return cells

    def _weights(self) -> list[float]:
        """1/2^L for the coarsest of L + 1 levels, 1/2^(L - l + 1) for the l-th after it."""
        last = len(self.levels) - 1
        ranks = [sorted(self.levels).index(n) for n in self.levels]
        return [0.5 ** (last - max(rank - 1, 0)) for rank in ranks]

    def _norm(self, vector: NDArray[np.float32]) -> float:
        """What a vector is to be divided by; 0 for a vector of zeros."""
        if self.norm == "l2":
            return math.sqrt(np.dot(vector, vector))
        if self.norm == "l1":
            return float(np.abs(vector).sum(dtype=np.float64))
        return 1.0


@compiled()
def _cells(
    x: NDArray[np.float32], y: NDArray[np.float32], width: int, height: int, side: int
) -> NDArray[np.int64]:
    """ceil(p / (size / side)) for the 1-based positions p, counted from 0.

    Positions are half pixels, so the quotient is a whole number exactly when
    it should be. Two divisions a patch.
    """
    cells = np.empty(x.size, np.int64)
    for i in range(x.size):
        column = int(np.ceil((np.float64(x[i]) + 1) * side / width)) - 1
        row = int(np.ceil((np.float64(y[i]) + 1) * side / height)) - 1
        cells[i] = min(max(row, 0), side - 1) * side + min(max(column, 0), side - 1)
    return cells


@compiled()
def _pool_max(
    codes: NDArray[np.float32], cells: NDArray[np.int64], pooled: NDArray[np.float32]
) -> None:
    """One maximum a code entry: reads n * k floats, the grid stays in cache."""
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
def _pool_sum(
    codes: NDArray[np.float32], cells: NDArray[np.int64], pooled: NDArray[np.float32]
) -> None:
    """One addition a code entry. Counts of one-hot codes are exact up to 2^24."""
    for i in range(codes.shape[0]):
        code, cell = codes[i], pooled[cells[i]]
        for j in range(code.size):
            cell[j] += code[j]


@compiled()
def _merge_max(fine: NDArray[np.float32], side: int, n: int, out: NDArray[np.float32]) -> None:
    """Maxima of the side x side cells into n x n cells: one pass over the fine ones."""
    ratio = side // n
    out[:, :] = -np.inf
    for row in range(side):
        for column in range(side):
            source = fine[row * side + column]
            target = out[(row // ratio) * n + column // ratio]
            for j in range(source.size):
                target[j] = max(target[j], source[j])


@compiled()
def _merge_sum(fine: NDArray[np.float32], side: int, n: int, out: NDArray[np.float32]) -> None:
    """Sums of the side x side cells into n x n cells: one pass over the fine ones."""
    ratio = side // n
    out[:, :] = 0
    for row in range(side):
        for column in range(side):
            source = fine[row * side + column]
            target = out[(row // ratio) * n + column // ratio]
            for j in range(source.size):
                target[j] += source[j]


@compiled()
def _first_of_maxima(
    codes: NDArray[np.float32],
    cells: NDArray[np.int64],
    pooled: NDArray[np.float32],
    absolute: bool,
) -> NDArray[np.int64]:
    """The first patch of each finest cell whose code is its maximum; n where there is none.

    From the last patch to the first, so that each may overwrite the one before:
    one comparison a code entry, without a branch.
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
