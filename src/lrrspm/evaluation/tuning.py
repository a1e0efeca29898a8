"""Tuning: which preset, regions and penalty suit a folder, by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config, training
from .._support.stages import Stages
from ..cache import FeatureStore
from ..channels import scales_of
from ..classifier import ImageClassifier
from ..features import SpatialPyramidFeatures
from ..images import KeptImages
from ..methods import PRESETS, find_method
from ..pipeline import Engine, encode_images, fit_features, open_engine
from ..pooling import Level
from ..svm import LinearSVM, cross_scores, linear_gram, stratified_folds
from ..weighting import learn_weights
from .costs import Costs, Step
from .groups import Groups
from .results import Evaluation, Skipped, count_confusions
from .unreadable import without_unreadable

# Images whose vectors are computed once more, to measure how many per second there are.
_TIMED = 64
_LEAST_NORM = 1e-30


@dataclass(frozen=True)
class Candidate:
    """A preset with regions and a penalty, and how good it is.

    Attributes
    ----------
    method : str
    levels : tuple of int
        Cells along each side of each level, in all channels.
    C : float
    evaluation : Evaluation
        By cross-validation.
    images_per_second : float
        Of the preset, from file to vector.
    seconds : float
        What this candidate cost beyond those before it.
    """

    method: str
    levels: tuple[Level, ...]
    C: float
    evaluation: Evaluation
    images_per_second: float
    seconds: float

    @property
    def complexity(self) -> tuple[int, int, float]:
        """Order of simplicity: the preset's place, then the number of levels, then C."""
        return list(PRESETS).index(self.method), len(self.levels), self.C

    @property
    def own_levels(self) -> bool:
        """True if the levels are the preset's own."""
        return self.levels == _levels(self.method)

    def classifier(self, **parameters: Any) -> ImageClassifier:
        """Return an unfitted classifier; ``parameters`` are others than method, levels and C."""
        made = ImageClassifier(method=self.method, C=self.C, **parameters)
        if not self.own_levels:
            places = range(len(made.new_channels()))
            made.set_params(**{f"channels__{i}__levels": self.levels for i in places})
        return made

    def options(self) -> list[str]:
        """Return the options of ``lrrspm train`` that give this candidate."""
        levels = [] if self.own_levels else ["--levels", ",".join(map(str, self.levels))]
        return ["--method", self.method, "--C", f"{self.C:g}", *levels]

    def to_json(self) -> dict[str, Any]:
        """Return the values by name."""
        low, high = self.evaluation.interval
        return {
            "method": self.method,
            "levels": list(self.levels),
            "C": self.C,
            "accuracy": self.evaluation.mean,
            "low": low,
            "high": high,
            "standard_error": self.evaluation.standard_error,
            "images_per_second": self.images_per_second,
            "seconds": self.seconds,
        }


class LeftOut(NamedTuple):
    """A candidate that there was no time for."""

    method: str
    levels: tuple[Level, ...]
    C: float
    seconds: float
    """What it would have taken, after those before it."""
    budget: float
    """About the budget that it and those before it would have needed."""


