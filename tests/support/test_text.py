"""Text that people read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm._support.text import percent


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (0, "0.0 %"),
        (1e-9, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.5, "50.0 %"),
        (0.9994, "99.9 %"),
        (0.9996, "> 99.9 %"),
        (1, "100.0 %"),
    ],
)
def test_percent_by_hand(probability, shown):
    assert percent(probability) == shown


@given(st.floats(0, 1))
def test_percent_is_certain_only_where_it_is(probability):
    shown = percent(probability)
    value = float(re.sub("[<> %]", "", shown)) / 100
    assert abs(value - probability) <= 0.001
    assert (shown in ("0.0 %", "100.0 %")) == (probability in (0, 1))
