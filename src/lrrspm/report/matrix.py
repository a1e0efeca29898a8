"""The confusion matrix, and the pairs of classes that stand out of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support.text import natural_key
from ..evaluation.results import Evaluation
from .draw import AGAINST, FOR

ROOMY = 10
"""With up to so many classes, a cell holds percent and count."""

NUMBERED = 24
"""With up to so many classes, a cell holds percent; with more, only a color."""

# The heat map: letters of a name beside it, a letter's width and the gap, in its own units.
_LETTERS, _LETTER, _GAP = 24, 4.6, 6
_SPOKEN = 60  # letters of a name in a cell's words


class Pair(NamedTuple):
    """Test images of one class that were confused with another."""

    label: str
    predicted: str
    n_images: int
    share: float
    """Of the class's test images, percent."""


class Cell(NamedTuple):
    """A cell of the matrix that is not empty."""

    n_images: int
    percent: str
    color: str
    words: str
    """For pointers and screen readers."""


class Matrix(NamedTuple):
    """A matrix as ``templates/matrix.html`` shows it."""

    names: list[str]
    rows: list[tuple[str, list[Cell | None]]]
    """True classes and their cells; None where there are no predictions."""
    roomy: bool
    numbered: bool
    letters: int
    """Letters of a name beside a heat map."""
    left: int
    """Width of the names beside a heat map."""


def confused_pairs(evaluation: Evaluation, most: int) -> list[Pair]:
    """Return the pairs of classes with the largest shares of wrong predictions, largest first."""
    names, counts = evaluation.class_names, evaluation.confusion
    shares = _shares(counts)
    np.fill_diagonal(counts, 0)
    order = np.lexsort((-counts.ravel(), -np.where(counts > 0, shares, 0).ravel()))[:most]
    places = zip(*np.unravel_index(order, counts.shape), strict=True)
    return [
        Pair(str(names[i]), str(names[j]), int(counts[i, j]), 100 * float(shares[i, j]))
        for i, j in places
        if counts[i, j]
    ]


def lay_out(evaluation: Evaluation) -> Matrix:
    """Return the matrix in a form that suits its number of classes."""
    order = sorted(
        range(len(evaluation.class_names)), key=lambda i: natural_key(evaluation.class_names[i])
    )
    names = [str(evaluation.class_names[i]) for i in order]
    counts = evaluation.confusion[np.ix_(order, order)]
    shares, size = _shares(counts), len(names)
    roomy, numbered = size <= ROOMY, size <= NUMBERED
    # Faint squares would be lost in a heat map.
    least = 0.0 if numbered else 0.2

    def cell(i: int, j: int) -> Cell | None:
        n_images, share = int(counts[i, j]), float(shares[i, j])
        if not n_images:
            return None
        first, second = _shorten(names[i], _SPOKEN), _shorten(names[j], _SPOKEN)
        what = f"{first} recognized" if i == j else f"{first} confused with {second}"
        words = f"{what}: {n_images} of {counts[i].sum()} ({100 * share:.1f} %)"
        return Cell(n_images, _percent(100 * share, roomy), _color(share, i == j, least), words)

    rows = [(name, [cell(i, j) for j in range(size)]) for i, name in enumerate(names)]
    left = round(_LETTER * min(max(map(len, names)), _LETTERS) + _GAP)
    return Matrix(names, rows, roomy, numbered, _LETTERS, left)


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each cell's share of its row; 0 where a class was not tested."""
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _color(share: float, correct: bool, least: float) -> str:
    """Return blue or orange, with the root of the share as opacity: 1 % can still be seen."""
    opacity = least + (0.85 - least) * share**0.5
    return f"{FOR if correct else AGAINST}{round(255 * opacity):02x}"


def _shorten(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _percent(value: float, exact: bool) -> str:
    if exact:
        return f"{value:.1f}"
    return f"{value:.0f}" if value >= 1 else "<1"
