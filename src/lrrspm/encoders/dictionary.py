"""Dictionaries for sparse coding: alternating codes and least squares."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from .. import config
from .._support.parallel import ordered_map, single_blas_thread
from .kmeans import Progress, kmeans
from .sparse import gram_of, sparse_codes, unit_rows

_TASK = 2048  # descriptors per task, fixed: the same sums for any number of threads
_MAX_ITER = 50
_TOL = 1e-3


def learn_dictionary(
    descriptors: ArrayLike,
    size: int,
    sparsity: float = config.SPARSITY,
    ridge: float = config.RIDGE,
    random_state: Any = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    r"""Learn a dictionary for sparse coding.

    .. math:: \min_{B, S} \sum_i \tfrac12 \|x_i - B^T s_i\|_2^2 + \gamma \|s_i\|_1
              + \beta \|s_i\|_2^2, \qquad \|b_j\| \le 1

    Alternates exact codes and a pass of block coordinate descent over the
    atoms, starting from k-means centers of unit norm, until an alternation
    lowers the objective by less than a thousandth, at most 50 times. An atom
    that no code uses is replaced by a random descriptor.

    Returns
    -------
    ndarray of shape (k, m), float32
        Atoms scaled to unit norm in the end, also where the minimizer's are
        shorter (an atom of zeros stays zero).
    """
    if not (sparsity > 0 and ridge > 0):
        raise ValueError(f"sparsity and ridge must be positive, got {sparsity} and {ridge}")
    values = check_array(descriptors, dtype=np.float32, order="C")
    rng = check_random_state(random_state)
    atoms = unit_rows(kmeans(values, size, rng, executor).astype(np.float64))
    before = np.inf
    with single_blas_thread():
        for iteration in range(1, _MAX_ITER + 1):
            codes = _all_codes(values, atoms, sparsity, ridge, executor)
            objective = _objective(values, atoms, codes, sparsity, ridge)
            if progress is not None:
                progress(iteration, _MAX_ITER)
            if before - objective <= _TOL * objective:
                break
            before = objective
            atoms = _update_atoms(values, atoms, codes, rng)
    if progress is not None:
        progress(_MAX_ITER, _MAX_ITER)
    return unit_rows(atoms).astype(np.float32)


def _all_codes(
    values: NDArray[np.float32],
    atoms: NDArray[np.float64],
    sparsity: float,
    ridge: float,
    executor: Executor | None,
) -> scipy.sparse.csr_array:
    gram = gram_of(atoms, ridge).astype(np.float32)
    transposed = np.ascontiguousarray(atoms.T, dtype=np.float32)
    penalties = np.full(len(atoms), sparsity, np.float32)

    def code(start: int) -> scipy.sparse.csr_array:
        products = values[start : start + _TASK] @ transposed
        codes = np.empty_like(products)
        sparse_codes(gram, products, penalties, len(penalties), codes)
        return scipy.sparse.csr_array(codes)

    parts = list(ordered_map(code, range(0, len(values), _TASK), executor))
    return scipy.sparse.vstack(parts, format="csr").astype(np.float64)


def _objective(
    values: NDArray[np.float32],
    atoms: NDArray[np.float64],
    codes: scipy.sparse.csr_array,
    sparsity: float,
    ridge: float,
) -> float:
    error = sum(
        float(((values[i : i + _TASK] - codes[i : i + _TASK] @ atoms) ** 2).sum())
        for i in range(0, len(values), _TASK)
    )
    return error / 2 + sparsity * float(abs(codes).sum()) + ridge * float((codes**2).sum())


def _update_atoms(
    values: NDArray[np.float32],
    atoms: NDArray[np.float64],
    codes: scipy.sparse.csr_array,
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    """One pass of block coordinate descent over the atoms."""
    atoms = atoms.copy()
    second = (codes.T @ codes).toarray()
    cross = codes.T @ values.astype(np.float64)
    for j in range(len(atoms)):
        if second[j, j] == 0:
            atoms[j] = values[rng.randint(len(values))]
        else:
            atoms[j] += (cross[j] - second[j] @ atoms) / second[j, j]
        norm = np.linalg.norm(atoms[j])
        if norm > 1 or (second[j, j] == 0 and norm > 0):
            atoms[j] /= norm
    return atoms
