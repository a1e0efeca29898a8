"""lrrspm predict."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import config
from .app import command, report_skipped
from .options import CacheFolder, DeviceName, Jobs, Json, ModelPath, OnError, OnErrorSkip
from .terminal import print_json, print_rich, progress, text

Ranked = list[tuple[str, float]]


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
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated rows.")] = False,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    as_json: Json = False,
) -> None:
    """Classify images.

    A file that cannot be read is listed and skipped; the exit code is then 3. Scores are
    SVM margins: higher means more confident, above 0 means "yes" for that class alone.

    Example: lrrspm predict my.lrrspm new.jpg holiday/ --top 3
    """
    from .._support.stages import Stages
    from ..classifier import load_model, rank, score_images
    from ..evaluation import Skipped
    from ..images import expand_paths

    classifier = load_model(model).set_params(n_jobs=jobs, cache=cache, device=device)
    files = expand_paths(paths)
    with progress() as listener:
        scores, reasons = score_images(
            classifier, files, Stages(listener), on_error is OnError.SKIP
        )
    skipped = [Skipped(files[i], reason) for i, reason in sorted(reasons.items())]
    done = [file for i, file in enumerate(files) if i not in reasons]
    rows = list(zip(done, rank(classifier.classes_, scores, top), strict=True))
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
        )
    elif as_csv:
        _print_csv(rows, top)
    elif rows:
        _print_table(rows)
    report_skipped(skipped, len(files))


def _print_csv(rows: list[tuple[str, Ranked]], top: int) -> None:
    writer = csv.writer(sys.stdout)
    ranks = range(1, len(rows[0][1]) + 1) if rows else range(1, 2)
    writer.writerow(
        ["path", *(f"{n}_{r}" if top > 1 else n for r in ranks for n in ("label", "score"))]
    )
    for path, best in rows:
        writer.writerow([path, *(v for label, score in best for v in (label, f"{score:.4f}"))])


def _print_table(rows: list[tuple[str, Ranked]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("class", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    for path, best in rows:
        for place, (label, score) in enumerate(best):
            table.add_row(text("" if place else path), text(label), f"{score:+.2f}")
    print_rich(table)
