"""The model: predictions and evidence as plain numbers and text."""

from __future__ import annotations

import hashlib
import io
import os
import time
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from .. import config
from .._support.environment import forget_peak_memory, held_memory, peak_memory
from ..classifier import ImageClassifier
from ..evidence import Examination
from ..images import ImageError, read_thumbnail
from ..images.decoding import is_jpeg, opened, upright
from ..loading import load_model
from ..modelfile.card import describe_model
from ..modelfile.container import local_model
from ..report.draw import evidence_colors
from ..report.page import data_uri
from .escaping import escape, escape_all

_PREVIEW_SIDE = 1200
# The map is smooth: a patch is at least 16 pixels of an image whose longer side is 300.
_MAP_SIDE = 300
# Side of the image that costs are measured with, for models that take images of any size.
_LARGE_SIDE = 2000


class Model:
    """A loaded model; everything is compiled.

    Parameters
    ----------
    path : path or address
        Model file.

    Attributes
    ----------
    labels : list of str
        Class names as the API has them.
    card : dict
        Facts about the model, see :class:`lrrspm.serve.schemas.ModelCard`.
    digest : str
        SHA-256 of the model file.
    seconds, megabytes : float
        CPU time and memory that explaining an image of full size takes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with local_model(path) as file:
            self.digest: str | None = _digest(file)
            self.classifier: ImageClassifier = load_model(file)
            self.labels: list[str] = escape_all(self.classifier.classes_.tolist())
            self.card: dict[str, Any] = self._describe(file)
            if _digest(file) != self.digest:
                raise ValueError(f"{os.fspath(path)}: changed while it was loaded; try again")
        self._warm_up()

    def answer(self, job: dict[str, Any], file: BinaryIO) -> dict[str, Any]:
        """Do a job on an image file: return its ``result``, or the ``error`` with the file."""
        work: Any = {
            "predict": self.predict,
            "explain": self.explain,
            "identify": self.identify,
        }[job.pop("kind")]
        start = time.perf_counter()
        try:
            result = work(file, **job)
        except ImageError as error:
            return {"error": error.reason}
        return {"result": {**result, "milliseconds": 1e3 * (time.perf_counter() - start)}}

    def predict(self, file: BinaryIO, top: int) -> dict[str, Any]:
        """Return the best classes of an image."""
        examined = self.classifier.examine(file)
        ranked = self._rank(examined)
        best = ranked[0]
        return {
            "label": best["label"],
            "score": best["score"],
            "confidence": best["probability"],
            "familiar": self._is_familiar(examined),
            "top": ranked[:top],
        }

    def explain(
        self, file: BinaryIO, label: str | None, preview: bool, patches: bool
    ) -> dict[str, Any]:
        """Return the evidence for a class in an image."""
        examined = self.classifier.examine(file)
        ranked = self._rank(examined)
        label = ranked[0]["label"] if label is None else label
        height, width = examined.shape
        scale = min(1.0, _MAP_SIDE / max(height, width))
        shape = (max(1, round(scale * height)), max(1, round(scale * width)))
        found = examined.explain(self.classifier.classes_[self.labels.index(label)].item(), shape)
        numbers = {key: getattr(found, key).tolist() for key in ("contributions", "x", "y")}
        return {
            "label": label,
            "score": found.score,
            "probability": next(one["probability"] for one in ranked if one["label"] == label),
            "familiar": self._is_familiar(examined),
            "intercept": found.intercept,
            "classes": ranked,
            "width": width,
            "height": height,
            "map": _encode(Image.fromarray(evidence_colors(found.map)), "PNG", compress_level=3),
            "preview": _encode(read_thumbnail(file, _PREVIEW_SIDE), "JPEG") if preview else None,
            "patches": numbers if patches else None,
        }

    def identify(self, file: BinaryIO) -> dict[str, Any]:
        """Decode an image as training would, and return the suffix of its format."""
        with opened(file, self.classifier.max_side) as found:
            upright(found, color=True)
            name = "jpeg" if is_jpeg(found.image) else str(found.image.format).lower()
        return {"suffix": f".{name}"}

    def _rank(self, examined: Examination) -> list[dict[str, Any]]:
        order = np.argsort(-examined.scores, kind="stable")
        scores, chances = examined.scores.tolist(), examined.probabilities.tolist()
        return [
            {"label": self.labels[i], "score": scores[i], "probability": chances[i]} for i in order
        ]

    def _is_familiar(self, examined: Examination) -> bool:
        return bool(self.classifier.is_known(examined.scores[None], 0.0)[0])

    def _describe(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        facts = describe_model(path, self.classifier)
        summary = facts["summary"]
        estimate = summary.get("estimate")
        if estimate is not None:
            few = estimate["images"] < config.FEW_TESTED * len(self.labels)
            shown = ("images", "accuracy", "low", "high")
            estimate = {**{key: estimate.get(key) for key in shown}, "rough": few}
        counts = summary["images_per_class"]
        return {
            "model": escape(os.path.basename(path)),
            "bytes": facts["bytes"],
            "format": facts["format"],
            "library": escape(facts["library"]),
            "method": self.classifier.method_name,
            "summary": self.classifier.method_summary,
            "images": summary["images"],
            "classes": dict(zip(escape_all(counts), counts.values(), strict=True)),
            "estimate": estimate,
            "calibrated": self.classifier.temperature_ is not None,
            "parameters": facts["parameters"],
        }

    def _warm_up(self) -> None:
        """Compile everything before the first request, then measure what an image takes."""
        side = self.classifier.max_side or _LARGE_SIDE
        pixels = np.random.default_rng(0).integers(0, 256, (200, 400, 3), np.uint8)
        large = np.resize(pixels[..., 0], (side, side))
        for image in (pixels, pixels[:100, :100, 0], large):
            file = io.BytesIO()
            Image.fromarray(image).save(file, "PNG")
            forget_peak_memory()
            start, held = time.process_time(), held_memory()
            self.explain(file, None, preview=True, patches=True)
        self.seconds: float = time.process_time() - start
        self.megabytes: float = max(0.0, peak_memory() - held)


def _digest(path: str | os.PathLike[str]) -> str | None:
    """Return the SHA-256 of a model file; None for what is no file, which does not load."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _encode(image: Image.Image, kind: str, **options: Any) -> str:
    """Encode an image as a data URI."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return data_uri(file.getvalue(), f"image/{kind.lower()}")
