"""Gaussian mixtures: how likely each atom made a descriptor (Fisher vectors)."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.loops import compiled, first_maximum
from .._support.parallel import ordered_map, single_blas_thread
from .base import Encoder
from .kmeans import Progress, kmeans

_MAX_ITER = 50
_TOL = 1e-2
# Rows per task and per matrix product: fixed, so that sums are formed in the
# same order for any number of threads.
_TASK = 8192
_BLOCK = 512


class Mixture(NamedTuple):
    """Shares (k,), means (k, m) and standard deviations (k, m) of Gaussians."""

    shares: NDArray[Any]
    means: NDArray[Any]
    deviations: NDArray[Any]


class MixtureEncoder(Encoder):
    r"""Posteriors of a mixture of Gaussians with diagonal covariances.

    .. math:: p_j = \pi_j \, N(x; \mu_j, \sigma_j^2), \qquad
              q_j \propto p_j \ \text{if}\ p_j \ge \tau \max_i p_i, \ \text{else}\ 0

    and codes q sum to 1. The mixture is fitted by expectation maximization from
    the clusters of k-means, up to 50 iterations; it stops early when one raises
    the mean log-likelihood by less than 0.01. Pooled by
    :class:`~lrrspm.pooling.MomentPooling`, the codes make the Fisher vector.

    Parameters
    ----------
    codebook_size : int
        Number of Gaussians k.
    survivors : float
        tau, in [0, 1]: posteriors below this share of the largest become 0, so
        that moments have few terms.
    random_state : int, RandomState instance or None
        Seed of k-means.

    Attributes
    ----------
    shares_ : ndarray of shape (k,), float32
        pi.
    means_ : ndarray of shape (k, m), float32
        mu.
    deviations_ : ndarray of shape (k, m), float32
        sigma.
    n_features_in_ : int

    Notes
    -----
    VLFeat sets posteriors below 1e-4 to 0 and leaves the others as they are.
    Variances are at least a hundredth of the sample's, and a Gaussian with less
    than one descriptor keeps its place and has the share of one.

    scikit-learn's ``GaussianMixture`` takes the same steps in float64, with
    several matrices of n k numbers in memory.
    """

    derived: ClassVar[dict[str, str]] = {"shares_": "k", "means_": "km", "deviations_": "km"}
    pooled_by: ClassVar[str | None] = "MomentPooling"
    shares_: NDArray[np.float32]
    means_: NDArray[np.float32]
    deviations_: NDArray[np.float32]

    def __init__(
        self,
        codebook_size: int = config.WEIGHT_ATOMS,
        survivors: float = config.POSTERIORS,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.survivors = survivors
        self.random_state = random_state

    @property
    def n_atoms(self) -> int:
        """Gaussians in the mixture, k."""
        return len(self.means_)

    def check_parameters(self) -> None:
        if self.codebook_size < 1:
            raise ValueError(f"codebook_size must be at least 1, got {self.codebook_size}")
        if not 0 <= self.survivors <= 1:
            raise ValueError(f"survivors must be from 0 to 1, got {self.survivors}")

    def learn_from(
        self, X: NDArray[np.float32], executor: Executor | None, progress: Progress | None
    ) -> None:
        first, second = _halves(progress)
        centers = kmeans(X, self.codebook_size, self.random_state, executor, first)
        mixture = fit_mixture(X, centers, executor, second)
        self.shares_, self.means_, self.deviations_ = (a.astype(np.float32) for a in mixture)

    def ready(self) -> None:
        self._posteriors = Posteriors(self.moments())

    def moments(self) -> Mixture:
        return Mixture(self.shares_, self.means_, self.deviations_)

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        self._posteriors(self._posteriors.powers(X), codes, self.survivors)


def _halves(progress: Progress | None) -> tuple[Progress | None, Progress | None]:
    """Return listeners of two steps after another, so that a bar fills once."""
    if progress is None:
        return None, None
    return (
        lambda done, total: progress(done, 2 * total),
        lambda done, total: progress(total + done, 2 * total),
    )


class Posteriors:
    """log(pi N(x; mu, sigma^2)) of all Gaussians as one product, then their softmax.

    Measured from the mean of the means, because squares lose digits far from zero.

    Attributes
    ----------
    origin : ndarray of shape (m,), float32
    """

    def __init__(self, mixture: Mixture) -> None:
        shares, means, deviations = (array.astype(np.float64) for array in mixture)
        self.origin: NDArray[np.float32] = means.mean(axis=0).astype(np.float32)
        with np.errstate(all="ignore"):  # what overflows is refused below
            away, precisions = means - self.origin, deviations**-2.0
            factors = np.vstack([(away * precisions).T, -0.5 * precisions.T])
            spread = np.log(2 * np.pi * deviations**2) + away**2 * precisions
            constants = np.log(shares) - 0.5 * spread.sum(axis=1)
            self._factors = np.ascontiguousarray(factors, np.float32)
            self._constants = constants.astype(np.float32)
        if not (np.isfinite(self._factors).all() and np.isfinite(self._constants).all()):
            raise ValueError("shares and deviations of Gaussians must be positive")

    def powers(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return x - origin and its square side by side, (n, 2m)."""
        out = np.empty((len(X), 2 * X.shape[1]), np.float32)
        _powers(X, self.origin, out)
        return out

    def __call__(
        self, powers: NDArray[np.float32], codes: NDArray[np.float32], survivors: float
    ) -> float:
        """Write posteriors (n, k); returns the log-likelihood of all rows.

        4 n k m operations in the product, and n k exponentials.
        """
        np.matmul(powers, self._factors, out=codes)
        likelihood = _below_largest(codes, self._constants)
        np.exp(codes, out=codes)
        return likelihood + _share(codes, np.float32(survivors))


