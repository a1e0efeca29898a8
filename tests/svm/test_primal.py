"""The primal in passes over shards: the dual's solution, in memory that does not grow."""

from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from lrrspm import LinearSVM
from lrrspm._support.parallel import workers
from lrrspm._support.shards import Shards
from lrrspm.svm import stratified_folds
from lrrspm.svm.primal import Part, Problem, primal_weights, shard_scores, shard_sums
from lrrspm.svm.squared import squared_weights
from lrrspm.svm.stored import score_rows
from lrrspm.svm.subspace import Samples, advance, subspace_minimum

LOSSES = ["squared_hinge", "squared"]
CLASSES = 4


def made(n=300, d=40, seed=0, dtype=np.float16):
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    centers = np.random.default_rng(0).standard_normal((CLASSES, d))
    X = 0.3 * centers[labels] + rng.standard_normal((n, d)) + 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(dtype), labels


@pytest.fixture(scope="module")
def data():
    return made()


@pytest.fixture
def no_gram(monkeypatch):
    monkeypatch.setattr("lrrspm.svm.stored.GRAM_BYTES", 0)


@contextmanager
def sharded(X, folder, rows=64):
    with Shards(len(X), X.shape[1], X.dtype, folder, rows) as shards:
        shards.append(X)
        yield shards


def fit_shards(machine, X, y, folder, rows=64, executor=None, folds=None, **given):
    with sharded(X, folder, rows) as shards:
        return machine.fit_folds(shards, y, folds, executor, **given)


def solve(shards, indices, classes, C, squared, tol):
    costs = np.full(len(indices), 2 * C, np.float32)
    problem = Problem(shards, indices, classes, costs, squared, False)
    return primal_weights(problem, tol, 1000, None)[0]


def objectives(machine, X, y, weights=None):
    """The objective of each class, in float64, the intercept penalized too."""
    X, w = X.astype(np.float64), machine.coef_.astype(np.float64)
    numbers = machine.classes_[1:] if len(machine.classes_) == 2 else machine.classes_
    signs = np.where(y[:, None] == numbers, 1, -1)
    slack = 1 - signs * (X @ w.T + machine.intercept_)
    if machine.loss == "squared_hinge":
        slack = np.maximum(slack, 0)
    costs = np.ones(len(X)) if weights is None else weights
    length = (w**2).sum(axis=1) + machine.intercept_**2
    return length / 2 + machine.C * (costs[:, None] * slack**2).sum(axis=0)


