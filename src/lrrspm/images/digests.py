"""Digests: which image files show the same, bit for bit."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path

from PIL import Image

from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from .decoding import is_jpeg, levels, opened


def digest_images(
    paths: Sequence[str], n_jobs: int | None = None, stages: Stages | None = None
) -> list[str]:
    """The :func:`lrrspm.images.image_digest` of each file."""
    stages = stages or Stages()
    with workers(n_jobs) as executor:
        digests = ordered_map(image_digest, paths, executor)
        return list(stages.track("comparing images", digests, len(paths)))


def group_copies(digests: Sequence[Hashable]) -> list[list[int]]:
    """Indices of equal digests, two or more together, in order of their first."""
    places = defaultdict(list)
    for index, digest in enumerate(digests):
        places[digest].append(index)
    return [group for group in places.values() if len(group) > 1]


def image_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 that tells whether two image files show the same, bit for bit.

    Of a JPEG the whole file; of other formats the text ``WIDTHxHEIGHT:``
    and the decoded 8-bit pixels (gray or RGB) row by row, so that it does not
    matter how a lossless file was packed. What 8-bit gray or RGB cannot hold
    (more bits, transparency, other colours) is taken as it is, with its kind
    before it.
    """
    with opened(path) as (image, _, _):
        return digest_opened(image, path)


def digest_opened(image: Image.Image, path: str | os.PathLike[str]) -> str:
    """The :func:`image_digest` of an opened image; a JPEG may be reduced."""
    if is_jpeg(image):
        content = Path(path).read_bytes()
    else:
        content = f"{image.width}x{image.height}:".encode() + _exact_bytes(image)
    return hashlib.sha256(content).hexdigest()


def _exact_bytes(image: Image.Image) -> bytes:
    """Bytes that are equal only where pixels are."""
    deep = levels(image)
    if deep is not None:
        # One order of bytes. A number's meaning depends on which are black, white and transparent.
        plain = image if image.mode == "F" else image.convert("I")
        kind = f"{plain.mode}:{deep}:{image.info.get('transparency')}:"
        return kind.encode() + plain.tobytes()
    if image.mode in ("P", "PA") or "transparency" in image.info:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    if image.mode == "L":
        return image.tobytes()
    if image.mode in ("1", "RGB"):
        return image.convert("RGB").tobytes()
    return f"{image.mode}:".encode() + image.tobytes()
