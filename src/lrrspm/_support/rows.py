"""Rows for other programs: CSV and JSON Lines."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from .files import check_target, lock_file, write_atomically

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
    text = _text(columns, rows, Path(path).suffix.lower() == ".csv")
    write_atomically(path, text.encode(errors="surrogateescape"))


class RowFile:
    """Rows that are written as they come; the file has its name when all of them are there.

    Until then it is hidden, ``.NAME.KEY.part``. A run that is killed leaves it, and the
    next one with the same key goes on after the rows that it has, cut back to a
    multiple of ``together``. Another run that writes it at the same time is refused.

    Parameters
    ----------
    path : path
        The suffix says in which format, as for :func:`write_rows`.
    columns : sequence of str
    key : str
        What the rows depend on.
    together : int
        Rows that are computed together.

    Attributes
    ----------
    done : int
        Rows that an earlier run left.
    """

    def __init__(
        self, path: str | os.PathLike[str], columns: Sequence[str], key: str, together: int = 1
    ) -> None:
        check_target(path)
        self._target = Path(path).resolve()  # a link keeps pointing to the file
        self._columns = list(columns)
        self._csv = self._target.suffix.lower() == ".csv"
        digest = hashlib.sha256(f"{self._columns}{key}".encode(errors="surrogateescape"))
        self.part = self._target.with_name(
            f".{self._target.name[:40]}.{digest.hexdigest()[:16]}.part"
        )
        self._file = self._open()
        try:
            self.done = self._cut(together)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file, as it is."""
        self._file.close()

    def _open(self) -> BinaryIO:
        """Open the hidden file for this run alone."""
        while True:
            file = self.part.open("ab")
            try:
                lock_file(file)
                # A run that has just ended may have given the file its name.
                if self.part.exists() and os.path.samestat(
                    os.fstat(file.fileno()), self.part.stat()
                ):
                    return file
            except BlockingIOError:
                file.close()
                raise ValueError(
                    f"{self._target}: another run of the same command is writing it; "
                    "wait for that, or choose another name"
                ) from None
            except BaseException:
                file.close()
                raise
            file.close()

    def _cut(self, together: int) -> int:
        """Cut half a row and half a block; return the number of rows that stay."""
        done = quotes = place = kept = 0
        end, rows = (b"\r\n", -1) if self._csv else (b"\n", 0)
        with self.part.open("rb") as file:
            for line in file:
                place += len(line)
                quotes += line.count(b'"') if self._csv else 0  # a cell may hold line ends
                if line.endswith(end) and quotes % 2 == 0:
                    rows += 1
                    if rows >= 0 and rows % together == 0:
                        kept, done = place, rows
        os.truncate(self.part, kept)
        if kept == 0 and self._csv:  # not even a header
            self._write(csv_text(self._columns, []))
        return done

    def earlier(self) -> Iterator[dict[str, Any]]:
        """Yield the rows that an earlier run left, as text."""
        with self.part.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            yield from csv.DictReader(file) if self._csv else map(json.loads, file)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write more rows."""
        self._write(_text(self._columns, rows, self._csv, header=False))

    def finish(self) -> None:
        """Give the file its name."""
        if self._target.exists():
            self.part.chmod(stat.S_IMODE(self._target.stat().st_mode))
        self.part.replace(self._target)
        self.close()

    def _write(self, text: str) -> None:
        try:
            self._file.write(text.encode(errors="surrogateescape"))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            error.filename = str(self._target)  # not the temporary name
            raise


def _text(
    columns: Sequence[str], rows: Iterable[Mapping[str, Any]], as_csv: bool, header: bool = True
) -> str:
    if as_csv:
        return csv_text(columns, rows, header)
    whole = ({name: row.get(name) for name in columns} for row in rows)
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in whole)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], header: bool = True) -> str:
    """Return a header and rows as CSV.

    Text that a spreadsheet would take for a formula has ``'`` before it; a column
    ``path`` has ``./`` instead, and so stays a path.
    """
    target = io.StringIO()
    writer = csv.writer(target)
    if header:
        writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(name, row.get(name)) for name in columns])
    return target.getvalue()


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"./{value}" if name == "path" else f"'{value}"
    return value
