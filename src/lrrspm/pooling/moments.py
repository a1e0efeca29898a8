"""Moments: what the descriptors of each atom are like in each cell (Fisher vectors)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled
from .base import Pooling
from .pyramid import SpatialPyramid

_LEAST = 1e-6
_CANCELED = 0.1


class Moments(NamedTuple):
    """Sums over the finest cells: weights (c, k), and weighted values, then squares, (c, k, 2m)."""

    weights: NDArray[np.float32]
    sums: NDArray[np.float32]


class MomentPooling(Pooling):
    r"""First and second moments of the descriptors of each atom, weighted by their codes.

    .. math:: u = \frac{S_1 - N \mu}{\sigma \sqrt\pi}, \qquad
              v = \frac{(S_2 - 2 \mu S_1 + N \mu^2) / \sigma^2 - N}{\sqrt{2 \pi}}

    for each cell, with N, S1 and S2 the sums of codes q, q x and q x^2 of its
    patches, and pi, mu, sigma^2 the share, mean and variance of each atom over
    the training descriptors. Then signed square roots, each cell divided by its
    l2 norm and by the root of the number of cells of its level, so that every
    level counts the same, and the whole by its norm. With the posteriors of a
    Gaussian mixture as codes this is the Fisher vector. These
    vectors are long, so channels keep them in half precision.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by.
    order : {1, 2}
        1 leaves out the second moments.

    Attributes
    ----------
    shares_ : ndarray of shape (k,), float32
        pi.
    means_ : ndarray of shape (k, m), float32
        mu.
    deviations_ : ndarray of shape (k, m), float32
        sigma.
    """

    derived: ClassVar[dict[str, str]] = {"shares_": "k", "means_": "km", "deviations_": "km"}
    precision: ClassVar[type[np.floating[Any]]] = np.float16
    shares_: NDArray[np.float32]
    means_: NDArray[np.float32]
    deviations_: NDArray[np.float32]

    def __init__(self, norm: str | None = "l2", order: int = 2) -> None:
        super().__init__(norm)
        self.order = order

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {self.order}")

    def check_fitted(self) -> None:
        if not ((self.shares_ > 0).all() and (self.deviations_ > 0).all()):
            raise ValueError("shares and deviations of atoms must be positive")

    def width(self, n_atoms: int, n_values: int) -> int:
        return self.order * n_atoms * n_values

    def fit(self, values: NDArray[np.float32], encoder: Any) -> Self:
        """Find share, mean and variance of each atom over descriptors (n, m).

        Those of the encoder itself where it has them, as mixtures do.
        """
        own = encoder.moments()
        if own is not None:
            self.shares_, self.means_, self.deviations_ = own
            return self
        k, m = encoder.n_atoms, values.shape[1]
        total = [np.zeros(k), np.zeros((k, m)), np.zeros((k, m))]
        for start in range(0, len(values), 4096):
            block = values[start : start + 4096]
            codes = encoder.encode_all(block).astype(np.float64)
            exact = block.astype(np.float64)
            total[0] += codes.sum(axis=0)
            total[1] += codes.T @ exact
            total[2] += codes.T @ exact**2
        weights = np.maximum(total[0], 1e-12)
        means = total[1] / weights[:, None]
        variances = total[2] / weights[:, None] - means**2
        # An atom of one or two descriptors varies too little to divide by.
        least = _LEAST + 1e-2 * values.var(axis=0, dtype=np.float64)
        self.shares_ = (weights / max(len(values), 1)).astype(np.float32)
        self.means_ = means.astype(np.float32)
        self.deviations_ = np.sqrt(np.maximum(variances, least)).astype(np.float32)
        return self

    def start(self, pyramid: SpatialPyramid, n_atoms: int, n_values: int) -> Moments:
        shape = (pyramid.n_finest, n_atoms, self.order * n_values)
        return Moments(np.zeros(shape[:2], np.float32), np.zeros(shape, np.float32))

    def add(
        self,
        state: Moments,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
    ) -> None:
        _pool_moments(values, codes, cells, state.weights, state.sums)

    def merge(self, state: Moments, pyramid: SpatialPyramid) -> NDArray[np.float32]:
        merged = self._statistics(state, pyramid)
        for grid in pyramid.grids():
            _take_roots(merged[grid.rows])
        return merged

    def _statistics(self, state: Moments, pyramid: SpatialPyramid) -> NDArray[np.float32]:
        """Return u and v of the cells of all levels, (n_cells, width)."""
        out = np.empty((pyramid.n_cells, self.width(*self.means_.shape)), np.float32)
        slope, bend = self._scales()
        inverse: Any = 1 / self.deviations_**2  # NumPy types it as float64
        for grid in pyramid.grids():
            parts = (self.means_, slope, inverse, bend[:, 0])
            _center_moments(*state, grid.parents, *parts, out[grid.rows])
        return out

    def _scales(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return 1 / (sigma sqrt(pi)), (k, m), and 1 / sqrt(2 pi), (k, 1)."""
        shares = np.maximum(self.shares_, np.float32(1e-12))[:, None]
        slope: Any = 1 / (self.deviations_ * np.sqrt(shares))
        return slope, 1 / np.sqrt(2 * shares)

    def attribute(
        self,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
        weights: NDArray[Any],
        pyramid: SpatialPyramid,
    ) -> NDArray[np.float64]:
        r"""Divide each entry among the patches by their shares of its sum.

        An entry is :math:`\mathrm{sign}(s) \sqrt{|s|}` of a sum s over patches, so the
        patch that adds :math:`s_i` has the share :math:`s_i / s` of it. Where the parts
        nearly cancel (:math:`|s| < \sum |s_i| / 10`) that would blow up small
        differences; there the share is :math:`|s_i| / \sum |s_i|`. Either way the shares
        of an entry sum to 1. An entry whose parts are all 0 is rounding, and has none. 20 m
        operations per code entry that is not 0.
        """
        state = self.start(pyramid, codes.shape[1], values.shape[1])
        self.add(state, values, codes, cells)
        merged = self.merge(state, pyramid)
        slopes = weights.astype(np.float32, copy=False).reshape(merged.shape)
        evidence = slopes * (merged / np.float32(self.length(merged.ravel()) or 1))
        slope, bend = self._scales()
        inverse: Any = 1 / self.deviations_
        parts = (values, codes, cells, self.means_, inverse, slope, bend[:, 0])
        # The sums once more, from the parts: those of the vector cancel more, so the shares of
        # an entry would not sum to 1.
        finest = np.zeros((2, pyramid.n_finest, merged.shape[1]), np.float32)
        _sum_parts(*parts, finest[0], finest[1])
        # What a unit of a patch's part is worth, with its sign and without, on all levels.
        signed, unsigned = np.zeros_like(finest)
        for grid in pyramid.grids():
            own = evidence[grid.rows]
            sums = np.zeros((2, *own.shape), np.float32)
            for place, parent in enumerate(grid.parents):
                sums[:, parent] += finest[:, place]
            _add_worths(own, sums[0], sums[1], grid.parents, signed, unsigned)
        shares = np.zeros(len(codes))
        _moment_shares(*parts, signed, unsigned, shares)
        return shares


