"""Mistakes to look at: the image, and the evidence for the wrong and for the right class."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

from .._support.text import percent
from ..evaluation.mistakes import Mistake
from ..images import ImageError, read_thumbnail
from .draw import evidence_limit, lay_over
from .page import data_uri

SIDE = 200
"""Longer side of the images in a report, pixels."""

_QUALITY = 75


def show(mistake: Mistake) -> dict[str, Any]:
    """Return what the report shows of a mistake; ``error`` if the image can no longer be read."""
    shown: dict[str, Any] = {
        "path": mistake.path,
        "split": mistake.split,
        "label": str(mistake.label),
        "predicted": str(mistake.predicted),
        "probability": percent(mistake.probability),
        "true_probability": percent(mistake.true_probability),
        "error": "",
    }
    try:
        image = read_thumbnail(mistake.path, SIDE)
        examined = mistake.model.examine(mistake.path)
    except ImageError as error:  # the file has changed since the test
        return {**shown, "error": error.reason}
    shape = (image.height, image.width)
    maps = [examined.explain(name, shape).map for name in (mistake.predicted, mistake.label)]
    limit = evidence_limit(*maps)
    wrong, right = (as_jpeg(lay_over(image, map, limit)) for map in maps)
    return {**shown, "image": as_jpeg(image), "wrong": wrong, "right": right}


def as_jpeg(image: Image.Image) -> str:
    """Return an image as an address that holds its JPEG."""
    content = io.BytesIO()
    image.save(content, "JPEG", quality=_QUALITY, optimize=True)
    return data_uri(content.getvalue(), "image/jpeg")