@dataclass
class Tuning:
    """Candidates in the order they were tried, and those there was no time for.

    ``images`` of all images were used: as many as fit into memory.
    """

    candidates: list[Candidate]
    left_out: list[LeftOut]
    images: int
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def best(self) -> Candidate:
        """The most accurate candidate, the first of several."""
        return max(self.candidates, key=lambda one: one.evaluation.mean)

    @property
    def winner(self) -> Candidate:
        """The simplest candidate within one standard error of the most accurate one."""
        best = self.best.evaluation
        least = best.mean - best.standard_error
        near = (one for one in self.candidates if one.evaluation.mean >= least)
        return min(near, key=lambda one: one.complexity)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the skipped images, as JSON takes it."""
        return {
            "images": self.images,
            "candidates": [one.to_json() for one in self.candidates],
            "left_out": [one._asdict() for one in self.left_out],
            "winner": self.winner.to_json(),
        }


def tune(
    paths: Sequence[str],
    labels: Sequence[str],
    methods: Sequence[str] = tuple(PRESETS),
    penalties: Sequence[float] = config.PENALTIES,
    budget: float = config.BUDGET,
    seed: int = config.SEED,
    n_jobs: int | None = None,
    cache: Any = None,
    groups: Groups | None = None,
    stages: Stages | None = None,
    max_skipped: float = 0.0,
    device: str = config.DEVICE,
) -> Tuning:
    """Try presets, regions and penalties by cross-validation, with the folds of ``train``.

    Each preset's codebook and vectors are computed once. The vectors of fewer
    levels are parts of those of all, divided by their length again, and each
    penalty shares a Gram matrix, so these cost little.

    Parameters
    ----------
    paths, labels : sequences of N strings
    methods : sequence of str
        Presets; the first is tried whatever it takes.
    penalties : sequence of float
    budget : float
        Seconds. A candidate that would end later, going by what others took, is
        left out, but for the very first.
    seed, n_jobs, cache, device
        As ``random_state``, ``n_jobs``, ``cache`` and ``device`` of
        :class:`lrrspm.ImageClassifier`.
    groups, stages, max_skipped
        Those of :func:`lrrspm.evaluate`.

    Returns
    -------
    Tuning
    """
    stages, costs = stages or Stages(), Costs()
    all_labels = np.asarray(labels)
    every = np.arange(len(paths)) if groups is None else groups.numbers

    def search(used: NDArray[np.int64], skip: bool) -> tuple[Tuning | None, dict[int, str]]:
        y = all_labels[used]
        rows = _draw(y, _most_images(methods), seed)
        folds = stratified_folds(y[rows], seed, every[used[rows]])
        if folds.max() < 0:
            raise ValueError(
                "tuning needs two classes with two or more images each, near copies counted once"
            )
        found, owed = Tuning([], [], len(rows)), 0.0
        chosen = [paths[i] for i in used[rows]]
        with open_engine(n_jobs, None, device) as engine:
            trials = _Trials(chosen, y[rows], folds, seed, cache, engine, stages, skip, costs)
            plan = list(_plan(methods, penalties))
            before: Step | None = None
            for step in stages.track("tuning", plan, len(plan)):
                if found.candidates and costs.elapsed + costs.expect(step) > budget:
                    seconds = costs.expect(step, before)
                    owed += seconds
                    found.left_out.append(LeftOut(*step, seconds, costs.elapsed + owed))
                    before = step
                    continue
                candidate = trials.run(step)
                if candidate is None:
                    return None, {int(rows[i]): why for i, why in trials.skipped.items()}
                found.candidates.append(candidate)
                before = step
        return found, {}

    tuning, left_out = without_unreadable(search, paths, labels, max_skipped, stages)
    tuning.skipped = left_out
    return tuning


def _plan(methods: Sequence[str], penalties: Sequence[float]) -> Iterator[Step]:
    """Yield steps, those that share much one after another, defaults before others."""
    ordered = sorted(penalties, key=lambda C: abs(math.log(C / config.C)))
    for method in methods:
        levels = _levels(method)
        for count in range(len(levels), 0, -1):
            for C in ordered:
                yield Step(method, levels[:count], C)


class _Trials:
    """Tries candidates; the vectors and the Gram matrix of the last one are kept."""

    def __init__(
        self,
        paths: Sequence[str],
        y: NDArray[Any],
        folds: NDArray[np.int64],
        seed: int,
        cache: Any,
        engine: Engine,
        stages: Stages,
        skip: bool,
        costs: Costs,
    ) -> None:
        self._paths, self._y, self._folds, self._seed = paths, y, folds, seed
        self._store, self._engine, self._stages = FeatureStore(cache), engine, stages
        self._skip, self._costs = skip, costs
        self._last: Step | None = None
        self.skipped: dict[int, str] = {}
        """Images that cannot be read."""

    def run(self, step: Step) -> Candidate | None:
        """Try a candidate; None if images cannot be read."""
        begin = self._costs.elapsed
        new = self._last is None or step.method != self._last.method
        if new:
            with self._costs.timed("vectors"):
                self._encode(step.method)
            if self.skipped:
                return None
        with self._stages.timed("train"):
            if new or self._last is None or step.levels != self._last.levels:
                with self._costs.timed("gram"):
                    part = keep_levels(self._features, self._vectors, len(step.levels))
                    self._gram = linear_gram(part, self._engine.threads)
            with self._costs.timed("dual"):
                svm = LinearSVM(step.C, random_state=self._seed, loss=find_method(step.method).loss)
                scores = cross_scores(self._gram, self._y, self._folds, svm, self._engine.threads)
        self._last = step
        self._costs.tried(step)
        seconds = self._costs.elapsed - begin
        return Candidate(*step, self._evaluate(scores), self._rate, seconds)

    def _encode(self, method: str) -> None:
        """Compute codebook and vectors, and measure how many images per second there are."""
        classifier = ImageClassifier(method=method, random_state=self._seed)
        features = self._features = classifier.new_features()
        kept, everything = KeptImages(), np.arange(len(self._paths))
        self.skipped = fit_features(
            [features], self._paths, [everything], self._engine, self._stages, self._skip,
            self._store, kept, self._y,
        )  # fmt: skip
        if self.skipped:
            return
        kept.close()

        def inspect(_: int, vectors: list[NDArray[Any]]) -> None:
            learn_weights(features, vectors, self._y, everything, self._engine)

        encoded = encode_images(
            [features], self._paths, self._engine, self._stages, self._skip, self._store, kept,
            inspect,
        )  # fmt: skip
        self._vectors, self.skipped = encoded.matrices[0], encoded.skipped
        some = self._paths[:: -(-len(self._paths) // _TIMED)]
        again, begin = Stages(), self._costs.elapsed
        encode_images([features], some, self._engine, again, self._skip, FeatureStore(None))
        seconds = self._costs.elapsed - begin
        describing = again.seconds.get("describe", 0.0)
        self._costs.encoded(len(some) / len(self._paths), seconds, describing)
        self._rate = len(some) / seconds

    def _evaluate(self, scores: NDArray[np.float64]) -> Evaluation:
        names, truth = np.unique(self._y, return_inverse=True)
        tested, predicted = self._folds >= 0, scores.argmax(axis=1)
        counts = count_confusions(range(len(names)), truth[tested], predicted[tested])
        n_folds = int(self._folds.max()) + 1
        return Evaluation(names.tolist(), [counts], int(tested.sum()), folds=n_folds)


def keep_levels(
    features: SpatialPyramidFeatures, vectors: NDArray[Any], count: int
) -> NDArray[Any]:
    """Return the vectors that features with only their first levels would have, up to rounding.

    The weights of channels, and of the levels that are kept, stay as they are.

    Parameters
    ----------
    features : fitted SpatialPyramidFeatures
        Their poolings have the l2 norm, and treat levels alike, as those of the presets do.
    vectors : ndarray of shape (n, n_features)
    count : int
        Levels that are kept.
    """
    if count == len(features.channels_[0].levels):
        return vectors
    weights = [channel.weight for channel in features.channels_]
    kept = [weight[:count] if isinstance(weight, tuple) else weight for weight in weights]
    wanted = scales_of(kept, features.channels_)
    parts, start = [], 0
    for channel, scales, new in zip(features.channels_, features.scales, wanted, strict=True):
        columns = channel.level_columns[:count]
        part = vectors[:, start : start + columns[-1].stop].astype(np.float32)
        for here, scale in zip(columns, scales, strict=False):
            part[:, here] /= scale
        part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), _LEAST_NORM)
        for here, scale in zip(columns, new, strict=False):
            part[:, here] *= scale
        parts.append(part)
        start += channel.n_features
    return np.hstack(parts)


def _levels(method: str) -> tuple[Level, ...]:
    """Return the levels of a preset, which all its channels share."""
    levels: tuple[Level, ...] = find_method(method).channels()[0].levels
    return levels


def _most_images(methods: Sequence[str]) -> int:
    """Return how many images' vectors, and Gram matrix, fit into memory."""
    longest = max(
        sum(
            channel.expected_features * np.dtype(channel.pooling.precision).itemsize
            for channel in find_method(method).channels()
        )
        for method in methods
    )
    return int(min(training.MEMORY / longest, math.sqrt(training.MEMORY / 4)))


def _draw(y: NDArray[Any], most: int, seed: int) -> NDArray[np.int64]:
    """Draw about as many images as there may be, the same share of each class; sorted indices."""
    if len(y) <= most:
        return np.arange(len(y))
    rng = np.random.default_rng(seed)
    share = most / len(y)
    chosen = []
    for name in np.unique(y):
        rows = np.flatnonzero(y == name)
        chosen.append(rng.choice(rows, min(len(rows), max(2, int(share * len(rows)))), False))
    return np.sort(np.concatenate(chosen))
