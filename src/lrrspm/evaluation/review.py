"""Review: images whose label is probably wrong, near copies with several labels, outliers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.stages import Stages
from ..cache import FeatureStore
from ..classifier import ImageClassifier
from ..modelfile import describe_parameters
from ..pipeline import open_engine
from ..svm import familiarity, fit_temperature, probabilities, stratified_folds
from ..training import as_seed, fit_together
from .groups import Groups
from .results import Skipped
from .unreadable import without_unreadable

WRONG, COPY, OUTLIER = "wrong label", "near copy", "outlier"
"""Why an image is to be looked at."""

COLUMNS = (
    "path", "label", "suggested", "probability_of_label", "probability_of_suggested", "why",
)  # fmt: skip
"""Columns of the rows of a review."""


@dataclass(frozen=True)
class Suspect:
    """An image to look at.

    ``suggested`` is the most probable class; like the probabilities it is None
    where the image could not be tested.
    """

    path: str
    label: str
    suggested: str | None
    probability_of_label: float | None
    probability_of_suggested: float | None
    why: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the values by name, as :data:`COLUMNS` lists them."""
        return {**{name: getattr(self, name) for name in COLUMNS}, "why": list(self.why)}


@dataclass
class Review:
    """Images of a folder to check again.

    Attributes
    ----------
    images, tested : int
        Images in all, and those with a probability: a class of one image has none.
    wrong : list of Suspect
        Labels that are probably wrong, least probable first.
    copies : list of list of Suspect
        Near copies with different labels, a list per group.
    outliers : list of Suspect
        Images unlike any class, most unlike first.
    skipped : list of Skipped
    parameters : dict
        Of the classifier.
    """

    images: int
    tested: int
    wrong: list[Suspect]
    copies: list[list[Suspect]]
    outliers: list[Suspect]
    skipped: list[Skipped] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def suspects(self) -> list[Suspect]:
        """Every image once, with all reasons: wrong labels, then near copies, then outliers."""
        found: dict[str, Suspect] = {}
        for one in (*self.wrong, *(one for group in self.copies for one in group), *self.outliers):
            known = found.get(one.path)
            found[one.path] = one if known is None else replace(known, why=known.why + one.why)
        return list(found.values())

    def to_json(self) -> dict[str, Any]:
        """Return everything but the skipped images, as JSON takes it."""
        return {
            "images": self.images,
            "tested": self.tested,
            "counts": {
                WRONG: len(self.wrong),
                COPY: sum(map(len, self.copies)),
                OUTLIER: len(self.outliers),
            },
            "suspects": [one.to_json() for one in self.suspects],
            "copies": [[one.path for one in group] for group in self.copies],
            "parameters": self.parameters,
        }


