"""The command ``lrrspm datasets``: list, fetch, verify and add data sets."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._support.text import plural, printable
from .app import command_of, group
from .options import DataDir, Jobs, Json, as_local
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from ..datasets import Dataset, Report, Status

datasets: typer.Typer = group(
    "datasets",
    "List, fetch, verify or add the nine data sets of the paper.\n\n"
    "Without a command, lists them with their contents, terms and folder, and whether they are "
    "complete, judged by file counts.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name listed by 'lrrspm datasets'.")]


@datasets.callback(invoke_without_command=True, no_args_is_help=False)
def main(context: typer.Context, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Accept options before the command; without a command, list the data sets."""
    given = {"data_dir": data_dir, "as_json": as_json}
    if context.invoked_subcommand is None:
        list_all(**given)
    else:
        # Options before the command work as if they came after it.
        context.default_map = {context.invoked_subcommand: given}


@command_of(datasets, name="list")
def list_all(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets, the same as 'lrrspm datasets'.

    Example: lrrspm datasets list --json
    """
    from rich.table import Table

    from ..datasets import DATASETS, data_root, status

    root = data_root(data_dir)
    states = {name: status(name, root) for name in DATASETS}
    if as_json:
        print_json(
            data_root=str(root),
            datasets={name: _describe(DATASETS[name], states[name]) for name in DATASETS},
        )
        return
    table = Table("data set", box=None, pad_edge=False)
    for heading in ("images", "classes", "MB"):
        table.add_column(heading, justify="right")
    for heading in ("terms", "cite", "state", "folder"):
        table.add_column(heading, overflow="fold")
    for name, dataset in DATASETS.items():
        state = states[name]
        inside = state.folder.is_relative_to(root)
        folder = state.folder.relative_to(root) if inside else state.folder
        counts = map(str, (dataset.images, dataset.classes, dataset.megabytes))
        words = (dataset.terms, dataset.reference, _in_words(state))
        table.add_row(name, *counts, *words, text(str(folder)))
    print_rich(table)
    print(f"\ndata root: {printable(root)} (set it with --data-dir or LRRSPM_DATA)")
    print("details: lrrspm datasets info NAME")


@command_of(datasets)
def info(name: Name, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show details of a data set: terms, citation, origin.

    Example: lrrspm datasets info LS
    """
    from ..datasets import data_root, find_dataset, status

    dataset = find_dataset(name)
    state = status(name, data_root(data_dir))
    facts = _describe(dataset, state)
    if as_json:
        print_json(**facts)
        return
    print(f"{dataset.name}: {dataset.title}")
    print(f"{dataset.images} images, {dataset.classes} classes, about {dataset.megabytes} MB")
    if dataset.note:
        print(dataset.note)
    for title in ("terms", "citation", "home", "address", "checksum", "source"):
        if facts[title]:
            print(f"{title}: {facts[title]}")
    print(f"folder: {printable(state.folder)}, {_in_words(state)}")


@command_of(datasets)
def fetch(
    name: Name,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            metavar="FILE",
            parser=as_local,
            help="The archive, if you have it already.",
        ),
    ] = None,
    data_dir: DataDir = None,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Download a data set from its official source and unpack it into class folders.

    An interrupted download resumes. The folder gets its final name once it is
    complete. For OT and FP, which are parts of LS, fetches LS.

    Example: lrrspm datasets fetch LS
    """
    from .._support.stages import Stages
    from ..datasets import data_root, find_dataset, locate, status
    from ..datasets import fetch as fetch_set

    root = data_root(data_dir)
    dataset = find_dataset(name)
    target = root / (dataset.part_of or dataset.name)
    before = target.exists()
    with progress() as listener:
        folder = fetch_set(name, root, archive, jobs, Stages(listener))
    state = status(name, root)
    if as_json:
        print_json(name=dataset.name, folder=str(folder), fetched=not before, images=state.images)
        return
    print(f"{printable(folder)}: {'already there' if before else 'fetched'}")
    print(f"{dataset.name}: {_in_words(state)}; terms: {dataset.terms}")
    print(f"cite: {dataset.citation}")
    if locate(name, root) != folder:
        print(f"in use: {printable(state.folder)}, which was added as {dataset.name}")
    if before and not state.complete:
        print(f"to fetch it again, delete {printable(folder)} first")
    print(f"next: lrrspm datasets verify {dataset.name}")


@command_of(datasets)
def verify(name: Name, data_dir: DataDir = None, jobs: Jobs = -1, as_json: Json = False) -> None:
    """Decode every image of a data set and compare it with the published one.

    Lists missing, extra, broken and duplicate images. The exit code is 0 if
    the set is complete and equal to the published one, 1 if not.

    Example: lrrspm datasets verify LS
    """
    from .._support.stages import Stages
    from ..datasets import data_root
    from ..datasets import verify as verify_set

    with progress() as listener:
        report = verify_set(name, data_root(data_dir), jobs, Stages(listener))
    if as_json:
        print_json(**asdict(report))
    else:
        _print_report(report)
    if not report.good:
        raise typer.Exit(1)


@command_of(datasets)
def add(
    name: Name,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", parser=as_local, help="The folder that holds the data set."),
    ],
    data_dir: DataDir = None,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Use a folder that you already have as a data set, without changing it.

    Class folders with other names are recognized by their content. A folder
    that differs from the published set is added with a warning.

    Example: lrrspm datasets add LS /data/15-scene
    """
    from .._support.stages import Stages
    from ..datasets import add as add_set
    from ..datasets import data_root, find_dataset, status

    root = data_root(data_dir)
    dataset = find_dataset(name)
    with progress() as listener:
        place, wrong = add_set(name, folder, root, jobs, Stages(listener))
    if as_json:
        print_json(
            name=dataset.name,
            folder=str(place.folder),
            renamed=place.folders,
            differences=wrong,
            complete=not wrong,
        )
        return
    print(f"{dataset.name}: {printable(place.folder)}, {_in_words(status(name, root))}")
    for theirs, ours in place.folders.items():
        print(f"  {printable(theirs)} is {ours}")
    for difference in wrong:
        print(f"warning: {printable(difference)}", file=sys.stderr)
    print(f"next: lrrspm datasets verify {dataset.name}")


