"""Engines: where chunks of images are computed."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import joblib

from .. import config
from .._support.parallel import ordered_map, workers
from ..gpu import check_device

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")

CHUNK = 8
"""Most images per chunk; chunks for other machines take seconds, see ``cluster.py``."""

AHEAD = 16
"""Most chunks under way or done before the next result is taken: what a kill may lose."""

ENGINES = ("threads", "processes")
"""Engines by name; others are the address of a Dask scheduler."""


class Engine(NamedTuple):
    """Executors of one run.

    Attributes
    ----------
    threads : Executor or None
        For loops over memory that they share; None runs them here.
    executor : Executor or None
        For chunks: threads, processes, a cluster, or anything else that runs picklable
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

    @property
    def remote(self) -> bool:
        """True where chunks may be computed on other machines, which read the images there."""
        return hasattr(self.executor, "map_chunks")

    def map_chunks(
        self,
        function: Callable[..., Sequence[R]],
        items: Sequence[T],
        *shared: object,
        first: int = CHUNK,
    ) -> Iterator[R]:
        """Apply ``function(*shared, chunk)`` to chunks of items; results one by one, in order.

        The function can be pickled, and so can what all chunks share; it reaches
        another machine once. ``first`` is the size of the first chunks there.
        """
        if self.remote:
            yield from self.executor.map_chunks(function, items, shared, first)  # type: ignore[union-attr]
            return
        # Small sets are cut finer, so that every worker has something to do.
        size = min(CHUNK, 1 + len(items) // 16)
        chunks = (items[start : start + size] for start in range(0, len(items), size))
        count = getattr(self.executor, "_max_workers", AHEAD)
        work = partial(function, *shared)
        try:
            for results in ordered_map(work, chunks, self.executor, min(AHEAD, 2 * count)):
                yield from results
        except BrokenExecutor:
            raise ChildProcessError(
                "a process that computed images died, most likely for want of memory; "
                "use fewer --jobs, or threads"
            ) from None

    def map_each(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Apply a function to each item: on other machines if they compute, else on threads."""
        if self.remote:
            return self.map_chunks(_apply, items, function)
        return ordered_map(function, items, self.threads)


def _apply(function: Callable[[T], R], chunk: Sequence[T]) -> list[R]:
    return [function(item) for item in chunk]


@contextmanager
def open_engine(
    n_jobs: int | None,
    engine: str | Executor | Client | None = None,
    device: str = config.DEVICE,
) -> Iterator[Engine]:
    """Open an engine of ``n_jobs`` threads, and what computes chunks.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: None is 1, -1 all cores.
    engine : str, Executor, distributed.Client or None
        "threads" (None), "processes" (``n_jobs`` of them), the address of a Dask
        scheduler as ``dask://host:port`` or ``tls://host:port``; or an executor or
        client of the caller, who closes it.
    device : str
        Raises :class:`lrrspm.gpu.DeviceError` for one that cannot be used.
    """
    if device != config.DEVICE:
        check_device(device)
    with workers(n_jobs) as threads, _opened(engine, n_jobs) as executor:
        yield Engine(threads, executor or threads, device)


@contextmanager
def _opened(
    engine: str | Executor | Client | None, n_jobs: int | None
) -> Iterator[Executor | None]:
    if engine is None or engine == "threads":
        yield None
    elif isinstance(engine, Executor):
        yield engine
    elif engine == "processes":
        # Spawned, since threads of ours may run; Ctrl-C is ours to handle.
        pool = ProcessPoolExecutor(
            joblib.effective_n_jobs(n_jobs),
            multiprocessing.get_context("spawn"),
            signal.signal,
            (signal.SIGINT, signal.SIG_IGN),
        )
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    else:
        from .cluster import open_cluster

        with open_cluster(engine) as cluster:
            yield cluster
