"""Scores by cross-validation are those of machines trained without the fold, one by one."""

import numpy as np
import pytest

from lrrspm.svm import (
    LinearSVM,
    cross_scores,
    fit_crossed,
    linear_gram,
    score_columns,
    stratified_folds,
)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("C", [1.0, 30.0])
@pytest.mark.parametrize(("loss", "atol"), [("squared_hinge", 0.02), ("squared", 1e-9)])
def test_scores_are_those_of_one_machine_per_fold(n_classes, C, loss, atol):
    rng = np.random.default_rng(0)
    y = np.arange(40) % n_classes
    X = rng.standard_normal((40, 60)) + 2 * np.eye(n_classes, 60)[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    folds = stratified_folds(y, 0)
    folds[:2] = -1
    svm = LinearSVM(C, random_state=0, loss=loss)
    found = cross_scores(linear_gram(X, None), y, folds, svm)
    expected = np.zeros((40, n_classes))
    for fold in range(folds.max() + 1):
        rows = folds == fold
        machine = LinearSVM(C, tol=1e-8, random_state=0, loss=loss).fit(X[~rows], y[~rows])
        expected[rows] = score_columns(machine.decision_function(X[rows]))
    np.testing.assert_allclose(found, expected, atol=atol)
    assert (found[folds < 0] == 0).all()


def test_gram_matrix_of_half_precision_is_in_float32():
    X = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float16)
    found = linear_gram(X, None)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, X.astype(np.float64) @ X.T.astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_long_vectors_are_crossed_without_weights_of_folds(loss, class_weight):
    rng = np.random.default_rng(1)
    y = np.arange(45) ** 2 % 7 % 3
    X = rng.standard_normal((45, 300)) + np.eye(3, 300)[y] * 4
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float16)
    folds, given = stratified_folds(y, 0), rng.integers(1, 4, 45)
    short, plain = (LinearSVM(loss=loss, random_state=0, class_weight=class_weight) for _ in "ab")
    machines: dict[int, object] = {}
    expected = fit_crossed(plain, X, y, folds, None, given, tell=machines.__setitem__)
    found = fit_crossed(short, X, y, folds, None, given)
    assert sorted(machines) == list(range(folds.max() + 1))
    # Weights of folds were rounded.
    np.testing.assert_allclose(found.scores, expected.scores, atol=2e-3)
    assert np.abs(found.scores).max() > 0.5
    np.testing.assert_array_equal(found.left_out, expected.left_out)
    np.testing.assert_array_equal(short.coef_, plain.coef_)