def _describe(dataset: Dataset, state: Status) -> dict[str, Any]:
    internal = ("archive", "manifest", "naming", "without", "skip")
    origin = ("address", "checksum", "source")
    return {
        **{name: value for name, value in asdict(dataset).items() if name not in internal},
        **{name: getattr(dataset.archive, name, None) for name in origin},
        "folder": str(state.folder),
        "there": state.there,
        "added": state.added,
        "complete": state.complete,
        "images_there": state.images,
        "classes_there": state.classes,
    }


def _in_words(state: Status) -> str:
    if not state.there:
        return "not found"
    if state.complete:
        return "complete by count"
    return f"incomplete: {plural(state.images, 'image')}, {plural(state.classes, 'class')}"


def _print_report(report: Report) -> None:
    from rich.table import Table

    table = Table("class", "images", "published", "state", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for row in report.classes:
        expected = "" if row.published is None else str(row.published)
        table.add_row(text(row.label), str(row.images), expected, row.state)
    print_rich(table)
    if report.copies:
        extra = sum(len(group) - 1 for group in report.copies)
        known = ", as published" if report.equal else ""
        print(f"{plural(extra, 'duplicate image')}{known}:")
        for group in report.copies:
            print(f"  {printable(' = '.join(group))}")
    if report.strays:
        print(f"{plural(len(report.strays), 'image')} outside the classes, ignored:")
        for path in report.strays:
            print(f"  {printable(path)}")
    for sentence in report.summary:
        print(printable(sentence))
    where = f"{report.name} in {printable(report.folder)}"
    if not report.good:
        print(f"{where}: not the published set")
    elif report.equal is None:
        print(f"{where}: the counts are right; no digests are known to compare with")
    else:
        print(f"{where}: complete, and every class equals the published one")