def naive_sums(X, weights, changes):
    """Scores, and sums of the samples times their changes, number by number."""
    scores, sums = np.zeros(changes.shape), np.zeros(weights.shape)
    for i, x in enumerate(X):
        x = np.append(x, 1) if weights.shape[1] > len(x) else x
        for c in range(len(weights)):
            scores[i, c] = sum(weights[c] * x)
            sums[c] += changes[i, c] * x
    return scores, sums


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 20),
    d=st.integers(1, 6),
    rows=st.integers(1, 20),
    constant=st.booleans(),
    seed=st.integers(0, 99),
)
def test_sums_are_those_of_a_loop(tmp_path_factory, n, d, rows, constant, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    weights = rng.standard_normal((2, d + constant)).astype(np.float32)
    changes = rng.standard_normal((n, 2)).astype(np.float32)
    with sharded(X, tmp_path_factory.mktemp("shards"), rows) as shards:
        parts = [Part(shard, changes[shard.start : shard.stop]) for shard in shards]
        found = (
            np.concatenate(shard_scores(weights, list(shards))),
            np.sum(shard_sums(constant, parts), axis=0),
        )
    for got, wanted in zip(found, naive_sums(X, weights, changes), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def naive_objective(strips, products, signs, costs, squared, mix):
    slack = 1 - signs * (mix @ strips)
    if not squared:
        slack = np.maximum(slack, 0)
    return mix @ products @ mix / 2 + np.sum(costs / 2 * slack**2)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_mix_of_directions_is_better(squared, seed):
    rng = np.random.default_rng(seed)
    strips = rng.standard_normal((4, 50)).astype(np.float32)
    strips[3] = 2 * strips[2]  # dependent
    directions = rng.standard_normal((4, 9))
    directions[3] = 2 * directions[2]
    products = directions @ directions.T
    signs, costs = rng.choice([-1, 1], 50).astype(np.int8), rng.uniform(0, 3, 50)
    found = subspace_minimum(strips, products, Samples(signs, costs.astype(np.float32), squared))
    given = strips.astype(np.float64), products, signs, costs, squared
    np.testing.assert_allclose(found.value, naive_objective(*given, found.mix), rtol=1e-5)
    best = minimize(lambda mix: naive_objective(*given, mix), np.zeros(4), tol=1e-10).fun
    assert found.value <= best * (1 + 1e-5)


def test_a_step_is_added_and_kept():
    strips = np.arange(12, dtype=np.float32).reshape(4, 3)
    advance(strips, np.array([0.5, 0, 2.0, 0]), 2)
    np.testing.assert_array_equal(strips[2], [12, 14.5, 17])
    np.testing.assert_array_equal(strips[0], [12, 15.5, 19])
    np.testing.assert_array_equal(strips[1::2], [[3, 4, 5], [9, 10, 11]])


def test_two_samples_by_hand(tmp_path):
    # By symmetry w = (a, -a): the minimum of a^2 + 2 C (1 - a)^2.
    X = np.eye(2, dtype=np.float32)
    with sharded(X, tmp_path) as shards:
        for squared in (False, True):
            weights = solve(shards, np.array([1, 0]), np.array([1]), 3.0, squared, 1e-6)
            np.testing.assert_allclose(weights, [[6 / 7, -6 / 7]], rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_solution_is_the_duals(data, tmp_path, no_gram, loss, intercept, weighted):
    X, y = data
    weights = np.random.default_rng(3).uniform(0, 2, len(y)) if weighted else None
    given = {"loss": loss, "fit_intercept": intercept, "random_state": 0}
    machine = LinearSVM(**given)
    fit_shards(machine, X, y, tmp_path, sample_weight=weights)
    wide = X.astype(np.float64)
    dual = LinearSVM(**given, tol=1e-9, max_iter=10_000).fit(wide, y, weights)
    ours, best = objectives(machine, X, y, weights), objectives(dual, X, y, weights)
    assert (ours <= best * 1.001).all()
    X_test = made(1000, seed=1)[0]
    same = machine.predict(X_test) == dual.predict(X_test.astype(np.float64))
    assert same.mean() >= 0.995


def test_classes_can_weigh(data, tmp_path, no_gram):
    X, y = data
    machine = fit_shards(LinearSVM(class_weight={0: 3.0, 1: 0.5}), X, y, tmp_path)
    weights = np.array([3.0, 0.5, 1.0, 1.0])[y]
    dual = LinearSVM(tol=1e-9, max_iter=10_000, random_state=0)
    dual.fit(X.astype(np.float64), y, weights)
    assert (objectives(machine, X, y, weights) <= 1.001 * objectives(dual, X, y, weights)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_two_classes_share_one_machine(data, tmp_path, no_gram, loss):
    X, y = data
    some = y < 2
    machine = fit_shards(LinearSVM(loss=loss), X[some], y[some], tmp_path)
    dual = LinearSVM(loss=loss, random_state=0, tol=1e-9, max_iter=10_000)
    dual.fit(X[some].astype(np.float64), y[some])
    assert machine.coef_.shape == (1, X.shape[1])
    assert objectives(machine, X[some], y[some]) <= 1.001 * objectives(dual, X[some], y[some])


def test_the_gap_is_half_the_square_of_the_gradient(data, tmp_path):
    """So the promised tolerance holds without the dual being solved."""
    X, y = data
    values = []
    with sharded(X, tmp_path, 64) as shards:
        for tol in (1e-2, 1e-6):
            weights = solve(shards, y, np.arange(CLASSES), 10.0, False, tol)
            slack = 1 - np.where(y[:, None] == np.arange(CLASSES), 1, -1) * (X @ weights.T)
            square = np.maximum(slack, 0) ** 2
            values.append((weights**2).sum(axis=1) / 2 + 10 * square.sum(axis=0))
    assert (values[0] <= values[1] * (1 + 1e-2)).all()


def test_any_number_of_workers_gives_the_same_bits(data, tmp_path, no_gram):
    X, y = data
    expected = fit_shards(LinearSVM(), X, y, tmp_path)
    for count in (2, 3):
        with workers(count) as executor:
            found = fit_shards(LinearSVM(), X, y, tmp_path, executor=executor)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.n_iter_ == expected.n_iter_
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        found = fit_shards(LinearSVM(), X, y, tmp_path, executor=executor)
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_another_number_of_shards_gives_the_same_solution(data, tmp_path, no_gram):
    X, y = data
    whole = fit_shards(LinearSVM(tol=1e-6), X, y, tmp_path, rows=len(X))
    for rows in (7, 64):
        found = fit_shards(LinearSVM(tol=1e-6), X, y, tmp_path, rows=rows)
        np.testing.assert_allclose(found.coef_, whole.coef_, atol=2e-3)


def test_progress_ends_at_one(data, tmp_path, no_gram):
    told = []
    machine = LinearSVM()
    X, y = data
    fit_shards(machine, X, y, tmp_path, progress=lambda *state: told.append(state))
    passes, shares = zip(*told, strict=True)
    assert list(passes) == [*range(1, machine.n_iter_ + 1), machine.n_iter_]
    assert list(shares) == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1


def test_too_few_passes_give_a_warning(data, tmp_path, no_gram):
    X, y = data
    with pytest.warns(ConvergenceWarning, match="have not converged after"):
        fit_shards(LinearSVM(max_iter=3), X, y, tmp_path)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
def test_folds_are_those_in_memory(data, tmp_path, no_gram, loss, intercept):
    X, y = data
    folds = stratified_folds(y, 0, n_folds=3)
    folds[folds == 2] = -1
    given = {"loss": loss, "fit_intercept": intercept, "tol": 1e-6, "random_state": 0}
    expected: dict[int, Any] = {}
    found: dict[int, Any] = {}
    kept = LinearSVM(**given, max_iter=10_000)
    kept.fit_folds(X.astype(np.float32), y, folds, None, tell=expected.__setitem__)
    fit_shards(LinearSVM(**given), X, y, tmp_path, folds=folds, tell=found.__setitem__)
    assert found.keys() == expected.keys() == {0, 1}
    for fold, machine in found.items():
        scores = machine.scores(X)
        np.testing.assert_allclose(scores, expected[fold].scores(X.astype(np.float32)), atol=5e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gram_matrix_of_shards_gives_the_bits_of_one_in_memory(tmp_path, loss):
    X, y = made(150, 5000)
    folds = stratified_folds(y, 0, n_folds=3)
    expected: dict[int, Any] = {}
    found: dict[int, Any] = {}
    kept = LinearSVM(loss=loss, random_state=0)
    kept.fit_folds(X, y, folds, None, tell=expected.__setitem__)
    apart = LinearSVM(loss=loss, random_state=0)
    for rows in (40, 1000):
        fit_shards(apart, X, y, tmp_path, rows=rows, folds=folds, tell=found.__setitem__)
        expected[-1], found[-1] = kept, apart
        for fold, machine in expected.items():
            np.testing.assert_array_equal(found[fold].coef_, machine.coef_)
    with sharded(X, tmp_path, 40) as shards:
        chosen = folds == 1
        np.testing.assert_array_equal(
            score_rows(kept, shards, chosen, None), score_rows(kept, X, chosen, None)
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
def test_single_precision_agrees_with_memory(tmp_path, loss, intercept):
    X, y = made(150, 200, dtype=np.float32)
    given = {"loss": loss, "fit_intercept": intercept, "random_state": 0, "tol": 1e-6}
    kept = LinearSVM(**given).fit(X, y)
    apart = fit_shards(LinearSVM(**given), X, y, tmp_path, rows=40)
    assert apart.coef_.dtype == np.float32
    np.testing.assert_allclose(apart.decision_function(X), kept.decision_function(X), atol=2e-3)


def test_what_rounding_forbids_is_not_tried_for_ever(data, tmp_path, no_gram):
    X, y = data
    machine = LinearSVM(tol=1e-15, max_iter=3000)
    with pytest.warns(ConvergenceWarning):
        fit_shards(machine, X, y, tmp_path)
    assert machine.n_iter_ < 1000


def test_other_numbers_of_labels_are_refused(data, tmp_path):
    with pytest.raises(ValueError, match="300 vectors, but 299 labels"):
        fit_shards(LinearSVM(), data[0], data[1][:-1], tmp_path)


def test_least_squares_are_those_of_a_factorization(tmp_path):
    X, y = made(200, 12, dtype=np.float32)
    signs = np.where(y == np.arange(CLASSES)[:, None], 1, -1).astype(np.float32)
    expected = squared_weights(X, signs, 3.0, None, None)
    with sharded(X, tmp_path, 50) as shards:
        weights = solve(shards, y, np.arange(CLASSES), 3.0, True, 1e-6)
    np.testing.assert_allclose(weights, expected, atol=1e-3)
