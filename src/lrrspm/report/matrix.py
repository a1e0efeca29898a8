"""What was taken for what: the confusion matrix, and the pairs that stand out of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .draw import AGAINST, FOR
from .page import Markup, Plain, Table, escape

ROOMY = 10
"""Up to so many classes, a cell holds percent and count."""

NUMBERED = 24
"""Up to so many classes, a cell holds percent; with more, a colour alone."""

# Sizes in the heat map's own units: a cell's side, a letter's width, a line's room around names.
_CELL, _LETTER, _GAP = 10, 4.6, 6
_LETTERS = 24  # of a name beside the heat map


class Pair(NamedTuple):
    """Test images of a class that were taken for another."""

    label: str
    predicted: str
    answers: int
    share: float
    """Of the class's test images, percent."""


def confused_pairs(result: dict[str, Any], most: int) -> list[Pair]:
    """The largest shares of a class that were taken for one other class, largest first."""
    names, counts = result["class_names"], np.array(result["confusion"])
    shares = _shares(counts)
    np.fill_diagonal(counts, 0)
    order = np.lexsort((-counts.ravel(), -np.where(counts > 0, shares, 0).ravel()))[:most]
    places = zip(*np.unravel_index(order, counts.shape), strict=True)
    return [
        Pair(str(names[i]), str(names[j]), int(counts[i, j]), 100 * float(shares[i, j]))
        for i, j in places
        if counts[i, j]
    ]


def pairs_table(pairs: list[Pair]) -> Table:
    """A row a pair."""
    rows = tuple(
        ((Plain(p.label),), (Plain(p.predicted),), (f"{p.share:.1f}",), (str(p.answers),))
        for p in pairs
    )
    header = ("class", "taken for", "% of the class", "answers")
    return Table("", header, rows, words=(1,), spare=(3,))


def confusion_matrix(result: dict[str, Any]) -> Markup:
    """The matrix in a form that suits its number of classes."""
    names = [str(name) for name in result["class_names"]]
    counts = np.array(result["confusion"])
    return (_numbers if len(names) <= NUMBERED else _heat_map)(names, counts)


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each cell's share of its row; 0 where a class was not tested."""
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _colour(share: float, right: bool, least: float = 0.0) -> str:
    """Blue for right, orange for wrong; the root, so that a few in a hundred can be seen."""
    opacity = least + (0.85 - least) * share**0.5
    return f"{FOR if right else AGAINST}{round(255 * opacity):02x}"


def _said(names: list[str], counts: NDArray[np.int64], i: int, j: int) -> str:
    """A cell in words, for pointers and screen readers."""
    total = counts[i].sum()
    what = f"{_short(names[i], 60)} taken for {_short(names[j], 60)}"
    if i == j:
        what = f"{_short(names[i], 60)} recognised"
    return escape(f"{what}: {counts[i, j]} of {total} ({100 * counts[i, j] / total:.1f} %)")


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _numbers(names: list[str], counts: NDArray[np.int64]) -> Markup:
    """A table of percentages."""
    shares = _shares(counts)
    head = "".join(
        f'<th scope="col" title="{escape(name)}"><span>{escape(name)}</span></th>' for name in names
    )
    rows = []
    for i, name in enumerate(names):
        cells = []
        for j in range(len(names)):
            if not counts[i, j]:
                cells.append("<td></td>")
                continue
            said, colour = _said(names, counts, i, j), _colour(shares[i, j], i == j)
            percent = _percent(100 * shares[i, j], len(names) <= ROOMY)
            below = f"<small>{counts[i, j]}</small>" if len(names) <= ROOMY else ""
            cells.append(f'<td title="{said}" style="background:{colour}">{percent}{below}</td>')
        rows.append(
            f'<tr><th scope="row" title="{escape(name)}"><span>{escape(name)}</span></th>'
            f"{''.join(cells)}</tr>"
        )
    size = " roomy" if len(names) <= ROOMY else ""
    return Markup(
        f'<div class="table"><table class="confusion{size}"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _percent(value: float, exact: bool) -> str:
    if exact:
        return f"{value:.1f}"
    return f"{value:.0f}" if value >= 1 else "&lt;1"


def _heat_map(names: list[str], counts: NDArray[np.int64]) -> Markup:
    """A picture of squares; names can be read when it is enlarged, and at the pointer."""
    shares = _shares(counts)
    shown = [_short(name, _LETTERS) for name in names]
    left = round(_LETTER * max(map(len, shown)) + _GAP)
    side = _CELL * len(names)
    width = left + side + 1
    columns = "".join(
        f'<text transform="translate({left + _CELL * j + 8} {left - 3}) rotate(-90)">'
        f"{escape(name)}</text>"
        for j, name in enumerate(shown)
    )
    rows = []
    for i, name in enumerate(names):
        cells = "".join(
            f'<rect x="{left + _CELL * j}" y="{left + _CELL * i}" width="{_CELL}" '
            f'height="{_CELL}" fill="{_colour(shares[i, j], i == j, 0.2)}">'
            f"<title>{_said(names, counts, i, j)}</title></rect>"
            for j in np.flatnonzero(counts[i]).tolist()
        )
        y = left + _CELL * i
        rows.append(
            f'<g class="row"><rect class="band" y="{y}" width="{width}" height="{_CELL}">'
            f"<title>{escape(_short(name, 60))}</title></rect>"
            f'<text x="{left - 3}" y="{y + 8}" text-anchor="end">{escape(shown[i])}</text>'
            f"{cells}</g>"
        )
    lines = "".join(
        f"M{left + at} {left}v{side}M{left} {left + at}h{side}"
        for at in range(0, side + 1, 10 * _CELL)
    )
    return Markup(
        f'<div class="table"><svg class="heat" viewBox="0 0 {width} {width}" '
        f'style="min-width:{round(0.9 * width)}px" role="img" '
        f'aria-label="Confusion matrix of {len(names)} classes">'
        f'{columns}{"".join(rows)}<path d="{lines}"/></svg></div>'
    )
