"""Reading ahead of a device: batches in order, errors, and threads that end."""

import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from lrrspm import ImageClassifier, find_images
from lrrspm._support.stages import Stages
from lrrspm.pipeline import devices, encode_images, map_vectors, open_engine, whole
from lrrspm.pipeline.chunks import Outcome

PIXELS = np.zeros((4, 4), np.float32)
LONG = 60  # seconds that only a failure takes


def outcomes(count, tell=lambda number: None):
    for number in range(count):
        tell(number)
        yield Outcome(number, [PIXELS], None, [0.0])


def numbers(batches):
    return [[one.number for one in batch] for batch in batches]


def reading_threads():
    return [one for one in threading.enumerate() if one.name.startswith("lrrspm-reading")]


@pytest.mark.parametrize("count", [0, 1, 6, 7])
def test_batches_in_order(count):
    expected = [list(range(start, min(start + 3, count))) for start in range(0, count, 3)]
    assert numbers(devices._read_ahead(outcomes(count), 3)) == expected
    assert not reading_threads()


def test_batches_of_few_bytes(monkeypatch):
    monkeypatch.setattr(devices, "BYTES", 2 * PIXELS.nbytes)
    assert numbers(devices._read_ahead(outcomes(5))) == [[0, 1], [2, 3], [4]]


def test_the_next_batch_is_read_while_one_is_computed():
    read = threading.Event()
    reached = []

    def tell(number):
        reached.append(number)
        if number == 5:
            read.set()

    with closing(devices._read_ahead(outcomes(100, tell), 3)) as batches:
        next(batches)
        assert read.wait(LONG)
        time.sleep(0.05)
        assert reached == list(range(6))  # and no further


def test_an_error_comes_after_the_batches_before_it():
    def fail(number):
        if number == 7:
            raise OSError("the disk is gone")

    batches = devices._read_ahead(outcomes(20, fail), 3)
    assert numbers([next(batches), next(batches)]) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
    assert not reading_threads()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_closing_stops_the_reading(error):
    made = []

    def source():
        try:
            for one in outcomes(1000, lambda number: time.sleep(0.01 * (number >= 200))):
                made.append(one.number)
                yield one
        finally:
            made.append("closed")

    def compute():
        with closing(devices._read_ahead(source(), 200)) as batches:
            for _ in batches:
                raise error

    with pytest.raises(error) as caught:
        compute()
    assert caught.tb is not None  # which holds the generators
    assert made[-1] == "closed"
    assert len(made) < 390  # in the midst of a batch
    assert not reading_threads()


def test_a_second_cancel_while_the_thread_still_reads(monkeypatch):
    """It arrives as what it is, although the generator of outcomes is still running."""
    begun, go = threading.Event(), threading.Event()

    def wait(number):
        if number == 6:
            begun.set()
            go.wait(10)

    threads = []

    def interrupted(thread, wait=True):
        threads.append(thread)
        raise KeyboardInterrupt

    batches = devices._read_ahead(outcomes(20, wait), 4)
    next(batches)
    assert begun.wait(10)
    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
        with pytest.raises(KeyboardInterrupt):
            batches.close()
    go.set()
    threads[0].shutdown()


@pytest.mark.parametrize("way", ["matrix", "stream"])
def test_a_cancelled_run_leaves_no_thread(way, image_folder, monkeypatch):
    """As Ctrl-C in the midst of the work; the traceback still holds what was under way."""
    pytest.importorskip("torch", reason="torch is not installed")
    paths, labels = find_images(image_folder)
    model = ImageClassifier(method="fast", n_samples=500, random_state=0, n_jobs=2)
    model.fit(paths, labels)
    monkeypatch.setattr(devices, "IMAGES", 4)

    def cancel(name, done, total):
        if done:
            raise KeyboardInterrupt

    def run(engine):
        if way == "matrix":
            encode_images([model.features_], paths * 20, engine, Stages(cancel))
        else:
            map_vectors(whole, model.features_, paths * 20, engine, Stages(cancel))

    with open_engine(2, None, "torch") as engine:
        with pytest.raises(KeyboardInterrupt) as caught:
            run(engine)
        assert not reading_threads()
    assert traceback.extract_tb(caught.tb)
