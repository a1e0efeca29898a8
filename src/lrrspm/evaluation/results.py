"""Result objects: what a test of a classifier found, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import confusion_matrix

if TYPE_CHECKING:
    from .certainty import Certainty
    from .groups import Groups
    from .mistakes import Mistake
    from .predictions import Prediction

GROUPED = 5.0
"""Classes are grouped where they are confused with each other this often, percent."""

# 97.5 % of a normal distribution lie below so many standard deviations.
_NORMAL = 1.96


@dataclass(frozen=True)
class Skipped:
    """An image that was left out."""

    path: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """Return ``path`` and ``reason``."""
        return {"path": self.path, "reason": self.reason}


@dataclass(frozen=True)
class LeftOut:
    """A channel that the training images of a split did not call for."""

    split: int
    descriptor: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return ``split``, ``descriptor`` and ``reason``."""
        return asdict(self)


class Split(NamedTuple):
    """Training and test images of one split, as places among the images that were not skipped."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


class ClassMetrics(NamedTuple):
    """How well one class is told from the others, over all splits together, percent."""

    recall: float
    """Right ones of the class's test images: the accuracy of the class."""
    precision: float
    """Right ones of the predictions of the class; 0 where there are none."""
    f1: float
    """``2 * precision * recall / (precision + recall)``."""
    tested: int
    """Test images."""


class ConfusedGroup(NamedTuple):
    """Classes that are confused with each other."""

    names: list[Any]
    share: float
    """Mean share of a class's images that were predicted as another of the group, percent."""


