"""Rows for other programs: CSV and JSON Lines."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import stat
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, TextIO

from .files import MAX_BYTES, check_target, lock_file, write_atomically
from .remote import (
    check_address,
    delete_remote,
    is_remote,
    list_folder,
    naming,
    read_remote,
    write_remote,
)

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


class Rows(ABC):
    """Rows that are written as they come; the file has its name when all of them are there.

    A run that is killed leaves its rows under hidden names, and the next one with the same
    key goes on after them, cut back to a multiple of ``together``. :func:`open_rows` makes
    one; it is a context.

    Parameters
    ----------
    path : path or address
        The suffix says in which format, as for :func:`write_rows`.
    columns : sequence of str
    key : str
        What the rows depend on.

    Attributes
    ----------
    done : int
        Rows that are there: those that an earlier run left, and more as they are written.
    part : path or address
        What to delete to start over.
    """

    done: int
    part: Path | str

    def __init__(self, path: Path | str, columns: Sequence[str], key: str) -> None:
        name = Path(path).name
        self._columns = list(columns)
        self._csv = Path(name).suffix.lower() == ".csv"
        digest = hashlib.sha256(f"{self._columns}{key}".encode(errors="surrogateescape"))
        self._hidden = f".{name[:40]}.{digest.hexdigest()[:16]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def earlier(self) -> Iterator[dict[str, Any]]:
        """Yield the rows that an earlier run left, as text."""
        with self._text() as file:
            yield from csv.DictReader(file) if self._csv else map(json.loads, file)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write more rows."""
        text = _text(self._columns, rows, self._csv, header=False)
        self._write(text.encode(errors="surrogateescape"))
        self.done += len(rows)

    def _header(self) -> bytes:
        return csv_text(self._columns, []).encode(errors="surrogateescape") if self._csv else b""

    def _whole(self, lines: Iterable[bytes], together: int) -> tuple[int, int]:
        """Return the bytes, header included, and the number of rows that are whole blocks."""
        done = quotes = place = kept = 0
        end, rows = (b"\r\n", -1) if self._csv else (b"\n", 0)
        for line in lines:
            place += len(line)
            quotes += line.count(b'"') if self._csv else 0  # a cell may hold line ends
            if line.endswith(end) and quotes % 2 == 0:
                rows += 1
                if rows >= 0 and rows % together == 0:
                    kept, done = place, rows
        return kept, done

    @abstractmethod
    def finish(self) -> None:
        """Give the file its name."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file, as it is."""

    @abstractmethod
    def _text(self) -> TextIO:
        """Open the header and the rows that are there."""

    @abstractmethod
    def _write(self, content: bytes) -> None:
        """Write more rows, so that they survive."""


def open_rows(
    path: str | os.PathLike[str], columns: Sequence[str], key: str, together: int = 1
) -> Rows:
    """Open the file of rows of a path or an address; see :class:`Rows`.

    ``together`` is the number of rows that are computed together.
    """
    if is_remote(path):
        return RemoteRows(path, columns, key, together)
    return RowFile(path, columns, key, together)


