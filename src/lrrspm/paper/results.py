"""Result rows on disk: one JSON object a line, appended as each is made."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._support.environment import describe_environment
from .settings import Setting, digest

FILE = "rows.jsonl"


class ResultsError(OSError):
    """Results that cannot be read or written; the message names the file and says why."""


class Results:
    """What has been computed so far, and the file that keeps it.

    Three kinds of lines: ``row`` (a setting and what came of it), ``figure``
    (numbers of a figure) and ``environment`` (commit, versions and machine,
    which the others name by a short digest). A later line of the same key
    takes the place of an earlier one. A process that is killed while it
    writes leaves half a line at most, which is ignored.

    A row has ``setting``; ``accuracy`` and ``overall`` (percent, mean over the
    classes and over the images); ``per_class`` (right and tested images);
    ``images`` and ``data`` (how many there were, and their fingerprint);
    ``seconds`` of reading and describing all images, of learning the codebook,
    of coding all images, of training and of testing; ``wall`` (seconds since
    the row before it); ``peak_mb`` (of the process, since the images of its
    data set were first read); ``other_data`` where the images were not the
    published ones; ``warnings`` of the SVM; or ``error``.

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
        damaged = False
        for line in self._lines():
            damaged = not self._take_line(line)
        if damaged:  # the last one; earlier ones have been told of
            warnings.warn(
                f"{self.path}: its last line is damaged and was ignored; what it held is computed "
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

    def errors(self, settings: Iterable[Setting]) -> list[str]:
        """Why settings failed, each reason once."""
        records = (self.records.get(setting.key, {}) for setting in settings)
        return list(dict.fromkeys(record["error"] for record in records if "error" in record))

    def figures(self, name: str) -> list[dict[str, Any]]:
        """Records of a figure, whatever they were computed from."""
        return [r for r in self.records.values() if r["setting"].get("figure") == name]

    def add_row(self, setting: Setting, **content: Any) -> None:
        """Keep what came of a setting: its numbers, or ``error``."""
        self._add("row", setting.key, setting=asdict(setting), **content)

    def add_figure(self, parameters: dict[str, Any], **content: Any) -> None:
        """Keep the ``values`` of a figure, or ``error``."""
        self._add("figure", digest(parameters), setting=parameters, **content)

    def _add(self, kind: str, key: str, **content: Any) -> None:
        if self._current is None:
            environment = describe_environment()
            self._current = digest(environment)
            if self._current not in self.environments:
                self._write({"kind": "environment", "key": self._current, **environment})
        self._write({"kind": kind, "key": key, **content, "environment": self._current})

    def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # At one stroke and at the end, so that several processes may write.
            with self.path.open("a+b", buffering=0) as file:
                if not _ends_a_line(file):
                    line = b"\n" + line
                if file.write(line) != len(line):
                    raise OSError("the disk is full")
                os.fsync(file.fileno())
        except OSError as error:
            raise ResultsError(
                f"{self.path}: cannot be written ({error.strerror or error}); what was computed "
                "before is kept: make room, or give another --results, and run it again"
            ) from error
        self._take(record)

    def _take_line(self, line: bytes) -> bool:
        try:
            self._take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return True

    def _take(self, record: dict[str, Any]) -> None:
        if record["kind"] == "environment":
            self.environments[record["key"]] = record
        else:
            record["setting"].get("figure")  # a line without a setting is a damaged one
            self.records[record["key"]] = record

    def _lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().splitlines() if line]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ResultsError(f"{self.path}: cannot be read ({error.strerror})") from error


def _ends_a_line(file: Any) -> bool:
    """Whether a file is empty or ends with a line break; a killed run may leave half a line."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
