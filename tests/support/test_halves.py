"""Half precision by bits, against NumPy's own conversions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lrrspm._support.halves import all_finite, in_precision, scale_halves, widen_columns

EVERY_HALF = np.arange(2**16, dtype=np.uint16).view(np.float16)
FINITE = EVERY_HALF[np.isfinite(EVERY_HALF)]


def assert_same_bits(one, other):
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


def test_every_half_is_widened():
    found = widen_columns(np.stack([FINITE, FINITE[::-1]]), 0, len(FINITE))
    assert_same_bits(found[0], FINITE.astype(np.float32))
    assert_same_bits(found[1], FINITE[::-1].astype(np.float32))


def test_every_half_and_every_tie_is_rounded():
    wide = np.sort(FINITE.astype(np.float32))
    ties = wide[:-1] / 2 + wide[1:] / 2
    values = np.concatenate([wide, ties, np.nextafter(ties, np.float32(np.inf))])
    assert_same_bits(in_precision(values, np.float16), values.astype(np.float16))


@given(arrays(np.float32, st.integers(1, 3000), elements=st.floats(width=32, allow_nan=False)))
def test_floats_are_rounded(values):
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert_same_bits(in_precision(values, np.float16), expected)


def test_single_precision_is_left_alone():
    values = np.ones(3, np.float32)
    assert in_precision(values, np.float32) is values


@given(st.integers(1, 2500), st.data())
def test_columns(width, data):
    start = data.draw(st.integers(0, width - 1))
    stop = data.draw(st.integers(start, width))
    halves = np.random.default_rng(width).standard_normal((3, width)).astype(np.float16)
    expected = np.ascontiguousarray(halves[:, start:stop], np.float32)
    assert_same_bits(widen_columns(halves, start, stop), expected)


def test_scaling_is_in_single_precision():
    halves = np.random.default_rng(0).standard_normal((2, 3000)).astype(np.float16)
    factor = np.float32(0.37)
    expected = np.multiply(halves[1], factor, dtype=np.float32).astype(np.float16)
    scale_halves(halves[1], factor)
    assert_same_bits(halves[1], expected)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite_are_found(bad):
    halves = np.full((3, 50), 65504, np.float16)
    assert all_finite(halves)
    assert all_finite(-halves)
    halves[2, 17] = bad
    assert not all_finite(halves)
