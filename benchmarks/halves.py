"""What does half precision cost? Presets with vectors and weights in half and in single.

The first two of the splits that ``benchmarks.beyond`` measures, the same codebooks and images.
Target: at most 0.1 points less on the mean of each data set.

    LRRSPM_DATA=... python -m benchmarks.halves
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lrrspm import ImageClassifier
from lrrspm.evaluation.results import count_confusions
from lrrspm.evaluation.splits import split_by_class, split_seeds
from lrrspm.pooling import MomentPooling

from ._measure import figure, measure, show
from .beyond import SETS, SPLITS, load

PAIRS = (
    *((title, "balanced") for title in ("COIL20 (10)", "Yale B (10)", "LS (100)")),
    ("Caltech101 (30)", "balanced"),
    ("Caltech101 (30)", "best"),
)
USED = 2


def run() -> dict[str, Any]:
    """Train and test in both precisions."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    figures = []
    for title, method in PAIRS:
        one = found.setdefault(method, {})[title] = _accuracies(title, method)
        lost = float(np.mean(one["single"]) - np.mean(one["half"]))
        what = f"half precision, {method}, {title}: points lost to single"
        figures.append(figure(what, lost, "<= 0.1"))
        print(what, lost, flush=True)
    return {"figures": figures, "accuracies": found}


def _accuracies(title: str, method: str) -> dict[str, list[float]]:
    name, per_class, _ = SETS[title]
    paths, labels = load(name)
    files, y = np.array(paths), np.array(labels)
    found: dict[str, list[float]] = {"half": [], "single": []}
    for seed in split_seeds(0, SPLITS)[:USED]:
        train = split_by_class(y, per_class, seed)
        test = np.setdiff1d(np.arange(len(y)), train)
        for precision, kind in (("half", np.float16), ("single", np.float32)):
            MomentPooling.precision = kind
            try:
                model = ImageClassifier(method=method, n_jobs=-1, random_state=seed)
                predicted = model.fit(files[train].tolist(), y[train]).predict(files[test].tolist())
                assert model.features_.precision == kind
            finally:
                MomentPooling.precision = np.float16
            confusion = count_confusions(np.unique(y).tolist(), y[test], predicted)
            found[precision].append(100 * float(np.mean(confusion.diagonal() / confusion.sum(1))))
    return found


if __name__ == "__main__":
    show("halves", measure("halves", run))
