"""Result rows on disk: one JSON object a line, appended as each is made."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..environment import describe_environment
from .settings import Setting, digest

FILE = "rows.jsonl"


class Results:
    """What has been computed so far, and the file that keeps it.

    Three kinds of lines: ``row`` (a setting and what came of it), ``figure``
    (numbers of a figure) and ``environment`` (commit, versions and machine,
    which the others name by a short digest). A later line of the same key
    takes the place of an earlier one. A process that is killed while it
    writes leaves half a line at most, which is ignored.

    Parameters
    ----------
    folder : Path
        It is made when the first row is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.records: dict[str, dict[str, Any]] = {}
        self.environments: dict[str, dict[str, Any]] = {}
        self._current: str | None = None
        damaged = 0
        for line in self._lines():
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                damaged += 1
        if damaged:
            warnings.warn(
                f"{self.path}: {damaged} damaged lines were ignored; what they held is computed "
                "again when it is asked for",
                stacklevel=2,
            )

    def row(self, setting: Setting) -> dict[str, Any] | None:
        """What came of a setting, if it was computed without an error."""
        record = self.records.get(setting.key)
        return None if record is None or "error" in record else record

    def rows(self, settings: Iterable[Setting]) -> list[dict[str, Any]]:
        """The rows of those settings that have one."""
        return [row for row in map(self.row, settings) if row is not None]

    def figure(self, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """The numbers of a figure, if they were computed."""
        return self.records.get(digest(parameters))

    def add_row(self, setting: Setting, **content: Any) -> None:
        """Keep what came of a setting: its numbers, or ``error``."""
        self._add("row", setting.key, setting=asdict(setting), **content)

    def add_figure(self, parameters: dict[str, Any], **content: Any) -> None:
        self._add("figure", digest(parameters), setting=parameters, **content)

    def _add(self, kind: str, key: str, **content: Any) -> None:
        if self._current is None:
            environment = describe_environment()
            self._current = digest(environment)
            if self._current not in self.environments:
                self._write({"kind": "environment", "key": self._current, **environment})
        self._write({"kind": kind, "key": key, **content, "environment": self._current})

    def _write(self, record: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            whole = file.tell() == 0
            if not whole:
                file.seek(-1, os.SEEK_END)
                whole = file.read(1) == b"\n"
            text = json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
            # After half a line of a run that was killed a new one begins.
            file.write(text.encode() if whole else b"\n" + text.encode())
            file.flush()
            os.fsync(file.fileno())
        self._take(record)

    def _take(self, record: dict[str, Any]) -> None:
        home = self.environments if record["kind"] == "environment" else self.records
        home[record["key"]] = record

    def _lines(self) -> list[bytes]:
        try:
            return self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
