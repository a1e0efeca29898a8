"""Scores by cross-validation are those of machines trained without the fold, one by one."""

import numpy as np
import pytest

from lrrspm.svm import LinearSVM, cross_scores, linear_gram, score_columns, stratified_folds


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
    found = cross_scores(linear_gram(X, None), y, folds, C, 0, loss=loss)
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
