import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lrrspm._support.parallel import ordered_map, single_blas_thread, workers


def blas_threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_no_threads_at_all():
    with pytest.raises(ValueError, match="n_jobs must not be 0; None is one thread"), workers(0):
        pass


def test_blas_is_held_to_one_thread_and_let_go():
    with threadpool_limits(2, "blas"):
        with single_blas_thread():
            assert blas_threads() == {1}
            with single_blas_thread():
                pass
            assert blas_threads() == {1}
        assert blas_threads() == {2}


def test_blas_limit_from_several_threads():
    inside, left = threading.Barrier(2), threading.Event()

    def first():
        with single_blas_thread():
            inside.wait()
            left.wait()
            return blas_threads()

    def second():
        with single_blas_thread():
            inside.wait()
        left.set()

    with threadpool_limits(2, "blas"), ThreadPoolExecutor(2) as executor:
        found = executor.submit(first)
        executor.submit(second)
        assert found.result() == {1}
        assert blas_threads() == {2}


@pytest.mark.parametrize("n_jobs", [None, 1, 3])
def test_results_keep_their_order(n_jobs):
    done = [threading.Event() for _ in range(200)]

    def work(i):
        if n_jobs == 3 and i % 3 == 0:  # let the next one finish first
            done[i + 1].wait()
        done[i].set()
        return i * i

    with workers(n_jobs) as executor:
        assert (executor is None) == (n_jobs in (None, 1))
        assert list(ordered_map(work, range(200), executor, ahead=5)) == [i * i for i in range(200)]


def test_few_results_wait():
    started = []

    def work(i):
        started.append(i)
        return i

    with workers(2) as executor:
        results = ordered_map(work, range(1000), executor, ahead=8)
        next(results)
        assert executor is not None
        executor.shutdown()  # after all that was submitted
        assert len(started) <= 8


def test_an_error_ends_the_work():
    started = []

    def work(i):
        started.append(i)
        if i == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"), workers(2) as executor:
        list(ordered_map(work, range(10_000), executor, ahead=4))
    assert len(started) < 100
