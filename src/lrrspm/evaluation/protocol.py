"""The protocol: random splits by class, everything else tested, mean of per-class accuracies."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .. import config
from .._support.stages import Stages
from ..cache.store import FeatureStore
from ..classifier import ImageClassifier, Trained, fit_together, score_images
from ..svm.machines import predict_labels
from .mistakes import Measured, Mistake, find_mistakes, surest

R = TypeVar("R")

SHARED_STAGES = ("read", "sift", "codebook")
"""Stages whose work several classifiers share."""

RESTART = "restart"
"""The stage of work that was done in vain, since it met pictures that cannot be read."""


def evaluate(
    paths: Sequence[str],
    labels: Sequence[str],
    classifier: ImageClassifier,
    train_per_class: int = config.TRAIN_PER_CLASS,
    splits: int = config.SPLITS,
    shared_codebook: bool = False,
    seed: int = config.SEED,
    stages: Stages | None = None,
    skipped: dict[int, str] | None = None,
    max_skipped: float = config.MAX_SKIPPED,
) -> dict[str, Any]:
    """Train and test a classifier on several random splits.

    Parameters
    ----------
    paths, labels : sequences of N strings
    classifier : ImageClassifier
        Unfitted; each split trains a clone of it with a seed of its own.
    train_per_class : int
        Training images a class; all others are test images.
    splits : int
    shared_codebook : bool
        One codebook from all images, test images included (the paper's way),
        instead of one from each split's training images.
    seed : int
        Seed of the splits and the classifiers.
    stages : Stages or None
        Where the seconds are added up.
    skipped : dict or None
        Where images that cannot be read are added, index and reason; the
        result is then that of the others alone. With None the first one raises.
    max_skipped : float
        Share of the images beyond which it raises all the same.

    Returns
    -------
    dict
        ``accuracy`` (``mean``, ``std`` with n - 1, ``splits``; percent),
        ``per_class`` (mean accuracy of each class, percent), ``confusion``
        (counts over all splits, rows the true classes), ``seconds`` by stage,
        ``images``, ``classes``, ``class_names``.
    """
    return evaluate_all(
        paths, labels, [classifier], train_per_class, splits, shared_codebook, seed, stages,
        skipped, max_skipped,
    )[0]  # fmt: skip


def evaluate_all(
    paths: Sequence[str],
    labels: Sequence[str],
    classifiers: Sequence[ImageClassifier],
    train_per_class: int = config.TRAIN_PER_CLASS,
    splits: int = config.SPLITS,
    shared_codebook: bool = False,
    seed: int = config.SEED,
    stages: Stages | None = None,
    skipped: dict[int, str] | None = None,
    max_skipped: float = config.MAX_SKIPPED,
    measured: list[Measured] | None = None,
) -> list[dict[str, Any]]:
    """Evaluate several classifiers of different methods on the same splits.

    Images are read twice altogether, and each k-means codebook is learnt once
    for all of them. The seconds of ``read``, ``sift`` and ``codebook`` are those
    of all together, as are those of ``restart``, work that had to begin again
    without unreadable images; the others are each one's own. Where ``measured`` is given,
    each result is added there with its most confident mistakes.
    """
    stages = stages or Stages()
    if splits < 1:
        raise ValueError(f"splits must be at least 1, got {splits}")
    seeds = split_seeds(seed, splits)
    store = FeatureStore(classifiers[0].cache)

    def measure(
        paths: Sequence[str], y: NDArray[Any], bad: dict[int, str] | None
    ) -> list[dict[str, Any]]:
        train = [split_by_class(y, train_per_class, s) for s in seeds]
        models = [clone(c).set_params(random_state=s) for c in classifiers for s in seeds]
        members = train * len(classifiers)
        trained = fit_together(models, paths, y, members, stages, shared_codebook, bad, store)
        found = [
            _test_splits(models[i : i + splits], trained[i : i + splits], paths, y, train, stages)
            for i in range(0, len(trained), splits)
        ]
        if measured is not None:
            measured.extend(found)
        return [one.result for one in found]

    return _without_unreadable(measure, paths, labels, skipped, max_skipped, stages)


def _test_splits(
    models: Sequence[ImageClassifier],
    trained: Sequence[Trained],
    paths: Sequence[str],
    y: NDArray[Any],
    train: Sequence[NDArray[np.int64]],
    stages: Stages,
) -> Measured:
    """What one classifier reaches, trained on several splits, on the rest of each."""
    names = np.unique(y)
    confusions, seconds = [], 0.0
    mistakes: list[Mistake] = []
    for split, (model, part, indices) in enumerate(zip(models, trained, train, strict=True), 1):
        start = time.perf_counter()
        test = np.setdiff1d(np.arange(len(y)), indices)
        scores = model.svm_.decision_function(part.vectors[test])
        predicted = predict_labels(model.classes_, scores)
        seconds += time.perf_counter() - start
        confusions.append(count_confusions(names, y[test], predicted))
        mistakes += find_mistakes(model, [paths[i] for i in test], y[test], scores, split)
    stages.add("test", seconds)
    shared = [stage for stage in (RESTART, "store", *SHARED_STAGES) if stage in stages.seconds]
    own_seconds = {
        **{stage: stages.seconds[stage] for stage in shared},
        "encode": sum(part.encode_seconds for part in trained),
        "train": sum(part.train_seconds for part in trained),
        "test": seconds,
    }
    return Measured(_summarize(names, confusions, len(y), own_seconds), surest(mistakes))


def _without_unreadable(
    work: Callable[[Sequence[str], NDArray[Any], dict[int, str] | None], R],
    paths: Sequence[str],
    labels: Sequence[str],
    skipped: dict[int, str] | None,
    max_skipped: float,
    stages: Stages,
) -> R:
    """Do work as if the images that cannot be read had never been there.

    How many descriptors an image gives, and who is in which split, depends on
    the number of images. So work that meets unreadable ones begins again
    without them; as long as all are readable that costs nothing. Its seconds
    until then are a stage of their own.
    """
    y = np.asarray(labels)
    if skipped is None:
        return work(paths, y, None)
    while True:
        kept = np.array([i for i in range(len(paths)) if i not in skipped])
        bad: dict[int, str] = {}
        before = dict(stages.seconds)
        try:
            result = work([paths[i] for i in kept], y[kept], bad)
        except ValueError as error:
            if not skipped:
                raise
            # What is missing may be why it fails.
            raise ValueError(
                f"{error} (left out {len(skipped)} that cannot be read: {_list(paths, skipped)})"
            ) from error
        if not bad:
            return result
        stages.set_apart(before, RESTART)
        skipped.update({int(kept[place]): reason for place, reason in bad.items()})
        _check_share(paths, skipped, max_skipped)
        lost = sorted(set(y[kept].tolist()) - set(np.delete(y[kept], sorted(bad)).tolist()))
        if lost:
            warnings.warn(
                f"left out classes without readable images: {', '.join(lost)}", stacklevel=2
            )


def _list(paths: Sequence[str], skipped: dict[int, str]) -> str:
    """The first images that were skipped, and why."""
    few = sorted(skipped)[:5]
    more = f"; and {len(skipped) - len(few)} more" if len(skipped) > len(few) else ""
    return "; ".join(f"{paths[i]}: {skipped[i]}" for i in few) + more


def _check_share(paths: Sequence[str], skipped: dict[int, str], limit: float) -> None:
    """Raise where too many images cannot be read."""
    if len(skipped) <= limit * len(paths) and len(skipped) < len(paths):
        return
    beyond = f", more than {100 * limit:g} %" if len(skipped) < len(paths) else ""
    raise ValueError(
        f"{len(skipped)} of {len(paths)} images cannot be read{beyond}: {_list(paths, skipped)}; "
        "mend or remove them, or allow it (--on-error skip)"
    )


def score_model(
    classifier: ImageClassifier,
    paths: Sequence[str],
    labels: Sequence[str],
    stages: Stages,
    skipped: dict[int, str] | None,
    measured: list[Measured] | None = None,
) -> dict[str, Any]:
    """Measure a fitted classifier on labelled images; the result is that of :func:`evaluate`.

    Images that cannot be read are left out and added to ``skipped``; where
    that is None the first one raises. ``measured`` is that of :func:`evaluate_all`.
    """
    unknown = sorted(set(labels) - {str(name) for name in classifier.classes_})
    if unknown:
        raise ValueError(
            f"the model does not know these classes: {', '.join(unknown)}; "
            f"it knows: {', '.join(str(name) for name in classifier.classes_)}"
        )
    scores = score_images(classifier, paths, stages, skipped)
    kept = [i for i in range(len(paths)) if i not in (skipped or ())]
    if not kept:
        raise ValueError("none of the images could be read")
    truth = np.array([labels[i] for i in kept])
    names = np.array([str(name) for name in classifier.classes_])
    confusion = count_confusions(names, truth, names[scores.argmax(axis=1)])
    result = _summarize(names, [confusion], len(truth), dict(stages.seconds))
    if measured is not None:
        mistakes = find_mistakes(classifier, [paths[i] for i in kept], truth, scores)
        measured.append(Measured(result, mistakes))
    return result


def _summarize(
    names: NDArray[Any],
    confusions: Sequence[NDArray[np.int64]],
    images: int,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Percentages of one or several confusion matrices over the same classes."""
    tested = confusions[0].sum(axis=1) > 0
    hits = np.array([class_accuracies(matrix)[tested] for matrix in confusions])
    means = hits.mean(axis=1)
    per_class = zip(names[tested].tolist(), hits.mean(axis=0).tolist(), strict=True)
    return {
        "accuracy": {
            "mean": float(means.mean()),
            "std": float(means.std(ddof=1)) if len(means) > 1 else None,
            "splits": means.tolist(),
        },
        "per_class": dict(per_class),
        "confusion": np.sum(confusions, axis=0).tolist(),
        "seconds": seconds,
        "images": images,
        "classes": len(names),
        "class_names": names.tolist(),
    }


def train_with_estimate(
    paths: Sequence[str],
    labels: Sequence[str],
    classifier: ImageClassifier,
    estimate: bool = True,
    stages: Stages | None = None,
    skipped: dict[int, str] | None = None,
    max_skipped: float = config.MAX_SKIPPED,
    measured: list[Measured] | None = None,
) -> float | None:
    """Fit a classifier to all images, and estimate how good it is.

    The estimate is the mean per-class accuracy (percent) of a second
    classifier on a fifth of each class that was kept aside from it, or None
    where it is not asked for or no class can spare an image. It joins
    the classifier's ``summary_``. Unreadable images are treated as in
    :func:`evaluate`. Where ``measured`` is given, what the second classifier did
    is added there.
    """
    stages = stages or Stages()
    store = FeatureStore(classifier.cache)

    def train(paths: Sequence[str], y: NDArray[Any], bad: dict[int, str] | None) -> float | None:
        everything = np.arange(len(y))
        kept = _training_part(y, 0 if classifier.random_state is None else classifier.random_state)
        held_out = np.setdiff1d(everything, kept)
        if not estimate or not len(held_out):
            fit_together([classifier], paths, y, [everything], stages, skipped=bad, store=store)
            return None
        trial = clone(classifier)
        parts = [kept, everything]
        trained = fit_together(
            [trial, classifier], paths, y, parts, stages, skipped=bad, store=store
        )
        if not trained:
            return None
        with stages.timed("test"):
            names = np.unique(y)
            scores = trial.svm_.decision_function(trained[0].vectors[held_out])
            predicted = predict_labels(trial.classes_, scores)
            confusion = count_confusions(names, y[held_out], predicted)
        accuracy = float(np.nanmean(class_accuracies(confusion)))
        classifier.summary_["held_out"] = {"accuracy": accuracy, "images": len(held_out)}
        if measured is not None:
            result = _summarize(names, [confusion], len(held_out), dict(stages.seconds))
            aside = [paths[i] for i in held_out]
            measured.append(Measured(result, find_mistakes(trial, aside, y[held_out], scores)))
        return accuracy

    return _without_unreadable(train, paths, labels, skipped, max_skipped, stages)


def split_seeds(seed: int, splits: int) -> list[int]:
    """A seed for each split; more splits leave the seeds of the first ones as they are."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(splits) >> 1]


def split_by_class(labels: NDArray[Any], train_per_class: int, seed: int) -> NDArray[np.int64]:
    """Indices of random training images, the same number from each class, sorted."""
    if train_per_class < 1:
        raise ValueError(f"train_per_class must be at least 1, got {train_per_class}")
    names, counts = np.unique(labels, return_counts=True)
    name, least = names[counts.argmin()], counts.min()
    if least <= train_per_class:
        raise ValueError(
            f"class '{name}' has {least} images; {train_per_class} training images "
            f"leave none to test; "
            + (f"use at most {least - 1} a class, or " if least > 1 else "")
            + "leave the class out"
        )
    rng = np.random.default_rng(seed)
    chosen = [
        rng.choice(np.flatnonzero(labels == name), train_per_class, replace=False) for name in names
    ]
    return np.sort(np.concatenate(chosen))


def _training_part(labels: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """What is left of each class when its share has been kept aside."""
    rng = np.random.default_rng(seed)
    chosen = []
    for name in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == name))
        chosen.append(members[round(config.HELD_OUT * len(members)) :])
    return np.sort(np.concatenate(chosen))


def count_confusions(
    names: NDArray[Any], truth: NDArray[Any], predicted: NDArray[Any]
) -> NDArray[np.int64]:
    """Confusion counts: rows the true classes, columns the predicted ones."""
    place = {name: i for i, name in enumerate(names.tolist())}
    matrix = np.zeros((len(names), len(names)), np.int64)
    for true, guess in zip(truth.tolist(), predicted.tolist(), strict=True):
        matrix[place[true], place[guess]] += 1
    return matrix


def class_accuracies(confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """Percent right of each row; NaN for a class that was not tested."""
    totals = confusion.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return 100 * np.diag(confusion) / totals
