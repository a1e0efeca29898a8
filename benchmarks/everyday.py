"""Can probabilities, estimates and "unknown" be believed?

Models are trained as ``lrrspm train`` does it, with the default method, and tested on
other images: all, or as many of each class as make 3000 (interval, unknown: 2000 as
they come):

- expected calibration error: probabilities of answers against how often they are
  right, 15 bins;
- what ``train`` said of --min-confidence, against what the test images show, each
  class counting the same;
- the same of Caltech101 with each image counting the same, of 2000 images as they come
  (kind "images", measured once);
- whether the 95 % interval of the estimate holds the accuracy on the test images;
- trained on half of the classes, tested on all: how well familiarity, and the largest
  probability alone, tell known from unknown (area under the ROC curve).

Rows are kept in results/everyday.jsonl; those that are there are not measured again.
LRRSPM_STORE may name a feature store, so that an interrupted run resumes.

    LRRSPM_DATA=... python -m benchmarks.everyday [KIND] [SET]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from lrrspm import ImageClassifier
from lrrspm._support.stages import Stages
from lrrspm.evaluation import train_with_estimate
from lrrspm.evaluation.certainty import measure_certainty
from lrrspm.evaluation.results import class_accuracies, count_confusions
from lrrspm.evaluation.splits import split_by_class, split_seeds
from lrrspm.loading import score_images
from lrrspm.svm import familiarity

from ._measure import RESULTS, MissingError, environment
from .beyond import load

FILE = RESULTS / "everyday.jsonl"
MOST_TESTED, MOST_SPREAD = 2000, 3000
# How much wider than for independent tests the interval of ten folds is.
WIDER = (1 + 10 / 9) ** 0.5
BINS = 15
# Kind, data set, training images per class, number of runs.
PLAN = (
    ("split", "YaleB", 10, 5),
    ("split", "LS", 100, 5),
    ("unknown", "LS", 100, 5),
    ("interval", "LS", 60, 20),
    ("split", "Caltech101", 30, 5),
    ("unknown", "Caltech101", 30, 5),
)


def main(only: str | None = None, name: str | None = None) -> None:
    """Measure what is missing."""
    for kind, data, per_class, runs in PLAN:
        if only not in (None, kind) or name not in (None, data):
            continue
        for run, seed in enumerate(split_seeds(0, runs)):
            key = {"kind": kind, "set": data, "per_class": per_class, "run": run}
            if any(key.items() <= row.items() for row in rows()):
                continue
            try:
                found = measure(kind, data, per_class, seed)
            except MissingError as error:
                print(f"{data}: missing: {error}")
                break
            row = {**key, **found, "environment": environment()}
            with FILE.open("a") as file:
                file.write(json.dumps(row, sort_keys=True) + "\n")
            print({**key, **{k: v for k, v in found.items() if isinstance(v, float)}}, flush=True)


def rows() -> list[dict[str, Any]]:
    """Return the rows that were measured."""
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def measure(kind: str, data: str, per_class: int, seed: int) -> dict[str, Any]:
    """Train once and test."""
    paths, labels = load(data)
    files, y = np.array(paths), np.array(labels)
    train = split_by_class(y, per_class, seed)
    test = np.setdiff1d(np.arange(len(y)), train)
    rng = np.random.default_rng(seed)
    if kind == "split":
        test = _spread(test, y[test], rng)
    elif len(test) > MOST_TESTED:
        test = np.sort(rng.choice(test, MOST_TESTED, replace=False))
    if kind == "unknown":
        names = np.unique(y)
        known = rng.choice(names, len(names) // 2, replace=False)
        train = train[np.isin(y[train], known)]
    model = ImageClassifier(random_state=seed, n_jobs=-1, cache=os.environ.get("LRRSPM_STORE"))
    train_with_estimate(files[train].tolist(), y[train].tolist(), model)
    scores = score_images(model, files[test].tolist(), Stages(), skip=False).scores
    if kind == "unknown":
        return _unknown(model, scores, np.isin(y[test], known))
    truth, chances = y[test], model.probabilities(scores)
    predicted = model.classes_[scores.argmax(axis=1)]
    right = predicted == truth
    confusion = count_confusions(model.classes_, truth, predicted)
    estimate = model.summary_["estimate"]
    return {
        "estimate": {
            key: estimate[key] for key in ("accuracy", "low", "high", "folds", "coverage")
        },
        "accuracy": float(np.nanmean(class_accuracies(confusion))),
        "coverage": measure_certainty(
            model, scores, np.searchsorted(model.classes_, truth)
        ).coverage(),
        "calibration_error": 100 * calibration_error(chances.max(axis=1), right),
        "tested": len(test),
    }


def _spread(
    test: NDArray[np.int64], labels: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw images so that classes have the same number, as far as they go, 3000 at most."""
    counts = np.unique(labels, return_counts=True)[1]
    most = next(m for m in range(counts.max(), 0, -1) if np.minimum(counts, m).sum() <= MOST_SPREAD)
    drawn = [rng.permutation(test[labels == name])[:most] for name in np.unique(labels)]
    return np.sort(np.concatenate(drawn))