def normalize_rows(rows: NDArray[np.float32]) -> None:
    """Divide rows (n, d) by their l2 norms, in place; rows of zeros stay."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.where(norms > 0, norms, np.float32(1))[:, None]


@compiled("contract")
def _pool_moments(
    values: NDArray[np.float32],
    codes: NDArray[np.float32],
    cells: NDArray[np.int64],
    weights: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """4 m operations for each code entry that is not 0, of which there are few.

    These are listed first, without a branch: which ones they are cannot be guessed.
    """
    m = values.shape[1]
    # Values and squares side by side: one long loop has fewer leftovers than two short ones.
    x = np.empty(sums.shape[2], np.float32)
    squares = x[m:]
    atoms = np.empty(codes.shape[1], np.int32)
    for i in range(codes.shape[0]):
        value = values[i]
        for t in range(value.size):
            x[t] = value[t]
        for t in range(squares.size):
            squares[t] = value[t] * value[t]
        code = codes[i]
        count = 0
        for j in range(code.size):
            atoms[count] = j
            count += code[j] != 0
        cell_weights, cell_sums = weights[cells[i]], sums[cells[i]]
        for place in range(count):
            j = atoms[place]
            q = code[j]
            cell_weights[j] += q
            target = cell_sums[j]
            for t in range(x.size):
                target[t] += q * x[t]


@compiled("contract")
def _center_moments(
    weights: NDArray[np.float32],
    sums: NDArray[np.float32],
    parents: NDArray[np.int64],
    means: NDArray[np.float32],
    slope: NDArray[np.float32],
    inverse: NDArray[np.float32],
    bend: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Sum the finest cells of each cell of a grid, and center: u and v, (n_cells, width).

    Two additions per finest cell, atom and value, and about ten operations per entry.
    """
    k, m = means.shape
    width = sums.shape[2]
    total, amounts = np.empty(k * width, np.float32), np.empty(k, np.float32)
    for cell in range(out.shape[0]):
        total[:] = 0
        amounts[:] = 0
        for place in range(parents.size):
            if parents[place] == cell:
                source, more = sums[place].reshape(total.size), weights[place]
                for t in range(total.size):
                    total[t] += source[t]
                for j in range(k):
                    amounts[j] += more[j]
        target = out[cell]
        for j in range(k):
            weight, bent = amounts[j], bend[j]
            mean, scale, first = means[j], slope[j], total[j * width : j * width + m]
            u = target[j * m : (j + 1) * m]
            for t in range(m):
                u[t] = (first[t] - weight * mean[t]) * scale[t]
            if width > m:
                second, narrow = total[j * width + m : (j + 1) * width], inverse[j]
                v = target[(k + j) * m : (k + j + 1) * m]
                for t in range(m):
                    spread = second[t] - mean[t] * (np.float32(2) * first[t] - weight * mean[t])
                    v[t] = (spread * narrow[t] - weight) * bent


