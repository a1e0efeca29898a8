import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import LLCEncoder, LRREncoder, VQEncoder, dense_sift
from lrrspm.encoders.lrr import _truncate
from tests import naive


def test_golden_codes(synthetic):
    X = dense_sift(synthetic["image"]).values
    encoder = LRREncoder(threshold=0, codebook=synthetic["codebook"]).fit(X)
    codes = encoder.transform(X)
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, synthetic["lrr_codes_untruncated"], atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 600),
    k=st.integers(1, 40),
    m=st.integers(1, 40),
    regularization=st.sampled_from([0.1, 0.7, 3.0]),
    threshold=st.sampled_from([0.0, 0.5, 0.98, 2.0]),
    normalize=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_naive(n, k, m, regularization, threshold, normalize, seed):
    rng = np.random.default_rng(seed)
    codebook, X = rng.normal(size=(k, m)), rng.normal(size=(n, m)).astype(np.float32)
    encoder = LRREncoder(
        regularization=regularization,
        threshold=threshold,
        normalize_codes=normalize,
        codebook=codebook,
    )
    codes = encoder.fit(X).transform(X)
    expected = naive.lrr_codes(X, codebook, regularization, threshold, normalize)
    untruncated = naive.lrr_codes(X, codebook, regularization, 0, normalize)
    # Entries at the threshold may fall on either side of it; others may not.
    total = untruncated.sum(axis=1, keepdims=True)
    sure = np.abs(untruncated - threshold / k * total) > 1e-4 * np.abs(untruncated).max()
    np.testing.assert_allclose(codes[sure], expected[sure], atol=1e-4)


def test_threshold_by_hand():
    # With D = I and lambda 1 a code is half its descriptor.
    encoder = LRREncoder(regularization=1, threshold=0.98, codebook=np.eye(4)).fit(np.eye(4))
    codes = encoder.transform(
        [
            [8, 2, 1, 1],  # mean of the code 1.5: keep 4
            [-8, -2, -1, -1],  # a negative sum turns the rule round
            [-8, 2, 1, 1],  # sum -2, mean -0.5: keep -4
            [0, 0, 0, 0],
            [2, 2, 2, 2],  # all at the mean, above 0.98 of it
        ]
    )
    expected = [[4, 0, 0, 0], [-4, 0, 0, 0], [-4, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    np.testing.assert_allclose(codes, expected, atol=1e-6)


def test_zero_sum_keeps_the_positive_entries():
    codes = np.array([[1, -1, 0.5, -0.5]], np.float32)
    _truncate(codes, np.zeros(1, np.float32))
    np.testing.assert_array_equal(codes, [[1, 0, 0.5, 0]])


def test_entries_exactly_at_the_threshold_are_kept():
    codes = np.array([[0.5, 0.25, 0.75], [-0.5, -0.25, -0.75]], np.float32)
    _truncate(codes, np.array([0.5, -0.5], np.float32))
    np.testing.assert_array_equal(codes, [[0.5, 0, 0.75], [-0.5, 0, -0.75]])
    # The same through the encoder, in numbers that binary fractions hold exactly:
    # with D = I and lambda 1 a code is half its descriptor; its mean is 1, its sum 4.
    encoder = LRREncoder(regularization=1, threshold=1, codebook=np.eye(4)).fit(np.eye(4))
    codes = encoder.transform([[2, 4, 1, 1], [-2, -4, -1, -1], [2, 2, 2, 2]])
    np.testing.assert_array_equal(codes, [[1, 2, 0, 0], [-1, -2, 0, 0], [1, 1, 1, 1]])


def test_is_the_ridge_solution():
    """Without truncation c minimizes ||x - Dc||^2 + lambda ||c||^2: its gradient is 0."""
    rng = np.random.default_rng(0)
    for k in (5, 200):
        codebook, X = rng.normal(size=(k, 20)), rng.normal(size=(7, 20))
        codes = LRREncoder(threshold=0, codebook=codebook).fit(X).transform(X).astype(np.float64)
        gradient = (codes @ codebook - X) @ codebook.T + 0.7 * codes
        assert np.abs(gradient).max() < 1e-4


def test_normalized_codes_have_unit_norm_before_truncation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 8))
    plain = LRREncoder(threshold=0, normalize_codes=True, codebook=rng.normal(size=(12, 8))).fit(X)
    np.testing.assert_allclose(np.linalg.norm(plain.transform(X), axis=1), 1, atol=1e-6)
    cut = LRREncoder(normalize_codes=True, codebook=plain.codebook).fit(X).transform(X)
    assert (np.linalg.norm(cut, axis=1) < 1).any()
    kept = cut != 0
    np.testing.assert_allclose(cut[kept], plain.transform(X)[kept], atol=1e-6)


