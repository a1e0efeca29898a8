"""What the commands with --report have in common."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .app import list_skipped, typed
from .options import check_ending
from .terminal import printable

if TYPE_CHECKING:
    from .._support.stages import Stages
    from ..evaluation.mistakes import Measured


def check_report(report: Path | None, model: Path | None = None) -> list[Measured] | None:
    """Fail early where a report cannot be written; a list for what it is to show, if there is one.

    Its name has to be that of a page, and not that of the model that is written or read.
    """
    if report is None:
        return None
    from .._support.files import check_target

    check_ending(report, "--report", "a report is a page of HTML", ".html", ".htm")
    if model is not None and report.resolve() == model.resolve():
        raise typer.BadParameter(
            "the report would replace the model; give it another name", param_hint="--report"
        )
    check_target(report)
    return []


def write_report(
    report: Path,
    context: typer.Context,
    folder: Path,
    jobs: int,
    title: str,
    about: str,
    parameters: dict[str, dict[str, Any]],
    measured: list[Measured],
    paths: list[str],
    labels: list[str],
    skipped: dict[int, str] | None,
    stages: Stages,
) -> None:
    """Look at the pictures once more, explain the mistakes, and write the file.

    ``parameters`` are by method; ``measured`` is in the same order, or empty.
    """
    from .. import report as html
    from ..images import audit

    run = html.Run(
        title=title,
        about=about,
        command=typed(context),
        parameters=parameters,
        stages=stages,
        audit=audit(folder, jobs, stages),
        classes=Counter(label for i, label in enumerate(labels) if i not in (skipped or ())),
        skipped=list_skipped(paths, skipped),
    )
    html.write_report(report, run, dict(zip(parameters, measured, strict=False)))


ABOUT_SCORE = (
    "A model that was trained before, tested on these pictures. Pictures that it was trained on "
    "flatter it: only others tell how good it is."
)


def about_training(summary: dict[str, Any], asked: bool) -> str:
    """What the estimate of a report rests on."""
    trained = f"The model learnt from {summary['images']:,} pictures."
    if "held_out" in summary:
        return (
            f"{trained} How good it is was estimated beforehand: of each class a fifth, "
            f"{summary['held_out']['images']:,} pictures altogether, was kept aside, and a second "
            "model that had learnt from the others was tested on them. Numbers and mistakes below "
            "are that second model's."
        )
    why = "the classes have too few pictures to keep some aside" if asked else "none was asked for"
    return f"{trained} There is no estimate of how good it is: {why}."


def about_evaluation(train_per_class: int, splits: int, shared_codebook: bool) -> str:
    """How a report's numbers were measured."""
    times = f"{splits} times, on other random splits" if splits > 1 else "once, on a random split"
    codebook = " The codebook saw all pictures, test pictures too." if shared_codebook else ""
    return (
        f"Trained on {train_per_class} pictures of each class and tested on all others: "
        f"{times}.{codebook}"
    )


def say_written(report: Path | None) -> None:
    if report is not None:
        print(f"wrote {printable(report)}")
