"""Tables: CSV files that list images and their labels."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import config
from .._support.remote import check_address, is_remote

PATHS = (
    "path", "file_path", "filepath", "image_path", "img_path", "filename", "file_name", "file",
    "image", "img", "image_name", "image_file", "image_id", "name",
)  # fmt: skip
"""Names of a column of paths, in any letter case; the first that a table has is taken."""

LABELS = ("label", "labels", "class", "class_name", "category", "target", "species", "breed", "tag")
"""Names of a column of labels."""

SUFFIXES = (".csv", ".tsv")
"""Suffixes of tables."""

_WRONG = "neither a folder of class folders nor a CSV file of path,label rows"


class Row(NamedTuple):
    """One image of a table."""

    label: str
    path: str
    cells: dict[str, str]
    """All columns by name; none where the table has no header."""


class _Columns(NamedTuple):
    """The header of a table, none of which is empty, and the places of paths and labels."""

    names: list[str]
    path: int
    label: int | None


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return True for a regular file with the suffix of a table."""
    return os.fspath(path).lower().endswith(SUFFIXES) and os.path.isfile(path)


def read_table(
    table: Path,
    path_column: str | None = None,
    label_column: str | None = None,
    folders: Sequence[Path] = (),
    labeled: bool = True,
) -> list[Row]:
    """Read the rows of a table, sorted by label, then by path.

    Cells are separated by commas, semicolons or tabs, whichever the first row
    has more of. That row is a header if it has a column of :data:`PATHS` and
    one of :data:`LABELS`; of two columns one is enough. Without a header the
    columns are path and label.

    Parameters
    ----------
    table : Path
    path_column, label_column : str or None
        Names of the columns, in any letter case, where they have others.
    folders : sequence of Path
        Where to look for images that are not beside the table.
    labeled : bool
        False needs no labels; missing ones are empty.
    """
    lines = _lines(table)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{table}: no path,label rows")
    columns = _find_columns(table, first[1], path_column, label_column, labeled)
    if columns is None:
        columns, rows = _Columns([], 0, 1), [first]
    else:
        rows = []
    width = len(columns.names) or 2
    found = []
    for number, row in (*rows, *lines):
        while len(row) > width and not row[-1].strip():
            del row[-1]
        cells = [cell.strip() for cell in row]
        needed = [columns.path, *([columns.label] if labeled and columns.label is not None else [])]
        if len(cells) != width or not all(cells[i] for i in needed):
            expected = ",".join(columns.names) or "path,label"
            raise ValueError(f"{table}, line {number}: expected '{expected}', got {row}")
        label = "" if columns.label is None else cells[columns.label]
        path = _listed([table.parent, *folders], row[columns.path])
        found.append(Row(label, path, dict(zip(columns.names, cells, strict=False))))
    if not found:
        raise ValueError(f"{table}: no rows below the header {','.join(columns.names)}")
    return sorted(found, key=lambda row: row[:2])


def _lines(table: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row that is not blank."""
    with table.open("rb") as start:  # not a text file at all, most likely
        before, nul, _ = start.read(4096).partition(b"\0")
    if nul and table.suffix.lower() in config.IMAGE_SUFFIXES:
        raise ValueError(f"{table}: an image; give the folder that has one folder per class")
    if nul:
        line = before.count(b"\n") + 1
        raise ValueError(f"{table}, line {line}: a NUL character; {_WRONG}")
    with table.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        first = next((text for text in file if text.strip()), "")
        file.seek(0)
        reader = csv.reader(file, delimiter=_delimiter(table, first))
        try:
            for row in reader:
                if any("\0" in cell for cell in row):
                    raise ValueError(f"{table}, line {reader.line_num}: a NUL character; {_WRONG}")
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"{table}, line {reader.line_num}: {error}; {_WRONG}") from error


def _delimiter(table: Path, line: str) -> str:
    """Return the separator that a line has most of; where that is not clear, the suffix's."""
    order = "\t,;" if table.suffix.lower() == ".tsv" else ",;\t"
    try:
        return max(order, key=lambda one: len(next(csv.reader([line], delimiter=one), [])))
    except csv.Error:  # named, with its line, when the table is read
        return order[0]


def _find_columns(
    table: Path,
    first: Sequence[str],
    path_column: str | None,
    label_column: str | None,
    labeled: bool,
) -> _Columns | None:
    """Return the columns that the first row names, or None if it is a row of data."""
    names = [cell.strip() for cell in first]
    there = ", ".join(names)
    known = [name.lower().replace(" ", "_").replace("-", "_") for name in names]
    paths = _place(table, names, path_column, "--path-column")
    labels = _place(table, names, label_column, "--label-column")
    given = paths is not None or labels is not None
    if paths is None:
        paths = _first(known, PATHS, labels)
    if labels is None:
        labels = _first(known, LABELS, paths)
    if len(names) == 2 and labeled and (paths is None) != (labels is None):
        other = paths if paths is not None else labels
        assert other is not None
        paths, labels = (other, 1 - other) if paths is not None else (1 - other, other)
    if paths is not None and (labels is not None or not labeled):
        return _Columns(names, paths, labels)
    if not given and len(names) == 2 and _is_file(table, names[0]):
        return None
    if not given and len(names) < 2:
        raise ValueError(f"{table}, line 1: expected 'path,label', got {list(first)}; {_WRONG}")
    lacks = "paths" if paths is None else "labels"
    options = "--label-column" if paths is not None else "--path-column"
    options += " and --label-column" if paths is None and labeled else ""
    raise ValueError(
        f"{table}: no column of {lacks} among: {there}; name it with {options}, "
        f"or in the header: {'path' if paths is None else 'label'}"
    )


def _place(table: Path, names: Sequence[str], wanted: str | None, option: str) -> int | None:
    """Return the place of a column that was asked for."""
    if wanted is None:
        return None
    for name in (wanted, *(name for name in names if name.casefold() == wanted.casefold())):
        if name in names:
            return names.index(name)
    raise ValueError(f"{table}: {option}: no column '{wanted}' among: {', '.join(names)}")


def _first(known: Sequence[str], wanted: Sequence[str], taken: int | None) -> int | None:
    """Return the place of the first of the wanted names, other than one that is taken."""
    places = (known.index(name) for name in wanted if name in known)
    return next((place for place in places if place != taken), None)


def _is_file(table: Path, name: str) -> bool:
    """Return True if a cell looks like the path of an image."""
    suffixed = name.lower().endswith(config.IMAGE_SUFFIXES)
    return suffixed or os.path.isfile(os.path.join(table.parent, name))


def _listed(folders: Sequence[Path], name: str) -> str:
    """Return the path of a listed file; blanks around the name count if such a file exists."""
    if is_remote(name.strip()):
        return check_address(name.strip())
    candidates = [
        os.path.join(folder, one)
        for folder in folders
        for one in dict.fromkeys((name, name.strip()))
    ]
    beside = os.path.join(folders[0], name.strip())
    return next((path for path in candidates if os.path.exists(path)), beside)
