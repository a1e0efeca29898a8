import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from lrrspm import LinearSVM
from lrrspm.svm.dual import _descend, gram_matrix
from tests import naive


def problem(n, d, n_classes, seed=0):
    X, y = make_classification(
        n, d, n_informative=min(d, 8), n_redundant=0, n_classes=n_classes, random_state=seed
    )
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@settings(deadline=None, max_examples=25)
@given(
    size=st.integers(1, 20),
    n_classes=st.integers(1, 4),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_block_descent_agrees_with_naive(size, n_classes, dtype, seed):
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(size, 5)) / 2
    gram = (samples @ samples.T).astype(dtype)
    scores = rng.normal(size=(n_classes, size)).astype(dtype)
    signs = rng.choice([-1, 1], (n_classes, size)).astype(dtype)
    alphas = np.maximum(0, rng.normal(size=(n_classes, size))).astype(dtype)
    orders = np.stack([rng.permutation(size) for _ in range(3)])
    ridges = rng.uniform(0.02, 0.2, size).astype(dtype)
    expected_alphas, expected_delta = naive.descend(
        gram.astype(float), scores.astype(float), alphas, signs, ridges, orders
    )
    delta = _descend(gram, scores, alphas, signs, ridges, orders)
    atol = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(alphas, expected_alphas, atol=atol)
    np.testing.assert_allclose(delta, expected_delta, atol=atol)


@pytest.mark.parametrize(("n", "d"), [(80, 200), (300, 20)])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_agrees_with_liblinear(n, d, n_classes, fit_intercept):
    X, y = problem(n, d, n_classes)
    ours = LinearSVM(tol=1e-8, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    peer = LinearSVC(
        C=10, dual=True, tol=1e-8, fit_intercept=fit_intercept, max_iter=100_000, random_state=0
    ).fit(X, y)
    scores, expected = ours.decision_function(X), peer.decision_function(X)
    assert scores.shape == expected.shape
    np.testing.assert_allclose(scores, expected, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))


def test_float32_is_near_float64():
    X, y = problem(100, 300, 4)
    exact = LinearSVM(tol=1e-8, random_state=0).fit(X, y)
    single = LinearSVM(random_state=0).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    for c in range(4):
        signs = np.where(y == c, 1, -1)
        best = naive.svm_objective(exact.coef_[c], X, signs, 10)
        assert naive.svm_objective(single.coef_[c].astype(float), X, signs, 10) < 1.001 * best


def test_more_samples_than_dimensions_build_no_gram_matrix(monkeypatch):
    def forbidden(*_):
        raise AssertionError("a Gram matrix was made")

    monkeypatch.setattr("lrrspm.svm.stored.gram_matrix", forbidden)
    X, y = problem(300, 20, 3)
    LinearSVM(random_state=0).fit(X, y)
    with pytest.raises(AssertionError, match="Gram"):
        LinearSVM(random_state=0).fit(X[:20], y[:20])


def test_gram_matrix():
    X = np.random.default_rng(0).normal(size=(1100, 7))
    np.testing.assert_allclose(gram_matrix(X, None), X @ X.T, atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(600, 900), (600, 30)])
def test_same_bits_for_any_number_of_threads(n, d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)).astype(np.float32), np.arange(n) % 150
    one = LinearSVM(max_iter=3, tol=1, random_state=1).fit(X, y)
    four = LinearSVM(max_iter=3, tol=1, random_state=1, n_jobs=4).fit(X, y)
    np.testing.assert_array_equal(one.coef_, four.coef_)


def test_string_labels():
    X, y = problem(60, 100, 3)
    names = np.array(["ape", "bee", "cat"])[y]
    model = LinearSVM(random_state=0).fit(X, names)
    assert model.classes_.tolist() == ["ape", "bee", "cat"]
    np.testing.assert_array_equal(model.predict(X), names)


def test_says_when_it_has_not_converged():
    X, y = problem(60, 100, 3)
    with pytest.warns(ConvergenceWarning, match="not converged after 1 passes"):
        LinearSVM(max_iter=1, tol=1e-9, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    "parameters", [{"C": 0}, {"C": -1}, {"C": float("nan")}, {"tol": 0}, {"max_iter": 0}]
)
def test_bad_parameters(parameters):
    with pytest.raises(ValueError, match="must be"):
        LinearSVM(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_one_class_only():
    with pytest.raises(ValueError, match="at least two classes, got one class: a"):
        LinearSVM().fit([[0.0], [1.0]], ["a", "a"])


def test_measurements_are_no_labels():
    with pytest.raises(ValueError, match=r"continuous; labels are names or whole numbers$"):
        LinearSVM().fit(np.eye(3), [0.1, 0.2, 0.3])
