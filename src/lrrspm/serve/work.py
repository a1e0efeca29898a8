"""What is computed for a request: predictions, explanations, the model's card."""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, BinaryIO, TypeVar

import joblib
import numpy as np
from fastapi import HTTPException, UploadFile
from numpy.typing import NDArray
from PIL import Image

from .. import __version__, config
from .._support.parallel import single_blas_thread
from ..classifier import load_model
from ..evidence import Explanation
from ..images import ImageError, read_thumbnail
from ..modelfile.card import describe_model
from ..report.draw import evidence_colors
from ..report.page import data_uri
from .answers import (
    Accepts,
    Card,
    ClassScore,
    Evidence,
    HeldOut,
    Patches,
    Prediction,
    Refusal,
)
from .gate import plain
from .limits import Limits

_PREVIEW_SIDE = 1200
# The map is smooth: a patch is 16 pixels of a picture whose longer side is 300.
_MAP_SIDE = 300

T = TypeVar("T")


class Worker:
    """A model, loaded once, and the threads that use it.

    Parameters
    ----------
    path : path
        A model file.
    limits : Limits
    n_jobs : int
        Threads; -1 is all cores.
    """

    def __init__(
        self, path: str | os.PathLike[str], limits: Limits | None = None, n_jobs: int = -1
    ) -> None:
        self.limits = limits or Limits()
        self._classifier = load_model(path)
        self.labels = [plain(str(name)) for name in self._classifier.classes_]
        self.card = self._describe(path)
        self._n_jobs = joblib.effective_n_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None
        self._warm_up()

    def __enter__(self) -> Worker:
        self._blas = single_blas_thread()
        self._blas.__enter__()
        self._pool = ThreadPoolExecutor(self._n_jobs, thread_name_prefix="lrrspm-serve")
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        self._blas.__exit__(None, None, None)

    def finish(self) -> None:
        """Wait for what has been begun; nothing is begun any more."""
        assert self._pool is not None
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def predict(self, upload: UploadFile, top: int) -> Prediction | Refusal:
        """The best classes of one picture, or why there are none."""
        name = _name(upload)
        if (upload.size or 0) > self.limits.file_bytes:
            return Refusal(name=name, error=self._too_large())
        try:
            return await self._run(lambda: self._predict(name, upload.file, top))
        except ImageError as error:
            return Refusal(name=name, error=plain(error.reason))

    async def explain(
        self, upload: UploadFile, label: str | None, preview: bool, patches: bool
    ) -> Evidence:
        """Why one picture has its score for a class."""
        name = _name(upload)
        if (upload.size or 0) > self.limits.file_bytes:
            raise HTTPException(413, f"{name}: {self._too_large()}")
        try:
            return await self._run(
                lambda: self._explain(name, upload.file, label, preview, patches)
            )
        except ImageError as error:
            raise HTTPException(422, f"{name}: {error.reason}") from None

    async def _run(self, job: Callable[[], T]) -> T:
        """Have a thread do a job; if nobody waits for it any more it is not begun."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    def _predict(self, name: str, file: BinaryIO, top: int) -> Prediction:
        start = time.perf_counter()
        ranked = self._rank(self._classifier.examine(file).scores)
        return Prediction(
            name=name,
            label=ranked[0].label,
            score=ranked[0].score,
            top=ranked[:top],
            milliseconds=_milliseconds_since(start),
        )

    def _explain(
        self, name: str, file: BinaryIO, label: str | None, preview: bool, patches: bool
    ) -> Evidence:
        start = time.perf_counter()
        examined = self._classifier.examine(file)
        ranked = self._rank(examined.scores)
        wanted = ranked[0].label if label is None else label
        height, width = examined.shape
        scale = min(1.0, _MAP_SIDE / max(height, width))
        shape = (max(1, round(scale * height)), max(1, round(scale * width)))
        found = examined.explain(self._class(wanted), shape)
        overlay = Image.fromarray(evidence_colors(found.map))
        return Evidence(
            name=name,
            label=wanted,
            score=found.score,
            intercept=found.intercept,
            classes=ranked,
            width=width,
            height=height,
            map=_inside(overlay, "PNG", compress_level=3),
            preview=_inside(read_thumbnail(file, _PREVIEW_SIDE), "JPEG") if preview else None,
            patches=_list(found) if patches else None,
            milliseconds=_milliseconds_since(start),
        )

    def _rank(self, scores: NDArray[np.float64]) -> list[ClassScore]:
        order = np.argsort(-scores, kind="stable")
        return [ClassScore(label=self.labels[i], score=float(scores[i])) for i in order]

    def _class(self, label: str) -> Any:
        """A class by the name that the API has for it."""
        return self._classifier.classes_[self.labels.index(label)].item()

    def _too_large(self) -> str:
        return f"more than {self.limits.file_bytes:,} bytes; shrink it first"

    def _describe(self, path: str | os.PathLike[str]) -> Card:
        facts = describe_model(path, self._classifier)
        summary = facts["summary"]
        held_out = summary.get("held_out")
        if held_out is not None:
            rough = held_out["images"] < config.FEW_TESTED * len(self.labels)
            held_out = HeldOut(**held_out, rough=rough)
        return Card(
            model=plain(os.path.basename(path)),
            bytes=facts["bytes"],
            format=facts["format"],
            library=plain(facts["library"]),
            server=__version__,
            method=self._classifier.method_name,
            summary=self._classifier.method_summary,
            images=summary["images"],
            classes={plain(name): count for name, count in summary["images_per_class"].items()},
            held_out=held_out,
            parameters=facts["parameters"],
            limits=Accepts(**asdict(self.limits)),
        )

    def _warm_up(self) -> None:
        """Have everything compiled before anybody waits for it."""
        pixels = np.random.default_rng(0).integers(0, 256, (200, 400, 3), np.uint8)
        for picture in (Image.fromarray(pixels), Image.fromarray(pixels[:100, :100, 0])):
            file = io.BytesIO()
            picture.save(file, "PNG")
            self._explain("", file, None, preview=True, patches=True)


def _name(upload: UploadFile) -> str:
    return plain(upload.filename or "the picture")


def _milliseconds_since(start: float) -> float:
    return 1e3 * (time.perf_counter() - start)


def _inside(picture: Image.Image, kind: str, **settings: Any) -> str:
    """A picture as an address that has it inside."""
    file = io.BytesIO()
    picture.save(file, kind, **settings)
    return data_uri(file.getvalue(), f"image/{kind.lower()}")


def _list(found: Explanation) -> Patches:
    return Patches(
        contributions=found.contributions.tolist(), x=found.x.tolist(), y=found.y.tolist()
    )
