"""The protocol: random splits per class, everything else tested, mean of per-class accuracies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .. import config, training
from .._support.stages import Stages
from ..cache import FeatureStore, same_key
from ..classifier import ImageClassifier
from ..loading import score_images
from ..modelfile import describe_parameters
from ..pipeline import Engine, open_engine
from ..svm import predict_labels
from ..training import Tested, Trained, fit_together, score_members
from .certainty import Certainty, join, measure_certainty
from .groups import COMPARE, Groups
from .mistakes import Mistake, find_mistakes, most_confident
from .predictions import Prediction, list_predictions
from .results import Evaluation, LeftOut, Skipped, Split, count_confusions
from .splits import check_enough, given_split, left_to_test, split_by_class, split_seeds
from .unreadable import RESTART, without_unreadable

SHARED_STAGES = ("read", "describe", "codebook")
"""Stages whose work several classifiers share."""


def evaluate(
    paths: Sequence[str],
    labels: Sequence[str],
    classifier: ImageClassifier,
    train_per_class: float | None = None,
    splits: int = config.SPLITS,
    shared_codebook: bool = False,
    seed: int = config.SEED,
    stages: Stages | None = None,
    max_skipped: float = 0.0,
    engine: Engine | None = None,
    groups: Groups | None = None,
    tests: Sequence[bool] | None = None,
) -> Evaluation:
    """Train and test a classifier on several random splits.

    Parameters
    ----------
    paths, labels : sequences of N strings
    classifier : ImageClassifier
        Unfitted; each random split trains a clone of it with a seed of its own.
    train_per_class : float or None
        Training images per class, or below 1 a share of each class; all others are
        test images. None is 100, but at most 0.8 of a class.
    splits : int
    shared_codebook : bool
        One codebook from all images, test images included (the paper's way),
        instead of one from each split's training images.
    seed : int
        The seeds of the random splits and their classifiers come from it; with
        ``tests``, the one classifier's ``random_state``.
    stages : Stages or None
        Where the seconds are added up.
    max_skipped : float
        Share of the images that may be left out because they cannot be read; 0
        has the first one raise.
    engine : Engine or None
        Where chunks of images are computed; None opens one with the
        classifier's ``n_jobs``.
    groups : Groups or None
        Images to be kept on one side of every split; from
        :func:`lrrspm.evaluation.find_groups` or
        :func:`lrrspm.evaluation.name_groups`.
    tests : sequence of N bool or None
        True for the images to test: the one split, in place of random ones, so
        that ``train_per_class``, ``splits`` and ``groups`` do not count.

    Returns
    -------
    Evaluation
    """
    return evaluate_all(
        paths, labels, [classifier], train_per_class, splits, shared_codebook, seed, stages,
        max_skipped, engine, groups, tests,
    )[0]  # fmt: skip


def evaluate_all(
    paths: Sequence[str],
    labels: Sequence[str],
    classifiers: Sequence[ImageClassifier],
    train_per_class: float | None = None,
    splits: int = config.SPLITS,
    shared_codebook: bool = False,
    seed: int = config.SEED,
    stages: Stages | None = None,
    max_skipped: float = 0.0,
    engine: Engine | None = None,
    groups: Groups | None = None,
    tests: Sequence[bool] | None = None,
    calibrate: bool = False,
    store: FeatureStore | None = None,
) -> list[Evaluation]:
    """Evaluate several classifiers on the same splits; see :func:`evaluate`.

    Images are read twice altogether (twice per split where vectors are too long to
    keep those of all splits), and each k-means codebook is learned once for all.
    The seconds of ``read``, ``describe`` and ``codebook`` are those of all together,
    as are those of ``restart``, work lost to unreadable images; the others are each
    one's own. With ``calibrate``, probabilities are learned in each split, which takes
    several times as long as training its support vector machines.
    """
    stages = stages or Stages()
    if splits < 1:
        raise ValueError(f"splits must be at least 1, got {splits}")
    if engine is None:
        first = classifiers[0]
        with open_engine(first.n_jobs, first.engine, first.device) as engine:
            return evaluate_all(
                paths, labels, classifiers, train_per_class, splits, shared_codebook, seed,
                stages, max_skipped, engine, groups, tests, calibrate, store,
            )  # fmt: skip
    if tests is not None:
        splits, groups = 1, None
    everyone, all_labels = paths, np.asarray(labels)
    # No seed draws a given split, and its model is the one that fit makes of that seed.
    seeds = split_seeds(seed, splits) if tests is None else [seed]
    store = store or classifiers[0].store()

    def measure(
        used: NDArray[np.int64], skip: bool
    ) -> tuple[list[Evaluation] | None, dict[int, str]]:
        paths, y = [everyone[i] for i in used], all_labels[used]
        together = None if groups is None else groups.numbers[used]
        if tests is not None:
            train, test = given_split(y, np.asarray(tests)[used])
        else:
            if groups is not None and groups.by == "near copy":
                # Nobody named these groups, so what is asked for counts as without them.
                check_enough(y, train_per_class)
            train = [split_by_class(y, train_per_class, s, together) for s in seeds]
            test = [left_to_test(part, len(y), together) for part in train]
        found = [_Test(paths, y, stages) for _ in classifiers]
        # Long vectors of all splits do not fit into memory together.
        at_once = splits if shared_codebook else _splits_at_once(classifiers, len(y))
        for first in range(0, splits, at_once):
            group = range(first, min(first + at_once, splits))
            models = [
                clone(c).set_params(random_state=seeds[s]) for c in classifiers for s in group
            ]
            members = [train[s] for s in group] * len(classifiers)
            trained, skipped = fit_together(
                models, paths, y, members, engine, stages, shared_codebook, skip, store,
                calibrate=calibrate, groups=together,
            )  # fmt: skip
            if skipped:
                return None, skipped
            for i, (model, part) in enumerate(zip(models, trained, strict=True)):
                split = group[i % len(group)]
                rest = test[split]
                tested = score_members(model, part, paths, rest, engine, stages, skip, store)
                if tested.skipped:
                    return None, tested.skipped
                found[i // len(group)].add(model, part, tested, rest, split + 1)
                found[i // len(group)].splits.append(Split(train[split], rest))
            del trained  # the vectors, before those of the next splits are made
        return [one.result() for one in found], {}

    found, left_out = without_unreadable(measure, paths, labels, max_skipped, stages)
    drawn = {"train_per_class": train_per_class, "splits": splits}
    protocol = {
        **(drawn if tests is None else {"split": "given"}),
        "shared_codebook": shared_codebook,
        "seed": seed,
    }
    unknown = {} if tests is None else _unknown_classes(labels, tests)
    for evaluation, classifier in zip(found, classifiers, strict=True):
        evaluation.skipped = left_out
        evaluation.parameters = {**describe_parameters(classifier), **protocol}
        evaluation.kept_together, evaluation.unknown = groups, unknown
    return found


def _unknown_classes(labels: Sequence[str], tests: Sequence[bool]) -> dict[str, int]:
    """Count the test images of each class that has no training images."""
    known = {name for name, test in zip(labels, tests, strict=True) if not test}
    return dict(Counter(name for name in labels if name not in known))


def _splits_at_once(classifiers: Sequence[ImageClassifier], n_images: int) -> int:
    """Return how many splits' samples and vectors may be in memory together, at least one."""
    vectors, samples = 0, {}
    for classifier in classifiers:
        for channel in classifier.new_channels():
            itemsize = np.dtype(channel.pooling.precision).itemsize
            vectors += n_images * channel.expected_features * itemsize
            # Classifiers share the samples of the descriptors that they share.
            sampled = (same_key(channel.descriptor), classifier.n_samples)
            samples[sampled] = classifier.n_samples * channel.descriptor.n_values * 4
    return max(1, int(training.MEMORY // max(vectors + sum(samples.values()), 1)))


class _Test:
    """One classifier, trained on several splits and tested on the rest of each."""

    def __init__(self, paths: Sequence[str], y: NDArray[Any], stages: Stages) -> None:
        self._paths, self._y, self._stages = paths, y, stages
        self._names = np.unique(y)
        self._confusions: list[NDArray[np.int64]] = []
        self._mistakes: list[Mistake] = []
        self._certainties: list[Certainty] = []
        self._left_out: list[LeftOut] = []
        self._predictions: list[Prediction] = []
        self.splits: list[Split] = []
        self._seconds = {"encode": 0.0, "train": 0.0, "test": 0.0}

    def add(
        self,
        model: ImageClassifier,
        part: Trained,
        tested: Tested,
        test: NDArray[np.int64],
        split: int,
    ) -> None:
        """Count what the model of one split says about its test images."""
        truth, scores = self._y[test], tested.scores
        predicted = predict_labels(model.classes_, scores)
        self._confusions.append(count_confusions(self._names, truth, predicted))
        self._certainties.append(
            measure_certainty(model, scores, np.searchsorted(model.classes_, truth))
        )
        given = model.features_.new_channels()
        for place, reason in model.features_.left_out_.items():
            name = type(given[place].descriptor).__name__
            self._left_out.append(LeftOut(split, name, reason))
        paths = [self._paths[i] for i in test]
        self._mistakes += find_mistakes(model, paths, truth, scores, split)
        self._predictions += list_predictions(model, paths, truth, scores, split)
        self._seconds["encode"] += part.encode_seconds + tested.encode_seconds
        self._seconds["train"] += part.train_seconds
        self._seconds["test"] += tested.test_seconds

    def result(self) -> Evaluation:
        """Return what was found; stages that several classifiers share are those of all."""
        seconds = self._stages.seconds
        shared = [
            stage for stage in (COMPARE, RESTART, "store", *SHARED_STAGES) if stage in seconds
        ]
        own = {**{stage: seconds[stage] for stage in shared}, **self._seconds}
        mistakes = most_confident(self._mistakes)
        return Evaluation(
            self._names.tolist(), self._confusions, len(self._y), own, mistakes,
            certainty=join(self._certainties),
            left_out=self._left_out,
            predictions=self._predictions,
            splits=self.splits,
        )  # fmt: skip


def score_model(
    classifier: ImageClassifier,
    paths: Sequence[str],
    labels: Sequence[str],
    stages: Stages,
    skip: bool = False,
) -> Evaluation:
    """Test a fitted classifier on labeled images.

    With ``skip``, images that cannot be read are left out; without, the first
    one raises. Images of classes that the model does not know are not tested;
    it raises if there are no others.
    """
    names = [str(name) for name in classifier.classes_]
    unknown = Counter(label for label in labels if label not in names)
    known = [i for i, label in enumerate(labels) if label in names]
    if not known:
        raise ValueError(
            f"the model does not know these classes: {', '.join(sorted(unknown))}; "
            f"it knows: {', '.join(names)}"
        )
    paths, labels = [paths[i] for i in known], [labels[i] for i in known]
    scores, skipped, _ = score_images(classifier, paths, stages, skip)
    kept = [i for i in range(len(paths)) if i not in skipped]
    if not kept:
        raise ValueError("none of the images could be read")
    tested, truth = [paths[i] for i in kept], np.array([labels[i] for i in kept])
    predicted = np.array(names)[scores.argmax(axis=1)]
    return Evaluation(
        names,
        [count_confusions(names, truth, predicted)],
        len(truth),
        dict(stages.seconds),
        find_mistakes(classifier, tested, truth, scores),
        [Skipped(paths[i], reason) for i, reason in sorted(skipped.items())],
        describe_parameters(classifier),
        predictions=list_predictions(classifier, tested, truth, scores),
        unknown=dict(unknown),
        certainty=measure_certainty(
            classifier, scores, np.array([names.index(name) for name in truth])
        ),
    )
