"""Low-rank weights: which atoms explain a descriptor, and how much (LrrFV)."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import config
from .._support.loops import compiled
from .base import CodebookEncoder
from .kmeans import Progress
from .lrr import ridge_projection


class LRRWeightEncoder(CodebookEncoder):
    r"""Low-rank codes turned into weights: a few atoms share each descriptor.

    .. math:: z = \max\big(0, (A^T A / s + \lambda I)^{-1} (A / s)^T (x, o)\big), \qquad
              q_j \propto z_j^p \ \text{if}\ z_j \ge \tau \max_i z_i, \ \text{else}\ 0

    with the constant o, the mean norm of the training descriptors, appended to
    atoms A and descriptor x, so that nearness counts and not only direction, and
    s the mean squared norm of the atoms. Weights sum to 1; where no entry is
    positive, the largest one has it all.

    Parameters
    ----------
    codebook_size : int
        Number of atoms k that ``fit`` learns.
    regularization : float
        lambda, positive.
    survivors : float
        tau, in (0, 1]: entries below this share of the largest become 0.
    power : float
        p, positive.
    codebook : array of shape (k, m) or None
        A codebook to use instead of learning one.
    random_state : int, RandomState instance or None
        Seed of the codebook.

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
    projection_ : ndarray of shape (m, k), float32
    offset_ : ndarray of shape (k,), float32
        What the constant adds to each entry of z.
    n_features_in_ : int
    """

    derived: ClassVar[dict[str, str]] = {"codebook_": "km", "projection_": "mk", "offset_": "k"}
    pooled_by: ClassVar[str | None] = "MomentPooling"

    def __init__(
        self,
        codebook_size: int = config.WEIGHT_ATOMS,
        regularization: float = config.WEIGHT_REGULARIZATION,
        survivors: float = config.SURVIVORS,
        power: float = config.WEIGHT_POWER,
        codebook: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.regularization = regularization
        self.survivors = survivors
        self.power = power
        self.codebook = codebook
        self.random_state = random_state

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("regularization", "power"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value}")
        if not 0 < self.survivors <= 1:
            raise ValueError(f"survivors must be above 0 and at most 1, got {self.survivors}")

    def learn_from(
        self, X: NDArray[np.float32], executor: Executor | None, progress: Progress | None
    ) -> None:
        super().learn_from(X, executor, progress)
        constant = float(np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64)).mean())
        atoms = np.hstack(
            [self.codebook_.astype(np.float64), np.full((len(self.codebook_), 1), constant)]
        )
        scale = np.einsum("ij,ij->", atoms, atoms) / len(atoms) or 1.0
        projection = ridge_projection(atoms / np.sqrt(scale), self.regularization)
        projection /= np.float32(np.sqrt(scale))
        self.projection_: NDArray[np.float32] = np.ascontiguousarray(projection[:-1])
        self.offset_: NDArray[np.float32] = projection[-1] * np.float32(constant)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        np.matmul(X, self.projection_, out=codes)
        _weigh(codes, self.offset_, np.float32(self.survivors), np.float32(self.power))


@compiled("contract", "reassoc")
def _weigh(
    codes: NDArray[np.float32],
    offset: NDArray[np.float32],
    survivors: np.float32,
    power: np.float32,
) -> None:
    """Turn products into weights, in place: four passes over k entries in cache.

    Floats above 0 have the order of their bits, and a maximum of integers is
    vectorized where one of floats is not.
    """
    zero, one, two = np.float32(0), np.float32(1), np.float32(2)
    integers = codes.view(np.int32)
    for i in range(codes.shape[0]):
        code, bits = codes[i], integers[i]
        for j in range(code.size):
            code[j] += offset[j]
        top = np.int32(0)
        for j in range(bits.size):
            top = max(top, bits[j])
        if top == 0:
            place = 0
            for j in range(code.size):
                place = j if code[j] > code[place] else place
            code[:] = 0
            code[place] = one
            continue
        largest = np.int32(top).view(np.float32)
        limit, scale = survivors * largest, one / largest
        total = zero
        if power == two:
            for j in range(code.size):
                share = code[j] * scale if code[j] >= limit else zero
                code[j] = share * share
                total += code[j]
        else:
            for j in range(code.size):
                code[j] = (code[j] * scale) ** power if code[j] >= limit else zero
                total += code[j]
        scale = one / total
        for j in range(code.size):
            code[j] *= scale
