"""Devices beside the threads of a run: what loops may leave to them, without knowing which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Held(ABC):
    """Vectors (n, d) on a device; everything else is an array of NumPy."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Copy them to the host."""

    @abstractmethod
    def some(self, rows: NDArray[np.int64], columns: slice) -> Held:
        """Return some rows of some columns."""

    @abstractmethod
    def gram(self) -> NDArray[np.float32]:
        """Return X X', (n, n)."""

    @abstractmethod
    def weights(self, betas: NDArray[Any]) -> NDArray[np.float32]:
        """Return betas X, (classes, d), from coefficients (classes, n)."""

    @abstractmethod
    def scores(self, weights: NDArray[Any]) -> NDArray[np.float32]:
        """Return X W', (n, classes), from weights (classes, d)."""


class Nearest(NamedTuple):
    """Sums (k, m) and counts (k,) of the rows nearest to each center, and all squared distances.

    ``farthest`` returns so many rows, the farthest first, that differ from their centers.
    """

    sums: NDArray[np.float64]
    counts: NDArray[np.float64]
    total: float
    farthest: Callable[[int], NDArray[np.int64]]


class Clustered(Protocol):
    """Descriptors (n, m) that k-means asks for their nearest centers."""

    def __len__(self) -> int: ...

    def center(self) -> NDArray[np.float32]:
        """Subtract the mean (m,), and return it."""

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some rows."""

    def nearest(self, centers: NDArray[np.float32], executor: Executor | None) -> Nearest:
        """Assign every row to its nearest center."""


class Accelerator(Executor):
    """Threads, and a device beside them for large products."""

    @abstractmethod
    def hold(self, X: NDArray[Any]) -> Held | None:
        """Copy vectors (n, d) to the device, if there is room."""

    @abstractmethod
    def gram(self, X: NDArray[Any] | Held) -> NDArray[np.float32] | None:
        """Return X X' (n, n) of vectors here or there, if there is room."""

    @abstractmethod
    def make_room(self, n: int, d: int, dtype: Any) -> Any:
        """Return an empty :class:`Held` (n, d) whose ``append`` takes others.

        None if there is no room for it, or for its Gram matrix.
        """

    @abstractmethod
    def cluster(self, values: NDArray[np.float32], size: int) -> Clustered | None:
        """Copy descriptors (n, m) to the device, if ``size`` centers are worth it."""

    @abstractmethod
    def solve(
        self,
        gram: NDArray[Any],
        signs: NDArray[Any],
        costs: NDArray[np.float64],
        squared: bool,
        tol: float,
    ) -> tuple[NDArray[np.float64], int] | None:
        """Solve one-vs-rest problems of all classes, if the device can and has room.

        Returns coefficients (classes, n) and the number of iterations; see
        :class:`lrrspm.LinearSVM` for the problem. ``costs`` (n,) are C times the weights.
        """
