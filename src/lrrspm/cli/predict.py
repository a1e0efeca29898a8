"""lrrspm predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .. import config
from .._support.text import percent, plural
from .app import command, report_skipped
from .options import (
    CacheFolder,
    DeviceName,
    EngineName,
    Jobs,
    Json,
    MinConfidence,
    ModelPath,
    OnError,
    OnErrorSkip,
    PathColumn,
)
from .predictions import check_predictions
from .report import print_written, written_files
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..classifier import ImageClassifier

UNKNOWN = "unknown"
"""Label of an image that no class is likely enough for."""


class Answer(NamedTuple):
    """An image, whether it is known, and its best classes with probabilities and scores.

    One that is not familiar is unlike the images that the model was trained on.
    """

    path: str
    known: bool
    familiar: bool
    best: list[tuple[str, float, float]]

    @property
    def label(self) -> str:
        """The best class, or "unknown"."""
        return self.best[0][0] if self.known else UNKNOWN


@command
def predict(
    model: ModelPath,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            readable=False,
            help="Images, folders of images, or CSV files with a column of paths.",
        ),
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="Show the N best classes.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write one row per image to a .csv or .jsonl file instead of printing a table.",
        ),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print what --output would write, as CSV.")
    ] = False,
    min_confidence: MinConfidence = None,
    path_column: PathColumn = None,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    engine: EngineName = config.ENGINE,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    as_json: Json = False,
) -> None:
    """Classify images.

    Each image gets a class and its probability. A file that cannot be read is listed and
    skipped; the exit code is then 3.

    Rows have the columns path, label, confidence (the probability), score (of the SVM),
    error; with --top also label_2, confidence_2, score_2 and so on; with
    --min-confidence also best, the class behind an "unknown".

    Example: lrrspm predict my.lrrspm holiday/ -o predictions.csv --min-confidence 0.8
    """
    from .._support.rows import csv_text, write_rows
    from .._support.stages import Stages
    from ..evaluation import Skipped
    from ..images import expand_paths
    from ..loading import load_model, score_images

    check_predictions(output, "--output", model, *paths)
    classifier = load_model(model).set_params(
        n_jobs=jobs, cache=cache, device=device, engine=engine
    )
    files = expand_paths(paths, path_column)
    with progress() as listener:
        scores, reasons = score_images(
            classifier, files, Stages(listener), on_error is OnError.SKIP
        )
    skipped = [Skipped(files[i], reason) for i, reason in sorted(reasons.items())]
    done = [file for i, file in enumerate(files) if i not in reasons]
    answers = _answers(classifier, done, scores, top, min_confidence)
    columns, lines = _lines(files, answers, reasons, min_confidence is not None)
    if output is not None:
        write_rows(output, columns, lines)
    if as_json:
        print_json(
            **({} if answers else {"error": "none of the files could be read"}),
            model=str(model),
            calibrated=classifier.temperature_ is not None,
            predictions=[_to_json(answer) for answer in answers],
            skipped=[one.to_json() for one in skipped],
            **written_files(output=output),
        )
    elif as_csv:
        print(csv_text(columns, lines), end="")
    elif output is not None:
        print_written(output)
        unknown = sum(not answer.known for answer in answers)
        print(plural(len(answers), "image") + (f", {unknown} unknown" if unknown else ""))
    elif answers:
        _print_table(answers)
    if classifier.temperature_ is None and not as_json:
        warning = "the model is not calibrated: probabilities are rough; train it again"
        print(f"warning: {warning}", file=sys.stderr)
    report_skipped(skipped, len(files))


def _answers(
    classifier: ImageClassifier,
    paths: list[str],
    scores: NDArray[Any],
    top: int,
    least: float | None,
) -> list[Answer]:
    from ..loading import rank

    known = [True] * len(paths) if least is None else classifier.is_known(scores, least).tolist()
    familiar = classifier.is_known(scores, 0.0).tolist()
    likely = rank(classifier.classes_, classifier.probabilities(scores), top)
    ranked = rank(classifier.classes_, scores, top)
    return [
        Answer(
            path,
            sure,
            like,
            [(name, p, score) for (name, score), (_, p) in zip(best, chances, strict=True)],
        )
        for path, sure, like, best, chances in zip(
            paths, known, familiar, ranked, likely, strict=True
        )
    ]


def _to_json(answer: Answer) -> dict[str, Any]:
    top = [{"label": name, "probability": p, "score": score} for name, p, score in answer.best]
    return {
        "path": answer.path,
        "label": answer.label,
        "known": answer.known,
        "familiar": answer.familiar,
        "probability": top[0]["probability"],
        "score": top[0]["score"],
        "top": top,
    }


def _lines(
    files: list[str], answers: list[Answer], reasons: dict[int, str], with_best: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return columns, and a row for every file in the order given; an unreadable one says why."""
    from ..evaluation import rounded

    top = max((len(answer.best) for answer in answers), default=1)
    columns = ["path", "label", "confidence", "score", "error"]
    columns += [f"{n}_{r}" for r in range(2, top + 1) for n in ("label", "confidence", "score")]
    columns += ["best"] * with_best
    lines, read = [], iter(answers)
    for i, file in enumerate(files):
        line: dict[str, Any] = {"path": file, "error": reasons.get(i)}
        lines.append(line)
        if i in reasons:
            continue
        answer = next(read)
        for place, (label, probability, score) in enumerate(answer.best, start=1):
            values = {"label": label, **rounded(score, probability)}
            end = "" if place == 1 else f"_{place}"
            line |= {f"{name}{end}": value for name, value in values.items()}
        line["label"] = answer.label
        if with_best:
            line["best"] = answer.best[0][0]
    return columns, lines


def _print_table(answers: list[Answer]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("class", overflow="fold")
    table.add_column("probability", justify="right", no_wrap=True)
    for answer in answers:
        if not answer.known:
            why = "" if answer.familiar else ": unlike the training images"
            table.add_row(text(answer.path), UNKNOWN + why, "")
        for place, (label, probability, _) in enumerate(answer.best):
            path = answer.path if answer.known and not place else ""
            shown = label if answer.known else f"perhaps {label}"
            table.add_row(text(path), text(shown), percent(probability))
    print_rich(table)
