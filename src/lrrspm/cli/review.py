"""lrrspm review."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import config
from .._support.text import plural
from .app import command, report_skipped, typed
from .options import (
    ALL,
    CacheFolder,
    ImageFolder,
    Jobs,
    Json,
    MethodName,
    OnErrorLimited,
    Penalty,
    Seed,
    check_ending,
    most_skipped,
)
from .report import print_written
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from ..evaluation import Review

# Images that are listed in the terminal.
_LISTED = 20


@command
def review(
    context: typer.Context,
    folder: ImageFolder,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="HTML", help="Write a gallery of the images to look at."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="Write all of them as a CSV file: path, label, suggested, probability_of_label, "
            "probability_of_suggested, why.",
        ),
    ] = None,
    method: MethodName = config.METHOD,
    penalty: Penalty = config.C,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    as_json: Json = False,
) -> None:
    """List images whose label is probably wrong, for you to look at. Changes no file.

    Finds labels with a probability below 5 % according to models trained without
    the image, ranked by that probability; near copies with different labels; and
    outliers, the 1 % of the images that resemble the classes least. With 5 % of the
    labels of 15 scenes changed, it finds nine in ten of them, and about three in ten
    that it lists are right after all: look before you change anything.

    Example: lrrspm review images -o review.html
    """
    from .._support.files import check_target, write_atomically
    from .._support.stages import Stages
    from ..classifier import ImageClassifier
    from ..evaluation import review as find
    from ..images import audit, find_images
    from ..report import write_review

    if method == ALL:
        raise typer.BadParameter("all is for evaluate; name one method", param_hint="--method")
    for target, option, ending in ((output, "--output", ".html"), (table, "--csv", ".csv")):
        if target is not None:
            check_ending(target, option, "the name says what it is", ending)
            check_target(target)
    classifier = ImageClassifier(
        method=method, C=penalty, random_state=seed, n_jobs=jobs, cache=cache
    )
    paths, labels = find_images(folder)
    with progress() as listener:
        stages = Stages(listener)
        groups = _near_copies(paths, audit(folder, jobs, stages)["findings"])
        found = find(paths, labels, classifier, groups, stages, most_skipped(on_error))
        if output is not None:
            write_review(output, found, f"Review of {folder}", typed(context), stages)
    if table is not None:
        write_atomically(table, _csv(found).encode(errors="surrogateescape"))
    if as_json:
        written = {"html": output, "csv": table}
        print_json(
            folder=str(folder),
            **found.to_json(),
            skipped=[one.to_json() for one in found.skipped],
            seconds=stages.seconds,
            **{name: str(path) for name, path in written.items() if path is not None},
        )
    else:
        _print_review(found)
        print_written(output)
        print_written(table)
    report_skipped(found.skipped, len(paths))


def _near_copies(paths: Sequence[str], findings: Sequence[Any]) -> list[int]:
    """Number the groups of copies and near copies that an audit found."""
    place = {path: number for number, path in enumerate(paths)}
    groups = list(range(len(paths)))
    for finding in findings:
        if "copy" in finding.kind:
            known = {groups[place[path]] for path in finding.paths}
            groups = [min(known) if number in known else number for number in groups]
    return groups


def _csv(found: Review) -> str:
    """Return a header and one row per image."""
    from ..evaluation.review import COLUMNS

    target = io.StringIO()
    writer = csv.DictWriter(target, COLUMNS)
    writer.writeheader()
    for one in found.suspects:
        chances = {
            name: f"{value:.6f}"
            for name in ("probability_of_label", "probability_of_suggested")
            if (value := getattr(one, name)) is not None
        }
        writer.writerow(
            {"path": one.path, "label": one.label, "suggested": one.suggested, **chances,
             "why": "; ".join(one.why)}
        )  # fmt: skip
    return target.getvalue()


def _print_review(found: Review) -> None:
    """Print the first images, then how many there are of each kind."""
    from rich.table import Table

    suspects = found.suspects
    if suspects:
        table = Table("image", "label", "looks like", "why", box=None, pad_edge=False)
        for column in table.columns[:3]:
            column.overflow = "fold"
        for one in suspects[:_LISTED]:
            label = _with_chance(one.label, one.probability_of_label)
            suggested = _with_chance(one.suggested or "", one.probability_of_suggested)
            table.add_row(text(one.path), text(label), text(suggested), "; ".join(one.why))
        print_rich(table)
        if len(suspects) > _LISTED:
            print(f"and {len(suspects) - _LISTED:,} more; -o, --csv or --json list them")
        print()
    print(f"{plural(found.images, 'image')}, {found.tested:,} of them tested")
    copies = f"{sum(map(len, found.copies)):,} near copies with different labels"
    print(f"probably wrong labels {len(found.wrong):,}, {copies}, outliers {len(found.outliers):,}")


def _with_chance(label: str, chance: float | None) -> str:
    return label if chance is None else f"{label} ({100 * chance:.1f} %)"
