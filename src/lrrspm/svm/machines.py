"""Support vector machines: one-vs-rest, squared hinge, many classes at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from .. import config
from .._support.parallel import single_blas_thread, workers
from .dual import Floats, GramProducts, LinearProducts, Products, gram_matrix, solve_dual
from .kernels import KERNELS, intersection_weights, kernel_matrix


class LinearSVM(ClassifierMixin, BaseEstimator):
    r"""Linear support vector machine, one against the rest.

    .. math:: \min_w \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i w^T x_i)^2

    Parameters
    ----------
    C : float
        Penalty of margin violations, positive.
    fit_intercept : bool
        Add a constant 1 to every sample (so the intercept is penalised too).
    tol : float
        A class is done when primal and dual objective differ by less than
        this share of the primal one. In float32 about 1e-6 is the limit.
    max_iter : int
        Passes over the samples; a warning says when they did not suffice.
    n_jobs : int or None
        Threads, for the Gram matrix and for groups of 128 classes; the result
        has the same bits for any number.
    random_state : int, RandomState instance or None
        Seed of the order in which samples are visited.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, d), or (1, d) for two classes
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    n_iter_ : int
        Passes of the slowest class.
    n_features_in_ : int

    Notes
    -----
    Dual coordinate descent in random blocks. Inside a block of 64 samples
    the coordinates of all classes are updated one after the other on the
    block's own Gram matrix, in cache; what the block changes elsewhere is one
    matrix product. With at most as many samples as dimensions n <= d the
    Gram matrix of all samples is made once (n^2 d) and serves every class: a
    pass is n^2 products a class. With more samples it is never made, and a
    pass is 2 n d products a class. Computed in float32 if X is, else in float64.

    As with every dual coordinate descent, samples of norm 1 need tens of
    passes, and unscaled or strongly correlated columns with n > d thousands.
    """

    # What a model file keeps, and its shape: c classes, d columns.
    derived: ClassVar[dict[str, str]] = {"coef_": "cd", "intercept_": "c"}

    def __init__(
        self,
        C: float = config.C,
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, d) and labels y (n,)."""
        self.check_parameters()
        samples, labels = validate_data(self, X, y, dtype=[np.float32, np.float64], order="C")
        self.classes_, indices = encode_labels(labels)
        signs = one_vs_rest(indices, len(self.classes_), samples.dtype)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self.fit_intercept:
            samples = np.hstack([samples, np.ones((len(samples), 1), samples.dtype)])
        with workers(self.n_jobs) as executor:
            products: Callable[[], Products]
            if len(samples) <= samples.shape[1]:
                products = partial(GramProducts, gram_matrix(samples, executor))
            else:
                products = partial(LinearProducts, samples)
            alphas, self.n_iter_ = solve_dual(
                products, signs, self.C, self.tol, self.max_iter, seed, executor
            )
            weights = (alphas * signs) @ samples
        self.coef_ = weights[:, : self.n_features_in_].copy()
        constant = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        self.intercept_ = constant.astype(weights.dtype)
        return self

    def check_parameters(self) -> None:
        """Raise where a parameter is out of range."""
        _check_solver(self.C, self.tol, self.max_iter)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores, (n, n_classes), or (n,) for two classes (positive: the second)."""
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=[np.float32, np.float64], order="C", reset=False)
        with single_blas_thread():
            scores = samples @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the largest score of each row, (n,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def weights_at(self, x: Floats, row: int) -> tuple[NDArray[Any], float]:
        """Weights (d,) and a constant: the score of x is their product with x, plus that."""
        return self.coef_[row], float(self.intercept_[row])


class KernelSVM(ClassifierMixin, BaseEstimator):
    r"""Kernel support vector machine, one against the rest, without intercept.

    .. math:: \min_{\beta} \tfrac12 \beta^T K \beta
              + C \sum_i \max(0, 1 - y_i (K \beta)_i)^2

    Parameters
    ----------
    kernel : {"intersection", "chi2", "precomputed"} or callable
        "intersection" is the sum of minima and "chi2" the sum of
        2xy / (x + y), both for non-negative vectors, computed in float32. A
        callable gets X (n, d) and Y (p, d) and returns (n, p). "precomputed"
        takes Gram matrices for X: (n, n) to fit, (m, n) to predict.
    C : float
        Penalty of margin violations, positive. Nothing is scaled: a unit
        diagonal gives C the meaning it has for vectors of norm 1.
    tol, max_iter, n_jobs, random_state
        See :class:`lrrspm.LinearSVM`, whose solver this is.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_support,)
        Indices of the training samples that any class uses.
    support_vectors_ : ndarray of shape (n_support, d)
        Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_classes, n_support), or (1, n_support)
    n_iter_ : int
    n_features_in_ : int
    """

    # As in LinearSVM, with s support vectors.
    derived: ClassVar[dict[str, str]] = {"support_vectors_": "sd", "dual_coef_": "cs"}

    def __init__(
        self,
        kernel: str | Callable[[Any, Any], Any] = "intersection",
        C: float = config.C,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.kernel in KERNELS
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def check_parameters(self) -> None:
        """Raise where a parameter is out of range."""
        _check_solver(self.C, self.tol, self.max_iter)
        names = [*KERNELS, "precomputed"]
        if not (callable(self.kernel) or self.kernel in names):
            raise ValueError(
                f"kernel must be callable or one of {', '.join(names)}, got {self.kernel!r}"
            )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on X (n, d), or on a Gram matrix (n, n), and labels y (n,)."""
        self.check_parameters()
        samples, labels = validate_data(self, X, y, dtype=[np.float32, np.float64], order="C")
        if self.kernel == "precomputed" and samples.shape[0] != samples.shape[1]:
            raise ValueError(f"a precomputed kernel is a square matrix, got {samples.shape}")
        self.classes_, indices = encode_labels(labels)
        seed = int(check_random_state(self.random_state).randint(2**31))
        gram = self._compute(samples, samples)
        signs = one_vs_rest(indices, len(self.classes_), gram.dtype)
        with workers(self.n_jobs) as executor:
            alphas, self.n_iter_ = solve_dual(
                partial(GramProducts, gram), signs, self.C, self.tol, self.max_iter, seed, executor
            )
        self.support_ = np.flatnonzero(alphas.any(axis=0))
        self.dual_coef_ = np.ascontiguousarray((alphas * signs)[:, self.support_])
        vectors = samples[:0] if self.kernel == "precomputed" else samples[self.support_]
        self.support_vectors_ = vectors.astype(np.float32) if self.kernel in KERNELS else vectors
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores, (n, n_classes), or (n,) for two classes (positive: the second)."""
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=[np.float32, np.float64], order="C", reset=False)
        if self.kernel == "precomputed":
            gram = samples[:, self.support_]
        else:
            gram = self._compute(samples, self.support_vectors_)
        with single_blas_thread():
            # Large coefficients of both signs nearly cancel; float64 keeps what is left.
            scores = gram.astype(np.float64) @ self.dual_coef_.T.astype(np.float64)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the largest score of each row, (n,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def weights_at(self, x: Floats, row: int) -> tuple[NDArray[Any], float]:
        """As in LinearSVM, for the intersection kernel; they hold for this one x alone."""
        if self.kernel != "intersection":
            raise ValueError(
                f"scores of the kernel {self.kernel!r} are not taken apart, only of 'intersection'"
            )
        vector = np.require(x, np.float32, ["C", "W"])
        support = np.require(self.support_vectors_, np.float32, ["C", "W"])
        return intersection_weights(vector, support, self.dual_coef_[row]), 0.0

    def _compute(self, X: Floats, Y: Floats) -> Floats:
        if self.kernel == "precomputed":
            return X
        if callable(self.kernel):
            gram = check_array(self.kernel(X, Y), dtype=[np.float32, np.float64], order="C")
            if gram.shape != (len(X), len(Y)):
                raise ValueError(
                    f"the kernel returned an array of shape {gram.shape}, "
                    f"expected {(len(X), len(Y))}"
                )
            return gram
        check_non_negative(X, f"KernelSVM(kernel={self.kernel!r})")
        with workers(self.n_jobs) as executor:
            return kernel_matrix(
                self.kernel,
                np.require(X, np.float32, ["C", "W"]),
                np.require(Y, np.float32, ["C", "W"]),
                executor,
            )


def _check_solver(C: float, tol: float, max_iter: int) -> None:
    if not (np.isfinite(C) and C > 0):
        raise ValueError(f"C must be positive, got {C}")
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sorted classes and each sample's index among them; at least two classes."""
    check_classification_targets(y)
    classes, indices = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"a classifier needs at least two classes, got one class: {classes[0]}")
    return classes, indices


def one_vs_rest(indices: NDArray[np.int64], n_classes: int, dtype: Any) -> Floats:
    """+1 and -1, (n_classes, n), or (1, n) for two classes."""
    rows = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(indices == rows[:, None], 1, -1).astype(dtype)


def predict_labels(classes: NDArray[Any], scores: Floats) -> NDArray[Any]:
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[best]


def score_columns(scores: Floats) -> Floats:
    """Scores with a column for each class, also where there are two."""
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
