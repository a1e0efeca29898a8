"""How long does it take to add 100 images to a model of 2000, and is anything lost?

``lrrspm add`` as a person runs it, in a process of its own, all cores: a model of
2000 images of LS with ``balanced`` and its estimate, a store that has their vectors,
and 100 new images that it does not have, other ones each time. Target: under 5
seconds. Beside it, training from nothing on the 2100 images. The scores of all 2100
images must be, bit for bit, those of a support vector machine trained on all vectors,
and the model file may grow by 16 bytes per image (and the name of an array).
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lrrspm import ImageClassifier, find_images, load_model
from lrrspm.evaluation import train_with_estimate

from ._measure import best_of, data_folder, figure, measure, seconds, show

OLD, NEW, REPEATS = 2000, 100, 3


def run() -> dict[str, Any]:
    """Measure seconds, the difference of scores, and bytes."""
    paths, labels = find_images(data_folder("LS"))
    order = np.random.default_rng(0).permutation(len(paths)).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def listed(rows: list[int], file: str) -> Path:
            """Write a CSV file of images."""
            with (folder / file).open("w", newline="") as target:
                csv.writer(target).writerows((paths[i], labels[i]) for i in rows)
            return folder / file

        old = listed(order[:OLD], "old.csv")
        model = ImageClassifier(n_jobs=-1, random_state=0, cache=folder / "store")
        train_with_estimate(*find_images(old), model)
        model.save(folder / "old")
        spent = []
        for turn in range(REPEATS):
            start = OLD + turn * NEW
            new = listed(order[start : start + NEW], "new.csv")
            spent.append(seconds(partial(_add, folder, old, new)))
        both = order[:OLD] + order[start : start + NEW]
        everything = find_images(listed(both, "all.csv"))
        plain = ImageClassifier(n_jobs=-1, random_state=0)
        anew = best_of(1, {"": lambda: train_with_estimate(*everything, plain)}, warm_up=False)[""]

        grown = load_model(folder / "grown").set_params(n_jobs=-1, cache=folder / "store")
        features = grown.features_.set_params(n_jobs=-1, cache=folder / "store")
        # As they were trained on: transform widens them, and float32 is multiplied otherwise.
        vectors = features.transform(everything[0]).astype(np.float16)
        machine = grown.new_svm().fit(vectors, everything[1])
        found = grown.decision_function(everything[0])
        difference = float(np.abs(found - machine.decision_function(vectors)).max())
        size = (folder / "grown").stat().st_size
        grown.digests_ = None
        grown.save(folder / "without")
        digests = size - (folder / "without").stat().st_size
        growth = size - (folder / "old").stat().st_size
    return {
        "figures": [
            figure("add 100 images to 2000, balanced, full store: seconds", min(spent), "< 5"),
            figure("train on 2100 over add", anew / min(spent)),
            figure("largest difference to an SVM on all vectors", difference, "<= 0"),
            figure("the model file grows by: bytes", growth),
            figure("digests in the model file: bytes per image", digests / (OLD + NEW), "< 17"),
        ],
        "images": [OLD, NEW],
        "seconds": {"add": spent, "train": anew},
        "bytes": size,
    }


def _add(folder: Path, *images: Path) -> None:
    command = [sys.executable, "-m", "lrrspm", "add", folder / "old", *images, "-o"]
    command += [folder / "grown", "--cache", folder / "store", "--json"]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    show("growing", measure("growing", run))


if __name__ == "__main__":
    main()
