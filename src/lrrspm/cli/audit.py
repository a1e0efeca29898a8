"""The command that looks for what is wrong with pictures."""

from __future__ import annotations

from typing import Any

import typer

from .._support.text import printable
from .app import SKIPPED, command
from .options import ImageFolder, Jobs, Json
from .terminal import print_json, print_rich, progress, text


@command
def audit(folder: ImageFolder, jobs: Jobs = -1, as_json: Json = False) -> None:
    """Look for what is wrong with a folder of pictures before training on it.

    Broken files and bombs, names of another format, pictures smaller than a
    patch, copies and near copies in one class or several, files left out for
    their ending, classes that are empty, small or far apart in size. Nothing
    is changed. The exit code is 0 where nothing was found and 3 where
    something was.

    Example: lrrspm audit pictures
    """
    from .._support.stages import Stages
    from ..images import audit as look

    with progress() as listener:
        result = look(folder, jobs, Stages(listener))
    if as_json:
        result["findings"] = [finding._asdict() for finding in result["findings"]]
        print_json(folder=str(folder), **result)
    else:
        _print_audit(result)
    if result["findings"]:
        raise typer.Exit(SKIPPED)


def _print_audit(result: dict[str, Any]) -> None:
    """A row a finding, then how many there are of each kind."""
    from rich.table import Table
    from rich.text import Text

    if result["findings"]:
        table = Table("what", "detail", "pictures", box=None, pad_edge=False)
        table.columns[1].overflow = table.columns[2].overflow = "fold"
        for finding in result["findings"]:
            paths = Text("\n".join(printable(path) for path in finding.paths))
            table.add_row(finding.kind, text(finding.detail), paths)
        print_rich(table)
        print()
    sizes = list(result["classes"].values())
    print(f"{result['images']} pictures, {len(sizes)} classes of {min(sizes)} to {max(sizes)}")
    found = [f"{kind} {count}" for kind, count in result["counts"].items() if count]
    print("found: " + ", ".join(found) if found else "nothing wrong was found")
