"""Long vectors in half precision: the same solution, in blocks of columns."""

import numpy as np
import pytest

from lrrspm import LinearSVM
from lrrspm._support.parallel import single_blas_thread, workers
from lrrspm._support.shards import Shards
from lrrspm.svm.long import long_gram_matrix, long_scores, long_weights, round_weights

# Several blocks of columns, several bands of rows, the last ones incomplete.
N, D, CLASSES = 530, 9000, 7


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=N)
    centers = rng.standard_normal((CLASSES, D))
    X = 0.1 * centers[labels] + rng.standard_normal((N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float16), labels


def test_products_are_those_of_whole_matrices(data):
    X, _ = data
    exact = X.astype(np.float64)
    gram = long_gram_matrix(X, None)
    np.testing.assert_allclose(gram, exact @ exact.T, atol=1e-6)
    np.testing.assert_array_equal(gram, gram.T)
    betas = np.random.default_rng(1).standard_normal((CLASSES, N)).astype(np.float32)
    weights = long_weights(betas, X, None)
    np.testing.assert_allclose(weights, betas.astype(np.float64) @ exact, atol=1e-5)
    halves = weights.astype(np.float16)
    expected = exact @ halves.astype(np.float64).T
    np.testing.assert_allclose(long_scores(X, halves, None), expected, atol=1e-5)


@pytest.mark.parametrize("n", [N, 1200])
def test_products_of_shards_are_the_same_wherever_they_are_made(data, n, tmp_path, monkeypatch):
    monkeypatch.setattr("lrrspm.svm.long._BAND", 512)
    X = np.concatenate([data[0]] * 3)[:n]
    betas = np.random.default_rng(1).standard_normal((CLASSES, n)).astype(np.float32)
    sent = []

    def spread(function, parts, shared):
        sent.append((function.__name__, len(parts)))
        return (function(shared, [part])[0] for part in parts)

    def products(X):
        with single_blas_thread():  # as those who call them
            return long_gram_matrix(X, None), long_weights(betas, X, None)

    found = [products(X)]
    for where in (None, spread):
        with Shards(n, D, X.dtype, tmp_path, 100, spread=where) as shards:
            shards.append(X)
            found.append(products(shards))
    assert sent == [("gram_bands", -(-n // 512)), ("weight_columns", 3)]
    for gram, weights in found[1:]:
        np.testing.assert_array_equal(gram, found[0][0])
        np.testing.assert_array_equal(weights, found[0][1])


def test_scores_of_a_row_do_not_depend_on_the_others(data):
    X, _ = data
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((CLASSES, D)).astype(np.float16)
    whole = long_scores(X, weights, None)
    for size in (1, 3, 64, 100):
        parts = [long_scores(X[i : i + size], weights, None) for i in range(0, N, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    order = rng.permutation(N)
    np.testing.assert_array_equal(long_scores(X[order], weights, None), whole[order])
    np.testing.assert_array_equal(long_scores(X.astype(np.float32), weights, None), whole)


def test_the_solution_is_that_of_single_precision(data):
    X, labels = data
    half = LinearSVM(random_state=0).fit(X[::2], labels[::2])
    single = LinearSVM(random_state=0).fit(X[::2].astype(np.float32), labels[::2])
    assert half.coef_.dtype == np.float16
    assert single.coef_.dtype == np.float32
    scores = single.decision_function(X.astype(np.float32))
    np.testing.assert_allclose(half.decision_function(X), scores, atol=2e-3)
    assert half.decision_function(X).dtype == np.float32
    clear = np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0] > 4e-3
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(half.predict(X)[clear], single.classes_[scores.argmax(1)][clear])


def test_same_bits_for_any_number_of_workers(data):
    X, labels = data
    models = [LinearSVM(n_jobs=n, random_state=0).fit(X, labels) for n in (1, 2, 4)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    expected = models[0].scores(X)
    for n in (2, 4):
        with workers(n) as executor:
            np.testing.assert_array_equal(models[0].scores(X, executor), expected)


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}])
def test_short_vectors_are_those_of_single_precision(data, options):
    X, labels = data
    short = np.ascontiguousarray(X[:, :40])
    half = LinearSVM(random_state=0, **options).fit(short, labels)
    single = LinearSVM(random_state=0, **options).fit(short.astype(np.float32), labels)
    np.testing.assert_array_equal(half.coef_, single.coef_.astype(np.float16))
    np.testing.assert_array_equal(half.intercept_, single.intercept_)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_weights_that_halves_cannot_hold_stay_single(scale):
    weights = (np.random.default_rng(0).standard_normal((2, 100)) * scale).astype(np.float32)
    assert round_weights(weights) is weights
    rounded = round_weights(weights / np.float32(scale))
    np.testing.assert_array_equal(rounded, (weights / np.float32(scale)).astype(np.float16))


def test_values_that_are_not_finite_are_refused(data):
    X, labels = data
    model = LinearSVM(random_state=0).fit(X, labels)
    bad = X.copy()
    bad[3, 8999] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        LinearSVM().fit(bad, labels)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(bad)
