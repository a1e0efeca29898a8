"""Work over many items on several threads, with the same bits for any number of them."""

from __future__ import annotations

import importlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class _BlasLimit:
    """Holds every BLAS to one thread while anybody is inside.

    Looking for the libraries takes milliseconds, so it is done once; a count
    of those inside makes it safe to enter from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._libraries: list[Any] | None = None
        self._threads: list[int] = []

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._libraries is None:
                    self._libraries = _find_blas()
                self._threads = [library.get_num_threads() for library in self._libraries]
                self._set([1] * len(self._threads))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._set(self._threads)

    def _set(self, wanted: list[int]) -> None:
        for library, threads in zip(self._libraries or (), wanted, strict=True):
            # threadpoolctl lets only the thread that set a limit first change
            # it. Ours may enter on one thread and leave on another.
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)
            library.set_num_threads(threads)
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread()


def _find_blas() -> list[Any]:
    """Controllers of the BLAS libraries; NumPy and SciPy bring one each."""
    importlib.import_module("scipy.linalg")
    found = ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


_limit = _BlasLimit()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread.

    A product split over threads is summed in another order, so its last bits
    would depend on the machine; and our threads already use every core.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@contextmanager
def workers(n_jobs: int | None) -> Iterator[Executor | None]:
    """An executor of n_jobs threads, or None when one thread will do.

    ``n_jobs`` is read as in scikit-learn: None is 1, -1 all cores.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; None is one thread, -1 all cores")
    count = joblib.effective_n_jobs(n_jobs)
    with single_blas_thread():
        if count == 1:
            yield None
            return
        executor = ThreadPoolExecutor(count, thread_name_prefix="lrrspm")
        try:
            yield executor
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def ordered_map(
    function: Callable[[T], R], items: Iterable[T], executor: Executor | None, ahead: int = 64
) -> Iterator[R]:
    """``map(function, items)`` on an executor: results in order, few of them waiting."""
    if executor is None:
        yield from map(function, items)
        return
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(executor.submit(function, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
