"""Scores without a sample are those of a machine that was trained without it."""

import numpy as np
import pytest

from lrrspm import ImageClassifier
from lrrspm.pipeline import open_engine
from lrrspm.svm import (
    LinearSVM,
    fit_temperature,
    leave_out,
    leaving,
    linear_gram,
    one_vs_rest,
    stratified_folds,
)


def drawn(n=60, n_classes=3, d=90):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d)) + 2 * np.eye(n_classes, d)[y]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def left_out(X, y, groups, C, loss, weights):
    """Leave out by the formula, from a machine of all samples."""
    machine = LinearSVM(C, tol=1e-13, random_state=0, loss=loss).fit(X, y, weights)
    n_classes = len(machine.classes_)
    scores = machine.decision_function(X).reshape(len(X), -1)
    costs = 2 * C * (np.ones(len(X)) if weights is None else weights)
    signs = one_vs_rest(y, n_classes, np.float64)
    return scores, leave_out(linear_gram(X, None), scores, signs, costs, groups, loss == "squared")


def retrained(X, y, groups, C, loss, weights):
    """Train once per group, and tell which samples it changed no other margin's side for."""
    full = LinearSVM(C, tol=1e-13, random_state=0, loss=loss).fit(X, y, weights)
    before = full.decision_function(X).reshape(len(X), -1)
    signs = one_vs_rest(y, len(full.classes_), np.float64).T
    scores, same = np.zeros_like(before), np.zeros(before.shape, bool)
    for number in np.unique(groups):
        own = groups == number
        some = None if weights is None else weights[~own]
        machine = LinearSVM(C, tol=1e-13, random_state=0, loss=loss).fit(X[~own], y[~own], some)
        after = machine.decision_function(X).reshape(len(X), -1)
        scores[own] = after[own]
        crossed = ((signs * before < 1) != (signs * after < 1))[~own].any(axis=0)
        same[own] = loss == "squared" or ~crossed
    return scores, same


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_training_again(loss, n_classes, grouped, weighted):
    X, y = drawn(n_classes=n_classes)
    groups = np.arange(len(y))
    if grouped:
        groups[10:13] = 10  # of several classes
        groups[20] = groups[20 + n_classes] = 20
    weights = np.linspace(0.5, 2, len(y)) if weighted else None
    own, found = left_out(X, y, groups if grouped else None, 1.0, loss, weights)
    expected, same = retrained(X, y, groups, 1.0, loss, weights)
    assert found is not None
    assert same.mean() > 0.3
    np.testing.assert_allclose(found[same], expected[same], atol=1e-5)
    # Also where a margin crosses 1, it is far nearer than the score of the machine itself.
    errors = [np.abs(scores - expected).mean() for scores in (found, own)]
    assert errors[0] < errors[1] / 10


def test_samples_that_were_not_trained_on_keep_their_scores():
    X, y = drawn()
    weights = np.ones(len(y))
    weights[:5] = 0
    own, found = left_out(X, y, None, 1.0, "squared", weights)
    assert found is not None
    np.testing.assert_array_equal(found[:5], own[:5])
    assert (found[5:] != own[5:]).all()


def test_what_would_take_too_long_is_left_to_folds(monkeypatch):
    X, y = drawn()
    monkeypatch.setattr(leaving, "MOST_OPERATIONS", 1e3)
    assert left_out(X, y, None, 1.0, "squared", None)[1] is None


@pytest.mark.parametrize("method", [None, "best"])
def test_a_classifier_is_calibrated_on_them(method):
    """Machines of folds have a tenth less to learn from, and are less sure than the classifier."""
    X, y = drawn(d=200)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    X = (X + 0.01 * np.random.default_rng(1).standard_normal(X.shape)).astype(np.float32)
    pairs = np.arange(len(y)) // 2
    model = ImageClassifier(method=method, random_state=0, C=1.0)
    with open_engine(1) as engine:
        alone = model.fit_svm(X, y, engine, stratified_folds(y, 0))
        together = model.fit_svm(X, y, engine, stratified_folds(y, 0, pairs), groups=pairs)
    assert alone is not None
    assert together is not None
    for place in (0, 47):
        own = pairs == pairs[place]
        machine = model.new_svm().set_params(tol=1e-6).fit(X[~own], y[~own])
        expected = machine.decision_function(X[own])
        np.testing.assert_allclose(together.left_out[own], expected, atol=0.05)
        # A copy that stays gives the answer away.
        assert np.abs(alone.left_out[own] - expected).max() > 0.2
    assert model.temperature_ == fit_temperature(together.left_out, y)
    assert model.temperature_ != fit_temperature(together.scores, y)
