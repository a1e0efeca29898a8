import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from lrrspm import KernelSVM
from lrrspm._support.parallel import workers
from lrrspm.svm.kernels import KERNELS, intersection_weights, kernel_matrix
from tests import naive


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 9),
    p=st.integers(1, 9),
    d=st.integers(1, 70),
    name=st.sampled_from(sorted(KERNELS)),
    seed=st.integers(0, 2**32 - 1),
)
def test_kernels_agree_with_naive(n, p, d, name, seed):
    rng = np.random.default_rng(seed)
    X, Y = (np.maximum(0, rng.normal(size=(r, d))).astype(np.float32) for r in (n, p))
    expected = getattr(naive, name)(X.astype(float), Y.astype(float))
    np.testing.assert_allclose(kernel_matrix(name, X, Y, None), expected, atol=1e-4, rtol=1e-5)


def test_intersection_weights_by_hand():
    x = np.array([0.5, 0.0, 0.25], np.float32)
    Y = np.array([[0.25, 0.5, 0.25], [1.0, 0.0, 0.125]], np.float32)
    # Minima: (1/4, 0, 1/4) and (1/2, 0, 1/8).
    weights = intersection_weights(x, Y, np.array([2.0, -1.0]))
    np.testing.assert_array_equal(weights, [(0.5 - 0.5) / 0.5, 0, (0.5 - 0.125) / 0.25])


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_same_bits_for_any_number_of_threads_and_rows(name):
    rng = np.random.default_rng(0)
    X, Y = rng.random((150, 333), dtype=np.float32), rng.random((70, 333), dtype=np.float32)
    whole = kernel_matrix(name, X, Y, None)
    with workers(4) as executor:
        np.testing.assert_array_equal(kernel_matrix(name, X, Y, executor), whole)
    np.testing.assert_array_equal(kernel_matrix(name, X[3:5], Y[1:2], None), whole[3:5, 1:2])


def histograms(n, d=30, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.gamma(0.4, size=(n, d))
    X[np.arange(n), y] += 2
    return (X / X.sum(axis=1, keepdims=True)).astype(np.float32), y


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_agrees_with_liblinear_on_a_factor_of_the_gram_matrix(kernel, n_classes):
    X, y = histograms(120, n_classes=n_classes)
    ours = KernelSVM(kernel, tol=1e-6, random_state=0).fit(X, y)
    gram = kernel_matrix(kernel, X, X, None).astype(np.float64)
    values, vectors = np.linalg.eigh(gram)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    peer = LinearSVC(C=10, dual=True, tol=1e-8, fit_intercept=False, max_iter=100_000)
    expected = peer.fit(factor, y).decision_function(factor)
    scores = ours.decision_function(X)
    assert scores.shape == expected.shape
    np.testing.assert_allclose(scores, expected, atol=1e-3 * np.abs(expected).max())


def test_kinds_of_kernels_agree():
    X, y = histograms(80)
    T, truth = histograms(30, seed=1)
    named = KernelSVM("intersection", random_state=0).fit(X, y)
    scores = named.decision_function(T)

    def intersection(A, B):
        return kernel_matrix("intersection", A, B, None)

    own = KernelSVM(intersection, random_state=0).fit(X, y)
    np.testing.assert_array_equal(own.decision_function(T), scores)
    given_ = KernelSVM("precomputed", random_state=0).fit(intersection(X, X), y)
    np.testing.assert_allclose(given_.decision_function(intersection(T, X)), scores, atol=1e-5)
    assert named.support_vectors_.shape == (len(named.support_), 30)
    assert named.score(T, truth) > 0.8


def test_bad_input():
    X, y = histograms(20)
    with pytest.raises(ValueError, match="Negative values"):
        KernelSVM().fit(-X, y)
    with pytest.raises(ValueError, match="square matrix"):
        KernelSVM("precomputed").fit(X, y)
    with pytest.raises(ValueError, match="kernel must be callable or one of chi2, intersection"):
        KernelSVM("magic").fit(X, y)
    with pytest.raises(ValueError, match="C must be positive"):
        KernelSVM(C=0).fit(X, y)
    with pytest.raises(ValueError, match=r"shape \(20, 20\).* expected \(5, 20\)|shape \(19, 20\)"):
        KernelSVM(lambda A, B: np.eye(20)[:19]).fit(X, y)
