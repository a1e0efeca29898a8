"""Linear support vector machine: one-vs-rest, all classes at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import config
from .._support.devices import Accelerator, Held
from .._support.estimators import BaseEstimator, ClassifierMixin
from .._support.parallel import single_blas_thread, workers
from .._support.shards import Shards
from .dual import Floats, GramProducts, LinearProducts, Products, solve_dual
from .labels import (
    ClassWeight,
    check_solver,
    encode_labels,
    one_vs_rest,
    predict_labels,
    weigh_samples,
    without_folds,
)
from .long import check_halves, long_scores, long_weights, round_weights
from .primal import Problem, Progress, primal_weights
from .squared import squared_betas, squared_weights
from .stored import gram_fits, linear_gram

_LOSSES = ("squared_hinge", "squared")


class LinearSVM(ClassifierMixin, BaseEstimator):
    r"""Linear support vector machine, one against the rest.

    .. math:: \min_w \tfrac12 \|w\|^2 + C \sum_i v_i \max(0, 1 - y_i w^T x_i)^2

    with weights v, 1 unless samples or classes are given others. With the loss
    "squared" it is the least-squares machine, where margins above 1 cost as well:

    .. math:: \min_w \tfrac12 \|w\|^2 + C \sum_i v_i (1 - y_i w^T x_i)^2

    Parameters
    ----------
    C : float
        Penalty of margin violations, positive.
    fit_intercept : bool
        Add a constant 1 to every sample (so the intercept is penalized too).
    tol : float
        A class is done when primal and dual objective differ by less than
        this share of the primal one. In float32 about 1e-6 is the limit. Like
        ``max_iter`` and ``random_state`` it is of no use to the loss "squared".
    max_iter : int
        Passes over the samples; a warning says when they did not suffice.
    n_jobs : int or None
        Threads, for the Gram matrix and for groups of 128 classes; the result
        has the same bits for any number.
    random_state : int, RandomState instance or None
        Seed of the order in which samples are visited.
    class_weight : dict, "balanced" or None
        Weight of each label's samples, 1 where it is not named; "balanced" is
        inverse to their number.
    loss : {"squared_hinge", "squared"}
        Cost of a margin.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, d), or (1, d) for two classes
        In float16 if X is, unless a row would change by 0.1 % of its norm.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    n_iter_ : int
        Passes of the slowest class; 1 with the loss "squared".
    n_features_in_ : int

    Notes
    -----
    Dual coordinate descent in random blocks. Inside a block of 64 samples
    the coordinates of all classes are updated one after the other on the
    block's own Gram matrix, in cache; what the block changes elsewhere is one
    matrix product. With at most as many samples as dimensions n <= d the
    Gram matrix of all samples is made once (n^2 d) and serves every class: a
    pass is n^2 products a class. With more samples it is never made, and a
    pass is 2 n d products per class. Computed in float32 if X is, else in float64.

    X in float16 is read a block of columns at a time, and all products are made
    in float32. In memory are X, the Gram matrix, one block, and the weights.
    A row's scores then have the same bits whatever other rows there are.

    With the loss "squared" one Cholesky factorization in float64 serves all
    classes: n^3 / 3 operations, and n^2 numbers besides the Gram matrix, for
    n <= d; else d^3 / 3 after n d^2 products. See :mod:`lrrspm.svm.squared`.

    As with every dual coordinate descent, samples of norm 1 need tens of
    passes, and unscaled or strongly correlated columns with n > d thousands.
    """

    # What a model file keeps, and its shape: c classes, d columns.
    derived: ClassVar[dict[str, str]] = {"coef_": "cd", "intercept_": "c"}
    classes_: NDArray[Any]
    n_features_in_: int

    def __init__(
        self,
        C: float = config.C,
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        class_weight: ClassWeight = None,
        loss: str = "squared_hinge",
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.class_weight = class_weight
        self.loss = loss

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X (n, d) and labels y (n,); weights (n,) say how much each sample counts."""
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
        X: ArrayLike | Shards | Held,
        y: ArrayLike,
        folds: NDArray[np.int64] | None,
        executor: Executor | None,
        sample_weight: ArrayLike | None = None,
        tell: Callable[[int, Self], object] | None = None,
        gram: Floats | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """``fit``, and a machine of each fold, trained on all samples but its own.

        ``folds`` (n,) numbers them from 0; samples below 0 are in none, and train
        every machine. ``tell`` is called with each fold and its machine. The Gram
        matrix is made once for all, unless it is given. Vectors in shards are solved
        from their Gram matrix too, up to 4 GB of it; beyond, the primal is, and
        ``progress`` is called after its passes.
        """
        self.check_parameters()
        if isinstance(X, (Shards, Held)):
            return self._fit_shards(X, y, folds, executor, sample_weight, tell, gram, progress)
        samples, labels = self._check(X, y)
        half = samples.dtype == np.float16
        if half and (self.fit_intercept or len(samples) > samples.shape[1]):
            samples = samples.astype(np.float32)  # short vectors, then
        long = samples.dtype == np.float16
        dtype = np.float32 if long else samples.dtype
        self.classes_, indices = encode_labels(labels)
        signs = one_vs_rest(indices, len(self.classes_), dtype)
        weights = weigh_samples(self.class_weight, labels, sample_weight, dtype)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self.fit_intercept:
            samples = np.hstack([samples, np.ones((len(samples), 1), samples.dtype)])
        with single_blas_thread():
            if gram is None and self._wants_gram(samples, executor):
                gram = linear_gram(samples, executor)
            for fold, machine, some in without_folds(self, folds, weights, len(samples), dtype):
                found, machine.n_iter_ = self._solve(samples, gram, signs, some, seed, executor)
                machine._keep(found, half)
                del found  # before others are made: long vectors leave little room
                if tell is not None and fold >= 0:
                    tell(fold, machine)
        return self

    def _wants_gram(self, samples: Floats, executor: Executor | None) -> bool:
        """True where the products of all pairs are fewer than vectors, or a device makes them."""
        n, d = samples.shape
        return n <= d or (isinstance(executor, Accelerator) and gram_fits(n, self.loss))

    def _fit_shards(
        self,
        shards: Shards | Held,
        y: ArrayLike,
        folds: NDArray[np.int64] | None,
        executor: Executor | None,
        sample_weight: ArrayLike | None,
        tell: Callable[[int, Self], object] | None,
        gram: Floats | None,
        progress: Progress | None,
    ) -> Self:
        """``fit_folds`` on vectors in shards, or on a device."""
        n, self.n_features_in_ = shards.shape
        labels = column_or_1d(y)
        if len(labels) != n:
            raise ValueError(f"{n} vectors, but {len(labels)} labels")
        self.classes_, indices = encode_labels(labels)
        weights = weigh_samples(self.class_weight, labels, sample_weight, np.float32)
        seed = int(check_random_state(self.random_state).randint(2**31))
        numbers = np.array([1]) if len(self.classes_) == 2 else np.arange(len(self.classes_))
        start = None
        with single_blas_thread():
            if gram is None and (isinstance(shards, Held) or gram_fits(n, self.loss)):
                gram = linear_gram(shards, executor)
                gram += np.float32(self.fit_intercept)
            if gram is not None:
                signs = one_vs_rest(indices, len(self.classes_), np.float32)
            for fold, machine, some in without_folds(self, folds, weights, n, np.float32):
                if gram is not None:
                    found, machine.n_iter_ = self._solve(shards, gram, signs, some, seed, executor)
                else:
                    assert isinstance(shards, Shards)
                    costs = np.full(n, 2 * self.C, np.float32)
                    costs *= 1 if some is None else some
                    squared = self.loss == "squared"
                    problem = Problem(shards, indices, numbers, costs, squared, self.fit_intercept)
                    found, machine.n_iter_ = primal_weights(
                        problem, self.tol, self.max_iter, executor, start, progress
                    )
                    start = found if start is None else start  # a fold's solution is near
                machine._keep(found.astype(np.float32), shards.dtype == np.float16)
                if tell is not None and fold >= 0:
                    tell(fold, machine)
        return self

    def _solve(
        self,
        samples: Floats | Shards | Held,
        gram: Floats | None,
        signs: Floats,
        weights: Floats | None,
        seed: int,
        executor: Executor | None,
    ) -> tuple[Floats, int]:
        """Return w of each class, (classes, d), and the passes it took."""
        if gram is None:
            assert not isinstance(samples, (Shards, Held))
            if self.loss == "squared":
                return squared_weights(samples, signs, self.C, weights, executor), 1
            betas, n_iter = self.solve_betas(samples, gram, signs, weights, seed, executor)
        else:
            betas, n_iter = self.solve_betas(None, gram, signs, weights, seed, executor)
        stored = isinstance(samples, (Shards, Held))
        if not isinstance(samples, (Shards, Held)) and samples.dtype != np.float16:
            return betas @ samples, n_iter
        found = long_weights(betas, samples, executor)
        if stored and self.fit_intercept:
            found = np.hstack([found, betas.sum(axis=1, keepdims=True)])
        return found, n_iter

    def solve_betas(
        self,
        samples: Floats | None,
        gram: Floats | None,
        signs: Floats,
        weights: Floats | None,
        seed: int,
        executor: Executor | None,
    ) -> tuple[Floats, int]:
        """Return coefficients of samples, (classes, n), and the passes it took.

        The Gram matrix is enough; samples are read where it is None.
        """
        if gram is not None and isinstance(executor, Accelerator):
            costs = np.full(len(gram), float(self.C))
            costs *= 1 if weights is None else weights
            squared = self.loss == "squared"
            solved = executor.solve(gram, signs, costs, squared, self.tol)
            if solved is not None:
                return solved[0].astype(gram.dtype), solved[1]
        if self.loss == "squared":
            assert gram is not None
            return squared_betas(gram, signs, self.C, weights), 1
        products: Callable[[], Products]
        if gram is not None:
            products = partial(GramProducts, gram)
        else:
            assert samples is not None
            products = partial(LinearProducts, samples)
        alphas, n_iter = solve_dual(
            products, signs, self.C, self.tol, self.max_iter, seed, executor, weights
        )
        return alphas * signs, n_iter

    def _keep(self, weights: Floats, half: bool) -> None:
        coef = weights[:, : self.n_features_in_]
        self.coef_: Floats = round_weights(coef) if half else coef.copy()
        constant = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        self.intercept_: Floats = constant.astype(weights.dtype)

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""
        check_solver(self.C, self.tol, self.max_iter, self.class_weight)
        if self.loss not in _LOSSES:
            raise ValueError(f"loss must be one of {', '.join(_LOSSES)}, got {self.loss!r:.100}")

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores, (n, n_classes), or (n,) for two classes (positive: the second)."""
        return self.scores(X)

    def scores(self, X: ArrayLike | Held, executor: Executor | None = None) -> Floats:
        """``decision_function`` on the threads of an executor, or on its device."""
        check_is_fitted(self)
        if isinstance(X, Held):
            scores = X.scores(self.coef_) + self.intercept_
            return scores[:, 0] if len(self.classes_) == 2 else scores
        samples, _ = self._check(X)
        if np.float16 in (samples.dtype, self.coef_.dtype):
            scores = long_scores(samples, self.coef_, executor) + self.intercept_
        else:
            with single_blas_thread():
                scores = samples @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the largest score of each row, (n,)."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def weights_at(self, x: Floats, row: int) -> tuple[NDArray[Any], float]:
        """Return weights (d,) and a constant: the score of x is ``weights @ x + constant``."""
        weights = self.coef_[row]
        if weights.dtype == np.float16:
            weights = weights.astype(np.float32)
        return weights, float(self.intercept_[row])

    def _check(self, X: ArrayLike, y: ArrayLike | None = None) -> tuple[Floats, Any]:
        """Check samples, and labels in training; half precision is kept, and never copied."""
        half = getattr(X, "dtype", None) == np.float16
        dtype = np.float16 if half else [np.float32, np.float64]
        given: dict[str, Any] = {"reset": False} if y is None else {"y": y}
        checked = validate_data(
            self, X, dtype=dtype, order="C", ensure_all_finite=not half, **given
        )
        samples, labels = (checked, None) if y is None else checked
        if half:
            check_halves(samples)
        return samples, labels
