"""Estimates: how good a model is that was trained on everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._support.stages import Stages
from ..cache import FeatureStore
from ..classifier import ImageClassifier
from ..modelfile import describe_parameters
from ..pipeline import open_engine
from ..svm import predict_labels
from ..training import fit_together, score_members
from .groups import Groups
from .mistakes import find_mistakes
from .results import Evaluation, Skipped, count_confusions
from .splits import training_part
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
) -> Training:
    """Fit a classifier to all images, and estimate how good it is.

    The estimate is the accuracy of a second classifier on a fifth of each class
    that it was not trained on. There is none where it is not asked for, or where
    no class can spare an image. It joins the classifier's ``summary_``.
    ``max_skipped`` and ``groups`` are those of :func:`lrrspm.evaluation.evaluate`.
    """
    stages = stages or Stages()
    everyone, all_labels = paths, np.asarray(labels)
    store = FeatureStore(classifier.cache)

    def train(used: NDArray[np.int64], skip: bool) -> tuple[Training | None, dict[int, str]]:
        paths, y = [everyone[i] for i in used], all_labels[used]
        everything = np.arange(len(y))
        seed = 0 if classifier.random_state is None else classifier.random_state
        kept = training_part(y, seed, None if groups is None else groups.numbers[used])
        held_out = np.setdiff1d(everything, kept)
        estimated = estimate and len(held_out) > 0
        trial = clone(classifier)
        models, members = [classifier], [everything]
        if estimated:
            models, members = [trial, classifier], [kept, everything]
        with open_engine(classifier.n_jobs) as engine:
            trained, skipped = fit_together(
                models, paths, y, members, engine, stages, skip=skip, store=store
            )
            if skipped:
                return None, skipped
            if not estimated:
                return Training(None, []), {}
            tested = score_members(trial, trained[0], paths, held_out, engine, stages, skip, store)
        if tested.skipped:
            return None, tested.skipped
        names, scores = np.unique(y), tested.scores
        predicted = predict_labels(trial.classes_, scores)
        found = Evaluation(
            names.tolist(),
            [count_confusions(names, y[held_out], predicted)],
            len(held_out),
            dict(stages.seconds),
            find_mistakes(trial, [paths[i] for i in held_out], y[held_out], scores),
            parameters=describe_parameters(classifier),
            kept_together=groups,
        )
        classifier.summary_["held_out"] = {"accuracy": found.mean, "images": len(held_out)}
        return Training(found, []), {}

    training, left_out = without_unreadable(train, paths, labels, max_skipped, stages)
    if training.estimate is not None:
        training.estimate.skipped = left_out
    return Training(training.estimate, left_out)
