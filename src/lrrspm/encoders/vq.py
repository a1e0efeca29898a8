"""Vector quantization: the nearest atom."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled, first_maximum
from .base import CodebookEncoder


class VQEncoder(CodebookEncoder):
    r"""Vector quantization: one-hot at the nearest atom.

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

    pooled_by: ClassVar[str | None] = "HistogramPooling"

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
        self._nearness = Nearness(self.codebook_)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        self._nearness(X, codes)
        _one_hot(codes)


class Nearness:
    """x'd - ||d||^2 / 2: largest for the nearest atom d.

    Measured from the atoms' mean, because a difference of squares loses digits
    far from zero.
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
