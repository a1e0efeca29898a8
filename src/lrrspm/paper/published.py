"""The paper's own numbers, from one file: ``published.json``."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read_published() -> dict[str, Any]:
    """Everything in the file: for each table its title and cells, for figures what is claimed."""
    text = (files(__package__) / "published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def published(table: str, **where: Any) -> dict[str, Any] | None:
    """The cell of a table whose fields have the values given, or None."""
    for cell in read_published()[table]["cells"]:
        if all(cell.get(name) == value for name, value in where.items()):
            return dict(cell)
    return None
