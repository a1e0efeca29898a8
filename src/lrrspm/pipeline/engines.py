"""Engines: where chunks of images are computed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import joblib

from .. import config
from .._support.parallel import ordered_map, workers
from ..gpu import check_device
from ..gpu.device import check_name, full_memory_explained, may_exist
from .chunks import compile_reading
from .handing import hand_over, handing_folder, receive

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")

CHUNK = 8
"""Most images per chunk; chunks for other machines take seconds, see ``cluster.py``."""

MANY = 1000
"""Images from which processes read for a device: threads of one do not keep up with it."""

WAITED_FOR = 5
"""Multiple of MANY from which starting processes pays off where images are only read."""

READING = 4
"""Chunks that threads read for a device at once: they take turns, and more get in each other's
way."""

AHEAD = 16
"""Most chunks under way or done before the next result is taken: what a kill may lose."""

ENGINES = ("threads", "processes")
"""Engines by name; others are the address of a Dask scheduler."""


class Engine(NamedTuple):
    """Executors of one run.

    Attributes
    ----------
    threads : Executor or None
        For loops over memory that they share; None runs them here. With a device, an
        :class:`lrrspm._support.devices.Accelerator`.
    executor : Executor or None
        For chunks: threads, processes, a cluster, or anything else that runs picklable
        functions. None runs them here.
    device : str
        Where vectors are computed: "cpu" for the executor, or a device of
        :mod:`lrrspm.gpu`.
    readers : callable or None
        Starts, once, the processes that chunks of many images go to in place of the
        executor, and returns them with the folder where they leave their arrays.
    """

    threads: Executor | None
    executor: Executor | None
    device: str = config.DEVICE
    readers: Callable[[], tuple[Executor, str]] | None = None

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
        most: int | None = None,
        reading: bool = False,
    ) -> Generator[R, None, None]:
        """Apply ``function(*shared, chunk)`` to chunks of items; results one by one, in order.

        The function can be pickled, and so can what all chunks share; it reaches
        another machine once. ``first`` is the size of the first chunks there, and
        ``most`` that of the largest. With ``reading``, images are only read, for a device.
        """
        if self.remote:
            yield from self.executor.map_chunks(function, items, shared, first, most)  # type: ignore[union-attr]
            return
        # Small sets are cut finer, so that every worker has something to do.
        size = min(CHUNK, 1 + len(items) // 16)
        chunks = (items[start : start + size] for start in range(0, len(items), size))
        executor = self.executor
        turns = reading and isinstance(executor, ThreadPoolExecutor)
        most_ahead = READING if turns else AHEAD
        work = partial(function, *shared)
        if self.readers is not None and self._reads_apart(items, shared, reading):
            executor, folder = self.readers()
            most_ahead = 4 * AHEAD
            work = partial(hand_over, folder, work)
        count = getattr(executor, "_max_workers", AHEAD)
        try:
            for results in ordered_map(work, chunks, executor, min(most_ahead, 2 * count)):
                yield from receive(results)
        except BrokenExecutor:
            raise ChildProcessError(
                "a process that computed images died, most likely because it ran out of memory: "
                "use fewer --jobs, or threads. A script that uses processes must keep its work "
                "under 'if __name__ == \"__main__\":', because each process runs the script first"
            ) from None

    def map_each(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Apply a function to each item: on other machines if they compute, else on threads."""
        if self.remote or self._reads_apart(items):
            return self.map_chunks(_apply, items, function)
        return ordered_map(function, items, self.threads)

    def _reads_apart(
        self, items: Sequence[object], shared: object = None, reading: bool = False
    ) -> bool:
        """True for many files beside a device; arrays are better left in this process.

        So is what a class of the caller's main module or of a function reads, which readers
        do not know.
        """
        if self.readers is None:
            return False
        started = getattr(self.readers, "cache_info", None)
        waited_for = reading and started is not None and not started().currsize
        if len(items) < (WAITED_FOR * MANY if waited_for else MANY):
            return False
        files = isinstance(getattr(items[0], "image", items[0]), (str, os.PathLike))
        try:
            return files and b"__main__" not in pickle.dumps(shared)
        except (pickle.PicklingError, AttributeError, TypeError):  # a class of a function
            return False


def _apply(function: Callable[[T], R], chunk: Sequence[T]) -> list[R]:
    return [function(item) for item in chunk]


