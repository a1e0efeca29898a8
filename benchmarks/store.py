"""What does the feature store cost the first time, and save the second?

``train`` on LS (4485 images, with its estimate, so two codebooks and two
vectors per image), all cores, files in the system's cache: without a store,
with an empty one and with a full one, taking turns. The models must have the
same bytes. Training the SVMs is part of all three and is not kept. Targets:
an empty store adds at most a tenth; a full one makes it 5 times faster.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lrrspm import ImageClassifier, find_images
from lrrspm._support.stages import Stages
from lrrspm.cache import contents
from lrrspm.evaluation import train_with_estimate

from ._measure import data_folder, figure, measure, seconds, show

REPEATS = 3


def run() -> dict[str, Any]:
    """Measure the seconds of each kind of run, and the size of the store."""
    paths, labels = find_images(data_folder("LS"))
    stages: dict[str, dict[str, float]] = {}
    models: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def train(kind: str, cache: Path | None) -> None:
            spent = Stages()
            model = ImageClassifier(method="LrrSPM", n_jobs=-1, random_state=0, cache=cache)
            train_with_estimate(paths, labels, model, stages=spent)
            model.save(folder / "model")
            models[kind] = hashlib.sha256((folder / "model").read_bytes()).hexdigest()
            stages[kind] = dict(spent.seconds)

        kinds: dict[str, Callable[[], None]] = {
            "none": lambda: train("none", None),
            "empty": lambda: train("empty", folder / "cache"),
            "full": lambda: train("full", folder / "cache"),
        }
        best = dict.fromkeys(kinds, np.inf)
        for _ in range(REPEATS):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            for kind, call in kinds.items():
                best[kind] = min(best[kind], seconds(call))
        shelves = contents(folder / "cache")
    size = sum(shelf["bytes"] for shelf in shelves)
    return {
        "figures": [
            figure("train on LS: an empty store over none", best["empty"] / best["none"], "<= 1.1"),
            figure("train on LS: none over a full store", best["none"] / best["full"], ">= 5"),
            figure("train on LS, full store: seconds", best["full"]),
            figure("train on LS, full store: share of the SVMs, %", 100 * _share(stages["full"])),
            figure("the store: MB", size / 1e6),
        ],
        "images": len(paths),
        "seconds": best,
        "stages": stages,
        "same_model": len(set(models.values())) == 1,
        "bytes": size,
    }


def _share(stages: dict[str, float]) -> float:
    return stages["train"] / sum(stages.values())


def main() -> None:
    show("store", measure("store", run))


if __name__ == "__main__":
    main()