def _unknown(
    model: ImageClassifier, scores: NDArray[Any], known: NDArray[np.bool_]
) -> dict[str, Any]:
    assert model.temperature_ is not None
    return {
        "probability": float(roc_auc_score(known, model.probabilities(scores).max(axis=1))),
        "familiarity": float(roc_auc_score(known, familiarity(scores, model.temperature_))),
        # At a confidence of 0.8: percent of known and of unknown images that are answered.
        "answered_known": 100 * float(model.is_known(scores, 0.8)[known].mean()),
        "answered_unknown": 100 * float(model.is_known(scores, 0.8)[~known].mean()),
        "tested": len(scores),
    }


def calibration_error(chances: NDArray[Any], right: NDArray[np.bool_]) -> float:
    """Mean distance of probability and share of right answers, in bins of equal width."""
    bins = np.minimum((BINS * chances).astype(int), BINS - 1)
    total = 0.0
    for one in np.unique(bins):
        rows = bins == one
        total += rows.mean() * abs(right[rows].mean() - chances[rows].mean())
    return float(total)


def table() -> str:
    """Return the results in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| what | target | measured |"
    yield "|---|---|---|"
    found = rows()
    for kind, data in (
        ("split", "LS"), ("split", "Caltech101"), ("images", "Caltech101"), ("split", "YaleB"),
    ):  # fmt: skip
        own = [row for row in found if (row["kind"], row["set"]) == (kind, data)]
        if not own:
            continue
        if kind == "images":
            data += ", each image counting the same"
        errors = [row["calibration_error"] for row in own]
        cells = f"{np.mean(errors):.1f} % (worst of {len(own)} splits {max(errors):.1f})"
        yield f"| {data}: expected calibration error | under 3 % | {cells} |"
        for key, what in (("answered", "images answered"), ("right", "answers right")):
            gaps = [
                [
                    expected[key] - seen[key]
                    for expected, seen in zip(
                        row["estimate"]["coverage"], row["coverage"], strict=True
                    )
                ]
                for row in own
            ]
            largest = np.abs(np.mean(gaps, axis=0)).max()
            cells = f"{largest:.1f} points (one split: {np.abs(gaps).max():.1f})"
            yield f"| {data}: {what}, told minus seen, mean of splits | within 2 | {cells} |"
    own = [row for row in found if row["kind"] == "interval"]
    if own:
        off = np.array([row["accuracy"] - row["estimate"]["accuracy"] for row in own])
        reach = np.array([row["estimate"]["high"] - row["estimate"]["accuracy"] for row in own])
        # Rows of before Evaluation.folds have the interval of independent tests.
        narrow = reach if "folds" not in own[0]["estimate"] else reach / WIDER
        held = [int((np.abs(off) <= factor * narrow).sum()) for factor in (WIDER, 1)]
        cells = (
            f"{held[0]} of {len(own)}; {held[1]} without the factor for folds, which was added "
            f"after these rows were seen (estimates are {-off.mean():+.1f} points off on average)"
        )
        yield f"| LS, 60 per class: intervals that contain the accuracy | 18 of 20 | {cells} |"
    for data in ("LS", "Caltech101"):
        own = [row for row in found if (row["kind"], row["set"]) == ("unknown", data)]
        if not own:
            continue
        mean = {
            key: np.mean([row[key] for row in own])
            for key in ("probability", "familiarity", "answered_known", "answered_unknown")
        }
        cells = (
            f"{mean['familiarity']:.3f}; of the largest probability alone {mean['probability']:.3f}"
        )
        yield f"| {data}, half of the classes unknown: AUROC of familiarity | | {cells} |"
        cells = f"{mean['answered_known']:.0f} % and {mean['answered_unknown']:.0f} %"
        yield f"| {data}: share of known and of unknown images answered at 0.8 | | {cells} |"


if __name__ == "__main__":
    main(*sys.argv[1:])
