"""lrrspm tune."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from .. import config
from .._support.text import plural, printable
from .app import command, report_skipped
from .folders import find_training, keep_together
from .options import (
    CacheFolder,
    DeviceName,
    Group,
    ImageFolder,
    Jobs,
    Json,
    LabelColumn,
    NearCopies,
    OnErrorLimited,
    PathColumn,
    Place,
    Seed,
    as_file,
    check_replaced,
    most_skipped,
)
from .terminal import print_estimate, print_json, print_rich, progress

if TYPE_CHECKING:
    from ..evaluation import Tuning


@command
def tune(
    folder: ImageFolder,
    output: Annotated[
        Place | None,
        typer.Option(
            "--output",
            "-o",
            metavar="MODEL",
            parser=as_file,
            help="Train the winner and write the model here.",
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            "--budget",
            min=0,
            metavar="SECONDS",
            help="Start nothing that would exceed this time; the first preset is always tried. "
            "Training the winner is extra.",
        ),
    ] = config.BUDGET,
    group: Group = None,
    near_copies: NearCopies = True,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    as_json: Json = False,
) -> None:
    """Find the preset, regions and penalty C that suit a folder of images.

    Tries fast, balanced and best, each with fewer regions of the image (--levels) and
    other values of C, by cross-validation. The winner is the simplest within one
    standard error of the best: a faster preset, then fewer regions, then a smaller C.
    Prints the command that trains it; with -o, also writes the model that this command
    would write. With --cache, a second run takes seconds.

    Example: lrrspm tune images -o my.lrrspm
    """
    from .._support.files import check_target
    from .._support.stages import Stages
    from ..cache import FeatureStore
    from ..evaluation import train_with_estimate
    from ..evaluation import tune as search

    if output is not None:
        check_target(output)
        check_replaced(output)
    images = find_training(folder, path_column, label_column)
    paths, labels = images.part(test=False)
    # The winner's vectors are taken from the store when it is trained.
    with TemporaryDirectory(prefix="lrrspm-") as own, progress() as listener:
        stages, store = Stages(listener), cache or Path(own)
        groups = keep_together(
            images, folder, group, near_copies, jobs, stages, FeatureStore(store)
        )
        groups = None if groups is None else groups.first(len(paths))
        found = search(
            paths, labels, budget=budget, seed=seed, n_jobs=jobs, cache=store, groups=groups,
            stages=stages, max_skipped=most_skipped(on_error), device=device,
        )  # fmt: skip
        summary = None
        if output is not None:
            model = found.winner.classifier(
                random_state=seed, n_jobs=jobs, cache=store, device=device
            )
            train_with_estimate(paths, labels, model, True, stages, most_skipped(on_error), groups)
            model.save(output)
            summary = model.summary_
    typed = ["lrrspm", "train", str(folder), "-o", str(output or "my.lrrspm")]
    typed += found.winner.options() + ([] if seed == config.SEED else ["--seed", str(seed)])
    columns = {"--group": group, "--path-column": path_column, "--label-column": label_column}
    typed += [word for flag, name in columns.items() if name is not None for word in (flag, name)]
    typed += [] if near_copies else ["--no-near-copies"]
    typed += [] if device == config.DEVICE else ["--device", device]
    if as_json:
        print_json(
            **found.to_json(),
            command=shlex.join(typed),
            seconds=stages.seconds,
            skipped=[one.to_json() for one in found.skipped],
            **({} if summary is None else {"model": str(output), "estimate": summary["estimate"]}),
        )
    else:
        _print_tuning(found, len(paths))
        if summary is None:
            print(f"train it: {printable(shlex.join(typed))}")
        else:
            print(f"trained by: {printable(shlex.join(typed))}")
            print(f"{printable(output)}: {plural(summary['images'], 'image')}")
            print_estimate(summary, everything=False)
    report_skipped(found.skipped, len(paths))


def _print_tuning(found: Tuning, total: int) -> None:
    """Print the best C of each preset and levels, most accurate first; then winner and rule."""
    from rich.table import Table

    table = Table("preset", "levels", box=None, pad_edge=False)
    for name in ("C", "accuracy", "95 %", "images/s", "s"):
        table.add_column(name, justify="right")
    winner, ranked = found.winner, sorted(found.candidates, key=lambda one: -one.evaluation.mean)
    first = {(one.method, one.levels): one for one in reversed(ranked)}
    for one in ranked:
        if one is not winner and one is not first[one.method, one.levels]:
            continue
        low, high = one.evaluation.interval
        table.add_row(
            one.method, ",".join(map(str, one.levels)), f"{one.C:g}",
            f"{one.evaluation.mean:.1f} %", f"{low:.1f}-{high:.1f}",
            f"{one.images_per_second:.0f}", f"{one.seconds:.1f}",
            style="bold" if one is winner else None,
        )  # fmt: skip
    print_rich(table)
    print()
    print(f"{plural(len(found.candidates), 'candidate')} tried; --json lists all")
    if found.images + len(found.skipped) < total:
        print(f"tried on {found.images:,} of {plural(total, 'image')}, as many as fit in memory")
    for method, count in Counter(one.method for one in found.left_out).items():
        enough = max(one.budget for one in found.left_out if one.method == method)
        some = plural(count, "candidate")
        print(f"no time for {some} with {method}; --budget {_rounded_up(enough)} is about enough")
    print(
        f"winner: {' '.join(winner.options())}, the simplest within one standard error "
        f"({found.best.evaluation.standard_error:.1f} points) of the best"
    )


def _rounded_up(seconds: float) -> int:
    """Add a tenth, since this is an estimate, and round up to tens of seconds."""
    return 10 * math.ceil(1.1 * seconds / 10)
