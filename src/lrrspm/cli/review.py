"""lrrspm review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import config
from .._support.text import plural
from .app import command, report_skipped, typed
from .folders import find_training, keep_together
from .options import (
    ALL,
    CacheFolder,
    DeviceName,
    ImageFolder,
    Jobs,
    Json,
    LabelColumn,
    MethodName,
    OnErrorLimited,
    PathColumn,
    Penalty,
    Place,
    Seed,
    as_file,
    check_ending,
    most_skipped,
)
from .report import print_written
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from ..evaluation import Review, Suspect

# Images that are listed in the terminal.
_LISTED = 20


@command
def review(
    context: typer.Context,
    folder: ImageFolder,
    output: Annotated[
        Place | None,
        typer.Option(
            "--output",
            "-o",
            metavar="HTML",
            parser=as_file,
            help="Write an HTML gallery of these images.",
        ),
    ] = None,
    table: Annotated[
        Place | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            parser=as_file,
            help="Write all of them to a CSV file with the columns path, label, suggested, "
            "probability_of_label, probability_of_suggested, why.",
        ),
    ] = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    method: MethodName = config.METHOD,
    penalty: Penalty = config.C,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    as_json: Json = False,
) -> None:
    """List images whose labels are probably wrong, for you to check. Changes no file.

    Finds labels with a probability below 5 % according to models trained without
    the image, ranked by that probability; near copies with different labels; and
    outliers, the 1 % of the images that resemble the classes least. With 5 % of the
    labels of 15 scenes changed, it finds nine in ten of them, but a quarter of the
    labels it lists are right: look before you change anything.

    Example: lrrspm review images -o review.html
    """
    from .._support.files import check_target
    from .._support.rows import write_rows
    from .._support.stages import Stages
    from ..cache import FeatureStore
    from ..classifier import ImageClassifier
    from ..evaluation import review as find
    from ..evaluation.review import COLUMNS
    from ..report import write_review

    if method == ALL:
        raise typer.BadParameter("all is for evaluate; name one method", param_hint="--method")
    for target, option, what, ending in (
        (output, "--output", "the gallery is an HTML file", ".html"),
        (table, "--csv", "the table is a CSV file", ".csv"),
    ):
        if target is not None:
            check_ending(target, option, what, ending)
            check_target(target)
    classifier = ImageClassifier(
        method=method, C=penalty, random_state=seed, n_jobs=jobs, cache=cache, device=device
    )
    images = find_training(folder, path_column, label_column)
    with progress() as listener:
        stages = Stages(listener)
        store = FeatureStore(cache)
        groups = keep_together(images, folder, None, True, jobs, stages, store)
        found = find(
            images.paths, images.labels, classifier, groups, stages, most_skipped(on_error)
        )
        if output is not None:
            write_review(output, found, f"Review of {folder}", typed(context), stages)
    if table is not None:
        write_rows(table, COLUMNS, map(_row, found.suspects))
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
    report_skipped(found.skipped, len(images.paths))


def _row(one: Suspect) -> dict[str, Any]:
    """Return the row of an image in a CSV file."""
    row = one.to_json()
    for name in ("probability_of_label", "probability_of_suggested"):
        row[name] = None if row[name] is None else round(row[name], 6)
    return {**row, "why": "; ".join(one.why)}


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
    wrong, outliers = plural(len(found.wrong), "label"), plural(len(found.outliers), "outlier")
    print(f"{wrong} probably wrong, {copies}, {outliers}")


def _with_chance(label: str, chance: float | None) -> str:
    return label if chance is None else f"{label} ({100 * chance:.1f} %)"
