import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import SparseEncoder, dense_sift
from lrrspm._support.parallel import workers
from lrrspm.encoders import learn_dictionary
from tests import naive


def test_golden_codes(synthetic):
    X = dense_sift(synthetic["image"]).values
    codes = SparseEncoder(codebook=synthetic["codebook"]).fit(X).transform(X)
    np.testing.assert_allclose(codes, synthetic["sc_codes"], atol=1e-5, rtol=0)


def violations(X, codes, codebook, sparsity, ridge):
    """How far each coordinate is from its optimality condition."""
    X, codes = X.astype(np.float64), codes.astype(np.float64)
    gradient = (X - codes @ codebook) @ codebook.T - 2 * ridge * codes
    return np.where(
        codes == 0,
        np.maximum(0, np.abs(gradient) - sparsity),
        np.abs(gradient - sparsity * np.sign(codes)),
    )


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 20),
    k=st.integers(1, 60),
    m=st.integers(1, 30),
    sparsity=st.sampled_from([0.02, 0.15, 1.0]),
    ridge=st.sampled_from([1e-4, 1e-2]),
    positive=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_optimality_conditions(n, k, m, sparsity, ridge, positive, seed):
    rng = np.random.default_rng(seed)
    codebook, X = rng.normal(size=(k, m)), rng.normal(size=(n, m))
    if positive:  # strongly correlated atoms, as with SIFT
        codebook, X = np.abs(codebook), np.abs(X)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    encoder = SparseEncoder(sparsity=sparsity, ridge=ridge, codebook=codebook).fit(X)
    codes = encoder.transform(X)
    assert violations(X, codes, encoder.codebook_, sparsity, ridge).max() < 1e-4
    for x, code in zip(X, codes, strict=True):
        best = naive.sparse_objective(x, code, encoder.codebook_, sparsity, ridge)
        other = code + rng.normal(0, 0.01, k) * (rng.random(k) < 0.2)
        assert best <= naive.sparse_objective(x, other, encoder.codebook_, sparsity, ridge) + 1e-6


def test_agrees_with_spams(synthetic):
    spams = pytest.importorskip("spams", reason="spams is an optional oracle")
    X = dense_sift(synthetic["image"]).values
    encoder = SparseEncoder(codebook=synthetic["codebook"]).fit(X)
    expected = spams.lasso(
        np.asfortranarray(X.T, np.float64),
        D=np.asfortranarray(encoder.codebook_.T, np.float64),
        lambda1=0.15,
        lambda2=2e-4,
        mode=2,
        numThreads=1,
    )
    np.testing.assert_allclose(encoder.transform(X), expected.toarray().T, atol=1e-4)


def test_by_hand():
    # One atom: s = (b.x - gamma) / (1 + 2 beta) where that is positive.
    encoder = SparseEncoder(codebook=[[3.0, 4.0]]).fit([[0.0, 0.0]])
    codes = encoder.transform([[0.6, 0.8], [-0.6, -0.8], [0.06, 0.08], [0.0, 0.0]])
    np.testing.assert_allclose(codes.ravel(), np.array([0.85, -0.85, 0, 0]) / 1.0002, atol=1e-6)


def test_atoms_have_unit_norm_and_zeros_stay():
    encoder = SparseEncoder(codebook=[[3.0, 4.0], [0.0, 0.0]]).fit([[1.0, 0.0]])
    np.testing.assert_allclose(encoder.codebook_, [[0.6, 0.8], [0.0, 0.0]])
    assert np.isfinite(encoder.transform([[1.0, 1.0], [0.0, 0.0]])).all()


def test_equal_atoms():
    codes = SparseEncoder(codebook=np.ones((4, 3))).fit_transform(np.ones((1, 3)) / np.sqrt(3))
    assert codes.sum() == pytest.approx(0.85, abs=1e-3)


def test_neighbors():
    rng = np.random.default_rng(0)
    codebook, X = np.abs(rng.normal(size=(50, 16))), np.abs(rng.normal(size=(30, 16)))
    exact = SparseEncoder(codebook=codebook).fit(X)
    near = SparseEncoder(codebook=codebook, n_neighbors=10).fit(X)
    order = np.argsort(-(X @ exact.codebook_.T), axis=1)
    codes = near.transform(X)
    for code, nearest in zip(codes, order, strict=True):
        assert set(np.flatnonzero(code)) <= set(nearest[:10])
    # It is the exact code over those atoms alone.
    alone = SparseEncoder(codebook=exact.codebook_[order[0, :10]]).fit(X).transform(X[:1])
    np.testing.assert_allclose(codes[0, order[0, :10]], alone[0], atol=1e-6)
    everything = SparseEncoder(codebook=codebook, n_neighbors=50).fit(X)
    np.testing.assert_array_equal(everything.transform(X), exact.transform(X))


def test_dictionary_learning():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(12, 20))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    weights = rng.normal(size=(2000, 12)) * (rng.random((2000, 12)) < 0.15)
    X = (weights @ truth + rng.normal(0, 0.01, (2000, 20))).astype(np.float32)
    learned = learn_dictionary(X, 12, 0.05, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(learned, axis=1), 1, atol=1e-5)
    assert np.median(np.abs(truth @ learned.T).max(axis=1)) > 0.95
    with workers(3) as executor:
        threaded = learn_dictionary(X, 12, 0.05, random_state=0, executor=executor)
    np.testing.assert_array_equal(learned, threaded)

    def cost(**parameters):
        encoder = SparseEncoder(12, sparsity=0.05, random_state=0, **parameters).fit(X)
        codes = encoder.transform(X)
        return sum(
            naive.sparse_objective(x, code, encoder.codebook_, 0.05, 1e-4)
            for x, code in zip(X, codes, strict=True)
        )

    assert cost(dictionary="sparse") < 0.9 * cost(dictionary="kmeans")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sparsity": 0}, "sparsity must be positive"),
        ({"ridge": -1}, "ridge must be positive"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"dictionary": "magic"}, "dictionary must be"),
        ({"codebook_size": 0}, "codebook_size must be at least 1"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SparseEncoder(**parameters).fit(np.ones((10, 5)))
