"""Encoders: descriptors -> codes over a codebook."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import config
from .._support.loops import compiled, first_maximum, solve_positive
from .._support.parallel import single_blas_thread
from .kmeans import Progress, learn_codebook

BLOCK = 512
"""Descriptors encoded at a time: enough for the matrix product to run at full
speed, few enough for the codes to be still in cache when they are pooled."""


class CodebookEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What all encoders share; a subclass gives ``encode`` and what that needs."""

    codebook_size: int
    codebook: ArrayLike | None
    random_state: Any

    # What ``fit`` computes besides ``codebook_`` and a model file keeps, and its
    # shape: k atoms, m columns.
    derived: ClassVar[dict[str, str]] = {}

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
            self.codebook_ = self.learn(values, n_jobs, progress)
        else:
            self.codebook_ = check_array(self.codebook, dtype=[np.float32, np.float64], copy=True)
            if self.codebook_.shape[1] != values.shape[1]:
                raise ValueError(
                    f"codebook has {self.codebook_.shape[1]} columns, X has {values.shape[1]}"
                )
        self._prepare()
        self.ready()
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

    @property
    def learns_by_kmeans(self) -> bool:
        """Whether ``fit`` learns what :func:`learn_codebook` does, so that others may share it."""
        return self.codebook is None

    def learn(
        self, X: NDArray[np.float32], n_jobs: int | None, progress: Progress | None
    ) -> NDArray[np.float32]:
        """A codebook for the descriptors X (n, m)."""
        return learn_codebook(X, self.codebook_size, self.random_state, n_jobs, progress)

    def _prepare(self) -> None:
        """Compute what ``derived`` names from ``codebook_``."""

    def ready(self) -> None:
        """Lay out what was fitted, or loaded, as ``encode`` reads it."""

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

    derived: ClassVar = {"projection_": "mk", "total_": "m"}

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


