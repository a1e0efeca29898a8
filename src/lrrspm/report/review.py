"""The gallery of a review: images to look at, with their labels and probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

from .._support.files import write_atomically
from .._support.stages import Stages
from .._support.text import plural
from ..evaluation.review import Review, Suspect
from ..images import ImageError, read_thumbnail
from .draw import AGAINST, FOR
from .mistakes import SIDE, as_jpeg
from .page import render

MOST = 100
"""Images, or groups of near copies, that each section shows."""

_HEADINGS = {
    "wrong": "Probably wrong labels",
    "copies": "Near copies with different labels",
    "outliers": "Outliers",
    "reproduce": "How to reproduce it",
}
_NOTES = {
    "wrong": "Least probable label first.",
    "copies": "Nearly the same image in several classes: at most one label of a group is right.",
    "outliers": "The least familiar 1 %: they may belong to no class, or be hard to see. Least "
    "familiar first.",
}


def write_review(
    path: str | os.PathLike[str], review: Review, title: str, command: str, stages: Stages
) -> None:
    """Write a review to one HTML file, atomically."""
    write_atomically(path, make_review(review, title, command, stages).encode())


def make_review(review: Review, title: str, command: str, stages: Stages) -> str:
    """Return a review as HTML."""
    single = [[[one] for one in found] for found in (review.wrong, review.outliers)]
    groups: dict[str, Sequence[Sequence[Suspect]]] = {
        "wrong": single[0], "copies": review.copies, "outliers": single[1],
    }  # fmt: skip
    shown = {name: found[:MOST] for name, found in groups.items()}
    total = sum(len(group) for found in shown.values() for group in found)
    every = (one for found in shown.values() for group in found for one in group)
    with stages.timed("draw"):
        cards = (_card(one) for one in stages.track("drawing", every, total))
        sections = {
            name: [list(islice(cards, len(group))) for group in found]
            for name, found in shown.items()
        }
    return render(
        "review.html",
        title=title,
        facts=list(_facts(review)),
        sections=sections,
        headings=_HEADINGS,
        notes=_NOTES,
        left_out={name: len(found) - len(shown[name]) for name, found in groups.items()},
        command=command,
        skipped=len(review.skipped),
        color_for=FOR,
        color_against=AGAINST,
    )


def _facts(review: Review) -> list[tuple[str, str, str]]:
    """Return the numbers to see first: a name, a value and a remark."""
    of = f"of {plural(review.tested, 'image')} tested"
    share = f"{100 * len(review.wrong) / max(review.tested, 1):.1f} % {of}"
    return [
        ("probably wrong labels", f"{len(review.wrong):,}", share),
        ("near copies with different labels", f"{sum(map(len, review.copies)):,}",
         f"in {plural(len(review.copies), 'group')}"),
        ("outliers", f"{len(review.outliers):,}", "the least familiar images"),
    ]  # fmt: skip


def _card(one: Suspect) -> dict[str, Any]:
    """Return what is shown of an image; ``error`` if it can no longer be read."""
    shown = {
        "path": one.path,
        "label": one.label,
        "suggested": one.suggested,
        "of_label": _percent(one.probability_of_label),
        "of_suggested": _percent(one.probability_of_suggested),
        "error": "",
    }
    try:
        return {**shown, "image": as_jpeg(read_thumbnail(one.path, SIDE))}
    except ImageError as error:
        return {**shown, "error": error.reason}


def _percent(chance: float | None) -> str:
    return "" if chance is None else f"{100 * chance:.1f} %"
