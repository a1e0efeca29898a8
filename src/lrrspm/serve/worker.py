"""Compute predictions and evidence in threads, and describe the model."""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar

import joblib
import numpy as np
from fastapi import HTTPException, UploadFile
from numpy.typing import NDArray
from PIL import Image

from .. import __version__, config
from ..classifier import load_model
from ..images import ImageError, read_thumbnail
from ..modelfile.card import describe_model
from ..report.draw import evidence_colors
from ..report.page import data_uri
from .errors import escape
from .schemas import ClassScore, ErrorItem, Evidence, Limits, ModelCard, Patches, Prediction

_PREVIEW_SIDE = 1200
# The map is smooth: a patch is 16 pixels of an image whose longer side is 300.
_MAP_SIDE = 300

T = TypeVar("T")


class _FileTooLargeError(ImageError):
    """A file over the limit, which was not opened."""


class Worker:
    """A model, loaded once, and the threads that use it.

    Parameters
    ----------
    path : path
        Model file.
    limits : Limits, optional
    n_jobs : int, default=-1
        Threads; -1 for one per core.
    """

    def __init__(
        self, path: str | os.PathLike[str], limits: Limits | None = None, n_jobs: int = -1
    ) -> None:
        self.limits = limits or Limits()
        self._classifier = load_model(path)
        self.labels = [escape(str(label)) for label in self._classifier.classes_]
        self.card = self._describe(path)
        self._n_jobs = joblib.effective_n_jobs(n_jobs)
        self._warm_up()

    def start(self) -> None:
        """Start the threads."""
        self._pool = ThreadPoolExecutor(self._n_jobs, "lrrspm-serve")

    def finish(self) -> None:
        """Start no more work, and wait for what is running."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def predict(self, upload: UploadFile, top: int) -> Prediction | ErrorItem:
        """Return the best classes of an image, or the reason why there are none."""
        name = _name(upload)
        try:
            return await self._run(upload, lambda file: self._predict(name, file, top))
        except ImageError as error:
            return ErrorItem(name=name, error=escape(error.reason))

    async def explain(
        self, upload: UploadFile, label: str | None, preview: bool, patches: bool
    ) -> Evidence:
        """Return the evidence for a class in an image."""
        name = _name(upload)
        try:
            return await self._run(
                upload, lambda file: self._explain(name, file, label, preview, patches)
            )
        except ImageError as error:
            status = 413 if isinstance(error, _FileTooLargeError) else 422
            raise HTTPException(status, f"{name}: {error.reason}") from None

    async def _run(self, upload: UploadFile, job: Callable[[BinaryIO], T]) -> T:
        """Run a job in a thread; it does not start if the request is cancelled first."""
        if (upload.size or 0) > self.limits.file_bytes:
            limit = f"{self.limits.file_bytes / 1e6:g} MB"
            raise _FileTooLargeError(_name(upload), f"file is larger than {limit}; shrink it first")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, job, upload.file)

    def _predict(self, name: str, file: BinaryIO, top: int) -> Prediction:
        start = time.perf_counter()
        ranked = self._rank(self._classifier.examine(file).scores)
        return Prediction(
            name=name,
            label=ranked[0].label,
            score=ranked[0].score,
            top=ranked[:top],
            milliseconds=1e3 * (time.perf_counter() - start),
        )

    def _explain(
        self, name: str, file: BinaryIO, label: str | None, preview: bool, patches: bool
    ) -> Evidence:
        start = time.perf_counter()
        examined = self._classifier.examine(file)
        ranked = self._rank(examined.scores)
        label = ranked[0].label if label is None else label
        height, width = examined.shape
        scale = min(1.0, _MAP_SIDE / max(height, width))
        shape = (max(1, round(scale * height)), max(1, round(scale * width)))
        found = examined.explain(self._classifier.classes_[self.labels.index(label)].item(), shape)
        numbers = {key: getattr(found, key).tolist() for key in Patches.model_fields}
        return Evidence(
            name=name,
            label=label,
            score=found.score,
            intercept=found.intercept,
            classes=ranked,
            width=width,
            height=height,
            map=_encode(Image.fromarray(evidence_colors(found.map)), "PNG", compress_level=3),
            preview=_encode(read_thumbnail(file, _PREVIEW_SIDE), "JPEG") if preview else None,
            patches=Patches(**numbers) if patches else None,
            milliseconds=1e3 * (time.perf_counter() - start),
        )

    def _rank(self, scores: NDArray[np.float64]) -> list[ClassScore]:
        order = np.argsort(-scores, kind="stable")
        return [ClassScore(label=self.labels[i], score=float(scores[i])) for i in order]

    def _describe(self, path: str | os.PathLike[str]) -> ModelCard:
        facts = describe_model(path, self._classifier)
        summary = facts["summary"]
        held_out = summary.get("held_out")
        if held_out is not None:
            rough = held_out["images"] < config.FEW_TESTED * len(self.labels)
            held_out = {**held_out, "rough": rough}
        return ModelCard(
            model=escape(os.path.basename(path)),
            bytes=facts["bytes"],
            format=facts["format"],
            library=escape(facts["library"]),
            server=__version__,
            method=self._classifier.method_name,
            summary=self._classifier.method_summary,
            images=summary["images"],
            classes={escape(name): count for name, count in summary["images_per_class"].items()},
            held_out=held_out,
            parameters=facts["parameters"],
            limits=self.limits,
        )

    def _warm_up(self) -> None:
        """Compile everything before the first request."""
        pixels = np.random.default_rng(0).integers(0, 256, (200, 400, 3), np.uint8)
        for image in (Image.fromarray(pixels), Image.fromarray(pixels[:100, :100, 0])):
            file = io.BytesIO()
            image.save(file, "PNG")
            self._explain("", file, None, preview=True, patches=True)


def _name(upload: UploadFile) -> str:
    return escape(upload.filename or "image")


def _encode(image: Image.Image, kind: str, **options: Any) -> str:
    """Encode an image as a data URI."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return data_uri(file.getvalue(), f"image/{kind.lower()}")
