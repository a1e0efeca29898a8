"""The seam: what every pooling is."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.estimators import BaseEstimator
from .pyramid import Level, SpatialPyramid

NORMS = ("l2", "l1", None)


class Pooling(BaseEstimator):
    """Base class of poolings: codes of all patches of an image -> one vector.

    Codes come in blocks: :meth:`start`, :meth:`add` for every block, :meth:`finish`.
    A subclass defines :meth:`width`, :meth:`start`, :meth:`add`, :meth:`merge` and,
    for evidence, :meth:`attribute`.

    Parameters
    ----------
    norm : {"l2", "l1"} or None
        What the vector is divided by. A vector of zeros stays as it is.

    Notes
    -----
    The final l2 normalization is in the authors' program, not in the paper.
    """

    derived: ClassVar[dict[str, str]] = {}
    """Fitted arrays and their shapes in letters: k atoms, m descriptor values."""

    precision: ClassVar[type[np.floating[Any]]] = np.float32
    """Type that vectors are kept in; float16 halves the memory of long ones."""

    def __init__(self, norm: str | None = "l2") -> None:
        self.norm = norm

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {NORMS}, got {self.norm!r}")

    def fit(self, values: NDArray[np.float32], encoder: Any) -> Self:
        """Learn from training descriptors (n, m) and a fitted encoder; most need nothing."""
        return self

    def check_fitted(self) -> None:
        """Raise ValueError where fitted arrays, such as those of a model file, are not valid."""

    def width(self, n_atoms: int, n_values: int) -> int:
        """Return the numbers per cell for codes of ``n_atoms`` entries.

        ``n_values`` is the length of a descriptor.
        """
        return n_atoms

    def start(self, pyramid: SpatialPyramid, n_atoms: int, n_values: int) -> Any:
        """Return an empty state."""
        raise NotImplementedError

    def add(
        self,
        state: Any,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
    ) -> None:
        """Pool a block into the state, in place.

        Parameters
        ----------
        state
            What :meth:`start` returned.
        values : ndarray of shape (n, m)
            Descriptors.
        codes : ndarray of shape (n, k)
        cells : ndarray of shape (n,)
            Cell of each patch in the finest grid.
        """
        raise NotImplementedError

    def merge(self, state: Any, pyramid: SpatialPyramid) -> NDArray[np.float32]:
        """Return the cells of all levels, (n_cells, width), not normalized."""
        raise NotImplementedError

    def finish(self, state: Any, pyramid: SpatialPyramid) -> NDArray[np.float32]:
        """Return the vector of the image, (n_cells * width,)."""
        vector = self.merge(state, pyramid).ravel()
        norm = self.length(vector)
        if norm > 0:
            vector *= np.float32(1 / norm)
        return vector

    def attribute(
        self,
        values: NDArray[np.float32],
        codes: NDArray[np.float32],
        cells: NDArray[np.int64],
        weights: NDArray[Any],
        pyramid: SpatialPyramid,
    ) -> NDArray[np.float64]:
        """Return what each patch adds to ``weights @ vector``.

        Parameters
        ----------
        values, codes, cells
            All patches of the image, as :meth:`add` takes them.
        weights : ndarray of shape (n_cells * width,)

        Returns
        -------
        ndarray of shape (n,), float64
            Sums to ``weights @ vector``, up to rounding.
        """
        raise ValueError(f"{type(self).__name__} does not say what each patch adds to a score")

    def pool(
        self,
        codes: ArrayLike,
        x: ArrayLike,
        y: ArrayLike,
        width: int,
        height: int,
        levels: tuple[Level, ...] = config.LEVELS,
        values: ArrayLike | None = None,
    ) -> NDArray[np.float32]:
        """Pool the codes of one image.

        Parameters
        ----------
        codes : array of shape (n, k)
        x, y : array of shape (n,)
            Patch centers, 0-based.
        width, height : int
            Size of the image in pixels.
        levels : tuple of int
            See :class:`lrrspm.SpatialPyramid`.
        values : array of shape (n, m) or None
            Descriptors, for poolings that read them.

        Returns
        -------
        ndarray of shape (n_cells * width,), float32
            Cells row by row, the levels in their order.
        """
        self.check_parameters()
        pyramid = SpatialPyramid(levels)
        block = np.ascontiguousarray(codes, dtype=np.float32)
        if block.ndim != 2:
            raise ValueError(f"codes must have shape (n, k), got {block.shape}")
        cells = pyramid.cells(x, y, width, height)
        if len(cells) != len(block):
            raise ValueError(f"{len(block)} codes, but {len(cells)} positions")
        given = np.empty((len(block), 0)) if values is None else values
        described = np.ascontiguousarray(given, dtype=np.float32)
        state = self.start(pyramid, block.shape[1], described.shape[1])
        self.add(state, described, block, cells)
        return self.finish(state, pyramid)

    def length(self, vector: NDArray[np.float32]) -> float:
        """Return the norm that a vector is divided by."""
        if self.norm == "l2":
            return math.sqrt(np.dot(vector, vector))
        if self.norm == "l1":
            return float(np.abs(vector).sum(dtype=np.float64))
        return 1.0
