"""Predictions and evidence of uploads, by workers that are processes or threads."""

from __future__ import annotations

import os
from typing import Any

import joblib
from fastapi import HTTPException, UploadFile

from .. import __version__, config
from .errors import RETRY
from .escaping import escape
from .processes import CAN_ISOLATE, Processes, Threads, Workers
from .schemas import ErrorItem, Evidence, Limits, ModelCard, Prediction


class _FileError(Exception):
    """A file that cannot be used, the status that says so, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason


class Worker:
    """A model, loaded once, and the processes that use it.

    Parameters
    ----------
    path : path
        Model file.
    limits : Limits, optional
    n_jobs : int, default=-1
        Processes; -1 for one per core.
    min_confidence : float or None
        Probability of the best class below which an image is unknown; None if
        every image is answered.
    collects : bool
        True if the server takes corrections.
    isolated : bool
        False for threads of this process, which have no limits on memory and
        time; the default on Windows and macOS.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        limits: Limits | None = None,
        n_jobs: int = -1,
        min_confidence: float | None = None,
        isolated: bool = CAN_ISOLATE,
        collects: bool = False,
    ) -> None:
        self.limits: Limits = limits or Limits()
        count = joblib.effective_n_jobs(n_jobs)
        self.workers: Workers = Processes(path, count) if isolated else Threads(path, count)
        self.labels: list[str] = self.workers.hello["labels"]
        self.min_confidence = min_confidence
        self.card: ModelCard = ModelCard(
            **self.workers.hello["card"],
            server=__version__,
            limits=self.limits,
            min_confidence=min_confidence,
            collects=collects,
        )

    async def predict(self, upload: UploadFile, top: int) -> Prediction | ErrorItem:
        """Return the best classes of an image, or the reason why there are none."""
        name = _name(upload)
        try:
            found = await self._run(upload, kind="predict", top=top)
            return Prediction(name=name, known=self._knows(found["confidence"], found), **found)
        except _FileError as error:
            return ErrorItem(name=name, error=escape(error.reason))

    async def explain(
        self, upload: UploadFile, label: str | None, preview: bool, patches: bool
    ) -> Evidence:
        """Return the evidence for a class in an image."""
        name = _name(upload)
        job = {"kind": "explain", "label": label, "preview": preview, "patches": patches}
        try:
            found = await self._run(upload, **job)
            best = found["classes"][0]["probability"]
            return Evidence(name=name, known=self._knows(best, found), **found)
        except _FileError as error:
            raise HTTPException(error.status, f"{name}: {error.reason}") from None

    async def identify(self, upload: UploadFile) -> str:
        """Return the suffix of an image that can be decoded."""
        try:
            suffix = (await self._run(upload, kind="identify"))["suffix"]
        except _FileError as error:
            raise HTTPException(error.status, f"{_name(upload)}: {error.reason}") from None
        # A process that decodes files of strangers is not believed.
        if suffix not in config.IMAGE_SUFFIXES:
            raise RuntimeError(f"a worker process says {suffix!r:.100}")
        return str(suffix)

    def _knows(self, confidence: float, found: dict[str, Any]) -> bool:
        least = self.min_confidence
        return least is None or (bool(found["familiar"]) and confidence >= least)

    async def _run(self, upload: UploadFile, **job: Any) -> dict[str, Any]:
        if (upload.size or 0) > self.limits.file_bytes:
            limit = f"{self.limits.file_bytes / 1e6:g} MB"
            raise _FileError(413, f"file is larger than {limit}; shrink it first")
        answer = await self.workers.run(job, upload)
        if "error" in answer:
            raise _FileError(422, answer["error"])
        if "busy" in answer:
            raise HTTPException(503, answer["busy"], RETRY)
        if "failure" in answer:
            raise RuntimeError(f"a worker process failed:\n{answer['failure']}")
        result: dict[str, Any] = answer["result"]
        return result


def _name(upload: UploadFile) -> str:
    return escape(upload.filename or "image")
