"""The tour: solar cells from the PyPI package elpv-dataset, sound and defective."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import config
from .._support.stages import Stages
from ..classifier import ImageClassifier, fit_together
from ..encoders.base import LRREncoder
from ..evaluation.protocol import evaluate, split_by_class
from ..images import colours
from ..report.draw import draw_explanation, draw_predictions

TRAIN_PER_CLASS = 200
SPLITS = 2
LICENCE = (
    "The photographs are from the ELPV data set (Buerhop-Lutz, Deitsch et al., 2018), "
    "licence CC BY-NC-SA 4.0."
)


def solar_cells() -> tuple[list[str], list[str]]:
    """Paths and labels of the cells that are surely sound (0) or surely defective (1)."""
    spec = importlib.util.find_spec("elpv_dataset")
    if spec is None or spec.origin is None:
        raise ImportError("the demo's pictures are missing: pip install 'lrrspm[demo]'")
    folder = Path(spec.origin).parent / "data"
    paths, labels = [], []
    for line in (folder / "labels.csv").read_text().splitlines():
        name, probability, kind = line.split()
        if float(probability) in (0, 1):
            paths.append(str(folder / name))
            labels.append(f"{kind} {'defective' if float(probability) else 'functional'}")
    return paths, labels


def run(output: Path, seed: int, jobs: int, stages: Stages) -> dict[str, Any]:
    """Evaluate, then train a model, save it, draw some predictions and the evidence for one."""
    paths, labels = solar_cells()
    output.mkdir(parents=True, exist_ok=True)
    classifier = ImageClassifier(encoder=LRREncoder(), n_jobs=jobs, random_state=seed)
    result = evaluate(paths, labels, classifier, TRAIN_PER_CLASS, SPLITS, seed=seed, stages=stages)

    y = np.array(labels)
    train = split_by_class(y, TRAIN_PER_CLASS, seed)
    chosen = [paths[i] for i in train]
    fit_together([classifier], chosen, y[train], [np.arange(len(train))], stages)
    model = output / "solar-cells.lrrspm"
    classifier.save(model)

    test = np.setdiff1d(np.arange(len(y)), train)
    shown = np.random.default_rng(seed).choice(test, 24, replace=False)
    images = [paths[i] for i in shown]
    picture = output / "predictions.png"
    draw_predictions(picture, images, y[shown].tolist(), classifier.predict(images).tolist())

    defective = next(i for i in shown if "defective" in y[i])
    evidence = output / "evidence.png"
    seen = np.asarray(colours(paths[defective], config.DRAWN_SIDE))
    examined = classifier.examine(paths[defective])
    draw_explanation(evidence, seen, examined.explain(shape=seen.shape[:2]), examined.ranked())

    start = time.perf_counter()
    classifier.features_.transform(chosen)
    return {
        **result,
        "images_per_second": len(chosen) / (time.perf_counter() - start),
        "model": str(model),
        "picture": str(picture),
        "evidence": str(evidence),
        "licence": LICENCE,
    }
