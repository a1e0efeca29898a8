"""Low-rank representation: the paper's coder."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled
from .._support.parallel import single_blas_thread
from .base import CodebookEncoder


class LRREncoder(CodebookEncoder):
    r"""Low-rank representation: one projection, one threshold.

    .. math:: c = (D^T D + \lambda I)^{-1} D^T x, \qquad
              z_j = c_j \ \text{if}\ c_j / \textstyle\sum_i c_i \ge \epsilon / k,
              \ \text{else}\ 0

    Parameters
    ----------
    codebook_size : int
        Number of atoms k that ``fit`` learns.
    regularization : float
        The paper's lambda, at least 0; with 0 the projection is the
        pseudo-inverse of the codebook.
    threshold : float
        The paper's epsilon, at least 0; 0 keeps every entry.
    normalize_codes : bool
        Divide each code by its l2 norm before truncation (the paper's
        Algorithm 1, step 3).
    codebook : array of shape (k, m) or None
        A codebook to use instead of learning one.
    random_state : int, RandomState instance or None
        Seed of the codebook.

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
    projection_ : ndarray of shape (m, k), float32
        Transpose of the paper's P.
    total_ : ndarray of shape (m,), float32
        P'1: a code sums to the product of its descriptor and this.
    n_features_in_ : int

    Notes
    -----
    Differences from the paper, all as in the authors' program: entries *above*
    the threshold are kept (Algorithm 1 has the two cases swapped), and codes
    are not normalized by default. Where the entries sum to a negative number
    the rule keeps the entries at or below ``epsilon / k`` of the sum; where
    they sum to 0 it keeps the non-negative ones; a zero descriptor has a zero
    code.
    """

    derived: ClassVar[dict[str, str]] = {"codebook_": "km", "projection_": "mk", "total_": "m"}
    pooled_by: ClassVar[str | None] = "MaxPooling"

    def __init__(
        self,
        codebook_size: int = config.CODEBOOK_SIZE,
        regularization: float = config.REGULARIZATION,
        threshold: float = config.THRESHOLD,
        normalize_codes: bool = False,
        codebook: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.regularization = regularization
        self.threshold = threshold
        self.normalize_codes = normalize_codes
        self.codebook = codebook
        self.random_state = random_state

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("regularization", "threshold"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be at least 0, got {value}")

    def _prepare(self) -> None:
        self.projection_: NDArray[np.float32] = self._project()
        total = self.projection_.sum(axis=1, dtype=np.float64)
        self.total_: NDArray[np.float32] = total.astype(np.float32)

    def _project(self) -> NDArray[np.float32]:
        """Compute ``projection_`` from ``codebook_``."""
        return ridge_projection(self.codebook_, self.regularization)

    def _represent(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what is projected of descriptors (n, m): here they themselves."""
        return X

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        X = self._represent(X)
        np.matmul(X, self.projection_, out=codes)
        norms = _norms(codes) if self.normalize_codes else None
        if self.threshold > 0:
            # sum(c) = x . P'1 costs one column instead of a pass over the codes.
            share = np.float32(self.threshold / codes.shape[1])
            _truncate(codes, share * (X @ self.total_))
        if norms is not None:
            codes /= norms


def ridge_projection(codebook: NDArray[Any], regularization: float) -> NDArray[np.float32]:
    """((D'D + lambda I)^-1 D')' as (m, k), from the smaller of the two systems.

    P = D' (DD' + lambda I)^-1 as well, an m x m system at any k.
    """
    atoms = codebook.astype(np.float64)
    k, m = atoms.shape
    with single_blas_thread():
        if regularization == 0:
            projection = scipy.linalg.pinv(atoms)
        elif k > m:
            gram = atoms.T @ atoms + regularization * np.eye(m)
            projection = scipy.linalg.solve(gram, atoms.T, assume_a="pos")
        else:
            gram = atoms @ atoms.T + regularization * np.eye(k)
            projection = scipy.linalg.solve(gram, atoms, assume_a="pos").T
    return np.ascontiguousarray(projection, dtype=np.float32)


@compiled()
def _truncate(codes: NDArray[np.float32], limits: NDArray[np.float32]) -> None:
    """Zero the entries below their row's limit, in place: one pass in cache.

    Below means nearer to zero than the limit or on its other side, so a
    negative limit (a code with a negative sum) keeps negative entries.
    """
    zero = np.float32(0)
    for i in range(codes.shape[0]):
        code, limit = codes[i], limits[i]
        if limit >= zero:
            for j in range(code.size):
                code[j] = code[j] if code[j] >= limit else zero
        else:
            for j in range(code.size):
                code[j] = code[j] if code[j] <= limit else zero


def _norms(codes: NDArray[np.float32]) -> NDArray[np.float32]:
    """l2 norms (n, 1) of the rows, 1 for a row of zeros."""
    norms = np.sqrt(np.einsum("ij,ij->i", codes, codes))
    return np.where(norms > 0, norms, np.float32(1))[:, None]
