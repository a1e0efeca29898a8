"""lrrspm cache info and lrrspm cache clear."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .._support.text import plural, printable
from .app import command_of, group
from .options import Json
from .terminal import print_json, print_rich, text

cache = group("cache", "Show or empty a folder that --cache made.")

Store = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that --cache made.")]


@command_of(cache)
def info(folder: Store, as_json: Json = False) -> None:
    """Show what a feature store holds and how large it is.

    Example: lrrspm cache info my-cache
    """
    from rich.table import Table

    from ..cache import contents

    shelves = contents(folder)
    size = sum(shelf["bytes"] for shelf in shelves)
    if as_json:
        print_json(store=str(folder), bytes=size, shelves=shelves)
        return
    table = Table("kind", box=None, pad_edge=False)
    for name in ("entries", "files", "MB"):
        table.add_column(name, justify="right")
    table.add_column("of what", overflow="fold")
    for shelf in shelves:
        table.add_row(
            shelf["kind"],
            str(shelf["arrays"]),
            str(shelf["files"]),
            f"{shelf['bytes'] / 1e6:.1f}",
            text(_in_words(shelf)),
        )
    print_rich(table)
    print(f"{printable(folder)}: {size / 1e6:,.1f} MB")


def _in_words(shelf: dict[str, Any]) -> str:
    """Describe what a shelf's content depends on, without digests."""
    hidden = ("arrays", "members")
    about = [f"{name} {value}" for name, value in shelf["about"].items() if name not in hidden]
    return ", ".join(([] if shelf["current"] else ["made by another version, not used"]) + about)


@command_of(cache)
def clear(folder: Store, as_json: Json = False) -> None:
    """Empty a feature store. Files that it did not make stay.

    Example: lrrspm cache clear my-cache
    """
    from ..cache import clear as clear_store

    files, size = clear_store(folder)
    if as_json:
        print_json(store=str(folder), files=files, bytes=size)
        return
    print(f"{printable(folder)}: deleted {plural(files, 'file')}, {size / 1e6:,.1f} MB")
