"""Plots of a report: risk against coverage, and how well probabilities are calibrated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..evaluation.certainty import Certainty

# Pixels of a plot without its margins.
_WIDTH, _HEIGHT = 320, 200
# Points of a curve at most; more could not be told apart.
_POINTS = 200
# Largest value of an axis, percent, and the distance of its ticks.
_SCALES = ((1, 0.25), (2, 0.5), (5, 1), (10, 2), (20, 5), (40, 10), (60, 10), (100, 20))
_LARGEST = 7  # radius of a bin's dot
_APART = 20  # distance of labels at least
# The share that is wrong among fewer answers is noise.
_ANSWERS = 10


class Tick(NamedTuple):
    """A label of an axis, and where it is."""

    at: float
    words: str


class Mark(NamedTuple):
    """A dot of a plot."""

    x: float
    y: float
    radius: float
    label: str
    """Shown beside it."""
    words: str
    """For pointers and screen readers."""


class Plot(NamedTuple):
    """A plot as ``templates/plots.html`` draws it, in pixels from the top left."""

    width: int
    height: int
    across: list[Tick]
    up: list[Tick]
    line: str
    """Corners of a curve."""
    ideal: bool
    """True if the curve is where the marks should be."""
    marks: list[Mark]


def confidence_rows(certainty: Certainty) -> list[tuple[str, str, str]]:
    """Return rows: a minimum confidence, percent of images answered, percent of these right."""
    return [
        (
            f"{row['confidence']:g}",
            f"{row['answered']:.1f}",
            "" if row["right"] is None else f"{row['right']:.1f}",
        )
        for row in certainty.coverage()
    ]


def risk_plot(certainty: Certainty) -> Plot:
    """Plot the share of wrong answers over the share of images answered, surest first."""
    shares, risks = certainty.risks(_ANSWERS)
    scale, step = next(each for each in _SCALES if each[0] >= 100 * risks.max())
    kept = np.unique(np.linspace(0, len(risks) - 1, min(_POINTS, len(risks))).astype(np.int64))
    line = _points(shares[kept], 100 * risks[kept] / scale)
    marks: list[Mark] = []
    for row in certainty.coverage():
        if row["right"] is None or (row["answered"] or 0) < 100 * shares[0] - 1e-9:
            continue
        x, y = _place((row["answered"] or 0) / 100, (100 - row["right"]) / scale)
        words = (
            f"from {row['confidence']:g} on: {row['answered']:.1f} % of images answered, "
            f"{row['right']:.1f} % of them right"
        )
        # From right to left; a label that would cover the last one is left out.
        crowded = any(one.label and one.x - x < _APART for one in marks)
        marks.append(Mark(x, y, 3.5, "" if crowded else f"{row['confidence']:g}", words))
    return Plot(
        _WIDTH, _HEIGHT, _ticks(100, 20, _WIDTH), _ticks(scale, step, -_HEIGHT), line, False, marks
    )


def calibration_plot(certainty: Certainty) -> Plot:
    """Plot the share of right predictions over their probability; dots grow with their images."""
    bins = certainty.bins()
    most = max(one.n_images for one in bins)
    marks = []
    for one in bins:
        x, y = _place(one.probability, one.right)
        radius = max(1.5, _LARGEST * (one.n_images / most) ** 0.5)
        words = (
            f"mean probability {100 * one.probability:.1f} %: "
            f"{100 * one.right:.1f} % of {one.n_images:,} right"
        )
        marks.append(Mark(x, y, round(radius, 1), "", words))
    ticks = _ticks(100, 20, _WIDTH), _ticks(100, 20, -_HEIGHT)
    return Plot(_WIDTH, _HEIGHT, *ticks, f"0,{_HEIGHT} {_WIDTH},0", True, marks)


def _ticks(most: float, step: float, length: int) -> list[Tick]:
    """Return ticks of an axis up to ``most`` percent; one of negative length goes up."""
    values: NDArray[Any] = np.arange(0, most + step / 2, step)
    start = 0 if length > 0 else -length
    return [Tick(round(start + length * v / most, 1), f"{v:g}") for v in values.tolist()]


def _place(x: float, y: float) -> tuple[float, float]:
    """Return the pixel of a point of the unit square."""
    return round(_WIDTH * float(x), 1), round(_HEIGHT * (1 - float(y)), 1)


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    return " ".join("{:g},{:g}".format(*_place(*each)) for each in zip(x, y, strict=True))