@compiled("contract", "reassoc")
def _take_roots(cells: NDArray[np.float32]) -> None:
    """Take signed square roots of the cells of one level and normalize them, in place.

    The squares of the roots are the absolute values, so the norm comes with them.
    """
    n_cells = np.float32(cells.shape[0])
    for i in range(cells.shape[0]):
        row = cells[i]
        total = np.float32(0)
        for j in range(row.size):
            total += abs(row[j])
        scale = np.float32(1) / np.sqrt(total * n_cells) if total > 0 else np.float32(1)
        for j in range(row.size):
            root = np.sqrt(abs(row[j])) * scale
            row[j] = root if row[j] > 0 else -root


@compiled("contract")
def _sum_parts(
    values: NDArray[np.float32],
    codes: NDArray[np.float32],
    cells: NDArray[np.int64],
    means: NDArray[np.float32],
    inverse: NDArray[np.float32],
    slope: NDArray[np.float32],
    bend: NDArray[np.float32],
    sums: NDArray[np.float32],
    amounts: NDArray[np.float32],
) -> None:
    """Sum the parts of all patches, and their absolute values, both (n_cells, width)."""
    k, m = means.shape
    for i in range(codes.shape[0]):
        total, amount = sums[cells[i]], amounts[cells[i]]
        for j in range(k):
            q = codes[i, j]
            if q != 0:
                here, there = slice(j * m, (j + 1) * m), slice((k + j) * m, (k + j + 1) * m)
                x, mean, steep = values[i], means[j], slope[j]
                first, size = total[here], amount[here]
                for t in range(first.size):
                    part = q * (x[t] - mean[t]) * steep[t]
                    first[t] += part
                    size[t] += abs(part)
                second, size = total[there], amount[there]
                bent, scale = q * bend[j], inverse[j]
                for t in range(second.size):
                    unit = (x[t] - mean[t]) * scale[t]
                    part = bent * (unit * unit - np.float32(1))
                    second[t] += part
                    size[t] += abs(part)


@compiled("contract")
def _add_worths(
    evidence: NDArray[np.float32],
    sums: NDArray[np.float32],
    amounts: NDArray[np.float32],
    parents: NDArray[np.int64],
    signed: NDArray[np.float32],
    unsigned: NDArray[np.float32],
) -> None:
    """Add evidence over sums, or over amounts where parts cancel, to that of the finest cells."""
    for place in range(parents.size):
        own, total, amount = evidence[parents[place]], sums[parents[place]], amounts[parents[place]]
        with_sign, without = signed[place], unsigned[place]
        for t in range(own.size):
            if abs(total[t]) >= _CANCELED * amount[t]:
                if total[t] != 0:
                    with_sign[t] += own[t] / total[t]
            else:
                without[t] += own[t] / amount[t]


@compiled("contract", "reassoc")
def _moment_shares(
    values: NDArray[np.float32],
    codes: NDArray[np.float32],
    cells: NDArray[np.int64],
    means: NDArray[np.float32],
    inverse: NDArray[np.float32],
    slope: NDArray[np.float32],
    bend: NDArray[np.float32],
    signed: NDArray[np.float32],
    unsigned: NDArray[np.float32],
    shares: NDArray[np.float64],
) -> None:
    """Add each patch's part, times what a unit of it is worth, to shares (n,)."""
    k, m = means.shape
    for i in range(codes.shape[0]):
        for j in range(k):
            q = codes[i, j]
            if q != 0:
                x, mean, steep = values[i], means[j], slope[j]
                with_sign = signed[cells[i]][j * m : (j + 1) * m]
                without = unsigned[cells[i]][j * m : (j + 1) * m]
                total = np.float32(0)
                for t in range(with_sign.size):
                    part = (x[t] - mean[t]) * steep[t]
                    total += part * with_sign[t] + abs(part) * without[t]
                with_sign = signed[cells[i]][(k + j) * m : (k + j + 1) * m]
                without = unsigned[cells[i]][(k + j) * m : (k + j + 1) * m]
                scale, bent = inverse[j], np.float32(0)
                for t in range(with_sign.size):
                    unit = (x[t] - mean[t]) * scale[t]
                    part = unit * unit - np.float32(1)
                    bent += part * with_sign[t] + abs(part) * without[t]
                shares[i] += q * (total + bend[j] * bent)
