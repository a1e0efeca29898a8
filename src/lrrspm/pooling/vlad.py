"""VLAD: where the descriptors of each atom lie around it in each cell."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._support.loops import compiled
from .moments import MomentPooling, Moments, normalize_rows
from .pyramid import SpatialPyramid


class VLADPooling(MomentPooling):
    r"""First moments around the atoms: vectors of locally aggregated descriptors.

    .. math:: u_j = \sum_i q_{ij} (x_i - d_j)

    for each cell and atom, with one-hot codes q at the nearest atom. Then signed
    square roots, each :math:`u_j` divided by its l2 norm, each cell by its norm
    and by the root of the number of cells of its level, and the whole by its norm.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by.

    Attributes
    ----------
    shares_ : ndarray of shape (k,), float32
        Ones: no atom counts more because it is rare.
    means_ : ndarray of shape (k, m), float32
        The codebook.
    deviations_ : ndarray of shape (k, m), float32
        Ones: VLAD has no variances.
    """

    def __init__(self, norm: str | None = "l2") -> None:
        super().__init__(norm, order=1)

    def fit(self, values: NDArray[np.float32], encoder: Any) -> Self:
        """Take the atoms of an encoder with a codebook."""
        codebook = getattr(encoder, "codebook_", None)
        if codebook is None:
            raise ValueError(f"{type(encoder).__name__} has no codebook, which VLADPooling needs")
        self.means_: NDArray[np.float32] = codebook.astype(np.float32)
        self.shares_: NDArray[np.float32] = np.ones(len(codebook), np.float32)
        self.deviations_: NDArray[np.float32] = np.ones_like(self.means_)
        return self

    def add(
        self,
        state: Moments,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
    ) -> None:
        # Sums of differences, not differences of sums: where descriptors lie on
        # their atom, rounding alone would be left, and normalized to length 1.
        # With no weights, nothing more is subtracted.
        _pool_differences(values, codes, cells, self.means_, state.sums)

    def merge(self, state: Moments, pyramid: SpatialPyramid) -> NDArray[np.float32]:
        merged = super().merge(state, pyramid)
        # The norm of the cell goes with that of each atom's part.
        normalize_rows(merged.reshape(-1, self.means_.shape[1]))
        for grid in pyramid.grids():
            normalize_rows(merged[grid.rows])
            merged[grid.rows] /= np.float32(math.sqrt(grid.rows.stop - grid.rows.start))
        return merged


@compiled("contract")
def _pool_differences(
    values: NDArray[np.float32],
    codes: NDArray[np.float32],
    cells: NDArray[np.int64],
    means: NDArray[np.float32],
    sums: NDArray[np.float32],
) -> None:
    """3 m operations for each code entry that is not 0."""
    for i in range(codes.shape[0]):
        x, code, cell = values[i], codes[i], cells[i]
        for j in range(code.size):
            q = code[j]
            if q != 0:
                total, mean = sums[cell, j], means[j]
                for t in range(x.size):
                    total[t] += q * (x[t] - mean[t])
