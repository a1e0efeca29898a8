"""Digests: which image files show the same, bit for bit."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Hashable, Sequence

from PIL import Image

from .._support.files import file_digest
from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from .bounded import ImageError
from .decoding import is_jpeg, levels, opened


def digest_images(
    paths: Sequence[str], n_jobs: int | None = None, stages: Stages | None = None
) -> list[str]:
    """Compute the :func:`image_digest` of each file."""
    stages = stages or Stages()
    with workers(n_jobs) as executor:
        digests = ordered_map(image_digest, paths, executor)
        return list(stages.track("comparing images", digests, len(paths)))


def group_copies(digests: Sequence[Hashable]) -> list[list[int]]:
    """Group the indices of equal digests, two or more per group, in order of the first."""
    places = defaultdict(list)
    for index, digest in enumerate(digests):
        places[digest].append(index)
    return [group for group in places.values() if len(group) > 1]


def image_digest(path: str | os.PathLike[str]) -> str:
    """Return a SHA-256 that is equal for files that show the same image, bit for bit.

    For a JPEG, of the whole file; for other formats, of ``WIDTHxHEIGHT:`` and
    the decoded 8-bit pixels (gray or RGB) row by row, so that compression does
    not matter. Pixels that 8-bit gray or RGB cannot hold (more bits,
    transparency, other color spaces) are hashed as they are, after their kind.
    """
    with opened(path) as (image, _, _):
        return digest_opened(image, path)


def digest_opened(image: Image.Image, path: str | os.PathLike[str]) -> str:
    """Compute the :func:`image_digest` of an opened image; a JPEG may be reduced."""
    if is_jpeg(image):
        digest = file_digest(path)
        if digest is None:
            raise ImageError(path, "cannot be read: it was replaced meanwhile")
        return digest
    content = f"{image.width}x{image.height}:".encode() + _exact_bytes(image)
    return hashlib.sha256(content).hexdigest()


def _exact_bytes(image: Image.Image) -> bytes:
    """Return bytes that are equal only if the pixels are."""
    deep = levels(image)
    if deep is not None:
        # One byte order. A value's meaning depends on which are black, white and transparent.
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
