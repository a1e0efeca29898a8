"""The record of an evaluation: what it takes to repeat it, and to compare it image by image."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._support.files import file_digest
from .._support.parallel import ordered_map, workers
from .results import Evaluation


def describe_data(
    paths: Sequence[str],
    labels: Sequence[str],
    root: str | os.PathLike[str],
    class_names: Sequence[Any],
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """Describe labeled images: names, classes, and a fingerprint of their files.

    Parameters
    ----------
    paths, labels : sequences of N strings
    root : path
        The folder, or the table in it, that the images were found by.
    class_names : sequence
    n_jobs : int or None

    Returns
    -------
    dict
        ``paths``, relative to the folder where they are below it; ``labels``,
        places in ``class_names``, None for other classes; ``fingerprint``, the
        SHA-256 of lines of path, label and SHA-256 of the file, sorted.
    """
    folder = os.path.abspath(root)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    names = [_relative(path, folder) for path in paths]
    with workers(n_jobs) as executor:
        digests = list(ordered_map(file_digest, paths, executor))
    lines = sorted(
        f"{name}\t{label}\t{digest or 'unreadable'}\n"
        for name, label, digest in zip(names, labels, digests, strict=True)
    )
    content = "".join(lines).encode("utf-8", "surrogateescape")
    places = {str(name): place for place, name in enumerate(class_names)}
    return {
        "fingerprint": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "paths": names,
        "labels": [places.get(str(label)) for label in labels],
    }


def _relative(path: str, folder: str) -> str:
    whole = Path(os.path.abspath(path))
    return whole.relative_to(folder).as_posix() if whole.is_relative_to(folder) else str(path)


def describe_splits(found: Evaluation) -> list[dict[str, list[int]]]:
    """Return the training and test images of each split, as places among those not skipped."""
    return [{"train": s.train.tolist(), "test": s.test.tolist()} for s in found.splits]


def describe_predictions(found: Evaluation) -> list[list[int]]:
    """Return the class predicted for each test image of each split, in the order of ``test``."""
    places = {str(name): place for place, name in enumerate(found.class_names)}
    predicted: list[list[int]] = [[] for _ in found.confusions]
    for one in found.predictions:
        predicted[one.split - 1].append(places[one.predicted])
    return predicted
