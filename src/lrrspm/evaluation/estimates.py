"""Estimates: how good a model is that was trained on everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._support.stages import Stages
from ..cache import FeatureStore
from ..classifier import ImageClassifier
from ..growing import remember
from ..modelfile import describe_parameters
from ..pipeline import open_engine
from ..svm import SVM, stratified_folds
from ..training import as_seed, fit_together
from .certainty import measure_certainty
from .groups import Groups
from .mistakes import Mistake, find_mistakes, most_confident
from .results import Evaluation, Skipped, count_confusions
from .unreadable import without_unreadable


class Training(NamedTuple):
    """Result of training: the estimate, if there is one, and the images left out."""

    estimate: Evaluation | None
    skipped: list[Skipped]


def train_with_estimate(
    paths: Sequence[str],
    labels: Sequence[str],
    classifier: ImageClassifier,
    estimate: bool = True,
    stages: Stages | None = None,
    max_skipped: float = 0.0,
    groups: Groups | None = None,
    mistakes: bool = False,
    frozen: bool = False,
    store: FeatureStore | None = None,
) -> Training:
    """Fit a classifier to all images, and estimate how good it is.

    The estimate is that of a cross-validation: each image is tested by a support
    vector machine that was trained without it, and without others of its group. How
    sure the classifier is of new images, it is told by leaving out one at a time.
    Descriptors, codebook and vectors are those of all images, without their
    labels. There is none where it is not asked for, where classes have one image
    each, or where an encoder learned from the labels. It joins the classifier's
    ``summary_``. ``max_skipped`` and ``groups`` are those of
    :func:`lrrspm.evaluate`; with ``mistakes``, the machines that made the
    most confident ones are kept. With ``frozen``, the features stay as they are. A
    ``store`` of None is the classifier's.
    """
    stages = stages or Stages()
    everyone, all_labels = paths, np.asarray(labels)
    store = store or classifier.store()
    if any(channel.encoder.uses_labels for channel in classifier.new_channels()):
        estimate = False

    def train(used: NDArray[np.int64], skip: bool) -> tuple[Training | None, dict[int, str]]:
        paths, y = [everyone[i] for i in used], all_labels[used]
        own = None if groups is None else groups.numbers[used]
        folds = stratified_folds(y, as_seed(classifier.random_state), own)
        machines: dict[int, SVM] = {}
        with open_engine(classifier.n_jobs, classifier.engine, classifier.device) as engine:
            trained, skipped = fit_together(
                [classifier], paths, y, [np.arange(len(y))], engine, stages, skip=skip,
                store=store, calibrate=True, folds=folds,
                tell=machines.__setitem__ if mistakes else None, frozen=frozen, groups=own,
            )  # fmt: skip
            if skipped:
                return None, skipped
            remember(classifier, paths, y, store, engine)
        crossed = trained[0].crossed
        if not estimate or crossed is None:
            return Training(None, []), {}
        scores = crossed.scores
        names = classifier.classes_
        tested = folds >= 0
        truth = np.searchsorted(names, y)
        predicted = scores.argmax(axis=1)
        # Machines of folds are less sure than the classifier, which has all images.
        certainty = measure_certainty(classifier, crossed.left_out[tested], truth[tested])
        found = Evaluation(
            names.tolist(),
            [count_confusions(range(len(names)), truth[tested], predicted[tested])],
            int(tested.sum()),
            dict(stages.seconds),
            _find_mistakes(classifier, machines, paths, y, scores, folds),
            parameters=describe_parameters(classifier),
            kept_together=groups,
            certainty=certainty,
            folds=int(folds.max()) + 1,
        )
        (low, high), metrics = found.interval, found.class_metrics
        classifier.summary_["estimate"] = {
            "accuracy": found.mean,
            "low": low,
            "high": high,
            "images": found.images,
            "folds": found.folds,
            "precision": found.precision,
            "f1": found.f1,
            "per_class": {str(name): one.recall for name, one in metrics.items()},
            "precision_per_class": {str(name): one.precision for name, one in metrics.items()},
            "coverage": certainty.coverage(),
        }
        return Training(found, []), {}

    training, left_out = without_unreadable(train, paths, labels, max_skipped, stages)
    if training.estimate is not None:
        training.estimate.skipped = left_out
    return Training(training.estimate, left_out)


def _find_mistakes(
    classifier: ImageClassifier,
    machines: dict[int, SVM],
    paths: Sequence[str],
    y: NDArray[Any],
    scores: NDArray[Any],
    folds: NDArray[np.int64],
) -> list[Mistake]:
    """List the most confident mistakes, each with the model that made it."""
    found: list[Mistake] = []
    for fold, machine in machines.items():
        model = clone(classifier)
        model.features_, model.svm_ = classifier.features_, machine
        model.classes_, model.temperature_ = classifier.classes_, classifier.temperature_
        model.familiar_ = classifier.familiar_
        rows = np.flatnonzero(folds == fold)
        own = [paths[i] for i in rows.tolist()]
        found += find_mistakes(model, own, y[rows], scores[rows], fold + 1)
    return most_confident(found)
