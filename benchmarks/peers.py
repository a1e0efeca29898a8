"""What do LrrFV and its peers cost? CPU seconds of one split per data set, the methods in turns.

Same descriptors, atoms and regions; LrrFV's weights are low-rank codes, FV's the posteriors
of a Gaussian mixture, VLAD's the nearest atom. CPU seconds of all threads, reading included:
they hardly change with what else the machine does. Least of two turns, of Caltech101 of one.
No target.

    LRRSPM_DATA=... python -m benchmarks.peers
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lrrspm import ImageClassifier
from lrrspm.evaluation.splits import split_by_class, split_seeds

from ._measure import figure, measure, show
from .beyond import PEERS, SETS, SPLITS, load

TURNS = {"COIL20 (10)": 2, "Yale B (10)": 2, "LS (100)": 2, "Caltech101 (30)": 1}


def run() -> dict[str, Any]:
    """Measure CPU seconds of training and of testing."""
    seconds = {title: _cpu_seconds(title, turns) for title, turns in TURNS.items()}
    figures = [
        figure(f"{title}: {stage} with {method} over LrrFV, CPU seconds", ratio)
        for title, own in seconds.items()
        for method in PEERS[1:]
        for stage, ratio in zip(
            ("training", "testing"), np.divide(own[method], own["LrrFV"]).tolist(), strict=True
        )
    ]
    return {"figures": figures, "seconds": seconds}


def _cpu_seconds(title: str, turns: int) -> dict[str, list[float]]:
    """Return the CPU seconds of training and of testing, by method."""
    name, per_class, _ = SETS[title]
    paths, labels = load(name)
    files, y = np.array(paths), np.array(labels)
    seed = split_seeds(0, SPLITS)[0]
    train = split_by_class(y, per_class, seed)
    test = np.setdiff1d(np.arange(len(y)), train)
    few = np.concatenate([np.flatnonzero(y == one)[:3] for one in np.unique(y)[:2]])
    least = {method: [np.inf, np.inf] for method in PEERS}
    for turn in range(turns + 1):  # the first compiles
        for method in PEERS:
            model = ImageClassifier(method=method, n_jobs=-1, random_state=seed)
            learned, asked = (train, test) if turn else (few, few)
            start = time.process_time()
            model.fit(files[learned].tolist(), y[learned])
            middle = time.process_time()
            model.predict(files[asked].tolist())
            spent = middle - start, time.process_time() - middle
            if turn:
                least[method] = [min(pair) for pair in zip(least[method], spent, strict=True)]
                print(title, method, *(f"{one:.1f}" for one in spent), flush=True)
    return least


if __name__ == "__main__":
    show("peers", measure("peers", run))
