"""Result rows on disk: one JSON object per line, appended as each is computed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._support.environment import describe_environment
from .._support.text import plural
from .settings import CODE, Setting, digest

FILE = "rows.jsonl"


class ResultsError(OSError):
    """Results cannot be read or written; the message names the file and the reason."""


class Results:
    """All results so far, and the file that stores them.

    There are three kinds of lines: ``row`` (a setting and its result),
    ``figure`` (numbers of a figure) and ``environment`` (commit, versions, of
    the code behind results too, machine, and perhaps a ``note`` on its seconds,
    which the others reference by a short digest). A later line
    replaces an earlier one with the same key. A process that is killed while
    writing leaves at most half a line, which is ignored.

    A row has ``setting``; ``accuracy`` and ``overall`` (percent, mean over
    classes and over images); ``per_class`` (correct and tested images);
    ``images`` and ``data`` (number of images and their fingerprint);
    ``seconds`` per stage; ``wall`` (seconds since the previous row);
    ``peak_mb`` (of the process, since its data set was first read);
    ``other_data`` if the images are not the published ones; ``warnings`` of
    the SVM; or ``error``.

    Parameters
    ----------
    folder : Path
        Created when the first row is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: Path = folder / FILE
        self.records: dict[str, dict[str, Any]] = {}
        self.environments: dict[str, dict[str, Any]] = {}
        self._current: str | None = None
        damaged = False
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            lines = []
        except OSError as error:
            raise ResultsError(f"{self.path}: cannot be read ({error.strerror})") from error
        for line in filter(None, lines):
            try:
                self._take(_checked(json.loads(line)))
                damaged = False
            except (ValueError, KeyError, TypeError, AttributeError):
                damaged = True
        if damaged:  # the last line; earlier ones were reported before
            warnings.warn(
                f"{self.path}: ignored a damaged last line; its result will be computed again "
                "when needed",
                stacklevel=2,
            )
        lost = [k for k, r in self.records.items() if r["environment"] not in self.environments]
        for key in lost:
            del self.records[key]
        if lost:
            warnings.warn(
                f"{self.path}: ignored {plural(len(lost), 'result')} of an unknown machine, whose "
                "line is damaged; they will be computed again when needed",
                stacklevel=2,
            )

    def row(self, setting: Setting) -> dict[str, Any] | None:
        """Return the row of a setting, if it was computed without an error."""
        record = self.records.get(setting.key)
        return None if record is None or "error" in record else record

    def rows(self, settings: Iterable[Setting]) -> list[dict[str, Any]]:
        """Return the rows of those settings that have one."""
        return [row for row in map(self.row, settings) if row is not None]

    def errors(self, settings: Iterable[Setting]) -> list[str]:
        """Return why settings failed, each reason once."""
        records = (self.records.get(setting.key, {}) for setting in settings)
        return list(dict.fromkeys(record["error"] for record in records if "error" in record))

    def figures(self, name: str) -> list[dict[str, Any]]:
        """Return all records of a figure."""
        return [r for r in self.records.values() if r["setting"].get("figure") == name]

    def code(self, record: dict[str, Any]) -> int:
        """Return the version of the code that computed a result; the first did not record it."""
        return int(self.environments[record["environment"]].get("code", 1))

    def outdated(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the results of older code, whose numbers this code may not repeat."""
        return [record for record in records if self.code(record) < CODE]

    def remarks(self, datasets: Iterable[str]) -> list[str]:
        """Return what the environments of some data sets' rows say about their seconds."""
        said, wanted = [], list(dict.fromkeys(datasets))
        for key, environment in self.environments.items():
            rows = (r for r in self.records.values() if r["environment"] == key)
            own = {r["setting"]["dataset"] for r in rows} if "note" in environment else set()
            names = [name for name in wanted if name in own]
            if names:
                said.append(f"{', '.join(names)}: {environment['note']}.")
        return said

    def add_row(self, setting: Setting, **content: Any) -> None:
        """Store the result of a setting: its numbers, or ``error``."""
        self._add("row", setting.key, setting=asdict(setting), **content)

    def add_figure(self, parameters: dict[str, Any], **content: Any) -> None:
        """Store the ``values`` of a figure, or ``error``."""
        self._add("figure", digest(parameters), setting=parameters, **content)

    def _add(self, kind: str, key: str, **content: Any) -> None:
        if self._current is None:
            environment = {**describe_environment(), "code": CODE}
            self._current = digest(environment)
            if self._current not in self.environments:
                self._write({"kind": "environment", "key": self._current, **environment})
        self._write({"kind": kind, "key": key, **content, "environment": self._current})

    def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # One unbuffered append, so that several processes may write.
            with self.path.open("a+b", buffering=0) as file:
                if not _ends_a_line(file):
                    line = b"\n" + line
                if file.write(line) != len(line):
                    raise OSError("the disk is full")
                os.fsync(file.fileno())
        except OSError as error:
            raise ResultsError(
                f"{self.path}: cannot be written ({error.strerror or error}); earlier results are "
                "kept: free some space or use another --results, then run it again"
            ) from error
        self._take(record)

    def _take(self, record: dict[str, Any]) -> None:
        taken = self.environments if record["kind"] == "environment" else self.records
        taken[record["key"]] = record


_NUMBER = (int, float)
_FIELDS: dict[str, dict[str, Any]] = {
    "environment": {
        "commit": str, "cores": int, "cpu": str, "packages": dict, "python": str, "system": str,
    },
    "figure": {"environment": str, "setting": dict, "values": dict, "wall": _NUMBER},
    "row": {
        "accuracy": _NUMBER, "environment": str, "images": int, "overall": _NUMBER,
        "per_class": dict, "seconds": dict, "setting": dict, "wall": _NUMBER,
    },
    "error": {"environment": str, "error": str, "setting": dict},
}  # fmt: skip


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    """Return a line; raises ValueError, KeyError or TypeError where it lacks a field."""
    for name, kind in _FIELDS["error" if "error" in record else record["kind"]].items():
        if not isinstance(record[name], kind):
            raise TypeError(f"{name} is {record[name]!r:.100}")
    needed = {"environment": ("packages", "numpy", "lrrspm"), "row": ("setting", "dataset")}
    if record["kind"] in needed:
        field, *names = needed[record["kind"]]
        _ = [record[field][name] for name in names]
    if "seconds" in record:
        _ = [float(record["seconds"][stage]) for stage in ("encode", "train", "test")]
    return record


def _ends_a_line(file: Any) -> bool:
    """Return True for an empty file or a complete last line; a killed run may leave half of one."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
