"""Work over many items on several threads, with the same bits for any number of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

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
        self._libraries: list[tuple[object, int]] | None = None

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            controllers = _blas_libraries()
            self._libraries = [(c, c.get_num_threads()) for c in controllers]  # type: ignore[attr-defined]
            for controller, threads in self._libraries:
                if threads != 1:
                    controller.set_num_threads(1)  # type: ignore[attr-defined]

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for controller, threads in self._libraries or ():
                    if threads != 1:
                        controller.set_num_threads(threads)  # type: ignore[attr-defined]


_found: list[object] | None = None


def _blas_libraries() -> list[object]:
    global _found
    if _found is None:
        # Both NumPy and SciPy bring a BLAS of their own.
        import scipy.linalg  # noqa: F401

        _found = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
    return _found


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
