"""How accurate, fast and large are the presets, and LrrFV beside its peers?

Five random splits per data set, the codebook and everything else from the training
images of each split alone, all other images tested, mean of the accuracies per class.
Each row runs in a process of its own and is kept in results/beyond.jsonl with its
commit, versions and machine; rows that are there are not measured again, so an
interrupted run goes on where it stopped. With ``--again`` they are, and replaced.

    LRRSPM_DATA=... python -m benchmarks.beyond [--again] [SET] [METHOD...]
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from lrrspm import ImageClassifier, find_images
from lrrspm.cli.demo import solar_cells
from lrrspm.evaluation.results import count_confusions
from lrrspm.evaluation.splits import split_by_class, split_seeds

from ._measure import RESULTS, MissingError, data_folder, environment

SPLITS = 5
PRESETS = ("fast", "balanced", "best")
PEERS = ("LrrFV", "FV", "VLAD")

SETS = {
    "COIL20 (10)": ("COIL20", 10, (*PRESETS, *PEERS)),
    "COIL20 (20)": ("COIL20", 20, PRESETS),
    "Yale B (10)": ("YaleB", 10, (*PRESETS, *PEERS)),
    "Yale B (30)": ("YaleB", 30, PRESETS),
    "elpv (100)": ("elpv", 100, PRESETS),
    "elpv (200)": ("elpv", 200, PRESETS),
    "OT (100)": ("OT", 100, PRESETS),
    "LS (100)": ("LS", 100, (*PRESETS, *PEERS)),
    "Caltech101 (30)": ("Caltech101", 30, (*PRESETS, *PEERS)),
}
"""Data set, training images per class, and methods, by name."""


def load(name: str) -> tuple[list[str], list[str]]:
    """Find the images of a data set; OT is the outdoor part of LS, elpv that of the demo."""
    if name == "elpv":
        try:
            return solar_cells()
        except ImportError as error:
            raise MissingError(str(error)) from error
    paths, labels = find_images(data_folder("LS" if name == "OT" else name))
    kept = [i for i, label in enumerate(labels) if name != "OT" or label.startswith("MIT")]
    return [paths[i] for i in kept], [labels[i] for i in kept]


def measure_row(title: str, method: str) -> dict[str, Any]:
    """Train and test on every split; seconds and bytes are those of a user."""
    name, per_class, _ = SETS[title]
    paths, labels = load(name)
    files, y = np.array(paths), np.array(labels)
    names = np.unique(y)
    accuracies, fit, predict, size = [], 0.0, 0.0, 0
    for seed in split_seeds(0, SPLITS):
        train = split_by_class(y, per_class, seed)
        test = np.setdiff1d(np.arange(len(y)), train)
        model = ImageClassifier(method=method, n_jobs=-1, random_state=seed)
        start = time.perf_counter()
        model.fit(files[train].tolist(), y[train])
        middle = time.perf_counter()
        predicted = model.predict(files[test].tolist())
        fit, predict = fit + middle - start, predict + time.perf_counter() - middle
        confusion = count_confusions(names.tolist(), y[test], predicted)
        accuracies.append(100 * float(np.mean(confusion.diagonal() / confusion.sum(axis=1))))
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.lrrspm")
            size = (Path(folder) / "model.lrrspm").stat().st_size
    return {
        "set": title,
        "method": method,
        "classes": len(names),
        "images": len(y),
        "tested": len(test),
        "accuracies": accuracies,
        "fit_seconds": fit / SPLITS,
        "predict_seconds": predict / SPLITS,
        "model_bytes": size,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "environment": environment(),
    }


def rows() -> list[dict[str, Any]]:
    """Return the rows that were measured."""
    kept = RESULTS / "beyond.jsonl"
    return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []


def main(only: str | None = None, *methods: str, again: bool = False) -> None:
    """Measure what is missing, of one data set or all, one method after another."""
    for title, (name, _, wanted) in SETS.items():
        for method in wanted:
            known = {(row["set"], row["method"]) for row in rows()}
            asked = only in (None, name, title) and method in (methods or wanted)
            if not asked or ((title, method) in known and not again):
                continue
            try:
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    row = pool.submit(measure_row, title, method).result()
            except MissingError as error:
                print(f"{title:<16} {method:<10} missing: {error}")
                continue
            others = [one for one in rows() if (one["set"], one["method"]) != (title, method)]
            lines = [json.dumps(one, sort_keys=True) for one in [*others, row]]
            (RESULTS / "beyond.jsonl").write_text("\n".join(lines) + "\n")
            mean, std = np.mean(row["accuracies"]), np.std(row["accuracies"], ddof=1)
            seconds = f"{row['fit_seconds']:.0f} s + {row['predict_seconds']:.0f} s"
            print(f"{title:<16} {method:<10} {mean:.2f} +- {std:.2f}  {seconds}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*(one for one in given if one != "--again"), again="--again" in given)
