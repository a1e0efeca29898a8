"""Differences of means, in standard errors and with the probability that they are chance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import bdtr, stdtr

SIGNIFICANT = 0.05
"""Probabilities below are called significant."""


class Difference(NamedTuple):
    """A difference of two means."""

    points: float
    """The first mean minus the second."""
    errors: float
    """The same in standard errors: Student's t."""
    freedom: float
    """Degrees of freedom."""
    p: float
    """Two-sided probability of a difference as large, if there is none."""

    @property
    def significant(self) -> bool:
        """True if chance is an unlikely explanation."""
        return self.p < SIGNIFICANT


def welch(
    mean: float, std: float, n: int, other_mean: float, other_std: float, other_n: int
) -> Difference | None:
    r"""Compare two independent means of unequal spread (Welch's test).

    ``t = (m_1 - m_2) / sqrt(e_1 + e_2)`` with the squared standard errors
    ``e_i = s_i^2 / n_i``, and ``(e_1 + e_2)^2 / (e_1^2 / (n_1 - 1) + e_2^2 / (n_2 - 1))``
    degrees of freedom. None where neither side has any spread.
    """
    first, second = std**2 / n, other_std**2 / other_n
    if first + second == 0:
        return None
    freedom = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (other_n - 1))
    return _difference(mean - other_mean, (first + second) ** 0.5, freedom)


def paired(values: Sequence[float], others: Sequence[float]) -> Difference | None:
    """Compare two results on the same splits: the mean of the differences over its error.

    None with fewer than two splits, or where all differences are equal.
    """
    differences = [a - b for a, b in zip(values, others, strict=True)]
    if len(differences) < 2 or stdev(differences) == 0:
        return None
    error = stdev(differences) / len(differences) ** 0.5
    return _difference(fmean(differences), error, len(differences) - 1)


def sign_test(above: int, below: int) -> float:
    """Return the two-sided probability of so unequal a number of signs, if both are as likely.

    >>> sign_test(0, 5)
    0.0625
    """
    few, many = sorted((above, below))
    return min(1.0, 2 * float(bdtr(few, few + many, 0.5)))


def say_p(p: float) -> str:
    """Write a probability with two digits.

    >>> say_p(0.0312), say_p(0.00004)
    ('p = 0.031', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _difference(points: float, error: float, freedom: float) -> Difference:
    t = points / error
    return Difference(points, t, freedom, 2 * float(stdtr(freedom, -abs(t))))
