"""What the commands that write predictions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._support.text import printable
from .options import check_ending

if TYPE_CHECKING:
    from ..evaluation import Evaluation

PredictionsPath = Annotated[
    Path | None,
    typer.Option(
        "--predictions",
        metavar="FILE",
        help="Write each test image's class and prediction to a .csv or .jsonl file.",
    ),
]


def check_predictions(target: Path | None, option: str, *given: Path) -> None:
    """Fail early where predictions cannot be written, or would replace what was given."""
    if target is None:
        return
    from .._support.files import check_target
    from .._support.rows import SUFFIXES

    check_ending(target, option, "predictions are CSV or JSON Lines", *SUFFIXES)
    for one in given:
        if target.resolve() == Path(one).resolve():
            raise typer.BadParameter(
                f"would replace {printable(one)}; give another name", param_hint=option
            )
    check_target(target)


def write_predictions(
    target: Path | None,
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
