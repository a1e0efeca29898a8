"""What a model was trained on: digests of its images, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .container import Tensor

DIGESTS = "training.digests"
"""Name of the array."""
_BYTES = 16


def pack_digests(
    digests: Sequence[str | None], labels: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.uint8] | None:
    """Return the first 16 bytes of each SHA-256, (n, 16), sorted by class, then by value.

    The numbers of images per class, which a model has anyway, say where a class
    begins. None if the digest of an image is not known.
    """
    if None in digests:
        return None
    places = np.searchsorted(classes, labels).tolist()
    found = sorted(
        (place, str(one)[: 2 * _BYTES]) for place, one in zip(places, digests, strict=True)
    )
    content = bytes.fromhex("".join(digest for _, digest in found))
    return np.frombuffer(content, np.uint8).reshape(-1, _BYTES)


def label_digests(
    digests: NDArray[np.uint8], classes: NDArray[Any], summary: dict[str, Any]
) -> list[tuple[str, Any]]:
    """Return what :func:`pack_digests` packed: digests of 32 hexadecimal digits, and labels."""
    counts = [summary["images_per_class"][str(name)] for name in classes.tolist()]
    labels = np.repeat(classes, counts).tolist()
    return [(row.tobytes().hex(), name) for row, name in zip(digests, labels, strict=True)]


def check_digests(tensor: Tensor | None, classes: NDArray[Any], summary: dict[str, Any]) -> None:
    """Check the array against the summary; models of older versions have none."""
    if tensor is None:
        return
    counts = summary["images_per_class"]
    if set(counts) != set(map(str, classes.tolist())):
        raise ValueError(f"its images per class are of other classes: {sorted(counts)[:20]}")
    shape = (summary["images"], _BYTES)
    if tensor != Tensor("U8", shape) or sum(counts.values()) != shape[0]:
        raise ValueError(f"{DIGESTS} holds {tensor.dtype} {tensor.shape}, expected U8 {shape}")
