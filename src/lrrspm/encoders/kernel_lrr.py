"""Low-rank representation in the feature space of a kernel: nonlinear LrrSPM."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from .. import config
from .._support.parallel import single_blas_thread
from .lrr import LRREncoder, ridge_projection

_KERNELS = ("hellinger", "chi2", "intersection", "rbf")
# Of the maps: the frequency beside 0, and the kernel's spectrum at 0 and there. These
# frequencies have the least mean squared error, or nearly, for values a factor of 50 apart.
_MAPS = {
    "chi2": (0.5, 1.0, 1 / np.cosh(np.pi * 0.5)),
    "intersection": (0.75, 2 / np.pi, 2 / np.pi / (1 + 4 * 0.75**2)),
}


class KernelLRREncoder(LRREncoder):
    r"""Low-rank representation of a descriptor among the atoms, both mapped by a kernel.

    .. math:: \min_C \|\phi(X) - \phi(D) C\|_F^2 + \lambda \|C\|_F^2
              \quad\Rightarrow\quad c = (K_{DD} + \lambda I)^{-1} k(D, x)

    and the threshold of :class:`lrrspm.LRREncoder`: the paper's objective and
    closed form with every product of descriptors replaced by a kernel. Kernels are
    divided by the mean of k(d, d) over the atoms, so lambda means the same for all:

    .. math:: k_{hellinger}(x, y) = \sum_i \sqrt{x_i y_i}, \qquad
              k_{\chi^2}(x, y) = \sum_i \frac{2 x_i y_i}{x_i + y_i}, \qquad
              k_{\cap}(x, y) = \sum_i \min(x_i, y_i), \qquad
              k_{rbf}(x, y) = \exp(-\|x - y\|^2 / \sigma^2)

    with sigma the median distance between two atoms.

    Parameters
    ----------
    codebook_size, regularization, threshold, normalize_codes, codebook, random_state
        See :class:`lrrspm.LRREncoder`.
    kernel : {"hellinger", "chi2", "intersection", "rbf"}

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
    projection_ : ndarray of shape (q, k), float32
        q is m for hellinger, 3 m for chi2 and intersection, and k for rbf.
    total_ : ndarray of shape (q,), float32
        Sums of the rows of ``projection_``.
    n_features_in_ : int

    Notes
    -----
    The paper names this as future work and gives no formula. ``rbf`` computes k(D, x)
    and projects it: k (m + k) products per descriptor instead of k m. A Nystroem map
    with the atoms as landmarks gives the same codes: it keeps K_DD and k(D, x), and the
    objective depends on nothing else. The other kernels have explicit maps, so a
    projection of the map of x is all: the roots for ``hellinger``; for ``chi2`` and
    ``intersection`` three numbers per value, which give the kernel up to about a tenth
    and a quarter (Vedaldi and Zisserman, Efficient additive kernels via explicit feature
    maps, 2012). Values below 0 count with their sign. Codebooks are those of k-means on
    the descriptors as they are, so that methods share them.
    """

    derived: ClassVar[dict[str, str]] = {"codebook_": "km", "projection_": "qk", "total_": "q"}

    def __init__(
        self,
        codebook_size: int = config.CODEBOOK_SIZE,
        regularization: float = config.REGULARIZATION,
        threshold: float = config.THRESHOLD,
        normalize_codes: bool = False,
        codebook: ArrayLike | None = None,
        random_state: Any = None,
        kernel: str = "hellinger",
    ) -> None:
        super().__init__(
            codebook_size, regularization, threshold, normalize_codes, codebook, random_state
        )
        self.kernel = kernel

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.kernel not in _KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(_KERNELS)}, got {self.kernel!r}")

    def _project(self) -> NDArray[np.float32]:
        atoms = self.codebook_.astype(np.float64)
        if self.kernel != "rbf":
            mapped = _additive_map(self.kernel, atoms)
            scale = np.sqrt(np.einsum("ij,ij->", mapped, mapped) / len(mapped)) or 1.0
            return ridge_projection(mapped / scale, self.regularization) / np.float32(scale)
        distances = cdist(atoms, atoms, "sqeuclidean")
        gram = np.exp(-distances / _squared_width(distances))
        with single_blas_thread():
            inverse = scipy.linalg.pinvh(gram + self.regularization * np.eye(len(gram)))
        return np.ascontiguousarray(inverse, dtype=np.float32)

    def ready(self) -> None:
        k, m = self.codebook_.shape
        width = {"hellinger": m, "rbf": k}.get(self.kernel, 3 * m)
        if len(self.projection_) != width:
            raise ValueError(f"projection has {len(self.projection_)} rows, expected {width}")
        if self.kernel == "rbf":
            # Distances come from differences of squares, which lose digits far from zero.
            atoms = self.codebook_.astype(np.float64)
            self._origin = atoms.mean(axis=0).astype(np.float32)
            atoms -= self._origin
            scale = 1 / _squared_width(cdist(atoms, atoms, "sqeuclidean"))
            self._scale = np.float32(scale)
            self._doubled = (2 * scale * atoms.T).astype(np.float32)
            self._norms = (scale * np.einsum("ij,ij->i", atoms, atoms)).astype(np.float32)

    def _represent(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.kernel != "rbf":
            return _additive_map(self.kernel, X)
        X = X - self._origin
        exponents = X @ self._doubled
        exponents -= self._norms
        exponents -= (self._scale * np.einsum("ij,ij->i", X, X))[:, None]
        np.minimum(exponents, 0, out=exponents)
        return np.exp(exponents, out=exponents)


def _squared_width(distances: NDArray[np.float64]) -> float:
    """Return the median of squared distances (k, k) between different atoms; 1 if it is 0."""
    others = distances[np.triu_indices(len(distances), 1)]
    return float(np.median(others) if len(others) else 0) or 1.0


def _additive_map(kernel: str, X: NDArray[Any]) -> NDArray[Any]:
    r"""Map values so that products of the mapped are the kernel, or nearly.

    .. math:: \sqrt{x}; \qquad \text{chi2, intersection:}\
              \sqrt{L x}\,\big(\sqrt{\kappa_0}, \sqrt{2 \kappa_L}\cos(L \ln x),
              \sqrt{2 \kappa_L}\sin(L \ln x)\big)

    with the spectra 1 / cosh(pi L) of chi2 and 2 / (pi (1 + 4 L^2)) of intersection.
    """
    size = np.abs(X)
    roots = np.copysign(np.sqrt(size), X)
    if kernel == "hellinger":
        return roots
    real = size.dtype.type
    step, low, high = _MAPS[kernel]
    roots *= real(np.sqrt(step))
    angles = np.log(np.maximum(size, np.finfo(np.float32).tiny)) * real(step)
    waves = roots * real(np.sqrt(2 * high))
    return np.hstack([roots * real(np.sqrt(low)), waves * np.cos(angles), waves * np.sin(angles)])
