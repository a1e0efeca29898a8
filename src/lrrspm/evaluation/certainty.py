"""Certainty: how sure a classifier was of each test image, and how often it was right.

What answering only some images means is told as the accuracy is: each class counts the
same, however many images it has. How well probabilities are calibrated is a matter of
single images.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config
from ..classifier import ImageClassifier
from ..svm import score_columns

BINS = 15
"""Bins of the probabilities in :attr:`Certainty.bins`."""


class Bin(NamedTuple):
    """Test images whose predicted classes had similar probabilities."""

    n_images: int
    probability: float
    """Mean, from 0 to 1."""
    right: float
    """Share of the predictions that were right, from 0 to 1."""


class Certainty(NamedTuple):
    """Probabilities of the predicted classes of n test images, all splits together."""

    probabilities: NDArray[np.float64]
    """(n,)"""
    right: NDArray[np.bool_]
    """True where the prediction was right, (n,)."""
    calibrated: bool
    """False if only the order of the probabilities means something."""
    familiar: NDArray[np.bool_]
    """False where an image is never answered, being unlike the training images, (n,)."""
    classes: NDArray[np.int64]
    """Number of each image's own class, (n,)."""

    @property
    def confidences(self) -> NDArray[np.float64]:
        """Largest minimum confidence at which each image is answered, (n,)."""
        return np.where(self.familiar, self.probabilities, 0.0)

    def coverage(self) -> list[dict[str, float | None]]:
        r"""List what answering only from some confidence on would mean.

        .. math:: a = \frac1C \sum_c \frac{a_c}{n_c}, \qquad
                  r = \sum_c \frac{r_c}{n_c} \Big/ \sum_c \frac{a_c}{n_c}

        with a_c answers, r_c of them right, to the n_c images of each of C classes.

        Returns
        -------
        list of dict
            For each ``confidence``, percent of images ``answered``, and percent of these
            that are ``right``, None where there are none.
        """
        rows: list[dict[str, float | None]] = []
        for least in config.CONFIDENCES:
            answered = self.confidences >= least
            share = self._mean(answered)
            right = 100 * (self._mean(answered & self.right) / share) if share else None
            rows.append({"confidence": least, "answered": 100 * share, "right": right})
        return rows

    def _mean(self, chosen: NDArray[np.bool_]) -> float:
        """Return the mean over the classes of the share of images that are chosen (n,)."""
        totals = np.bincount(self.classes)
        found = np.bincount(self.classes[chosen], minlength=len(totals))
        return float((found[totals > 0] / totals[totals > 0]).mean())

    def risks(self, least: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what answering only the surest images would mean, each class counting the same.

        Parameters
        ----------
        least : int
            Leave out what rests on fewer answers, if there are as many images.

        Returns
        -------
        coverage : ndarray of shape (m,)
            Share of images answered, rising to 1. Images of the same probability
            are answered together, those that are not familiar last.
        risk : ndarray of shape (m,)
            Share of these answers that were wrong.
        """
        order = np.argsort(-self.confidences, kind="stable")
        ends = np.flatnonzero(np.diff(self.confidences[order], append=-1))
        ends = ends[ends + 1 >= min(least, len(order))]
        weights = 1 / np.bincount(self.classes)[self.classes[order]]
        answered = np.cumsum(weights)
        wrong = np.cumsum(weights * ~self.right[order])
        return answered[ends] / answered[-1], wrong[ends] / answered[ends]

    def bins(self) -> list[Bin]:
        """Return :data:`BINS` equal intervals of probability, empty ones left out."""
        places = np.minimum((self.probabilities * BINS).astype(np.int64), BINS - 1)
        rows = [places == place for place in np.unique(places)]
        return [
            Bin(
                int(row.sum()), float(self.probabilities[row].mean()), float(self.right[row].mean())
            )
            for row in rows
        ]

    @property
    def calibration_error(self) -> float:
        """Mean distance of probability and share right over the bins, weighted by images."""
        found = self.bins()
        off = sum(one.n_images * abs(one.probability - one.right) for one in found)
        return off / len(self.right)


def measure_certainty(
    model: ImageClassifier, scores: NDArray[Any], truth: NDArray[np.int64]
) -> Certainty:
    """Compare a model's scores of test images with the images' classes.

    Parameters
    ----------
    model : ImageClassifier
    scores : ndarray of shape (n, n_classes), or (n,) for two classes
    truth : ndarray of shape (n,)
        Number of each image's class.
    """
    columns = score_columns(scores)
    chances = model.probabilities(columns).max(axis=1)
    return Certainty(
        chances,
        columns.argmax(axis=1) == truth,
        model.temperature_ is not None,
        model.is_known(columns, 0.0),
        truth,
    )


def join(parts: list[Certainty]) -> Certainty | None:
    """Join the certainties of several splits; None if there are none."""
    if not parts:
        return None
    return Certainty(
        np.concatenate([part.probabilities for part in parts]),
        np.concatenate([part.right for part in parts]),
        all(part.calibrated for part in parts),
        np.concatenate([part.familiar for part in parts]),
        np.concatenate([part.classes for part in parts]),
    )
