"""Low-rank representation over atoms that belong to classes: supervised LrrSPM."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .. import config
from .._support.estimators import Tags
from .kmeans import Progress, kmeans
from .lrr import LRREncoder


class SupervisedLRREncoder(LRREncoder):
    r"""Low-rank representation over a codebook that is learned class by class.

    .. math:: D = (D_1, \dots, D_C), \qquad
              D_c = \arg\min_{D_c} \sum_{i:\, y_i = c} \min_{d \in D_c} \|x_i - d\|_2^2

    and the codes of :class:`lrrspm.LRREncoder` over D: every class has k / C atoms of
    its own (the first classes have one more where C does not divide k), so a code
    says which classes explain a descriptor.

    Parameters
    ----------
    codebook_size : int
        Number of atoms k, at least the number of classes C.
    regularization, threshold, normalize_codes
        See :class:`lrrspm.LRREncoder`.
    random_state : int, RandomState instance or None
        Seed of the codebooks.

    Attributes
    ----------
    codebook_ : ndarray of shape (k, m)
        Atoms of the first class, then those of the second, and so on.
    projection_, total_, n_features_in_
        See :class:`lrrspm.LRREncoder`.

    Notes
    -----
    The paper names supervision as future work and gives no formula. A descriptor has
    the label of its image. A class with fewer descriptors than atoms has as many atoms
    as descriptors, with a warning. Labels are used in ``fit`` alone.
    """

    uses_labels: ClassVar[bool] = True
    codebook: ArrayLike | None = None
    """Always learned: atoms from elsewhere have no classes."""

    def __init__(
        self,
        codebook_size: int = config.CODEBOOK_SIZE,
        regularization: float = config.REGULARIZATION,
        threshold: float = config.THRESHOLD,
        normalize_codes: bool = False,
        random_state: Any = None,
    ) -> None:
        self.codebook_size = codebook_size
        self.regularization = regularization
        self.threshold = threshold
        self.normalize_codes = normalize_codes
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit to descriptors X (n, m) and the labels y (n,) of their images."""
        return self.fit_on(X, y=y)

    def fit_on(
        self,
        X: ArrayLike,
        executor: Executor | None = None,
        progress: Progress | None = None,
        y: Any = None,
    ) -> Self:
        """``fit`` on the threads of an executor; the same bits for any number of them."""
        self.check_parameters()
        values, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self.codebook_: NDArray[Any] = self._learn_by_class(values, labels, executor, progress)
        self._prepare()
        self.ready()
        return self

    def _learn_by_class(
        self,
        values: NDArray[np.float32],
        labels: NDArray[Any],
        executor: Executor | None,
        progress: Progress | None,
    ) -> NDArray[np.float32]:
        """Learn the atoms of each class from its own descriptors."""
        classes, members = np.unique(labels, return_inverse=True)
        if self.codebook_size < len(classes):
            raise ValueError(
                f"codebook_size must be at least {len(classes)}, the number of classes, "
                f"got {self.codebook_size}"
            )
        share, more = divmod(self.codebook_size, len(classes))
        seeds = check_random_state(self.random_state).randint(2**31, size=len(classes))
        parts = []
        for number, seed in enumerate(seeds):
            own = values[members == number]
            parts.append(kmeans(own, share + (number < more), int(seed), executor))
            if progress is not None:
                progress(number + 1, len(classes))
        return np.concatenate(parts)
