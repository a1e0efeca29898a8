"""Sparse coding: the exact minimizer."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled, first_maximum, solve_positive
from .._support.parallel import single_blas_thread
from .base import CodebookEncoder
from .kmeans import Progress


class SparseEncoder(CodebookEncoder):
    r"""Sparse coding (ScSPM).

    .. math:: \min_s \tfrac12 \|x - B^T s\|_2^2 + \gamma \|s\|_1 + \beta \|s\|_2^2

    over a codebook B of unit-norm atoms, solved exactly.

    Parameters
    ----------
    codebook_size : int
        Number of atoms k that ``fit`` learns.
    sparsity : float
        gamma, positive. (The paper's equation 2.3 has twice this value, its
        first term twice ours.)
    ridge : float
        beta, positive.
    n_neighbors : int or None
        Use only this many nearest atoms for each descriptor: an approximation
        that the original program offers (with 200). None uses all.
    dictionary : {"kmeans", "sparse"}
        How ``fit`` learns the codebook: k-means, its centers scaled to unit
        norm, or alternating sparse codes and least squares with atoms of norm
        at most 1 (see :func:`learn_dictionary`).
    codebook : array of shape (k, m) or None
        A codebook to use instead of learning one; it is scaled to unit norm.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
        Unit-norm atoms (an atom of zeros stays zero).
    gram_ : ndarray of shape (k, k)
        B B' + 2 beta I.
    n_features_in_ : int

    Notes
    -----
    The original program stops feature-sign search when its conditions hold;
    so do we, to about 1e-6 of the largest correlation. Coordinate descent on
    the atom that violates its condition most proposes a support and signs,
    a small linear system solves for the values on it, and whatever changes
    sign on the way there is dropped; both only ever lower the objective. The
    time grows with the number of atoms that a code uses: the method is for
    codes of few atoms, as those of descriptors of norm 1 are.
    """

    derived: ClassVar[dict[str, str]] = {"codebook_": "km", "gram_": "kk"}
    pooled_by: ClassVar[str | None] = "MaxPooling"

    def __init__(
        self,
        codebook_size: int = config.CODEBOOK_SIZE,
        sparsity: float = config.SPARSITY,
        ridge: float = config.RIDGE,
        n_neighbors: int | None = None,
        dictionary: str = "kmeans",
        codebook: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.sparsity = sparsity
        self.ridge = ridge
        self.n_neighbors = n_neighbors
        self.dictionary = dictionary
        self.codebook = codebook
        self.random_state = random_state

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("sparsity", "ridge"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value}")
        if self.dictionary not in ("kmeans", "sparse"):
            raise ValueError(f"dictionary must be 'kmeans' or 'sparse', got {self.dictionary!r}")
        if self.n_neighbors is not None and self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1, got {self.n_neighbors}")

    @property
    def shares_codebook(self) -> bool:
        """True where the dictionary is that of k-means; scaling comes after sharing."""
        return self.dictionary == "kmeans" and type(self).learn is SparseEncoder.learn

    def learn(
        self, X: NDArray[np.float32], executor: Executor | None, progress: Progress | None
    ) -> NDArray[np.float32]:
        """Learn a codebook by k-means or, if asked for, a dictionary for sparse codes."""
        if self.dictionary == "kmeans":
            return super().learn(X, executor, progress)
        from .dictionary import learn_dictionary

        return learn_dictionary(
            X, self.codebook_size, self.sparsity, self.ridge, self.random_state, executor, progress
        )

    def _prepare(self) -> None:
        self.codebook_: NDArray[Any] = unit_rows(self.codebook_)
        self.gram_: NDArray[np.float64] = gram_of(self.codebook_, self.ridge)

    def ready(self) -> None:
        self._atoms = self.codebook_.astype(np.float64)
        self._transposed = np.ascontiguousarray(self.codebook_.T, dtype=np.float32)
        self._single_gram = self.gram_.astype(np.float32)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        products = X @ self._transposed
        penalties = np.full(products.shape[1], self.sparsity, np.float32)
        n_neighbors = min(self.n_neighbors or len(penalties), len(penalties))
        sparse_codes(self._single_gram, products, penalties, n_neighbors, codes)
        _refine(X, self._atoms, self.gram_, self.sparsity, codes)


def unit_rows(atoms: NDArray[Any]) -> NDArray[Any]:
    norms = np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.divide(atoms, norms, out=np.zeros_like(atoms), where=norms > 0)


def gram_of(atoms: NDArray[Any], ridge: float) -> NDArray[np.float64]:
    exact = atoms.astype(np.float64)
    with single_blas_thread():
        return exact @ exact.T + 2 * ridge * np.eye(len(atoms))


@compiled()
def sparse_codes(
    gram: NDArray[np.float32],
    products: NDArray[np.float32],
    penalties: NDArray[np.float32],
    n_neighbors: int,
    codes: NDArray[np.float32],
) -> None:
    """Sparse codes (n, k) from products with the atoms (n, k).

    About ten operations an atom for each of the handful of atoms that a code
    uses, and a handful of solutions of systems of that size.
    """
    n, k = products.shape
    support, system, values = np.empty(k, np.int64), np.empty((k, k)), np.empty(k)
    gradient, violation = np.empty(k, np.float32), np.empty(k, np.float32)
    penalty = penalties.copy()
    for i in range(n):
        code, product = codes[i], products[i]
        code[:] = 0
        gradient[:] = product
        largest = np.float32(0)
        for j in range(k):
            largest = max(largest, abs(product[j]))
        tol = np.float32(1e-6) * largest
        if n_neighbors < k:
            # Of atoms with one norm the nearest have the largest products.
            order = np.argsort(-product)
            penalty[order[:n_neighbors]] = penalties[order[:n_neighbors]]
            penalty[order[n_neighbors:]] = np.float32(1e30)
        for _ in range(k + 100):  # far more than it takes; rounding must not hold it for ever
            if _descend(gram, gradient, code, penalty, tol, violation) == 0:
                break
            _solve_on_support(gram, product, gradient, code, penalty, support, system, values)


@compiled()
def _descend(
    gram: NDArray[np.float32],
    gradient: NDArray[np.float32],
    code: NDArray[np.float32],
    penalty: NDArray[np.float32],
    tol: np.float32,
    violation: NDArray[np.float32],
) -> int:
    """Up to three steps of coordinate descent, largest violation first; how many it made.

    gradient is products - gram code, kept up to date.
    """
    zero, one = np.float32(0), np.float32(1)
    for step in range(3):
        for j in range(code.size):
            # How far each coordinate is from its optimality condition.
            sign = one if code[j] > zero else (-one if code[j] < zero else zero)
            slack = penalty[j] if code[j] == zero else zero
            violation[j] = abs(gradient[j] - sign * penalty[j]) - slack
        best = first_maximum(violation)
        if violation[best] <= tol:
            return step
        target = gradient[best] + gram[best, best] * code[best]
        new = zero
        if target > penalty[best]:
            new = (target - penalty[best]) / gram[best, best]
        elif target < -penalty[best]:
            new = (target + penalty[best]) / gram[best, best]
        change = new - code[best]
        code[best] = new
        row = gram[best]
        for j in range(code.size):
            gradient[j] -= change * row[j]
    return 3


@compiled(inline=True)
def _find_support(code: NDArray[np.float32], support: NDArray[np.int64]) -> int:
    """Write the places of the entries that are not 0 into support; how many there are."""
    size = 0
    for j in range(code.size):
        if code[j] != 0:
            support[size] = j
            size += 1
    return size


@compiled()
def _solve_on_support(
    gram: NDArray[np.float32],
    product: NDArray[np.float32],
    gradient: NDArray[np.float32],
    code: NDArray[np.float32],
    penalty: NDArray[np.float32],
    support: NDArray[np.int64],
    system: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    """Move the code to the best one with its support and signs.

    Where an entry would change its sign on the way there, stop, drop it, and
    go on with the rest.
    """
    size = _find_support(code, support)
    while size > 0:
        for i in range(size):
            a = support[i]
            sign = 1.0 if code[a] > 0 else -1.0
            values[i] = np.float64(product[a]) - sign * np.float64(penalty[a])
            for j in range(i + 1):
                system[i, j] = gram[a, support[j]]
        solve_positive(system, values, size)
        share = 1.0
        for i in range(size):
            old = np.float64(code[support[i]])
            if old * values[i] <= 0:
                share = min(share, old / (old - values[i]))
        kept = 0
        for i in range(size):
            a = support[i]
            old = np.float64(code[a])
            crosses = old * values[i] <= 0 and old / (old - values[i]) <= share
            code[a] = 0 if crosses else np.float32(old + share * (values[i] - old))
            if code[a] != 0:
                support[kept] = a
                kept += 1
        size = kept
        if share == 1:
            break
    gradient[:] = product
    for i in range(size):
        value, row = code[support[i]], gram[support[i]]
        for j in range(code.size):
            gradient[j] -= value * row[j]


@compiled("reassoc", "contract")
def _refine(
    X: NDArray[np.float32],
    atoms: NDArray[np.float64],
    gram: NDArray[np.float64],
    sparsity: float,
    codes: NDArray[np.float32],
) -> None:
    """Solve once more for the values on each code's support, all in float64.

    Similar atoms make the system ill-conditioned, so that the rounding of
    products in float32 would show in the fifth digit of a code. m operations
    for each atom that a code uses.
    """
    k, m = atoms.shape
    support, system, values = np.empty(k, np.int64), np.empty((k, k)), np.empty(k)
    for i in range(codes.shape[0]):
        code, x = codes[i], X[i]
        size = _find_support(code, support)
        for a in range(size):
            atom = atoms[support[a]]
            total = 0.0
            for t in range(m):
                total += atom[t] * x[t]
            values[a] = total - (sparsity if code[support[a]] > 0 else -sparsity)
            for b in range(a + 1):
                system[a, b] = gram[support[a], support[b]]
        solve_positive(system, values, size)
        for a in range(size):
            if values[a] * code[support[a]] > 0:  # rounding may not change a sign
                code[support[a]] = np.float32(values[a])
