import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import (
    AveragePooling,
    HistogramPooling,
    LLCEncoder,
    LRREncoder,
    MaxPooling,
    SignedMaxPooling,
    SparseEncoder,
    SpatialPyramid,
    dense_sift,
)
from lrrspm.pooling.base import NORMS
from tests import naive

# Names that the naive versions have.
POOLINGS = {
    "max": MaxPooling,
    "signed_max": SignedMaxPooling,
    "average": AveragePooling,
    "histogram": HistogramPooling,
}


def test_golden_pooled_vectors(synthetic):
    found = dense_sift(synthetic["image"])
    for i, regularization in enumerate(synthetic["lrr_lambdas"]):
        for j, threshold in enumerate(synthetic["lrr_thresholds"]):
            encoder = LRREncoder(
                regularization=regularization, threshold=threshold, codebook=synthetic["codebook"]
            )
            codes = encoder.fit(found.values).transform(found.values)
            vector = MaxPooling().pool(codes, found.x, found.y, found.width, found.height)
            expected = synthetic["lrr_pooled"][i, j]
            np.testing.assert_allclose(vector, expected, atol=1e-6, rtol=0)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(0, 40),
    width=st.integers(1, 50),
    height=st.integers(1, 50),
    levels=st.sampled_from([(1,), (1, 2, 4), (4, 1), (1, 2, 3), (1, 3, 5)]),
    pooling=st.sampled_from(sorted(POOLINGS)),
    norm=st.sampled_from(NORMS),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_naive(n, width, height, levels, pooling, norm, seed):
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(n, 3)).astype(np.float32)
    x, y = rng.integers(0, 2 * width - 1, n) / 2, rng.integers(0, 2 * height - 1, n) / 2
    vector = POOLINGS[pooling](norm).pool(codes, x, y, width, height, levels)
    assert vector.dtype == np.float32
    expected = naive.pool(codes, x, y, width, height, levels, pooling, norm)
    np.testing.assert_allclose(vector, expected, atol=2e-6, rtol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(0, 40),
    width=st.integers(1, 50),
    height=st.integers(1, 50),
    levels=st.sampled_from([(1,), (1, 2, 4), (4, 1), (1, 2, 3)]),
    pooling=st.sampled_from(sorted(POOLINGS)),
    norm=st.sampled_from(NORMS),
    ties=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_attribution_agrees_with_naive_and_adds_up(
    n, width, height, levels, pooling, norm, ties, seed
):
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(n, 3)).astype(np.float32)
    if ties:
        codes = np.round(codes)
    x, y = rng.integers(0, 2 * width - 1, n) / 2, rng.integers(0, 2 * height - 1, n) / 2
    pyramid, pool = SpatialPyramid(levels), POOLINGS[pooling](norm)
    weights = rng.normal(size=pyramid.n_cells * 3).astype(np.float32)
    shares = pool.attribute(codes, codes, pyramid.cells(x, y, width, height), weights, pyramid)
    expected = naive.attribute(codes, x, y, width, height, weights, levels, pooling, norm)
    np.testing.assert_allclose(shares, expected, atol=1e-5, rtol=1e-5)
    score = weights.astype(np.float64) @ pool.pool(codes, x, y, width, height, levels)
    np.testing.assert_allclose(shares.sum(), score, atol=1e-5)


def test_the_first_of_equal_maxima_has_it_all():
    # The second and third patch share the largest value; the second lies in another fine cell
    # than the first, and comes before the third, which lies in the first fine cell.
    codes = np.array([[1.0], [-2.0], [2.0]], np.float32)
    pyramid = SpatialPyramid((1, 2))
    cells = pyramid.cells([0, 3, 0], [0, 0, 1], 4, 4)
    np.testing.assert_array_equal(cells, [0, 1, 0])
    weights = np.array([100, 10, 1, 0, 0], np.float32)
    shares = MaxPooling(norm=None).attribute(codes, codes, cells, weights, pyramid)
    np.testing.assert_array_equal(shares, [0, 202, 20])


def test_by_hand():
    # Two patches, one in the left and one in the right half of a 4x2 image.
    vector = MaxPooling().pool([[3.0], [-4.0]], [0.5, 2.5], [0, 0], 4, 2, levels=(1, 2))
    np.testing.assert_allclose(vector, np.array([4, 3, 4, 0, 0]) / np.sqrt(41), rtol=1e-6)


