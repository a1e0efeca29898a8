"""Text that people read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm._support.text import natural_key, percent


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


def test_numbers_sort_as_numbers():
    names = ["s10", "s2", "S1", "a/10/3.png", "a/9/20.png", "s02", "", "7", "x", "s2b"]
    assert sorted(names, key=natural_key) == [
        "", "7", "a/9/20.png", "a/10/3.png", "S1", "s02", "s2", "s2b", "s10", "x",
    ]  # fmt: skip


@given(st.lists(st.text(st.sampled_from("aB01²٣-"), max_size=6)))
def test_any_names_have_one_order(names):
    backwards = names[::-1]
    assert sorted(names, key=natural_key) == sorted(backwards, key=natural_key)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 3))
def test_zeros_in_front_do_not_count(one, other, zeros):
    first, second = f"s{'0' * zeros}{one}", f"s{other}"
    if one != other:
        assert (natural_key(first) < natural_key(second)) is (one < other)
