"""Kernel support vector machine: one-vs-rest, squared hinge, all classes at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from .. import config
from .._support.devices import Held
from .._support.estimators import BaseEstimator, ClassifierMixin, Tags
from .._support.parallel import single_blas_thread, workers
from .dual import Floats, GramProducts, solve_dual
from .kernels import KERNELS, intersection_weights, kernel_matrix
from .labels import (
    ClassWeight,
    check_solver,
    encode_labels,
    one_vs_rest,
    predict_labels,
    weigh_samples,
    without_folds,
)


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
    tol, max_iter, n_jobs, random_state, class_weight
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
    classes_: NDArray[Any]
    support_vectors_: Floats

    def __init__(
        self,
        kernel: str | Callable[[Any, Any], Any] = "intersection",
        C: float = config.C,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        class_weight: ClassWeight = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.kernel in KERNELS
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        check_solver(self.C, self.tol, self.max_iter, self.class_weight)
        names = [*KERNELS, "precomputed"]
        if not (callable(self.kernel) or self.kernel in names):
            raise ValueError(
                f"kernel must be callable or one of {', '.join(names)}, got {self.kernel!r}"
            )

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X (n, d), or on a Gram matrix (n, n), and labels y (n,).

        Weights (n,) say how much each sample counts.
        """
        with workers(self.n_jobs) as executor:
            return self.fit_on(X, y, executor, sample_weight)

    def fit_on(
        self,
        X: ArrayLike,
        y: ArrayLike,
        executor: Executor | None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """``fit`` on the threads of an executor; the same bits for any number of them."""
        return self.fit_folds(X, y, None, executor, sample_weight)

    def fit_folds(
        self,
        X: ArrayLike,
        y: ArrayLike,
        folds: NDArray[np.int64] | None,
        executor: Executor | None,
        sample_weight: ArrayLike | None = None,
        tell: Callable[[int, Self], object] | None = None,
    ) -> Self:
        """``fit``, and a machine of each fold; see :meth:`LinearSVM.fit_folds`."""
        self.check_parameters()
        samples, labels = validate_data(self, X, y, dtype=[np.float32, np.float64], order="C")
        if self.kernel == "precomputed" and samples.shape[0] != samples.shape[1]:
            raise ValueError(f"a precomputed kernel is a square matrix, got {samples.shape}")
        self.classes_, indices = encode_labels(labels)
        seed = int(check_random_state(self.random_state).randint(2**31))
        gram = self._compute(samples, samples, executor)
        signs = one_vs_rest(indices, len(self.classes_), gram.dtype)
        weights = weigh_samples(self.class_weight, labels, sample_weight, gram.dtype)
        products = partial(GramProducts, gram)
        for fold, machine, some in without_folds(self, folds, weights, len(samples), gram.dtype):
            with single_blas_thread():
                alphas, machine.n_iter_ = solve_dual(
                    products, signs, self.C, self.tol, self.max_iter, seed, executor, some
                )
            machine._keep(samples, alphas, signs)
            if tell is not None and fold >= 0:
                tell(fold, machine)
        return self

    def _keep(self, samples: Floats, alphas: Floats, signs: Floats) -> None:
        self.support_: NDArray[np.intp] = np.flatnonzero(alphas.any(axis=0))
        self.dual_coef_: Floats = np.ascontiguousarray((alphas * signs)[:, self.support_])
        vectors = samples[:0] if self.kernel == "precomputed" else samples[self.support_]
        self.support_vectors_ = vectors.astype(np.float32) if self.kernel in KERNELS else vectors

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores, (n, n_classes), or (n,) for two classes (positive: the second)."""
        with workers(self.n_jobs) as executor:
            return self.scores(X, executor)

    def scores(self, X: ArrayLike, executor: Executor | None = None) -> Floats:
        """``decision_function`` on the threads of an executor."""
        check_is_fitted(self)
        X = np.asarray(X) if isinstance(X, Held) else X
        samples = validate_data(self, X, dtype=[np.float32, np.float64], order="C", reset=False)
        if self.kernel == "precomputed":
            gram = samples[:, self.support_]
        else:
            gram = self._compute(samples, self.support_vectors_, executor)
        with single_blas_thread():
            # Large coefficients of both signs nearly cancel; float64 keeps what is left.
            scores = gram.astype(np.float64) @ self.dual_coef_.T.astype(np.float64)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the largest score of each row, (n,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def weights_at(self, x: Floats, row: int) -> tuple[NDArray[Any], float]:
        """As in LinearSVM, for the intersection kernel; they hold for this one x alone."""
        if self.kernel != "intersection":
            raise ValueError(
                f"scores of kernel {self.kernel!r} cannot be explained, only of 'intersection'"
            )
        vector = np.require(x, np.float32, ["C", "W"])
        support = np.require(self.support_vectors_, np.float32, ["C", "W"])
        return intersection_weights(vector, support, self.dual_coef_[row]), 0.0

    def _compute(self, X: Floats, Y: Floats, executor: Executor | None) -> Floats:
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
        with single_blas_thread():
            return kernel_matrix(
                self.kernel,
                np.require(X, np.float32, ["C", "W"]),
                np.require(Y, np.float32, ["C", "W"]),
                executor,
            )
