"""Training images as a share of each class, and by default."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm.evaluation import split_by_class


def counts_of(labels, train):
    return np.unique(labels[train], return_counts=True)[1].tolist()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(0.8, [160, 8, 2, 1]), (0.1, [20, 1, 1, 1]), (0.99, [198, 9, 2, 1]), (None, [100, 8, 2, 1])],
)
def test_by_hand(wanted, expected):
    labels = np.repeat([0, 1, 2, 3], [200, 10, 3, 2])
    assert counts_of(labels, split_by_class(labels, wanted, 0)) == expected


@given(
    counts=st.lists(st.integers(2, 30), min_size=2, max_size=5),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 100),
)
def test_every_class_is_trained_and_tested(counts, share, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    found = counts_of(labels, split_by_class(labels, share, seed))
    assert len(found) == len(counts)
    assert all(0 < some < count for some, count in zip(found, counts, strict=True))


def test_large_classes_have_the_default_of_before():
    labels = np.repeat([0, 1], 150)
    np.testing.assert_array_equal(split_by_class(labels, None, 3), split_by_class(labels, 100, 3))


@pytest.mark.parametrize("wanted", [0, -1, 1.5, -0.5, float("nan"), float("inf")])
def test_what_is_neither_a_number_nor_a_share_is_refused(wanted):
    with pytest.raises(ValueError, match="a whole number of at least 1, or a share"):
        split_by_class(np.repeat([0, 1], 5), wanted, 0)
