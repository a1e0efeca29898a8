"""lrrspm predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .app import command, report_skipped
from .options import CacheFolder, Jobs, Json, ModelPath, OnError, OnErrorSkip
from .predictions import check_predictions
from .report import print_written, written_files
from .terminal import print_json, print_rich, progress, text

Row = tuple[str, list[tuple[str, float]]]
"""A path, and its best classes with their scores."""


@command
def predict(
    model: ModelPath,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            readable=False,
            help="Images, folders of images, or CSV files of path,label rows.",
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
    jobs: Jobs = -1,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    as_json: Json = False,
) -> None:
    """Classify images.

    A file that cannot be read is listed and skipped; the exit code is then 3. Scores are
    SVM margins: higher means more confident, above 0 means "yes" for that class alone.

    Rows have the columns path, label, confidence (a probability), score, error; with
    --top also label_2, confidence_2, score_2 and so on.

    Example: lrrspm predict my.lrrspm new.jpg holiday/ -o predictions.csv
    """
    from .._support.rows import csv_text, write_rows
    from .._support.stages import Stages
    from ..classifier import load_model, rank, score_images
    from ..evaluation import Skipped
    from ..images import expand_paths

    check_predictions(output, "--output", model, *paths)
    classifier = load_model(model).set_params(n_jobs=jobs, cache=cache)
    files = expand_paths(paths)
    with progress() as listener:
        scores, reasons = score_images(
            classifier, files, Stages(listener), on_error is OnError.SKIP
        )
    skipped = [Skipped(files[i], reason) for i, reason in sorted(reasons.items())]
    done = [file for i, file in enumerate(files) if i not in reasons]
    rows = list(zip(done, rank(classifier.classes_, scores, top), strict=True))
    if output is not None or as_csv:
        ranked = rank(classifier.classes_, classifier.probabilities(scores), top)
        confidences = [[confidence for _, confidence in best] for best in ranked]
        columns, lines = _lines(files, rows, confidences, reasons)
    if output is not None:
        write_rows(output, columns, lines)
    if as_json:
        print_json(
            **({} if rows else {"error": "none of the files could be read"}),
            model=str(model),
            predictions=[
                {
                    "path": path,
                    "label": best[0][0],
                    "score": best[0][1],
                    "top": [{"label": label, "score": score} for label, score in best],
                }
                for path, best in rows
            ],
            skipped=[one.to_json() for one in skipped],
            **written_files(output=output),
        )
    elif as_csv:
        print(csv_text(columns, lines), end="")
    elif output is not None:
        print_written(output)
    elif rows:
        _print_table(rows)
    report_skipped(skipped, len(files))


def _lines(
    files: list[str], rows: list[Row], confidences: list[list[float]], reasons: dict[int, str]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return columns, and a row for every file in the order given; an unreadable one says why."""
    from ..evaluation import rounded

    top = max(map(len, confidences), default=1)
    columns = ["path", "label", "confidence", "score", "error"]
    columns += [f"{n}_{r}" for r in range(2, top + 1) for n in ("label", "confidence", "score")]
    lines, read = [], zip(rows, confidences, strict=True)
    for i, file in enumerate(files):
        line: dict[str, Any] = {"path": file, "error": reasons.get(i)}
        lines.append(line)
        if i in reasons:
            continue
        (_, best), sure = next(read)
        for place, ((label, score), confidence) in enumerate(zip(best, sure, strict=True), start=1):
            values = {"label": label, **rounded(score, confidence)}
            end = "" if place == 1 else f"_{place}"
            line |= {f"{name}{end}": value for name, value in values.items()}
    return columns, lines


def _print_table(rows: list[Row]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("class", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    for path, best in rows:
        for place, (label, score) in enumerate(best):
            table.add_row(text("" if place else path), text(label), f"{score:+.2f}")
    print_rich(table)
