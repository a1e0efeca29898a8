"""The least-squares machine: the solution of a linear system."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeClassifier
from sklearn.utils import compute_sample_weight

from lrrspm import LinearSVM
from lrrspm.svm.squared import squared_betas
from tests import naive
from tests.svm.test_long import data  # noqa: F401
from tests.svm.test_svm import problem


def machine(**parameters):
    return LinearSVM(loss="squared", **parameters)


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(8, 40),
    d=st.integers(8, 40),
    n_classes=st.integers(2, 4),
    C=st.sampled_from([0.01, 1.0, 10.0, 1000.0]),
    seed=st.integers(0, 1000),
)
def test_agrees_with_naive(n, d, n_classes, C, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.arange(n) % n_classes
    weights = rng.uniform(0.1, 3, n) * (rng.random(n) > 0.2)
    weights[:n_classes] = 1
    found = machine(C=C).fit(X, y, sample_weight=weights)
    classes = [1] if n_classes == 2 else range(n_classes)
    for row, label in zip(found.coef_, classes, strict=True):
        expected = naive.least_squares(X, np.where(y == label, 1, -1), C, weights)
        np.testing.assert_allclose(row, expected, atol=1e-8)
    assert found.n_iter_ == 1


@pytest.mark.parametrize(("n", "d"), [(80, 200), (1100, 20)])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weight", [None, "balanced"])
def test_agrees_with_scikit_learn(n, d, n_classes, weight):
    X, y = problem(n, d, n_classes)
    ours = machine(C=3, class_weight=weight).fit(X, y)
    peer = RidgeClassifier(alpha=1 / 6, fit_intercept=False)
    peer.fit(X, y, sample_weight=compute_sample_weight(weight, y))
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(peer.coef_), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))


@pytest.mark.parametrize("d", [20, 90])
def test_an_intercept_is_a_constant_column(d):
    X, y = problem(60, d, 3)
    ours = machine(fit_intercept=True).fit(X, y)
    wide = machine().fit(np.hstack([X, np.ones((60, 1))]), y)
    np.testing.assert_allclose(np.column_stack([ours.coef_, ours.intercept_]), wide.coef_)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), wide=st.booleans(), n_classes=st.integers(2, 4))
def test_weight_is_the_number_of_copies(seed, wide, n_classes):
    X, y = problem(40, 60 if wide else 10, n_classes, seed % 7)
    counts = np.random.default_rng(seed).integers(0, 4, len(y))
    for label in range(n_classes):
        counts[np.flatnonzero(y == label)[0]] = 1
    weighted = machine().fit(X, y, sample_weight=counts)
    copied = machine().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("d", [20, 90])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_machines_of_folds_are_trained_on_the_rest(dtype, d, n_classes):
    X, y = problem(60, d, n_classes)
    X = X.astype(dtype)
    folds = np.arange(60) % 4 - 1  # the first quarter is in no fold
    others: dict[int, Any] = {}
    whole = machine().fit_folds(X, y, folds, None, tell=others.__setitem__)
    np.testing.assert_array_equal(whole.coef_, machine().fit(X, y).coef_)
    assert list(others) == [0, 1, 2]
    for fold, other in others.items():
        assert (other.loss, other.n_iter_) == ("squared", 1)
        alone = machine().fit(X[folds != fold], y[folds != fold])
        # In half precision weights are rounded.
        atol = {np.float16: 4e-3, np.float32: 1e-5, np.float64: 1e-11}[dtype]
        np.testing.assert_allclose(
            other.decision_function(X), alone.decision_function(X), atol=atol
        )


def test_long_vectors_have_the_solution_of_double_precision(data):  # noqa: F811
    X, labels = data
    half = machine().fit(X[::2], labels[::2])
    exact = machine().fit(X[::2].astype(np.float64), labels[::2])
    assert half.coef_.dtype == np.float16
    assert half.intercept_.dtype == np.float32
    expected = exact.decision_function(X.astype(np.float64))
    np.testing.assert_allclose(half.decision_function(X), expected, atol=2e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("d", [9000, 40])
def test_same_bits_for_any_number_of_threads_and_any_seed(data, dtype, d):  # noqa: F811
    X, labels = data
    X = np.ascontiguousarray(X[:, :d], dtype)
    one = machine(random_state=0).fit(X, labels)
    for n_jobs in (2, 4):
        other = machine(n_jobs=n_jobs, random_state=n_jobs).fit(X, labels)
        np.testing.assert_array_equal(other.coef_, one.coef_)


def test_more_samples_than_dimensions_build_no_gram_matrix(monkeypatch):
    monkeypatch.delattr("lrrspm.svm.stored.gram_matrix")
    X, y = problem(300, 20, 3)
    machine().fit(X, y)
    with pytest.raises(NameError, match="gram_matrix"):
        machine().fit(X[:20], y[:20])


def test_the_gram_matrix_is_left_for_the_next_fold():
    X, y = problem(60, 90, 2)
    gram, signs = X @ X.T, np.where(y, 1.0, -1.0)[None]
    before = gram.copy()
    squared_betas(gram, signs, 10, None)
    np.testing.assert_array_equal(gram, before)


def test_a_penalty_beyond_precision_is_refused():
    X = np.ones((6, 8), np.float32) * 1000
    with pytest.raises(ValueError, match="lower C"):
        machine(C=1e30).fit(X, [0, 1] * 3)


@pytest.mark.parametrize("loss", ["hinge", None, 2])
def test_unknown_losses_are_refused(loss):
    with pytest.raises(ValueError, match="loss must be one of squared_hinge, squared"):
        LinearSVM(loss=loss).fit([[0.0], [1.0]], [0, 1])
