"""Weights of samples and classes, and machines of folds."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC
from sklearn.utils import compute_sample_weight

from lrrspm import KernelSVM, LinearSVM
from tests.svm.test_svm import problem


def machines():
    return [LinearSVM(tol=1e-7, random_state=0), KernelSVM(linear, tol=1e-7, random_state=0)]


def linear(X, Y):
    return X @ Y.T


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), wide=st.booleans(), n_classes=st.integers(2, 4))
def test_weight_is_the_number_of_copies(seed, wide, n_classes):
    X, y = problem(40, 60 if wide else 10, n_classes, seed % 7)
    counts = np.random.default_rng(seed).integers(0, 4, len(y))
    for label in range(n_classes):
        counts[np.flatnonzero(y == label)[0]] = 1
    for machine in machines():
        weighted = machine.fit(X, y, sample_weight=counts).decision_function(X)
        copied = machine.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_allclose(weighted, copied.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("weight", ["balanced", {0: 5.0, 2: 0.3}])
def test_class_weight_agrees_with_liblinear(weight):
    X, y = problem(120, 30, 3)
    y[20:] = np.minimum(y[20:], 1)
    ours = LinearSVM(tol=1e-8, class_weight=weight, random_state=0).fit(X, y)
    # Its own class_weight leaves the other classes of each problem at 1.
    peer = LinearSVC(C=10, tol=1e-8, fit_intercept=False, max_iter=100_000, random_state=0)
    peer.fit(X, y, sample_weight=compute_sample_weight(weight, y))
    expected = peer.decision_function(X)
    np.testing.assert_allclose(
        ours.decision_function(X), expected, atol=1e-3 * np.abs(expected).max()
    )


def test_weights_of_one_change_no_bit():
    X, y = problem(50, 80, 3)
    for machine in machines():
        plain = machine.fit(X, y).decision_function(X)
        weighted = machine.fit(X, y, sample_weight=np.ones(50)).decision_function(X)
        np.testing.assert_array_equal(plain, weighted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("d", [20, 90])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_machines_of_folds_are_trained_on_the_rest(dtype, d, n_classes):
    X, y = problem(60, d, n_classes)
    X = X.astype(dtype)
    folds = np.arange(60) % 4 - 1  # the first quarter is in no fold
    others: dict[int, Any] = {}
    machine = LinearSVM(tol=1e-6, random_state=0)
    machine.fit_folds(X, y, folds, None, tell=others.__setitem__)
    np.testing.assert_array_equal(
        machine.coef_, LinearSVM(tol=1e-6, random_state=0).fit(X, y).coef_
    )
    assert list(others) == [0, 1, 2]
    for fold, other in others.items():
        rest = folds != fold
        alone = LinearSVM(tol=1e-6, random_state=0).fit(X[rest], y[rest])
        np.testing.assert_allclose(
            other.decision_function(X), alone.decision_function(X), atol=4e-3
        )


def test_machines_of_folds_with_a_kernel():
    X, y = problem(60, 20, 3)
    folds = np.arange(60) % 3
    others: dict[int, Any] = {}
    machines()[1].fit_folds(X, y, folds, None, tell=others.__setitem__)
    assert list(others) == [0, 1, 2]
    for fold, other in others.items():
        alone = machines()[1].fit(X[folds != fold], y[folds != fold])
        np.testing.assert_allclose(
            other.decision_function(X), alone.decision_function(X), atol=1e-3
        )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), "one number per sample"),
        (-np.ones(30), "none below 0"),
        (np.full(30, np.nan), "finite"),
        (np.zeros(30), "not zero"),
    ],
)
def test_weights_are_checked(weights, message):
    X, y = problem(30, 5, 2)
    with pytest.raises(ValueError, match=message):
        LinearSVM().fit(X, y, sample_weight=weights)


def test_class_weight_is_checked():
    X, y = problem(30, 5, 2)
    with pytest.raises(ValueError, match="balanced"):
        LinearSVM(class_weight="fair").fit(X, y)