def _begin_process(folder: str | None = None) -> None:
    """Leave Ctrl-C to the parent, and end with it, also if it is killed; then a folder ends too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Deaf(SpawnProcess):
    """A process that Ctrl-C does not reach, not even while it imports."""

    def start(self) -> None:
        if sys.platform == "win32":  # which has no signals to block
            super().start()
            return
        resource_tracker.ensure_running()  # to start it would let the signal through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Alone(_Deaf):
    """One that does not import the caller's main module, which may have no guard."""

    _starting: ClassVar[threading.Lock] = threading.Lock()

    def start(self) -> None:
        main = vars(sys.modules["__main__"])
        with self._starting:
            names = [name for name in ("__spec__", "__file__") if name in main]
            hidden: dict[str, Any] = {name: main[name] for name in names}
            try:
                main.update(dict.fromkeys(names))
                super().start()
            finally:
                main.update(hidden)


def _start(pool: Executor, count: int) -> None:
    """Start all processes of a pool; each takes longer than to hand in these tasks."""
    for _ in range(count):
        pool.submit(os.getpid)


class _DeafContext(SpawnContext):
    Process: ClassVar[Any] = _Deaf


class _AloneContext(SpawnContext):
    Process: ClassVar[Any] = _Alone


@contextmanager
def open_engine(
    n_jobs: int | None,
    engine: str | Executor | Client | Engine | None = None,
    device: str = config.DEVICE,
    n_images: int = 0,
) -> Iterator[Engine]:
    """Open an engine of ``n_jobs`` threads, and what computes chunks.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: None is 1, -1 all cores.
    engine : str, Executor, distributed.Client or None
        "threads" (None), "processes" (``n_jobs`` of them), the address of a Dask
        scheduler as ``dask://host:port`` or ``tls://host:port``; or an executor, client
        or engine of the caller, who closes it.
    device : str
        Raises :class:`lrrspm.gpu.DeviceError` for one that cannot be used.
    n_images : int
        How many files will be read: processes that read many start before the device.
    """
    if isinstance(engine, Engine):
        yield engine
        return
    if device == config.DEVICE:
        with workers(n_jobs) as threads, _opened(engine, n_jobs) as executor:
            yield Engine(threads, executor or threads)
        return
    check_name(device)
    with (
        ExitStack() as opened,
        workers(n_jobs) as threads,
        _opened(engine, n_jobs) as executor,
    ):

        @cache
        def readers() -> tuple[Executor, str]:
            folder = opened.enter_context(handing_folder())
            return opened.enter_context(_processes(n_jobs, _AloneContext(), folder)), folder

        apart = threads is not None and executor is None
        # They take seconds to start, as torch does to import.
        if apart and n_images >= MANY and may_exist(device):
            for _ in range(joblib.effective_n_jobs(n_jobs)):
                readers()[0].submit(compile_reading)
        beside = _beside(device, threads)
        with full_memory_explained(device):
            yield Engine(beside, executor or threads, device, readers if apart else None)


def _beside(device: str, threads: Executor | None) -> Executor:
    """Return threads with a device beside them."""
    name = check_device(device)
    from ..gpu.executor import DeviceThreads

    return DeviceThreads(threads, name)


@contextmanager
def _opened(
    engine: str | Executor | Client | None, n_jobs: int | None
) -> Iterator[Executor | None]:
    if engine is None or engine == "threads":
        yield None
    elif isinstance(engine, Executor):
        yield engine
    elif engine == "processes":
        with _processes(n_jobs, _DeafContext()) as pool:
            yield pool
    else:
        from .connecting import open_cluster

        with open_cluster(engine) as cluster:
            yield cluster


@contextmanager
def _processes(
    n_jobs: int | None, context: SpawnContext, folder: str | None = None
) -> Iterator[Executor]:
    """Open processes: spawned, since threads of ours may run; Ctrl-C is ours to handle."""
    count = joblib.effective_n_jobs(n_jobs)
    pool = ProcessPoolExecutor(count, context, _begin_process, (folder,))
    try:
        # By a thread, which Ctrl-C does not stop: nobody waits for a process that is half started.
        with ThreadPoolExecutor(1) as starter:
            starter.submit(_start, pool, count).result()
        yield pool
    finally:
        # Likewise: a process that is left alone while it starts would print a traceback.
        with ThreadPoolExecutor(1) as ender:
            ender.submit(pool.shutdown, wait=True, cancel_futures=True).result()