def test_no_regularization_is_the_pseudo_inverse():
    rng = np.random.default_rng(0)
    codebook, X = rng.normal(size=(30, 8)), rng.normal(size=(4, 8))
    codes = LRREncoder(regularization=0, threshold=0, codebook=codebook).fit(X).transform(X)
    np.testing.assert_allclose(codes @ codebook, X, atol=1e-5)
    smallest = np.linalg.lstsq(codebook.T, X.T, rcond=None)[0].T
    np.testing.assert_allclose(codes, smallest, atol=1e-5)


def test_learns_its_codebook():
    X = np.random.default_rng(0).normal(size=(300, 6))
    encoder = LRREncoder(codebook_size=10, random_state=3).fit(X)
    again = LRREncoder(codebook_size=10, random_state=3).fit(X)
    assert encoder.codebook_.shape == (10, 6)
    np.testing.assert_array_equal(encoder.codebook_, again.codebook_)
    assert list(encoder.get_feature_names_out())[:2] == ["lrrencoder0", "lrrencoder1"]


def test_refitting_forgets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 5))
    encoder = LRREncoder(codebook=rng.normal(size=(6, 5))).fit(X)
    other = rng.normal(size=(6, 5))
    codes = encoder.set_params(codebook=other, threshold=0.3).fit(X).transform(X)
    expected = LRREncoder(codebook=other, threshold=0.3).fit(X).transform(X)
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"regularization": -0.1}, "regularization must be at least 0, got -0.1"),
        ({"threshold": -1}, "threshold must be at least 0"),
        ({"threshold": float("nan")}, "threshold must be at least 0"),
        ({"codebook_size": 0}, "codebook_size must be at least 1, got 0"),
        ({"codebook": np.zeros((4, 3))}, "codebook has 3 columns, X has 5"),
        ({"codebook": np.full((4, 5), np.nan)}, "NaN"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LRREncoder(**parameters).fit(np.ones((10, 5)))


def test_nan_in_descriptors():
    X = np.ones((10, 5))
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LRREncoder(codebook_size=2).fit(X)


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 40),
    k=st.integers(1, 30),
    m=st.integers(1, 20),
    n_neighbors=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
def test_vq_and_llc_agree_with_naive(n, k, m, n_neighbors, seed):
    rng = np.random.default_rng(seed)
    codebook = rng.normal(size=(k, m)).astype(np.float32)
    X = rng.normal(size=(n, m)).astype(np.float32)
    codes = VQEncoder(codebook=codebook).fit(X).transform(X)
    np.testing.assert_array_equal(codes, naive.vq_codes(X, codebook))
    llc = LLCEncoder(codebook=codebook, n_neighbors=n_neighbors).fit(X).transform(X)
    expected = naive.llc_codes(X, codebook.astype(np.float64), n_neighbors)
    np.testing.assert_allclose(llc, expected, atol=1e-5 * max(1, np.abs(expected).max()))
    np.testing.assert_allclose(llc.sum(axis=1), 1, atol=1e-5 * max(1, np.abs(expected).max()))
    assert ((llc != 0).sum(axis=1) <= n_neighbors).all()


def test_neighbors_far_from_zero():
    rng = np.random.default_rng(0)
    codebook, X = rng.normal(size=(64, 16)) + 3000, rng.normal(size=(50, 16)) + 3000
    codebook, X = codebook.astype(np.float32), X.astype(np.float32)
    codes = VQEncoder(codebook=codebook).fit(X).transform(X)
    np.testing.assert_array_equal(codes, naive.vq_codes(X.astype(float), codebook.astype(float)))
    llc = LLCEncoder(codebook=codebook).fit(X).transform(X)
    expected = naive.llc_codes(X, codebook.astype(float))
    np.testing.assert_array_equal(llc != 0, expected != 0)


def test_vq_is_one_hot_at_the_first_of_equal_atoms():
    codes = VQEncoder(codebook=[[0, 0], [1, 1], [1, 1]]).fit_transform([[0.9, 1], [0.1, 0]])
    np.testing.assert_array_equal(codes, [[0, 1, 0], [1, 0, 0]])


def test_golden_llc_codes(synthetic):
    encoder = LLCEncoder(codebook=synthetic["codebook"]).fit(synthetic["descriptors"])
    codes = encoder.transform(synthetic["descriptors"])
    np.testing.assert_allclose(codes, synthetic["llc_codes"], atol=1e-5, rtol=0)
    ours = encoder.transform(dense_sift(synthetic["image"]).values)
    np.testing.assert_allclose(ours, synthetic["llc_codes"], atol=5e-4, rtol=0)


def test_llc_of_degenerate_descriptors():
    same = LLCEncoder(codebook=np.ones((5, 3))).fit_transform(np.ones((2, 3)))
    np.testing.assert_allclose(same, np.full((2, 5), 0.2))
    zero = LLCEncoder(codebook=np.eye(6)).fit_transform(np.zeros((1, 6)))
    assert np.isfinite(zero).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_neighbors": 0}, "n_neighbors must be"), ({"regularization": 0}, "must be positive")],
)
def test_bad_llc_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LLCEncoder(**parameters).fit(np.ones((10, 5)))
