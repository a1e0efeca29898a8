"""The seam: what every encoder is, and what codebook encoders share."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._support.estimators import BaseEstimator, FeatureNamesMixin, Tags, TransformerMixin
from .._support.parallel import single_blas_thread
from .kmeans import Progress, kmeans

BLOCK = 512
"""Descriptors encoded at a time: enough for the matrix product to run at full
speed, few enough for the codes to be still in cache when they are pooled."""


class Encoder(FeatureNamesMixin, TransformerMixin, BaseEstimator):
    """Base class of encoders.

    A subclass defines :meth:`learn_from`, :meth:`encode` and :attr:`n_atoms`,
    and lists in :attr:`derived` the fitted arrays that a model file keeps.
    """

    derived: ClassVar[dict[str, str]] = {}
    """Fitted arrays and their shapes in letters: k atoms, m descriptor values; other
    letters are sizes of the encoder's own."""

    pooled_by: ClassVar[str | None] = None
    """Registered name of the pooling that a channel uses unless it is given another."""

    uses_labels: ClassVar[bool] = False
    """True where ``fit`` and ``fit_on`` take y, the label of each descriptor's image."""

    @property
    def n_atoms(self) -> int:
        """Entries per code, k."""
        raise NotImplementedError

    def learn_from(
        self, X: NDArray[np.float32], executor: Executor | None, progress: Progress | None
    ) -> None:
        """Compute what ``derived`` names from descriptors X (n, m)."""
        raise NotImplementedError

    def encode(self, X: NDArray[np.float32], codes: NDArray[np.float32]) -> None:
        """Write the codes of a block X (n, m) into codes (n, k); X is not checked."""
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range."""

    def moments(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
        """Return share (k,), mean and standard deviation (k, m) of each atom, or None.

        None leaves it to the pooling to find them in the sample.
        """
        return None

    def ready(self) -> None:
        """Precompute the arrays that ``encode`` reads, after fitting or loading."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are always float32
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_atoms

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit to descriptors.

        Parameters
        ----------
        X : array of shape (n, m)
        y : ignored

        Returns
        -------
        self
        """
        return self.fit_on(X)

    def fit_on(
        self, X: ArrayLike, executor: Executor | None = None, progress: Progress | None = None
    ) -> Self:
        """``fit`` on the threads of an executor; the same bits for any number of them."""
        self.check_parameters()
        self.learn_from(validate_data(self, X, dtype=np.float32), executor, progress)
        self.ready()
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Encode descriptors.

        Parameters
        ----------
        X : array of shape (n, m)

        Returns
        -------
        ndarray of shape (n, k), float32
        """
        check_is_fitted(self)
        return self.encode_all(validate_data(self, X, dtype=np.float32, order="C", reset=False))

    def encode_all(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encode descriptors (n, m) a block at a time; returns (n, k)."""
        codes = np.empty((len(values), self.n_atoms), np.float32)
        with single_blas_thread():
            for start in range(0, len(values), BLOCK):
                rows = slice(start, start + BLOCK)
                self.encode(values[rows], codes[rows])
        return codes


class CodebookEncoder(Encoder):
    """Base class of encoders over a codebook; a subclass defines ``encode``."""

    codebook_size: int
    codebook: ArrayLike | None
    random_state: Any

    derived: ClassVar[dict[str, str]] = {"codebook_": "km"}
    codebook_: NDArray[Any]

    @property
    def n_atoms(self) -> int:
        """Atoms in the codebook, k."""
        return len(self.codebook_)

    @property
    def learns_codebook_alone(self) -> bool:
        """True where everything fitted follows from the codebook, not from the sample."""
        own = type(self)
        return own.learn_from is CodebookEncoder.learn_from and own.fit_on is Encoder.fit_on

    @property
    def shares_codebook(self) -> bool:
        """True where ``learn`` is k-means itself, so that encoders may share its result."""
        return type(self).learn is CodebookEncoder.learn

    def learn(
        self, X: NDArray[np.float32], executor: Executor | None, progress: Progress | None
    ) -> NDArray[np.float32]:
        """Learn a codebook (k, m) from descriptors X (n, m)."""
        return kmeans(X, self.codebook_size, self.random_state, executor, progress)

    def learn_from(
        self, X: NDArray[np.float32], executor: Executor | None, progress: Progress | None
    ) -> None:
        if self.codebook is None:
            self.codebook_ = self.learn(X, executor, progress)
        else:
            self.codebook_ = check_array(self.codebook, dtype=[np.float32, np.float64], copy=True)
            if self.codebook_.shape[1] != X.shape[1]:
                raise ValueError(
                    f"codebook has {self.codebook_.shape[1]} columns, X has {X.shape[1]}"
                )
        self._prepare()

    def check_parameters(self) -> None:
        if self.codebook is None and self.codebook_size < 1:
            raise ValueError(f"codebook_size must be at least 1, got {self.codebook_size}")

    def _prepare(self) -> None:
        """Compute the other arrays in ``derived`` from ``codebook_``."""
