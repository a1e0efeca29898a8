"""The audit command: problems with a folder of images."""

from __future__ import annotations

from typing import Any

import typer

from .. import config
from .._support.text import plural, printable
from .app import SKIPPED, command
from .options import EngineName, ImageFolder, Jobs, Json, LabelColumn, PathColumn
from .terminal import print_json, print_rich, progress, text


@command
def audit(
    folder: ImageFolder,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    jobs: Jobs = -1,
    engine: EngineName = config.ENGINE,
    as_json: Json = False,
) -> None:
    """Check a folder of images for problems before training on it.

    Finds broken files and decompression bombs, files with the suffix of another
    format, images smaller than a patch, copies and near copies within a class,
    across classes or in both train/ and test/, files ignored because of their
    suffix, and classes that are empty, small or very different in size. Changes no
    file. The exit code is 0 if no problem was found, 3 otherwise.

    Example: lrrspm audit images
    """
    from .._support.stages import Stages
    from ..images import audit as check
    from ..pipeline import open_engine

    with progress() as listener, open_engine(jobs, engine) as opened:
        stages, mapped = Stages(listener), opened.map_each
        result = check(folder, jobs, stages, path_column, label_column, mapped)
    if as_json:
        result["findings"] = [finding._asdict() for finding in result["findings"]]
        print_json(folder=str(folder), **result)
    else:
        _print_audit(result)
    if result["findings"]:
        raise typer.Exit(SKIPPED)


def _print_audit(result: dict[str, Any]) -> None:
    """Print one row per finding, then how many there are of each kind."""
    from rich.table import Table
    from rich.text import Text

    if result["findings"]:
        table = Table("problem", "detail", "images", box=None, pad_edge=False)
        table.columns[1].overflow = table.columns[2].overflow = "fold"
        for finding in result["findings"]:
            paths = Text("\n".join(printable(path) for path in finding.paths))
            table.add_row(finding.kind, text(finding.detail), paths)
        print_rich(table)
        print()
    sizes = list(result["classes"].values())
    small, large = min(sizes), max(sizes)
    each = f"{small} to {large}" if small < large else f"{large}"
    images, classes = plural(result["images"], "image"), plural(len(sizes), "class")
    print(f"{images} in {classes}, {each} per class")
    if "parts" in result:
        parts = result["parts"]
        print(f"train {parts['train']:,}, test {parts['test']:,}")
    found = [f"{kind} {count}" for kind, count in result["counts"].items() if count]
    print("found: " + ", ".join(found) if found else "no problems found")
