"""lrrspm demo: a tour on solar cells, functional and defective."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .. import config
from .._support.text import printable
from .app import command
from .options import Jobs, Json, Seed, as_local
from .terminal import print_confusion, print_evaluation, print_json, progress

if TYPE_CHECKING:
    from .._support.stages import Stages
    from ..evaluation import Evaluation

TRAIN_PER_CLASS = 200
SPLITS = 2
LICENSE = (
    "The photographs are from the ELPV data set (Buerhop-Lutz, Deitsch et al., 2018), "
    "license CC BY-NC-SA 4.0."
)


class Tour(NamedTuple):
    """What the demo measured and wrote."""

    evaluation: Evaluation
    images_per_second: float
    model: Path
    predictions: Path
    evidence: Path


@command
def demo(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", parser=as_local, help="Where to write the results."
        ),
    ] = Path("lrrspm-demo"),
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Take a tour with real images: photographs of solar cells, functional and defective.

    Needs an extra: pip install 'lrrspm\\[demo]'. Works offline.
    """
    from .._support.stages import Stages

    with progress() as listener:
        tour = run(output, seed, jobs, Stages(listener))
    if as_json:
        print_json(
            **tour.evaluation.to_json(),
            images_per_second=tour.images_per_second,
            model=str(tour.model),
            picture=str(tour.predictions),
            evidence=str(tour.evidence),
            licence=LICENSE,
        )
        return
    print_evaluation(tour.evaluation)
    print()
    print_confusion(tour.evaluation)
    print(f"\n{tour.images_per_second:.0f} images per second, from file to vector")
    written = (printable(path) for path in (tour.model, tour.predictions, tour.evidence))
    print(f"wrote {', '.join(written)}")
    print(LICENSE)
    print("\nnow with your own images, one folder per class:")
    print("  lrrspm train my-images -o my.lrrspm")
    print("  lrrspm predict my.lrrspm new.jpg")
    print("  lrrspm explain my.lrrspm new.jpg -o why.png")


def solar_cells() -> tuple[list[str], list[str]]:
    """List paths and labels of the cells that are certainly functional or defective."""
    import importlib.util

    spec = importlib.util.find_spec("elpv_dataset")
    if spec is None or spec.origin is None:
        raise ImportError("the images of the demo are missing: pip install 'lrrspm[demo]'")
    folder = Path(spec.origin).parent / "data"
    paths, labels = [], []
    for line in (folder / "labels.csv").read_text(encoding="utf-8").splitlines():
        name, probability, kind = line.split()
        if float(probability) in (0, 1):
            paths.append(str(folder / name))
            labels.append(f"{kind} {'defective' if float(probability) else 'functional'}")
    return paths, labels


def run(output: Path, seed: int, jobs: int, stages: Stages) -> Tour:
    """Evaluate, train and save a model, draw some predictions and the evidence for one."""
    import time

    import numpy as np

    from ..classifier import ImageClassifier
    from ..evaluation import evaluate, split_by_class, train_with_estimate
    from ..images import read_thumbnail
    from ..report.draw import draw_explanation, draw_predictions

    paths, labels = solar_cells()
    output.mkdir(parents=True, exist_ok=True)
    classifier = ImageClassifier(n_jobs=jobs, random_state=seed)
    found = evaluate(paths, labels, classifier, TRAIN_PER_CLASS, SPLITS, seed=seed, stages=stages)

    y = np.array(labels)
    train = split_by_class(y, TRAIN_PER_CLASS, seed)
    chosen = [paths[i] for i in train]
    train_with_estimate(chosen, y[train].tolist(), classifier, estimate=False, stages=stages)
    model = output / "solar-cells.lrrspm"
    classifier.save(model)

    test = np.setdiff1d(np.arange(len(y)), train)
    shown = np.random.default_rng(seed).choice(test, 24, replace=False)
    images = [paths[i] for i in shown]
    predictions = output / "predictions.png"
    draw_predictions(predictions, images, y[shown].tolist(), classifier.predict(images).tolist())

    defective = next(i for i in shown if "defective" in y[i])
    evidence = output / "evidence.png"
    seen = np.asarray(read_thumbnail(paths[defective], config.DRAWN_SIDE))
    examined = classifier.examine(paths[defective])
    draw_explanation(evidence, seen, examined.explain(shape=seen.shape[:2]), examined.ranked())

    start = time.perf_counter()
    classifier.features_.transform(chosen)
    rate = len(chosen) / (time.perf_counter() - start)
    return Tour(found, rate, model, predictions, evidence)
