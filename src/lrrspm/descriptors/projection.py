"""Projection: principal components of descriptors, and where they lie."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .. import config
from .._support.estimators import BaseEstimator
from .._support.loops import compiled
from .._support.parallel import single_blas_thread
from .base import LocalDescriptors


class Projection(BaseEstimator):
    r"""Principal components, with the place of each patch appended.

    .. math:: z = \big(V^T (x - \bar x),\ a (u - \tfrac12),\ a (v - \tfrac12)\big)

    with V the first eigenvectors of the covariance, and u, v the patch center's
    share of the image's width and height. Components are not whitened.

    Parameters
    ----------
    n_components : int
        Components that are kept, at most as many as there are values.
    position : float
        Weight a of the place; 0 leaves it out.

    Attributes
    ----------
    mean_ : ndarray of shape (m,), float32
    components_ : ndarray of shape (m, n), float32
    """

    derived: ClassVar[dict[str, str]] = {"mean_": "v", "components_": "vp"}

    def __init__(
        self, n_components: int = config.N_COMPONENTS, position: float = config.POSITION
    ) -> None:
        self.n_components = n_components
        self.position = position

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        if self.n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {self.n_components}")
        if not (np.isfinite(self.position) and self.position >= 0):
            raise ValueError(f"position must be at least 0, got {self.position}")

    def n_values(self, described: int) -> int:
        """Return the length of projected descriptors of ``described`` values."""
        return min(self.n_components, described) + (2 if self.position > 0 else 0)

    def fit(self, values: NDArray[np.float32]) -> Self:
        """Find mean and components of descriptors (n, m)."""
        self.check_parameters()
        kept = min(self.n_components, values.shape[1])
        mean = values.mean(axis=0, dtype=np.float64)
        with single_blas_thread():
            scatter = np.zeros((values.shape[1],) * 2)
            for start in range(0, len(values), 8192):
                block = values[start : start + 8192] - mean
                scatter += block.T @ block
            last = values.shape[1] - 1
            _, vectors = scipy.linalg.eigh(scatter, subset_by_index=(last - kept + 1, last))
        vectors = vectors[:, ::-1]
        # Eigenvectors have no sign of their own; the largest entry is positive.
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(kept)])
        self.mean_: NDArray[np.float32] = mean.astype(np.float32)
        self.components_: NDArray[np.float32] = np.ascontiguousarray(vectors * signs, np.float32)
        return self

    def transform(
        self, values: NDArray[np.float32], places: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Project descriptors (n, m) with places (n, 2) in [-1/2, 1/2]."""
        kept = self.components_.shape[1]
        # Columns of zeros make room for the places: a product of whole rows is faster.
        widened = np.zeros((values.shape[1], self.n_values(values.shape[1])), np.float32)
        widened[:, :kept] = self.components_
        out: NDArray[np.float32] = values @ widened
        _complete(out, self.mean_ @ self.components_, places, np.float32(self.position))
        return out


@compiled()
def _complete(
    out: NDArray[np.float32],
    origin: NDArray[np.float32],
    places: NDArray[np.float32],
    position: np.float32,
) -> None:
    """Subtract the projected mean, and append the places where there is room for them."""
    kept = origin.size
    for i in range(out.shape[0]):
        for j in range(kept):
            out[i, j] -= origin[j]
        for j in range(kept, out.shape[1]):
            out[i, j] = position * places[i, j - kept]


def places(found: LocalDescriptors) -> NDArray[np.float32]:
    """Return each patch center's place in the image, (n, 2), from -1/2 to 1/2."""
    x = (found.x + np.float32(0.5)) / np.float32(found.width)
    y = (found.y + np.float32(0.5)) / np.float32(found.height)
    return np.stack([x, y], axis=1) - np.float32(0.5)
