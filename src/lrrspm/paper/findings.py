"""Findings: whether a claim follows from the paper's tables, and whether it holds for ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .tables import NOT_RUN

RIGHT, ROUNDED, WRONG = "right", "right but for rounding", "wrong"
NOT_IN_TABLES = "not in its tables"
HOLDS, PARTLY, FAILS, NOT_OURS = "holds", "holds in part", "does not hold", "not tested"
Values = Mapping[str, float]


class Finding(NamedTuple):
    """What became of a claim."""

    paper: str
    """What follows from the paper's own tables."""
    right: str
    """``RIGHT``, ``ROUNDED``, ``WRONG`` or ``NOT_IN_TABLES``."""
    ours: str = NOT_RUN
    """The same of our rows."""
    holds: str = NOT_RUN
    """``HOLDS``, ``PARTLY``, ``FAILS``, ``NOT_OURS`` or ``NOT_RUN``."""


def say_span(values: Values, form: str = ".2f", unit: str = "") -> str:
    """Say the smallest and the largest value, and where they are."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{values[low]:{form}}{unit} ({low}) to {values[high]:{form}}{unit} ({high})"


def compare_digits(said: Sequence[str], computed: Sequence[float]) -> str:
    """Compare printed numbers with computed ones, to the last digit printed."""
    verdict = RIGHT
    for text, value in zip(said, computed, strict=True):
        unit = 10.0 ** -len(text.partition(".")[2])
        distance = abs(float(text) - value) / unit
        if distance > 1.5:
            return WRONG
        if distance > 0.5 + 1e-9:
            verdict = ROUNDED
    return verdict


def judge(held: Sequence[bool]) -> str:
    """Return whether all, some or none of several comparisons hold."""
    return HOLDS if all(held) else PARTLY if any(held) else FAILS
