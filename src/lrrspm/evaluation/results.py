"""Result objects: what a test of a classifier found, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

if TYPE_CHECKING:
    from .mistakes import Mistake

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
    """

    class_names: list[Any]
    confusions: list[NDArray[np.int64]]
    images: int
    seconds: dict[str, float] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

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
    def per_class(self) -> dict[Any, float]:
        """Mean accuracy of each class that was tested, percent."""
        tested = self.confusions[0].sum(axis=1) > 0
        hits = np.array([class_accuracies(matrix)[tested] for matrix in self.confusions])
        names = [name for name, known in zip(self.class_names, tested, strict=True) if known]
        return dict(zip(names, hits.mean(axis=0).tolist(), strict=True))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean accuracy, percent, from the images of all splits.

        Of each class with n images, k of them right, (k + 1) / (n + 2) estimates
        the share: so a class that is always right has a variance, too.
        """
        counts = self.confusion.sum(axis=1)
        tested = counts > 0
        counts = counts[tested]
        share = (np.diag(self.confusion)[tested] + 1) / (counts + 2)
        return float(100 * np.sqrt((share * (1 - share) / counts).sum()) / len(counts))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean accuracy, percent, of a normal distribution."""
        reach = _NORMAL * self.standard_error
        return max(0.0, self.mean - reach), min(100.0, self.mean + reach)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the mistakes and the skipped images, as JSON takes it."""
        return {
            "accuracy": {"mean": self.mean, "std": self.std, "splits": self.accuracies},
            "per_class": self.per_class,
            "confusion": self.confusion.tolist(),
            "seconds": self.seconds,
            "images": self.images,
            "classes": len(self.class_names),
            "class_names": self.class_names,
            **({"parameters": self.parameters} if self.parameters else {}),
        }


def count_confusions(
    names: Sequence[Any] | NDArray[Any], truth: NDArray[Any], predicted: NDArray[Any]
) -> NDArray[np.int64]:
    """Count predictions per true class: rows the true classes, columns the predicted ones."""
    return confusion_matrix(truth, predicted, labels=np.asarray(names)).astype(np.int64)


def class_accuracies(confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """Percent right of each row; NaN for a class that was not tested."""
    with np.errstate(invalid="ignore"):
        return 100 * np.diag(confusion) / confusion.sum(axis=1)
