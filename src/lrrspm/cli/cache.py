"""lrrspm cache info and lrrspm cache clear."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .._support.text import plural, printable
from .app import command_of, group
from .options import Json, Place, as_file
from .terminal import print_json, print_rich, text

cache: typer.Typer = group("cache", "Show or empty a folder that --cache made.")

Store = Annotated[
    Place, typer.Argument(metavar="DIR", parser=as_file, help="A folder that --cache made.")
]


@command_of(cache)
def info(folder: Store, as_json: Json = False) -> None:
    """Show what a feature store holds and its size; --json has every parameter.

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
    """Describe what a shelf's content depends on: parts by name, and numbers; no digests."""
    about = {k: v for k, v in shelf["about"].items() if k not in ("arrays", "members")}
    parts = [str(value.get("name")) for value in about.values() if isinstance(value, dict)]
    others = [
        f"{'' if name == 'what' else f'{name} '}"
        f"{','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in about.items()
        if not isinstance(value, dict) and value is not None
    ]
    stale = [] if shelf["current"] else ["made by another version, not used"]
    return ", ".join(stale + parts + others)


@command_of(cache)
def clear(folder: Store, as_json: Json = False) -> None:
    """Empty a feature store; other files in the folder stay.

    At an address, do this only while no run uses it: vectors that runs need are deleted, too.

    Example: lrrspm cache clear my-cache
    """
    from ..cache import clear as clear_store

    files, size = clear_store(folder)
    if as_json:
        print_json(store=str(folder), files=files, bytes=size)
        return
    print(f"{printable(folder)}: deleted {plural(files, 'file')}, {size / 1e6:,.1f} MB")
