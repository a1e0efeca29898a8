"""Does ``lrrspm review`` find wrong labels?

5 % of the labels are changed to others at random, five times. Images are judged by
machines trained without them, as ``review`` does it with its default method; the
first 5 % of each ranking are looked at, so precision and recall are the same number.
The peers rank the same probabilities; cleanlab also has a list of its own, as has
``review``.

    LRRSPM_DATA=... python -m benchmarks.review
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from lrrspm import ImageClassifier, config
from lrrspm._support.stages import Stages
from lrrspm.evaluation.review import judge_images
from lrrspm.evaluation.splits import split_by_class, split_seeds
from lrrspm.pipeline import encode_images, open_engine
from lrrspm.svm import (
    LinearSVM,
    cross_scores,
    familiarity,
    fit_temperature,
    linear_gram,
    probabilities,
    stratified_folds,
)

from ._measure import RESULTS, describe_source, figure, measure, show
from .beyond import load

SHARE = 0.05
RUNS = 5
SETS = {"LS (100)": ("LS", 100), "Yale B (58)": ("YaleB", 58)}
"""Data set and images per class, by name."""

OURS = "review: probability of the label"

Ranking = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]]
"""Quality of each label (n,), low for wrong ones, from labels (n,) and probabilities."""


def rankings() -> dict[str, Ranking | None]:
    """Return our ranking and cleanlab's, None where it is not installed."""
    kinds = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
    ours: dict[str, Ranking | None] = {OURS: lambda y, chances: chances[np.arange(len(y)), y]}
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return {**ours, **{f"cleanlab: {kind}": None for kind in kinds}}

    def ranking(kind: str) -> Ranking:
        return lambda y, chances: get_label_quality_scores(y, chances, method=kind)

    return {**ours, **{f"cleanlab: {kind}": ranking(kind) for kind in kinds}}


def change_labels(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Change a share of the labels to others, drawn evenly; returns labels and which, (n,)."""
    rng = np.random.default_rng(seed)
    changed = np.zeros(len(y), bool)
    changed[rng.choice(len(y), round(SHARE * len(y)), replace=False)] = True
    others = (y + rng.integers(1, y.max() + 1, len(y))) % (y.max() + 1)
    return np.where(changed, others, y), changed


def measure_set(title: str) -> list[dict[str, Any]]:
    """Return a row per ranking and list: means over the runs."""
    name, per_class = SETS[title]
    paths, labels = load(name)
    rows = split_by_class(np.array(labels), per_class, split_seeds(0, 1)[0])
    truth = np.unique(np.array(labels)[rows], return_inverse=True)[1]
    files = [paths[i] for i in rows]
    found: dict[str, list[dict[str, float]]] = {}
    with open_engine(-1) as engine:
        features = ImageClassifier(random_state=config.SEED, n_jobs=-1).new_features()
        vectors = encode_images([features.fit(files)], files, engine, Stages()).matrices[0]
        gram = linear_gram(vectors, engine.threads)
        del vectors
        for seed in split_seeds(1, RUNS):
            y, changed = change_labels(truth, seed)
            folds = stratified_folds(y, config.SEED)
            svm = LinearSVM(random_state=config.SEED)
            scores = cross_scores(gram, y, folds, svm, engine.threads)
            temperature = fit_temperature(scores, y)
            chances = probabilities(scores, temperature)
            for what, ranking in rankings().items():
                if ranking is not None:
                    found.setdefault(what, []).append(_rank(ranking(y, chances), changed))
            known = familiarity(scores, temperature)
            for what, listed in _lists(files, y, chances, known).items():
                found.setdefault(what, []).append(_list(listed, changed))
    return [
        {"set": title, "what": what, **{k: float(np.mean([r[k] for r in runs])) for k in runs[0]}}
        for what, runs in found.items()
    ]


def _rank(quality: NDArray[np.float64], changed: NDArray[np.bool_]) -> dict[str, float]:
    first = np.argsort(quality, kind="stable")[: changed.sum()]
    hits = float(changed[first].mean())
    return {"precision": hits, "recall": hits, "auroc": float(roc_auc_score(changed, -quality))}


def _lists(
    files: list[str], y: NDArray[np.int64], chances: NDArray[np.float64], known: NDArray[np.float64]
) -> Mapping[str, NDArray[np.bool_]]:
    """Return the images that are listed as wrong, (n,), by our list and cleanlab's."""
    names = np.arange(chances.shape[1])
    judged = judge_images(files, y, names, chances, known, 0.0, np.arange(len(y)))
    wrong = {one.path for one in judged.wrong}
    lists = {"review: its list": np.array([path in wrong for path in files])}
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return lists
    return {**lists, "cleanlab: its list": find_label_issues(y, chances)}


def _list(listed: NDArray[np.bool_], changed: NDArray[np.bool_]) -> dict[str, float]:
    hits = float((listed & changed).sum())
    return {
        "precision": hits / max(int(listed.sum()), 1),
        "recall": hits / int(changed.sum()),
        "share": float(listed.mean()),
    }


def table() -> str:
    """Return the rows that were measured, in Markdown."""
    content = json.loads((RESULTS / "review.json").read_text())
    lines = [
        "| images (per class) | ranking or list | listed, % | precision, % | recall, % |",
        "|---|---|---|---|---|",
    ]
    for row in content["result"]["rows"]:
        share = row.get("share", content["result"]["share"])
        numbers = (f"{100 * value:.1f}" for value in (share, row["precision"], row["recall"]))
        lines.append(f"| {row['set']} | {row['what']} | " + " | ".join(numbers) + " |")
    environment = content["environment"]
    source = f"{describe_source(environment)}, cleanlab {environment['peers']['cleanlab']}"
    return "\n".join([*lines, "", f"From `benchmarks/results/review.json`: {source}."])


def run() -> dict[str, Any]:
    rows = [row for title in SETS for row in measure_set(title)]
    figures = [figure(f"{row['set']}: {row['what']}, precision", row["precision"]) for row in rows]
    return {"rows": rows, "figures": figures, "share": SHARE, "runs": RUNS}


if __name__ == "__main__":
    show("review", measure("review", run))
