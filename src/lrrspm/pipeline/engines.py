"""Engines: where chunks of images are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from .. import config
from .._support.parallel import ordered_map, workers

T = TypeVar("T")
R = TypeVar("R")

CHUNK = 8
"""Most images per chunk."""

AHEAD = 16
"""Most chunks under way or done before the next result is taken: what a kill may lose."""


class Engine(NamedTuple):
    """Executors of one run.

    Attributes
    ----------
    threads : Executor or None
        For loops over memory that they share; None runs them here.
    executor : Executor or None
        For chunks: threads, processes, or anything else that runs picklable
        functions. None runs them here.
    device : str
        Where vectors are computed: "cpu" for the executor, or a device of
        :mod:`lrrspm.gpu`.
    """

    threads: Executor | None
    executor: Executor | None
    device: str = config.DEVICE

    @property
    def on_device(self) -> bool:
        """True where vectors are computed by a device."""
        return self.device != config.DEVICE

    def map_chunks(
        self, function: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T]
    ) -> Iterator[R]:
        """Apply a picklable function to chunks of items; results one by one, in order."""
        # Small sets are cut finer, so that every worker has something to do.
        size = min(CHUNK, 1 + len(items) // 16)
        chunks = (items[start : start + size] for start in range(0, len(items), size))
        workers = getattr(self.executor, "_max_workers", AHEAD)
        for results in ordered_map(function, chunks, self.executor, min(AHEAD, 2 * workers)):
            yield from results


@contextmanager
def open_engine(
    n_jobs: int | None, executor: Executor | None = None, device: str = config.DEVICE
) -> Iterator[Engine]:
    """Open an engine of ``n_jobs`` threads; chunks go to ``executor`` if there is one.

    ``n_jobs`` is read as in scikit-learn: None is 1, -1 all cores. Raises
    :class:`lrrspm.gpu.DeviceError` for a device that cannot be used.
    """
    if device != config.DEVICE:
        from ..gpu import check_device

        check_device(device)
    with workers(n_jobs) as threads:
        yield Engine(threads, executor or threads, device)
