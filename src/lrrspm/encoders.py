"""Encoders: descriptors -> codes over a codebook."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from . import config
from .codebook import Progress, learn_codebook
from .parallel import single_blas_thread
from .simd import compiled

BLOCK = 512
"""Descriptors encoded at a time: enough for the matrix product to run at full
speed, few enough for the codes to be still in cache when they are pooled."""


class CodebookEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What all encoders share; a subclass gives ``_prepare`` and ``encode``."""

    codebook_size: int
    codebook: ArrayLike | None
    random_state: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are float32 always
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.codebook_)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the codebook from descriptors, or take the one that was given.

        Parameters
        ----------
        X : array of shape (n, m)
        y : ignored

        Returns
        -------
        self
        """
        return self.fit_parallel(X)

    def fit_parallel(
        self, X: ArrayLike, n_jobs: int | None = None, progress: Progress | None = None
    ) -> Self:
        """``fit`` on several threads, the same bits for any number."""
        self.check_parameters()
        values = validate_data(self, X, dtype=np.float32)
        if self.codebook is None:
            self.codebook_ = learn_codebook(
                values, self.codebook_size, self.random_state, n_jobs, progress
            )
        else:
            self.codebook_ = check_array(self.codebook, dtype=[np.float32, np.float64], copy=True)
            if self.codebook_.shape[1] != values.shape[1]:
                raise ValueError(
                    f"codebook has {self.codebook_.shape[1]} columns, X has {values.shape[1]}"
                )
        self._prepare()
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Encode descriptors.

        Parameters
        ----------
        X : array of shape (n, m)

        Returns
        -------
        ndarray of shape (n, k), float32
        """
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        codes = np.empty((len(values), len(self.codebook_)), np.float32)
        with single_blas_thread():
            for start in range(0, len(values), BLOCK):
                rows = slice(start, start + BLOCK)
                self.encode(values[rows], codes[rows])
        return codes

    def check_parameters(self) -> None:
        """Raise where a parameter is out of range."""
        if self.codebook is None and self.codebook_size < 1:
            raise ValueError(f"a codebook has at least one atom, got {self.codebook_size}")

    def _prepare(self) -> None:
        """Derive from ``codebook_`` what ``encode`` needs."""
        raise NotImplementedError

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        """Write the codes of a block X (n, m) into codes (n, k), unchecked."""
        raise NotImplementedError


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
    are not normalised by default. Where the entries sum to a negative number
    the rule keeps the entries at or below ``epsilon / k`` of the sum; where
    they sum to 0 it keeps the non-negative ones; a zero descriptor has a zero
    code.
    """

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
        self.projection_ = _ridge_projection(self.codebook_, self.regularization)
        self.total_ = self.projection_.sum(axis=1, dtype=np.float64).astype(np.float32)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        np.matmul(X, self.projection_, out=codes)
        norms = _norms(codes) if self.normalize_codes else None
        if self.threshold > 0:
            # sum(c) = x . P'1 costs one column instead of a pass over the codes.
            share = np.float32(self.threshold / codes.shape[1])
            _truncate(codes, share * (X @ self.total_))
        if norms is not None:
            codes /= norms


def _ridge_projection(codebook: NDArray[Any], regularization: float) -> NDArray[np.float32]:
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