@dataclass
class Evaluation:
    """Accuracy of one classifier on one or several splits.

    Attributes
    ----------
    class_names : list of str
    confusions : list of ndarray of shape (n_classes, n_classes)
        Counts per split; rows are the true classes.
    images : int
        Images in all, training images included.
    seconds : dict of str to float
        Wall-clock seconds per stage.
    mistakes : list of Mistake
        The most confident ones, most confident first.
    skipped : list of Skipped
    parameters : dict
        Parameters of the classifier and of the protocol.
    kept_together : Groups or None
        Images that were kept on one side of every split.
    unknown : dict of str to int
        Images of each class that the model was not trained on; not tested.
    folds : int
        Folds of a cross-validation, which is one split here; 0 otherwise.
    certainty : Certainty or None
        How sure the predictions were.
    left_out : list of LeftOut
        See ``when`` of :class:`lrrspm.Channel`.
    predictions : list of Prediction
        One per test image and split.
    splits : list of Split
        Which images were trained with and tested, of :func:`lrrspm.evaluate`.
    """

    class_names: list[Any]
    confusions: list[NDArray[np.int64]]
    images: int
    seconds: dict[str, float] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    kept_together: Groups | None = None
    unknown: dict[str, int] = field(default_factory=dict)
    folds: int = 0
    certainty: Certainty | None = None
    left_out: list[LeftOut] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Counts over all splits, (n_classes, n_classes)."""
        return np.sum(self.confusions, axis=0)

    @property
    def accuracies(self) -> list[float]:
        """Mean of the per-class accuracies of each split, percent."""
        return [float(np.nanmean(class_accuracies(matrix))) for matrix in self.confusions]

    @property
    def mean(self) -> float:
        """Mean accuracy over the splits, percent."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float | None:
        """Standard deviation over the splits (n - 1); None for one split."""
        found = self.accuracies
        return float(np.std(found, ddof=1)) if len(found) > 1 else None

    @property
    def class_metrics(self) -> dict[Any, ClassMetrics]:
        """Recall, precision and F1 of each class that was tested."""
        counts = self.confusion
        right, tested, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
        values = zip(
            (100 * right / np.maximum(tested, 1)).tolist(),
            (100 * right / np.maximum(predicted, 1)).tolist(),
            (200 * right / np.maximum(tested + predicted, 1)).tolist(),
            tested.tolist(),
            strict=True,
        )
        found = zip(self.class_names, map(ClassMetrics._make, values), strict=True)
        return {name: metrics for name, metrics in found if metrics.tested}

    @property
    def per_class(self) -> dict[Any, float]:
        """Accuracy of each class that was tested, its recall, percent."""
        return {name: metrics.recall for name, metrics in self.class_metrics.items()}

    @property
    def precision(self) -> float:
        """Mean precision of the classes that were tested, percent."""
        return float(np.mean([metrics.precision for metrics in self.class_metrics.values()]))

    @property
    def f1(self) -> float:
        """Mean F1 of the classes that were tested, percent."""
        return float(np.mean([metrics.f1 for metrics in self.class_metrics.values()]))

    def confused_groups(self, least: float = GROUPED) -> list[ConfusedGroup]:
        """Return groups of classes that are confused with each other, most confused first.

        Of two classes, the share is the mean of the share of the first that was
        predicted as the second, and the reverse. Groups are joined, most confused
        first, as long as the mean share of their pairs is at least ``least`` percent.
        """
        tested = np.flatnonzero(self.confusion.sum(axis=1))
        if len(tested) < 2:
            return []
        counts = self.confusion[np.ix_(tested, tested)]
        shares = 100 * counts / self.confusion.sum(axis=1)[tested, None]
        mutual = (shares + shares.T) / 2
        np.fill_diagonal(mutual, 100)
        tree = linkage(squareform(100 - mutual, checks=False), "average")
        # Rounding must not part classes that are confused exactly as often as asked for.
        groups = fcluster(tree, 100 - least + 1e-9, "distance")
        found = []
        for number in np.unique(groups):
            members = np.flatnonzero(groups == number)
            if len(members) > 1:
                inside = shares[np.ix_(members, members)]
                share = (inside.sum() - np.trace(inside)) / len(members)
                names = [self.class_names[tested[i]] for i in members]
                found.append(ConfusedGroup(names, float(share)))
        return sorted(found, key=lambda group: -group.share)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean accuracy, percent, from the images of all splits.

        Of each class with n images, k of them right, (k + 1) / (n + 2) estimates
        the share: so a class that is always right has a variance, too. Folds of a
        cross-validation share their training images, for which the variance is
        multiplied by 1 + folds / (folds - 1) (Nadeau and Bengio, 2003).
        """
        counts = self.confusion.sum(axis=1)
        tested = counts > 0
        counts = counts[tested]
        share = (np.diag(self.confusion)[tested] + 1) / (counts + 2)
        variance = (share * (1 - share) / counts).sum()
        if self.folds > 1:
            variance *= 1 + self.folds / (self.folds - 1)
        return float(100 * np.sqrt(variance) / len(counts))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean accuracy, percent, of a normal distribution."""
        reach = _NORMAL * self.standard_error
        return max(0.0, self.mean - reach), min(100.0, self.mean + reach)

    def to_json(self) -> dict[str, Any]:
        """Return everything but images: accuracies, counts, seconds and parameters, for JSON."""
        return {
            "accuracy": {"mean": self.mean, "std": self.std, "splits": self.accuracies},
            "macro": {"recall": self.mean, "precision": self.precision, "f1": self.f1},
            "per_class": self.per_class,
            "class_metrics": {str(n): m._asdict() for n, m in self.class_metrics.items()},
            "confused_groups": [group._asdict() for group in self.confused_groups()],
            "confusion": self.confusion.tolist(),
            "seconds": self.seconds,
            "images": self.images,
            "classes": len(self.class_names),
            "class_names": self.class_names,
            **({"left_out": [one.to_json() for one in self.left_out]} if self.left_out else {}),
            **({"parameters": self.parameters} if self.parameters else {}),
            **({"kept_together": self.kept_together.to_json()} if self.kept_together else {}),
            **({"unknown_classes": self.unknown} if self.unknown else {}),
        }


def count_confusions(
    names: Sequence[Any] | NDArray[Any], truth: NDArray[Any], predicted: NDArray[Any]
) -> NDArray[np.int64]:
    """Count predictions per true class: rows the true classes, columns the predicted ones."""
    return confusion_matrix(truth, predicted, labels=np.asarray(names)).astype(np.int64)


def class_accuracies(confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """Percentage correct in each row; NaN for a class that was not tested."""
    with np.errstate(invalid="ignore"):
        return 100 * np.diag(confusion) / confusion.sum(axis=1)
