"""Rows for other programs: CSV and JSON Lines."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .files import write_atomically

SUFFIXES = (".csv", ".jsonl")
"""File names that :func:`write_rows` takes."""

# A spreadsheet would run a cell that begins with one of these.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_rows(
    path: str | os.PathLike[str], columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write one row per line, atomically; the suffix says in which format.

    Every row has all columns, in order; what is missing is empty in CSV and null
    in JSON. Bytes of file names that are not UTF-8 stay as they are in CSV.
    """
    whole = ({name: row.get(name) for name in columns} for row in rows)
    if Path(path).suffix.lower() == ".csv":
        content = csv_text(columns, whole).encode(errors="surrogateescape")
    else:
        lines = (json.dumps(row, allow_nan=False) + "\n" for row in whole)
        content = "".join(lines).encode()
    write_atomically(path, content)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a header and rows as CSV.

    Text that a spreadsheet would take for a formula has ``'`` before it; a column
    ``path`` has ``./`` instead, and so stays a path.
    """
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(name, row.get(name)) for name in columns])
    return target.getvalue()


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"./{value}" if name == "path" else f"'{value}"
    return value
