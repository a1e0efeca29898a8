"""Low-rank weights and moments against slow twins, Fisher vectors and toys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm.encoders import LRRWeightEncoder
from lrrspm.pooling import MomentPooling, SpatialPyramid
from tests import naive


def fitted(seed=0, k=5, m=4, n=300):
    values = np.random.default_rng(seed).normal(size=(n, m)).astype(np.float32)
    encoder = LRRWeightEncoder(k, random_state=0).fit(values)
    return values, encoder, MomentPooling().fit(values, encoder)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from([0.3, 0.5, 1.0]))
def test_weights(seed, power, survivors):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=(60, 6)) + rng.normal(size=6)).astype(np.float32)
    encoder = LRRWeightEncoder(7, 0.1, survivors, power, random_state=0).fit(values)
    constant = np.linalg.norm(values.astype(float), axis=1).mean()
    codes = encoder.transform(values)
    np.testing.assert_allclose(codes.sum(axis=1), 1, atol=1e-5)
    for x, code in zip(values, codes, strict=True):
        expected = naive.low_rank_weights(x, encoder.codebook_, constant, 0.1, survivors, power)
        near = np.sort(expected[expected > 0])
        if survivors < 1 and len(near) > 1:  # a tie at the limit may fall on either side
            np.testing.assert_allclose(code, expected, atol=0.02)
        else:
            np.testing.assert_allclose(code, expected, atol=1e-3)


def test_moments_of_several_regions():
    _, encoder, pooling = fitted()
    rng = np.random.default_rng(1)
    values = rng.normal(0.7, 1.5, size=(90, 4)).astype(np.float32)  # unlike those it was fitted to
    x, y = rng.uniform(0, 60, len(values)), rng.uniform(0, 40, len(values))
    codes = encoder.transform(values)
    levels = (1, (3, 1))
    vector = pooling.pool(codes, x, y, 60, 40, levels, values).reshape(4, -1)
    strip = np.minimum(np.ceil((y + 1) * 3 / 40).astype(int) - 1, 2)
    for row, inside in zip(vector, [np.full(len(y), True), *(strip == s for s in range(3))],
                           strict=True):  # fmt: skip
        raw = naive.moments(
            values[inside], codes[inside], pooling.shares_, pooling.means_, pooling.deviations_
        )
        rooted = np.sign(raw) * np.sqrt(np.abs(raw))
        n_cells = 1 if inside.all() else 3
        # Two levels that count the same, and a vector of length 1.
        expected = rooted / np.linalg.norm(rooted) / np.sqrt(2 * n_cells)
        np.testing.assert_allclose(row, expected, atol=2e-3)


def test_training_descriptors_have_no_moments():
    """Means and variances are those of the sample, so nothing is left over."""
    values, encoder, pooling = fitted(n=2000)
    codes = encoder.transform(values)
    raw = naive.moments(values, codes, pooling.shares_, pooling.means_, pooling.deviations_)
    assert np.abs(raw).max() < 0.02 * len(values) ** 0.5


def test_first_moments_alone():
    values, encoder, _ = fitted()
    codes = encoder.transform(values)
    one = MomentPooling(order=1).fit(values, encoder)
    x = np.full(len(values), 5.0)
    half = one.pool(codes, x, x, 20, 20, (1,), values)
    assert len(half) == 5 * 4
    both = MomentPooling().fit(values, encoder).pool(codes, x, x, 20, 20, (1,), values)
    first = both[: len(half)]
    np.testing.assert_allclose(half, first / np.linalg.norm(first), atol=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 2]))
def test_contributions_add_up(seed, order):
    values, encoder, _ = fitted(seed, n=120)
    pooling = MomentPooling(order=order).fit(values, encoder)
    rng = np.random.default_rng(seed)
    pyramid = SpatialPyramid((1, (3, 1), 2))
    some = values[:40]
    cells = rng.integers(0, pyramid.n_finest, len(some))
    codes = encoder.transform(some)
    state = pooling.start(pyramid, 5, 4)
    pooling.add(state, some, codes, cells)
    vector = pooling.finish(state, pyramid)
    weights = rng.normal(size=len(vector))
    shares = pooling.attribute(some, codes, cells, weights, pyramid)
    assert shares.sum() == pytest.approx(weights @ vector, abs=1e-5)
    # Evidence stays within bounds where parts cancel.
    assert np.abs(shares).max() < 20 * np.abs(weights @ vector) + 20


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_contributions_agree_with_naive(seed):
    values, encoder, pooling = fitted(seed, n=120)
    rng = np.random.default_rng(seed)
    pyramid = SpatialPyramid((1, (3, 1), 2))
    some = values[:40]
    cells = rng.integers(0, pyramid.n_finest, len(some))
    codes = encoder.transform(some)
    state = pooling.start(pyramid, 5, 4)
    pooling.add(state, some, codes, cells)
    vector = pooling.finish(state, pyramid)
    # Entries whose parts nearly cancel, which rounding decides, are worth nothing here.
    weights = rng.normal(size=vector.shape).astype(np.float32).reshape(pyramid.n_cells, -1)
    evidence = weights * vector.reshape(weights.shape)
    parts = naive.moment_parts(some, codes, pooling.shares_, pooling.means_, pooling.deviations_)
    expected = np.zeros(len(some))
    for grid in pyramid.grids():
        for cell in range(grid.rows.stop - grid.rows.start):
            inside = grid.parents[cells] == cell
            own = parts[inside]
            ratio = np.abs(own.sum(axis=0)) / np.maximum(np.abs(own).sum(axis=0), 1e-9)
            row = grid.rows.start + cell
            for array in (weights, evidence):
                array[row, np.abs(ratio - 0.1) < 1e-3] = 0
            expected[inside] += naive.share_sums(own, evidence[row])
    found = pooling.attribute(some, codes, cells, weights.ravel(), pyramid)
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_blocks_do_not_matter():
    values, encoder, pooling = fitted()
    codes = encoder.transform(values)
    pyramid = SpatialPyramid((1, 2))
    cells = np.arange(len(values)) % pyramid.n_finest
    whole, parts = (pooling.start(pyramid, 5, 4) for _ in range(2))
    pooling.add(whole, values, codes, cells)
    for start in range(0, len(values), 100):
        rows = slice(start, start + 100)
        pooling.add(parts, values[rows], codes[rows], cells[rows])
    np.testing.assert_array_equal(pooling.finish(whole, pyramid), pooling.finish(parts, pyramid))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (LRRWeightEncoder(regularization=0), "regularization must be positive"),
        (LRRWeightEncoder(survivors=0), "survivors must be above 0"),
        (LRRWeightEncoder(power=-1), "power must be positive"),
        (MomentPooling(order=3), "order must be 1 or 2"),
    ],
)
def test_bad_parameters(bad, message):
    with pytest.raises(ValueError, match=message):
        bad.check_parameters()
