"""Engines: threads, processes or none compute the same bits."""

import multiprocessing
import signal
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from lrrspm import (
    SIFT,
    Channel,
    ImageClassifier,
    LLCEncoder,
    LRREncoder,
    SpatialPyramidFeatures,
    evaluate,
    find_images,
)
from lrrspm._support.stages import Stages
from lrrspm.images import ImageError
from lrrspm.pipeline import Engine, encode_images, fit_features, open_engine
from lrrspm.pipeline.engines import CHUNK, _AloneContext, _processes

from .clusters import die


def small():
    channels = [
        Channel(LRREncoder(codebook_size=4)),
        Channel(LLCEncoder(codebook_size=6), SIFT(step=9), weight=2),
    ]
    return SpatialPyramidFeatures(channels, n_samples=500, random_state=0)


@pytest.fixture(scope="module")
def processes():
    """Two processes; spawned, since threads of ours may run when they start."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


def fit_and_encode(engine, paths, skip=False):
    features = small()
    fit_features([features], paths, [np.arange(len(paths))], engine, Stages())
    return features, encode_images([features], paths, engine, Stages(), skip)


def test_processes_threads_and_none_give_the_same_bits(image_folder, processes):
    paths = find_images(image_folder)[0]
    with open_engine(1) as alone, open_engine(3) as threads, open_engine(2, processes) as both:
        assert alone == Engine(None, None)
        assert threads.executor is threads.threads
        assert both.executor is processes
        engines = [alone, threads, both, Engine(threads=None, executor=processes)]
        found = [fit_and_encode(engine, paths) for engine in engines]
    expected, vectors = small().fit(paths), small().fit(paths).transform(paths)
    for features, encoded in found:
        for ours, theirs in zip(features.channels_, expected.channels_, strict=True):
            np.testing.assert_array_equal(ours.encoder_.codebook_, theirs.encoder_.codebook_)
        np.testing.assert_array_equal(encoded.matrices[0], vectors)
        assert encoded.skipped == {}


def test_evaluation_on_processes(image_folder, processes):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(LRREncoder(codebook_size=4), n_samples=500, C=0.001)
    expected = evaluate(paths, labels, model, 3, 2)
    found = evaluate(paths, labels, model, 3, 2, engine=Engine(None, processes))
    np.testing.assert_array_equal(found.confusions, expected.confusions)


def test_errors_come_back_from_processes(image_folder, processes, tmp_path):
    paths = find_images(image_folder)[0]
    features = clone(small()).fit(paths)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not an image")
    engine = Engine(None, processes)
    with pytest.raises(ImageError, match=r"broken\.png: not an image"):
        encode_images([features], [*paths, str(broken)], engine, Stages())
    found = encode_images([features], [str(broken), *paths], engine, Stages(), skip=True)
    assert list(found.skipped) == [0]
    np.testing.assert_array_equal(found.matrices[0], features.transform(paths))


def test_a_process_that_dies(image_folder):
    with (
        open_engine(1, "processes") as engine,
        pytest.raises(ChildProcessError, match=r"fewer --jobs.*__main__"),
    ):
        list(engine.map_chunks(die, range(3)))


class Recording(Executor):
    """Runs what is submitted at once, and counts the items of each chunk."""

    def __init__(self):
        self.sizes = []

    def submit(self, function, /, *arguments, **named):
        self.sizes.append(len(arguments[0]))
        future: Future[list[int]] = Future()
        future.set_result(function(*arguments, **named))
        return future


@pytest.mark.parametrize(("count", "largest"), [(1, 1), (15, 1), (40, 3), (1000, CHUNK)])
def test_chunks(count, largest):
    """Small sets are cut finer, so that every worker has something to do."""
    recording = Recording()
    found = Engine(None, recording).map_chunks(lambda part: [2 * n for n in part], range(count))
    assert list(found) == [2 * n for n in range(count)]
    assert max(recording.sizes) == largest
    assert sum(recording.sizes) == count
    assert list(Engine(None, None).map_chunks(list, range(count))) == list(range(count))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signals to threads")
def test_processes_that_still_start_are_waited_for_when_interrupted():
    """Left alone, they would print tracebacks after the run."""

    main = threading.main_thread().ident
    others = multiprocessing.active_children()

    def work():
        with _processes(2, _AloneContext()):
            threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
        time.sleep(10)  # the interrupt may come after processes that start quickly

    interrupted = False
    for _ in range(3):  # an interrupt that falls into a finalizer is lost
        if not interrupted:
            try:
                work()
            except KeyboardInterrupt:
                interrupted = True
    assert interrupted
    assert set(multiprocessing.active_children()) <= set(others)
