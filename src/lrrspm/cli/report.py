"""What the commands with --report share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .. import config
from .._support.text import plural, printable
from .app import typed
from .options import Place, check_ending, check_given

if TYPE_CHECKING:
    from .._support.stages import Stages
    from ..evaluation import Evaluation, Skipped


def check_report(report: Place | None, model: Place | None = None) -> None:
    """Fail early where a report cannot be written, or would replace the model."""
    if report is None:
        return
    from .._support.files import check_target

    check_ending(report, "--report", "a report is an HTML file", ".html", ".htm")
    check_given(report, "--report", *(() if model is None else (model,)))
    check_target(report)


def write_report(
    report: Place,
    context: typer.Context,
    folder: Path,
    jobs: int,
    title: str,
    about: str,
    parameters: dict[str, dict[str, Any]],
    results: Mapping[str, Evaluation],
    paths: Sequence[str],
    labels: Sequence[str],
    skipped: Sequence[Skipped],
    stages: Stages,
    columns: tuple[str | None, str | None] = (None, None),
) -> None:
    """Audit the images, explain the mistakes, and write the file.

    ``parameters`` and ``results`` are by method; there may be no results.
    ``columns`` are those of a CSV file.
    """
    from ..images import audit
    from ..report import Run
    from ..report import write_report as write

    left_out = {one.path for one in skipped}
    used = (label for path, label in zip(paths, labels, strict=True) if path not in left_out)
    run = Run(
        title=title,
        about=about,
        command=typed(context),
        parameters=parameters,
        stages=stages,
        audit=audit(folder, jobs, stages, *columns),
        classes=Counter(used),
        skipped=skipped,
    )
    write(report, run, results)


NO_ESTIMATE = (
    "the classes have too few images or groups, or the codebook was learned from their labels"
)
ABOUT_SCORE = (
    "A saved model, tested on these images. On images that it was trained on, it looks better "
    "than it is."
)


def about_training(
    summary: dict[str, Any], asked: bool, tested_on: Evaluation | None = None
) -> str:
    """Say what the estimate of a report rests on, and what test images said, if there are any."""
    trained = f"The model was trained on {plural(summary['images'], 'image')}."
    if tested_on is not None:
        some = plural(tested_on.images, "image")
        trained += f" On {some} of the folder test its accuracy is {tested_on.mean:.2f} %."
    if "estimate" in summary:
        estimate = summary["estimate"]
        tested = plural(estimate["images"], "image")
        return (
            f"{trained} Its accuracy was estimated by cross-validation in {estimate['folds']} "
            f"folds: each of {tested} was tested by a support vector machine trained without "
            "its fold. Numbers and mistakes below are of these tests; what is said of confidence "
            "rests on leaving out one image at a time."
        )
    why = NO_ESTIMATE if asked else "none was asked for"
    return f"{trained} There is no estimate of its accuracy: {why}."


def about_evaluation(
    train_per_class: float | None, splits: int, shared_codebook: bool, given: bool = False
) -> str:
    """Say how a report's numbers were measured; a ``given`` split is that of train/ and test/."""
    times = f"{splits} times, on different random splits" if splits > 1 else "on one random split"
    codebook = " The codebook was learned from all images, test images too." * shared_codebook
    if given:
        return f"Trained on the images of one folder and tested on those of another.{codebook}"
    if train_per_class is None:
        some = f"{config.TRAIN_PER_CLASS} images per class, but at most {config.TRAIN_SHARE:.0%}"
    elif train_per_class < 1:
        some = f"{train_per_class:.0%} of each class"
    else:
        some = f"{plural(int(train_per_class), 'image')} per class"
    return f"Trained on {some} and tested on all others, {times}.{codebook}"


def print_written(*files: Place | None) -> None:
    for file in files:
        if file is not None:
            print(f"wrote {printable(file)}")


def written_files(**files: Place | None) -> dict[str, str]:
    """Return the names of files that were written, as JSON takes them."""
    return {name: str(file) for name, file in files.items() if file is not None}
