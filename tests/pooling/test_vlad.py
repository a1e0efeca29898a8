"""VLAD against a slow twin and toys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import VQEncoder
from lrrspm.encoders import MixtureEncoder
from lrrspm.pooling import SpatialPyramid, VLADPooling
from tests import naive


def fitted(seed=0, k=5, m=4, n=300):
    values = np.random.default_rng(seed).normal(size=(n, m)).astype(np.float32)
    encoder = VQEncoder(k, random_state=0).fit(values)
    return values, encoder, VLADPooling().fit(values, encoder)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 90))
def test_agrees_with_naive(seed, n):
    _, encoder, pooling = fitted(seed)
    rng = np.random.default_rng(seed)
    values = rng.normal(0.7, 1.5, size=(n, 4)).astype(np.float32)
    x, y = rng.uniform(0, 60, n), rng.uniform(0, 40, n)
    codes = np.zeros((n, 5), np.float32)
    if n:
        codes = encoder.transform(values)
    vector = pooling.pool(codes, x, y, 60, 40, (1, (3, 1)), values)
    strip = np.minimum(np.ceil((y + 1) * 3 / 40).astype(int) - 1, 2)
    cells = [
        naive.vlad(values[inside], codes[inside], encoder.codebook_)
        for inside in (np.full(n, True), *(strip == s for s in range(3)))
    ]
    levels = np.sqrt([[1], [3], [3], [3]])  # each level counts the same
    expected = np.ravel(np.array(cells) / levels)
    expected /= np.linalg.norm(expected) or 1
    np.testing.assert_allclose(vector, expected, atol=2e-3)


def test_two_atoms_by_hand():
    codebook = np.array([[0.0, 0.0], [10.0, 0.0]])
    values = np.array([[1, 0], [3, 9], [10, -4]], np.float32)
    encoder = VQEncoder(codebook=codebook).fit(values)
    pooling = VLADPooling().fit(values, encoder)
    where = np.full(3, 5.0)
    found = pooling.pool(encoder.transform(values), where, where, 20, 20, (1,), values)
    # Sums (4, 9) and (0, -4), roots (2, 3) and (0, -2), each of length 1, all of length 1.
    expected = np.array([2 / 13**0.5, 3 / 13**0.5, 0, -1]) / 2**0.5
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_descriptors_on_their_atoms_have_no_vector():
    """No rounding is blown up to length 1."""
    codebook = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    encoder = VQEncoder(codebook=codebook).fit(codebook)
    pooling = VLADPooling().fit(codebook, encoder)
    values = np.repeat(codebook, 7, axis=0)
    where = np.full(len(values), 5.0)
    found = pooling.pool(encoder.transform(values), where, where, 20, 20, (1, 2), values)
    np.testing.assert_array_equal(found, 0)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_contributions_add_up(seed):
    values, encoder, pooling = fitted(seed, n=120)
    rng = np.random.default_rng(seed)
    pyramid = SpatialPyramid((1, (3, 1), 2))
    cells = rng.integers(0, pyramid.n_finest, len(values))
    codes = encoder.transform(values)
    state = pooling.start(pyramid, 5, 4)
    pooling.add(state, values, codes, cells)
    vector = pooling.finish(state, pyramid)
    weights = rng.normal(size=len(vector))
    shares = pooling.attribute(values, codes, cells, weights, pyramid)
    assert shares.sum() == pytest.approx(weights @ vector, abs=1e-5)


def test_an_encoder_without_a_codebook_is_refused():
    values = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    encoder = MixtureEncoder(3, random_state=0).fit(values)
    with pytest.raises(ValueError, match="MixtureEncoder has no codebook"):
        VLADPooling().fit(values, encoder)