def test_a_center_on_a_border_belongs_to_the_lower_cell():
    # 1-based center 2 of width 4: ceil(2 / 2) = 1, the left cell.
    cells = SpatialPyramid((2,)).cells([1.0, 1.5], [0.0, 0.0], 4, 4)
    np.testing.assert_array_equal(cells, [0, 1])


def test_histograms_sum_to_one():
    rng = np.random.default_rng(0)
    codes = np.eye(7)[rng.integers(0, 7, 50)]
    x, y = rng.uniform(0, 29, 50), rng.uniform(0, 19, 50)
    histogram = HistogramPooling(None).pool(codes, x, y, 30, 20)
    assert histogram.sum() == pytest.approx(1, abs=1e-6)
    # A quarter, a quarter and a half for the three levels; BOF is the first alone.
    sums = [histogram[:7].sum(), histogram[7:35].sum(), histogram[35:].sum()]
    np.testing.assert_allclose(sums, [0.25, 0.25, 0.5], atol=1e-6)
    np.testing.assert_allclose(
        HistogramPooling(None).pool(codes, x, y, 30, 20, (1,)), codes.mean(axis=0)
    )


@pytest.mark.parametrize(
    ("encoder", "pooling", "field", "atol"),
    [
        (SparseEncoder, MaxPooling, "sc_pooled", 1e-5),
        (LLCEncoder, SignedMaxPooling, "llc_pooled", 1e-5),
    ],
)
def test_golden_pooled_vectors_of_other_encoders(synthetic, encoder, pooling, field, atol):
    found = dense_sift(synthetic["image"])
    codes = encoder(codebook=synthetic["codebook"]).fit_transform(found.values)
    vector = pooling().pool(codes, found.x, found.y, found.width, found.height)
    np.testing.assert_allclose(vector, synthetic[field], atol=atol, rtol=0)


def test_zero_codes_give_a_zero_vector():
    vector = MaxPooling().pool(np.zeros((5, 2)), np.zeros(5), np.zeros(5), 9, 9)
    np.testing.assert_array_equal(vector, np.zeros(42))


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 30), st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_norm_order_and_scale(n, seed, scale):
    rng = np.random.default_rng(seed)
    codes, x, y = rng.normal(size=(n, 4)), rng.uniform(0, 20, n), rng.uniform(0, 10, n)
    pooling = MaxPooling()
    vector = pooling.pool(codes, x, y, 21, 11)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    order = rng.permutation(n)
    shuffled = pooling.pool(codes[order], x[order], y[order], 21, 11)
    np.testing.assert_array_equal(vector, shuffled)
    np.testing.assert_allclose(pooling.pool(scale * codes, x, y, 21, 11), vector, atol=1e-6)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "positive whole numbers"),
        ((0, 1), "positive whole numbers"),
        ((1.5,), "positive whole numbers"),
        (4, "positive whole numbers"),
        ((7, 8, 9), "least common multiple"),
    ],
)
def test_bad_levels(levels, message):
    with pytest.raises(ValueError, match=message):
        SpatialPyramid(levels)


@pytest.mark.parametrize("pooling", POOLINGS.values())
def test_bad_norms(pooling):
    with pytest.raises(ValueError, match="norm must be one of"):
        pooling("l3").pool(np.zeros((1, 3)), [0], [0], 5, 5)


def test_bad_calls():
    pooling = MaxPooling()
    with pytest.raises(ValueError, match="2 codes, but 1 positions"):
        pooling.pool(np.zeros((2, 3)), [0], [0], 5, 5)
    with pytest.raises(ValueError, match="shape"):
        pooling.pool(np.zeros(3), [0], [0], 5, 5)
    with pytest.raises(ValueError, match="width and height must be at least 1"):
        pooling.pool(np.zeros((1, 3)), [0], [0], 0, 5)


@pytest.mark.parametrize("pooling", POOLINGS.values())
def test_blocks_are_pooled_as_the_whole(pooling):
    rng = np.random.default_rng(0)
    codes = rng.integers(-3, 4, (50, 3)).astype(np.float32)  # their sums are exact
    x, y = rng.uniform(0, 20, 50), rng.uniform(0, 10, 50)
    pyramid = SpatialPyramid((1, 2))
    cells = pyramid.cells(x, y, 21, 11)
    state = pooling().start(pyramid, 3, 0)
    for rows in (slice(0, 7), slice(7, 7), slice(7, 50)):
        pooling().add(state, codes[rows, :0], codes[rows], cells[rows])
    whole = pooling().pool(codes, x, y, 21, 11, (1, 2))
    np.testing.assert_array_equal(pooling().finish(state, pyramid), whole)