class RowFile(Rows):
    """Rows on this machine: one hidden file, ``.NAME.KEY.part``.

    Another run that writes it at the same time is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str], columns: Sequence[str], key: str, together: int = 1
    ) -> None:
        check_target(path)
        self._target = Path(path).resolve()  # a link keeps pointing to the file
        super().__init__(self._target, columns, key)
        self.part: Path = self._target.with_name(f"{self._hidden}.part")
        self._file = self._open()
        try:
            self.done = self._cut(together)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def _open(self) -> IO[bytes]:
        """Open the hidden file for this run alone."""
        while True:
            file = self.part.open("ab", buffering=0)  # a full disk is met here, not when closing
            try:
                self._lock(file)
                # A run that has just ended may have given the file its name.
                if self.part.exists() and os.path.samestat(
                    os.fstat(file.fileno()), self.part.stat()
                ):
                    return file
            except BlockingIOError:
                file.close()
                raise ValueError(
                    f"{self._target}: another run of the same command is writing it; "
                    "wait for it to finish, or give another name"
                ) from None
            except BaseException:
                file.close()
                raise
            file.close()

    def _lock(self, file: IO[bytes]) -> None:
        try:
            lock_file(file)
        except BlockingIOError:
            raise
        except OSError as error:  # some disks of several machines have no locks
            warnings.warn(
                f"{self._target}: its disk has no locks ({error.strerror}); do not write it with "
                "two runs at a time",
                stacklevel=5,
            )

    def _cut(self, together: int) -> int:
        """Cut half a row and half a block; return the number of rows that stay."""
        with self.part.open("rb") as file:
            kept, done = self._whole(file, together)
        os.truncate(self.part, kept)
        if kept == 0:  # not even a header
            self._write(self._header())
        return done

    def _text(self) -> TextIO:
        return self.part.open(newline="", encoding="utf-8", errors="surrogateescape")

    def finish(self) -> None:
        if self._target.exists():
            self.part.chmod(stat.S_IMODE(self._target.stat().st_mode))
        self.part.replace(self._target)
        self.close()

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        try:
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            error.filename = str(self._target)  # not the temporary name
            raise


class RemoteRows(Rows):
    """Rows at an address: as no object can grow, each block is one, ``.NAME.KEY.FIRST.part``.

    FIRST is the number of its first row. This run also keeps its rows in memory, about 60
    bytes each, and writes them whole at the end.

    There is no lock. Another run with the same key writes the same rows under the same
    numbers, and neither reads what the other writes meanwhile, so both end with the same file.
    """

    def __init__(self, path: str, columns: Sequence[str], key: str, together: int = 1) -> None:
        check_target(path)
        self._target = check_address(path)
        super().__init__(self._target, columns, key)
        self._folder = self._target.rpartition("/")[0] + "/"  # all of "memory://" for a file there
        self.part: str = f"{self._folder}{self._hidden}.*.part"
        with naming(self._target):
            content = self._header() + b"".join(self._earlier_parts())
        kept, self.done = self._whole(io.BytesIO(content), together)
        self._pieces = [content[:kept] or self._header()]
        self._rows = self.done

    def close(self) -> None:
        """There is nothing to let go of."""

    def _parts(self) -> dict[int, str]:
        """Return the addresses of the parts that are there, by the numbers of their first rows."""
        pattern = re.compile(rf"{re.escape(self._hidden)}\.(\d{{12}})\.part")
        found = map(pattern.fullmatch, list_folder(self._folder))
        return {int(one[1]): f"{self._folder}{one[0]}" for one in found if one}

    def _earlier_parts(self) -> Iterator[bytes]:
        """Yield the whole rows of the parts that an earlier run left, as far as none is missing."""
        parts, rows = self._parts(), 0
        while rows in parts:
            try:
                content = read_remote(parts[rows], MAX_BYTES)
            except FileNotFoundError:  # another run has just ended
                return
            size, count = self._rows_in(content)
            if count == 0:
                return
            yield content[:size]
            rows += count

    def _rows_in(self, content: bytes) -> tuple[int, int]:
        """Return the bytes and the number of the whole rows in a part."""
        header = self._header()
        size, count = self._whole(io.BytesIO(header + content), 1)
        return size - len(header), count

    def _text(self) -> TextIO:
        text = b"".join(self._pieces).decode(errors="surrogateescape")
        return io.StringIO(text, newline="")

    def finish(self) -> None:
        write_atomically(self._target, b"".join(self._pieces))
        try:
            for part in self._parts().values():
                delete_remote(part)
        except OSError as error:  # the file is there all the same
            reason = f"the parts {self.part} could not be deleted: {error}"
            warnings.warn(reason, stacklevel=2)

    def _write(self, content: bytes) -> None:
        part = f"{self._folder}{self._hidden}.{self._rows:012}.part"
        with naming(self._target):
            write_remote(part, content)
        self._pieces.append(content)
        self._rows += self._rows_in(content)[1]


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
