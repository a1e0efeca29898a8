"""What the commands that write predictions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Place, as_file, check_ending, check_given

if TYPE_CHECKING:
    from ..evaluation import Evaluation

PredictionsPath = Annotated[
    Place | None,
    typer.Option(
        "--predictions",
        metavar="FILE",
        parser=as_file,
        help="Write the class and the prediction of each test image to a .csv or .jsonl file.",
    ),
]


def check_predictions(target: Place | None, option: str, *given: Place) -> None:
    """Fail early where predictions cannot be written, or would replace what was given."""
    if target is None:
        return
    from .._support.files import check_target
    from .._support.rows import SUFFIXES

    check_ending(target, option, "predictions are CSV or JSON Lines", *SUFFIXES)
    check_given(target, option, *given)
    check_target(target)


def write_predictions(
    target: Place | None,
    results: Mapping[str, Evaluation],
    paths: Sequence[str],
    labels: Sequence[str],
) -> None:
    """Write the predictions of one or several methods, if asked for."""
    if target is None:
        return
    from .._support.rows import write_rows
    from ..evaluation import COLUMNS, prediction_rows

    known = dict(zip(paths, labels, strict=True))
    found = (prediction_rows(name, result, known) for name, result in results.items())
    write_rows(target, COLUMNS, (row for rows in found for row in rows))