def review(
    paths: Sequence[str],
    labels: Sequence[str],
    classifier: ImageClassifier,
    groups: Groups | None = None,
    stages: Stages | None = None,
    max_skipped: float = 0.0,
) -> Review:
    """Find images whose label, or whose place in the set, should be checked.

    Each image gets probabilities by a support vector machine that was trained
    without it, and without others of its group. Its label is probably wrong if it
    has a probability below :data:`lrrspm.config.DOUBTED` and another class the
    highest one. Ranked by the probability of the label, the self-confidence of
    Northcutt, Jiang and Chuang (Confident learning, 2021). Outliers are the images
    less familiar than ``familiar_`` of the classifier, 1 % of them. No file is
    changed.

    Parameters
    ----------
    paths, labels : sequences of N strings
    classifier : ImageClassifier
        Unfitted. Its encoders must not learn from labels.
    groups : Groups or None
        Near copies, see :func:`lrrspm.evaluation.find_groups`.
    stages : Stages or None
        Where the seconds are added up.
    max_skipped : float
        That of :func:`lrrspm.evaluate`.

    Returns
    -------
    Review
    """
    stages = stages or Stages()
    if any(channel.encoder.uses_labels for channel in classifier.new_channels()):
        raise ValueError(
            f"{classifier.method_name} learns its codebook from the labels, so it cannot judge "
            "them; use another method"
        )
    all_labels = np.asarray(labels)
    every = np.arange(len(paths)) if groups is None else groups.numbers
    store = FeatureStore(classifier.cache)

    def judge(used: NDArray[np.int64], skip: bool) -> tuple[Review | None, dict[int, str]]:
        y = all_labels[used]
        chosen, numbers = [paths[i] for i in used], every[used]
        folds = stratified_folds(y, as_seed(classifier.random_state), numbers)
        if folds.max() < 0:
            raise ValueError(
                "a review needs two classes with two or more images each, near copies counted once"
            )
        with open_engine(classifier.n_jobs, classifier.engine, classifier.device) as engine:
            trained, skipped = fit_together(
                [classifier], chosen, y, [np.arange(len(y))], engine, stages, skip=skip,
                store=store, calibrate=True, folds=folds,
            )  # fmt: skip
        if skipped:
            return None, skipped
        assert trained[0].crossed is not None
        scores, tested = trained[0].crossed.scores, folds >= 0
        truth = np.searchsorted(classifier.classes_, y)
        # No doubt beyond what wrong labels make: it would hide them among few images.
        temperature = fit_temperature(scores[tested], truth[tested], 0)
        chances, known = probabilities(scores, temperature), familiarity(scores, temperature)
        least = float(np.quantile(known[tested], config.UNFAMILIAR))
        chances[folds < 0] = known[folds < 0] = np.nan
        return judge_images(chosen, y, classifier.classes_, chances, known, least, numbers), {}

    found, left_out = without_unreadable(judge, paths, labels, max_skipped, stages)
    found.skipped, found.parameters = left_out, describe_parameters(classifier)
    return found


def judge_images(
    paths: Sequence[str],
    y: NDArray[Any],
    names: NDArray[Any],
    chances: NDArray[np.float64],
    known: NDArray[np.float64],
    least: float,
    groups: NDArray[np.int64],
) -> Review:
    """Sort out images by their probabilities, familiarity and groups.

    Parameters
    ----------
    paths, y : N paths and their labels, all of them in ``names``
    names : ndarray of shape (n_classes,)
    chances : ndarray of shape (N, n_classes)
        NaN where an image was not tested.
    known : ndarray of shape (N,)
        Familiarity, likewise.
    least : float
        Familiarity below which an image is an outlier.
    groups : ndarray of shape (N,)
    """
    own = chances[np.arange(len(y)), np.searchsorted(names, y)]
    best = chances.max(axis=1)
    tested = ~np.isnan(own)

    def suspects(rows: Iterable[int], why: str) -> list[Suspect]:
        return [
            Suspect(
                paths[i], str(y[i]), str(names[chances[i].argmax()]), float(own[i]),
                float(best[i]), (why,),
            )
            if tested[i] else Suspect(paths[i], str(y[i]), None, None, None, (why,))
            for i in rows
        ]  # fmt: skip

    wrong = np.flatnonzero((own < config.DOUBTED) & (own < best))
    unlike = np.flatnonzero(known < least)
    return Review(
        len(y),
        int(tested.sum()),
        suspects(wrong[np.argsort(own[wrong], kind="stable")].tolist(), WRONG),
        [suspects(rows, COPY) for rows in _disputed(groups, y)],
        suspects(unlike[np.argsort(known[unlike], kind="stable")].tolist(), OUTLIER),
    )


def _disputed(groups: NDArray[np.int64], y: NDArray[Any]) -> Iterator[list[int]]:
    """Yield the rows of each group whose images have different labels."""
    for number in np.flatnonzero(np.bincount(groups) > 1):
        rows = np.flatnonzero(groups == number)
        if len(np.unique(y[rows])) > 1:
            yield rows.tolist()
