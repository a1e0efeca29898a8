"""Locality-constrained linear coding: a few nearest atoms."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled, solve_positive
from .base import CodebookEncoder
from .vq import Nearness


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
    equals all its neighbors is shared among them evenly.
    """

    pooled_by: ClassVar[str | None] = "SignedMaxPooling"

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
        self._nearness = Nearness(self.codebook_)
        self._atoms = self.codebook_.astype(np.float64)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        self._nearness(X, codes)
        n_neighbors = min(self.n_neighbors, len(self._atoms))
        _local_codes(X, self._atoms, n_neighbors, self.regularization, codes)


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
    for each descriptor (5 neighbors).
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