class VQEncoder(CodebookEncoder):
    r"""Vector quantisation: one-hot at the nearest atom.

    .. math:: c_j = 1 \ \text{for}\ j = \arg\min_i \|x - d_i\|_2, \ \text{else}\ 0

    Parameters
    ----------
    codebook_size : int
        Number of atoms k that ``fit`` learns.
    codebook : array of shape (k, m) or None
        A codebook to use instead of learning one.
    random_state : int, RandomState instance or None
        Seed of the codebook.

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
    n_features_in_ : int

    Notes
    -----
    Of atoms at the same distance the first is taken.
    """

    def __init__(
        self,
        codebook_size: int = config.CODEBOOK_SIZE,
        codebook: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.codebook = codebook
        self.random_state = random_state

    def ready(self) -> None:
        self._nearness = _Nearness(self.codebook_)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        self._nearness(X, codes)
        _one_hot(codes)


class LLCEncoder(CodebookEncoder):
    r"""Locality-constrained linear coding over the nearest atoms.

    .. math:: \min_w \|x - D_x w\|_2^2 + \beta\, \mathrm{tr}(G) \|w\|_2^2
              \quad \text{s.t.}\ 1^T w = 1

    with D_x the nearest atoms and G the Gram matrix of their differences from
    x; solved by (G + beta tr(G) I) w = 1 and w / sum(w). All other entries
    are 0.

    Parameters
    ----------
    codebook_size : int
        Number of atoms k that ``fit`` learns.
    n_neighbors : int
        Atoms a descriptor is coded over.
    regularization : float
        beta, positive.
    codebook : array of shape (k, m) or None
        A codebook to use instead of learning one.
    random_state : int, RandomState instance or None
        Seed of the codebook.

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
    n_features_in_ : int

    Notes
    -----
    Candidates come from float32 products and are ranked by their distances in
    float64; the small systems are solved in float64 too. A descriptor that
    equals all its neighbours is shared among them evenly.
    """

    def __init__(
        self,
        codebook_size: int = config.CODEBOOK_SIZE,
        n_neighbors: int = config.N_NEIGHBORS,
        regularization: float = config.RIDGE,
        codebook: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.n_neighbors = n_neighbors
        self.regularization = regularization
        self.codebook = codebook
        self.random_state = random_state

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1, got {self.n_neighbors}")
        if not (np.isfinite(self.regularization) and self.regularization > 0):
            raise ValueError(f"regularization must be positive, got {self.regularization}")

    def ready(self) -> None:
        self._nearness = _Nearness(self.codebook_)
        self._atoms = self.codebook_.astype(np.float64)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        self._nearness(X, codes)
        n_neighbors = min(self.n_neighbors, len(self._atoms))
        _local_codes(X, self._atoms, n_neighbors, self.regularization, codes)


class _Nearness:
    """x'd - ||d||^2 / 2, which is the larger the nearer an atom d is.

    Measured from the atoms' mean: a difference of squares loses digits far
    from zero.
    """

    def __init__(self, codebook: NDArray[Any]) -> None:
        atoms = codebook.astype(np.float64)
        origin = atoms.mean(axis=0)
        atoms -= origin
        self._origin = origin.astype(np.float32)
        self._transposed = np.ascontiguousarray(atoms.T, dtype=np.float32)
        self._offsets = (0.5 * (atoms**2).sum(axis=1)).astype(np.float32)

    def __call__(self, X: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        np.matmul(X - self._origin, self._transposed, out=out)
        out -= self._offsets


@compiled()
def _one_hot(codes: NDArray[np.float32]) -> None:
    """Replace each row by 1 at its first maximum and 0 elsewhere: three passes in cache."""
    for i in range(codes.shape[0]):
        code = codes[i]
        nearest = first_maximum(code)
        code[:] = 0
        code[nearest] = 1


@compiled("reassoc", "contract")
def _local_codes(
    X: NDArray[np.float32],
    atoms: NDArray[np.float64],
    n_neighbors: int,
    regularization: float,
    codes: NDArray[np.float32],
) -> None:
    """Replace nearness to each atom (n, k) by LLC codes.

    k comparisons, 8 distances and 15 products of length m, and a 5 x 5 system
    for each descriptor (5 neighbours).
    """
    k, m = atoms.shape
    # A few more than needed: rounding may have changed places among equals.
    n_candidates = min(k, n_neighbors + 3)
    nearness = np.empty(n_candidates, np.float32)
    candidates = np.empty(n_candidates, np.int64)
    distances, order = np.empty(n_candidates), np.empty(n_candidates, np.int64)
    differences = np.empty((n_candidates, m))
    system, weights = np.empty((n_neighbors, n_neighbors)), np.empty(n_neighbors)
    for i in range(X.shape[0]):
        code, x = codes[i], X[i]
        found = 0
        for j in range(k):
            if found < n_candidates or code[j] > nearness[found - 1]:
                place = found if found < n_candidates else found - 1
                while place > 0 and nearness[place - 1] < code[j]:
                    nearness[place] = nearness[place - 1]
                    candidates[place] = candidates[place - 1]
                    place -= 1
                nearness[place] = code[j]
                candidates[place] = j
                found = min(found + 1, n_candidates)
        for c in range(n_candidates):
            difference, atom = differences[c], atoms[candidates[c]]
            for t in range(m):
                difference[t] = atom[t] - x[t]
            distances[c] = _dot(difference, difference)
            place = c
            while place > 0 and distances[order[place - 1]] > distances[c]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = c
        trace = 0.0
        for a in range(n_neighbors):
            for b in range(a):
                system[a, b] = _dot(differences[order[a]], differences[order[b]])
            system[a, a] = distances[order[a]]
            trace += system[a, a]
        code[:] = 0
        if trace > 0:
            for a in range(n_neighbors):
                system[a, a] += regularization * trace
                weights[a] = 1
            solve_positive(system, weights, n_neighbors)
        else:
            weights[:] = 1
        total = weights.sum()
        for a in range(n_neighbors):
            code[candidates[order[a]]] = np.float32(weights[a] / total)


@compiled("reassoc", "contract", inline=True)
def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    total = 0.0
    for t in range(a.size):
        total += a[t] * b[t]
    return total
