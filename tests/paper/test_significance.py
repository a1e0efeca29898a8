"""Tests of means against SciPy's, and by hand."""

import numpy as np
import pytest
from scipy import stats

from lrrspm.paper.significance import paired, say_p, sign_test, welch


@pytest.mark.parametrize("seed", range(5))
def test_welch_is_scipys(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(80, 1, 5), rng.normal(81, 0.3, 7)
    found = welch(first.mean(), first.std(ddof=1), 5, second.mean(), second.std(ddof=1), 7)
    wanted = stats.ttest_ind(first, second, equal_var=False)
    assert found is not None
    assert found.points == pytest.approx(first.mean() - second.mean())
    assert (found.errors, found.p) == pytest.approx((wanted.statistic, wanted.pvalue))


def test_welch_by_hand():
    # Squared standard errors 0.09 / 5 and 0.16 / 5, together 0.05.
    found = welch(80, 0.3, 5, 81, 0.4, 5)
    assert found is not None
    assert found.errors == pytest.approx(-1 / 0.05**0.5)
    assert found.freedom == pytest.approx(0.05**2 / ((0.018**2 + 0.032**2) / 4))
    assert welch(100, 0, 5, 100, 0, 5) is None


@pytest.mark.parametrize("seed", range(5))
def test_paired_is_scipys(seed):
    rng = np.random.default_rng(seed)
    first = rng.normal(80, 1, 5)
    second = first + rng.normal(0.3, 0.2, 5)
    found = paired(first.tolist(), second.tolist())
    wanted = stats.ttest_rel(first, second)
    assert found is not None
    assert (found.errors, found.p) == pytest.approx((wanted.statistic, wanted.pvalue))
    assert found.freedom == 4


def test_paired_needs_a_spread():
    assert paired([1.0], [2.0]) is None
    assert paired([1.0, 2.0], [2.0, 3.0]) is None


@pytest.mark.parametrize(("above", "below"), [(0, 12), (3, 4), (5, 5), (7, 1), (0, 0)])
def test_sign_test_is_scipys(above, below):
    n = above + below
    wanted = stats.binomtest(above, n).pvalue if n else 1.0
    assert sign_test(above, below) == pytest.approx(wanted)


def test_probabilities_in_words():
    assert (say_p(0.5), say_p(0.0271), say_p(1e-6)) == ("p = 0.5", "p = 0.027", "p < 0.001")
