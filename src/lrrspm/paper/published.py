"""The paper's own numbers, from one file: ``published.json``."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

SPLITS = 5
"""Splits behind each of the paper's means (section 4.2)."""


@cache
def read_published() -> dict[str, Any]:
    """Return the file's content: titles and cells of tables, claims of figures."""
    text = (files(__package__) / "published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def published(table: str, **where: Any) -> dict[str, Any] | None:
    """Return the cell of a table whose fields have the given values, or None."""
    for cell in read_published()[table]["cells"]:
        if all(cell.get(name) == value for name, value in where.items()):
            return dict(cell)
    return None
