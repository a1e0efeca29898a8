"""The executor of a run on a device: its threads, and the products that the device computes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._support.devices import Accelerator, Held
from .clustering import DeviceRows
from .machines import DeviceMatrix, gram_bytes, solve_hinge, solve_squared

LEAST_CLUSTERED = 2**28
"""Products n k m from which k-means runs on the device. Of less, codebooks keep their bits."""
_MEMORY = 0.4
"""Share of the device's memory that may be asked for at once: for vectors, and for systems.

Of all its memory, so that the same device gives the same bits whatever else runs on it.
"""
_CPU_MEMORY = 2**31
_TOGETHER = 16
"""Most classes whose systems are solved together."""


class DeviceThreads(Accelerator):
    """Threads beside a device.

    Parameters
    ----------
    threads : Executor or None
        None runs work here.
    device : str
        Name of a device of torch.
    """

    def __init__(self, threads: Executor | None, device: str) -> None:
        self._threads, self._device = threads, device
        self._max_workers: int = getattr(threads, "_max_workers", 1)
        self._held: tuple[weakref.ref[NDArray[Any]], DeviceMatrix] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._threads is not None:
            return self._threads.submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future

    def hold(self, X: NDArray[Any]) -> Held | None:
        if not self.has_room(X.nbytes):
            return None
        if self._held is not None and self._held[0]() is X:
            return self._held[1]
        # Vectors that come next are others, most often; a Gram matrix and weights are of the same.
        self._held = None
        matrix = DeviceMatrix.of(torch.from_numpy(np.ascontiguousarray(X)).to(self._device))
        self._held = weakref.ref(X, self._forget), matrix
        return matrix

    def _forget(self, _: object) -> None:
        self._held = None

    def gram(self, X: NDArray[Any] | Held) -> NDArray[np.float32] | None:
        if not self.has_room(gram_bytes(X.shape[0])):
            return None
        held = X if isinstance(X, Held) else self.hold(X)
        return None if held is None else held.gram()

    def cluster(self, values: NDArray[np.float32], size: int) -> DeviceRows | None:
        if values.size * size < LEAST_CLUSTERED or not self.has_room(5 * values.nbytes):
            return None
        return DeviceRows(values, self._device)

    def solve(
        self,
        gram: NDArray[Any],
        signs: NDArray[Any],
        costs: NDArray[np.float64],
        squared: bool,
        tol: float,
    ) -> tuple[NDArray[np.float64], int] | None:
        used = np.flatnonzero(costs)
        square = 8 * len(used) ** 2
        if not self.has_room(5 * square):
            return None
        at_once = _TOGETHER
        while at_once > 1 and not self.has_room((3 * at_once + 2) * square):
            at_once //= 2
        rows = torch.from_numpy(used).to(self._device)
        everything = torch.from_numpy(gram).to(self._device)
        small = (
            everything.double() if len(used) == len(gram) else everything[rows][:, rows].double()
        )
        y, c = (
            torch.as_tensor(part, dtype=torch.float64, device=self._device)
            for part in (signs[:, used], costs[used])
        )
        try:
            if squared:
                found, steps = solve_squared(small, y, c)
            else:
                found, steps = solve_hinge(small, y, c, tol, at_once)
        except torch.linalg.LinAlgError:  # a large C, and more samples than dimensions
            return None
        betas = np.zeros(signs.shape)
        betas[:, used] = found.cpu().numpy()
        return betas, steps

    def has_room(self, nbytes: int) -> bool:
        """True if so many bytes may be taken on the device."""
        if self._device == "cpu":
            return nbytes <= _CPU_MEMORY
        memory = torch.cuda.get_device_properties(self._device).total_memory
        return bool(nbytes <= _MEMORY * memory)

    def make_room(self, n: int, d: int, dtype: Any) -> DeviceMatrix | None:
        """Return an empty matrix (n, d) on the device, if there is room for it and its products."""
        needed = n * d * np.dtype(dtype).itemsize, gram_bytes(n)
        if not all(map(self.has_room, needed)):
            return None
        return DeviceMatrix(n, d, dtype, self._device)