def fit_mixture(
    values: NDArray[np.float32],
    centers: NDArray[np.float32],
    executor: Executor | None = None,
    progress: Progress | None = None,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> Mixture:
    """Fit Gaussians to descriptors (n, m), starting from centers (k, m) of k-means."""
    variances = values.var(axis=0, dtype=np.float64)
    least = 1e-6 + 1e-2 * variances
    k = len(centers)
    equal = np.full(centers.shape, math.sqrt(variances.mean() + 1e-6))
    mixture = Mixture(np.full(k, 1 / k), centers.astype(np.float64), equal)
    before = -np.inf
    with single_blas_thread():
        # Equal Gaussians, the most likely one alone: the clusters of k-means.
        mixture, _ = improve(values, mixture, least, executor, survivors=1)
        for iteration in range(1, max_iter + 1):
            mixture, likelihood = improve(values, mixture, least, executor)
            if progress is not None:
                progress(iteration, max_iter)
            if likelihood - before < tol:
                break
            before = likelihood
    if progress is not None:
        progress(max_iter, max_iter)
    return mixture


def improve(
    values: NDArray[np.float32],
    mixture: Mixture,
    least: NDArray[np.float64],
    executor: Executor | None,
    survivors: float = 0,
) -> tuple[Mixture, float]:
    """One step of expectation maximization; returns the old mean log-likelihood, too.

    8 n k m operations in two products: posteriors from powers, sums of powers
    from posteriors. ``least`` (m,) are the smallest variances.
    """
    k, m = mixture.means.shape
    posteriors = Posteriors(mixture)

    def sum_up(start: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        counts, sums, likelihood = np.zeros(k), np.zeros((k, 2 * m)), 0.0
        codes = np.empty((_BLOCK, k), np.float32)
        for first in range(start, min(start + _TASK, len(values)), _BLOCK):
            powers = posteriors.powers(values[first : first + _BLOCK])
            shares = codes[: len(powers)]
            likelihood += posteriors(powers, shares, survivors)
            counts += shares.sum(axis=0, dtype=np.float64)
            sums += shares.T @ powers
        return counts, sums, likelihood

    counts, sums, likelihood = np.zeros(k), np.zeros((k, 2 * m)), 0.0
    for part in ordered_map(sum_up, range(0, len(values), _TASK), executor):
        counts += part[0]
        sums += part[1]
        likelihood += part[2]

    alive = counts >= 1
    means, deviations = mixture.means.copy(), mixture.deviations.copy()
    mean = sums[alive] / counts[alive, None]
    means[alive] = posteriors.origin + mean[:, :m]
    deviations[alive] = np.sqrt(np.maximum(mean[:, m:] - mean[:, :m] ** 2, least))
    counts = np.maximum(counts, 1)
    return Mixture(counts / counts.sum(), means, deviations), likelihood / len(values)


@compiled()
def _powers(X: NDArray[np.float32], origin: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    m = origin.size
    for i in range(X.shape[0]):
        for t in range(m):
            away = X[i, t] - origin[t]
            out[i, t] = away
            out[i, m + t] = away * away


@compiled()
def _below_largest(codes: NDArray[np.float32], constants: NDArray[np.float32]) -> float:
    """Add constants and subtract each row's maximum, in place; returns the maxima's sum."""
    total = 0.0
    for i in range(codes.shape[0]):
        code = codes[i]
        for j in range(code.size):
            code[j] += constants[j]
        largest = code[first_maximum(code)]
        for j in range(code.size):
            code[j] -= largest
        total += largest
    return total


@compiled("reassoc")
def _share(codes: NDArray[np.float32], survivors: np.float32) -> float:
    """Divide rows by their sums, entries below survivors being 0; returns the sums' logarithms.

    The likelihood is that of all entries, the divisor that of those that are left.
    """
    logarithms = 0.0
    for i in range(codes.shape[0]):
        code = codes[i]
        total, left = np.float32(0), np.float32(0)
        for j in range(code.size):
            total += code[j]
            code[j] = code[j] if code[j] >= survivors else np.float32(0)
            left += code[j]
        logarithms += math.log(total)
        scale = np.float32(1) / left
        for j in range(code.size):
            code[j] *= scale
    return logarithms
