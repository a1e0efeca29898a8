"""Dask: real schedulers and workers, as processes on this machine, and what may go wrong there."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from sklearn.base import clone

from lrrspm import ImageClassifier, LRREncoder, __version__, find_images, load_model
from lrrspm._support.shards import Shards
from lrrspm.cache import contents, makers
from lrrspm.encoders import learn_codebook
from lrrspm.encoders.kmeans import kmeans
from lrrspm.pipeline import cluster as module
from lrrspm.pipeline import members, open_engine
from lrrspm.pipeline.connecting import scheduler_address
from lrrspm.pipeline.versions import ClusterError, VersionError, check_identity

from .clusters import HERE, Cluster, die, square, take_all_memory

pytest.importorskip("distributed")
pytestmark = pytest.mark.network


@pytest.fixture
def two(dask_cluster):
    """The cluster, with at least two workers."""
    missing = 2 - len(dask_cluster.workers)
    if missing > 0:
        dask_cluster.start_workers(missing)
    return dask_cluster


def wait_for_notes(notes: Path, count: int) -> list[list[str]]:
    """Return the first results that workers note; not for ever, if there is no run at all."""
    deadline = time.monotonic() + 60
    while len(found := notes.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [line.split() for line in found]


def train(folder, target, engine):
    model = ImageClassifier(
        LRREncoder(codebook_size=8), n_samples=500, random_state=0, n_jobs=2, engine=engine
    )
    model.fit(*find_images(folder)).save(target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def test_the_same_model_from_threads_processes_and_workers(dask_cluster, image_folder, tmp_path):
    from distributed import Client

    target = tmp_path / "model"
    expected = train(image_folder, target, "threads")
    assert train(image_folder, target, "processes") == expected
    for count in (1, 1):  # one and two of them
        dask_cluster.start_workers(count)
        assert train(image_folder, target, dask_cluster.engine) == expected
    with Client(dask_cluster.address, set_as_default=False) as client:
        assert train(image_folder, target, client) == expected
        assert client.status == "running"  # it is the caller's
        assert clone(ImageClassifier(engine=client)).engine is client
    with pytest.raises(ClusterError, match="client is closed"):
        train(image_folder, target, client)


def test_the_same_model_with_a_store(two, image_folder, tmp_path):
    expected = train(image_folder, tmp_path / "model", "threads")
    model = ImageClassifier(
        LRREncoder(codebook_size=8), n_samples=500, random_state=0, n_jobs=2,
        engine=two.engine, cache=tmp_path / "store",
    )  # fmt: skip
    for _ in range(2):  # the second time everything is in the store
        model.fit(*find_images(image_folder)).save(tmp_path / "model")
        assert hashlib.sha256((tmp_path / "model").read_bytes()).hexdigest() == expected


class Info:
    """A client whose scheduler has 9 workers, and lists five unless asked for all."""

    def __init__(self, named):
        self.named = named

    def scheduler_info(self, **named):
        if not set(named) <= self.named:
            raise TypeError(named)
        most = 9 if named.get("n_workers") == -1 or not self.named else 5
        return {"workers": {f"tcp://{i}": {} for i in range(most)}}


@pytest.mark.parametrize("named", [set(), {"n_workers"}])
def test_all_workers_are_known(named):
    client: Any = Info(named)
    assert len(members.Members(client, "scheduler").all()) == 9


def test_a_killed_worker_is_replaced_and_its_chunk_counted_once(two, tmp_path):
    notes = tmp_path / "notes"
    notes.touch()

    def kill_one():
        busy = int(wait_for_notes(notes, 6)[-1][1])
        two.kill(next(worker for worker in two.workers if worker.pid == busy))

    killer = threading.Thread(target=kill_one)
    killer.start()
    with open_engine(1, two.engine) as engine:
        found = list(engine.map_chunks(square, range(40), str(notes), 0.05))
    killer.join()
    assert found == [number * number for number in range(40)]
    assert len(notes.read_text().splitlines()) > 40  # some were computed twice
    assert len(two.workers) == 1


def test_a_straggler_is_overtaken(two, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.4)
    monkeypatch.setattr(module, "SLOW", 1.0)
    monkeypatch.setattr(members, "SILENT", 2.0)
    notes = tmp_path / "notes"
    notes.touch()
    stopped = []

    def stop_one():
        stopped.append(int(wait_for_notes(notes, 1)[0][1]))
        os.kill(stopped[0], signal.SIGSTOP)

    stopper = threading.Thread(target=stop_one)
    stopper.start()
    try:
        with open_engine(1, two.engine) as engine:
            found = list(engine.map_chunks(square, range(12), str(notes), 0.2))
    finally:
        stopper.join()
        for worker in [worker for worker in two.workers if worker.pid in stopped]:
            two.kill(worker)
    assert found == [number * number for number in range(12)]


def test_a_worker_that_hangs_from_the_start_is_left_out(two, tmp_path, monkeypatch):
    monkeypatch.setattr(members, "SILENT", 1.5)
    (stopped,) = two.start_workers(1)
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        time.sleep(3)
        with open_engine(1, two.engine) as engine:
            found = list(engine.map_chunks(square, range(6), str(tmp_path / "notes"), 0.0))
    finally:
        two.kill(stopped)
    assert found == [number * number for number in range(6)]


def test_workers_that_do_not_answer_end_the_run(two, monkeypatch):
    stopped = list(two.workers)
    try:
        with open_engine(1, two.engine) as engine:
            everywhere: Any = getattr(engine.executor, "everywhere")  # noqa: B009
            assert len(everywhere(os.getpid)) >= 2
            for worker in stopped:
                os.kill(worker.pid, signal.SIGSTOP)
            monkeypatch.setattr(members, "ANSWER", 0.5)
            with pytest.raises(ClusterError, match="has not answered"):
                everywhere(os.getpid)
    finally:
        for worker in stopped:
            two.kill(worker)


def test_chunks_after_a_late_one_go_to_any_worker(two, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    monkeypatch.setattr(module, "SLOW", 1.0)
    while len(two.workers) > 1:
        two.kill(two.workers[-1])
    notes = tmp_path / "notes"
    with open_engine(1, two.engine) as engine:
        results = engine.map_chunks(square, range(40), str(notes), 0.1)
        found = [next(results)]  # of a chunk that takes 0.8 seconds
        two.start_workers(1)
        found += results
    assert found == [number * number for number in range(40)]
    assert len({line.split()[1] for line in notes.read_text().splitlines()}) == 2


def another_version(folder: Path, content: str = "__version__ = '0.0.1'\n") -> str:
    """Make another lrrspm, or none; returns the path to it."""
    (folder / "lrrspm").mkdir(parents=True)
    (folder / "lrrspm" / "__init__.py").write_text(content)
    return str(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [("__version__ = '0.0.1'\n", "lrrspm 0.0.1"), ("raise ImportError('none')", "no lrrspm")],
)
def test_a_scheduler_of_another_version_is_refused(tmp_path, content, said):
    path = another_version(tmp_path / "other", content)
    cluster = Cluster(tmp_path, PYTHONPATH=path)
    try:
        with pytest.raises(VersionError, match=rf"the scheduler has {said}.*{__version__}"):
            open_engine(1, cluster.engine).__enter__()
    finally:
        cluster.close()


def test_workers_of_another_version_are_refused(two, tmp_path):
    (worker,) = two.start_workers(1, PYTHONPATH=another_version(tmp_path))
    try:
        with pytest.raises(VersionError, match=r"0\.0\.1.*" + __version__):
            open_engine(1, two.engine).__enter__()
    finally:
        two.kill(worker)


def test_a_worker_of_another_version_that_joins_later_is_refused(two, tmp_path, monkeypatch):
    path, said = another_version(tmp_path), r"lrrspm 0\.0\.1.*" + __version__
    with open_engine(1, two.engine) as engine:
        (worker,) = two.start_workers(1, PYTHONPATH=path)
        try:
            monkeypatch.setattr(module, "RECOUNT", 0.0)
            with pytest.raises(VersionError, match=said):
                next(engine.map_chunks(square, range(40), str(tmp_path / "notes"), 0.0))
            assert not (tmp_path / "notes").exists()  # nothing was computed
        finally:
            two.kill(worker)


def test_an_error_of_a_worker_of_another_version_says_so(two, tmp_path, monkeypatch):
    path = another_version(tmp_path)
    for name, content in {
        "pipeline/worker": "def run_chunk(chunk): pass\n",
        "_support/shards": "class Shard: pass\n",  # else unpickling `square` ends the worker
    }.items():
        file = tmp_path / "lrrspm" / f"{name}.py"
        file.parent.mkdir()
        file.write_text(content)
        (file.parent / "__init__.py").touch()
    path = os.pathsep.join([path, str(HERE)])
    with open_engine(1, two.engine) as engine:
        count: Any = getattr(engine.executor, "_count")  # noqa: B009
        count()
        monkeypatch.setattr(module, "RECOUNT", 1e9)  # no other count finds the worker
        (worker,) = two.start_workers(1, PYTHONPATH=path)
        try:
            with pytest.raises(VersionError, match=r"lrrspm 0\.0\.1"):
                list(engine.map_chunks(square, range(400), str(tmp_path / "notes"), 0.05))
        finally:
            two.kill(worker)


def test_vectors_stay_on_the_workers_and_in_the_store(two, model_path, image_folder, tmp_path):
    paths = find_images(image_folder)[0]
    model = load_model(model_path)
    expected = model.decision_function(paths)
    model.set_params(engine=two.engine, cache=tmp_path / "store")
    np.testing.assert_array_equal(model.decision_function(paths), expected)
    kinds = {shelf["kind"]: shelf["arrays"] for shelf in contents(tmp_path / "store")}
    assert kinds["vectors"] == len(paths)
    np.testing.assert_array_equal(model.decision_function(paths), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_no_room_on_a_worker(two, model_path, image_folder, tmp_path):
    paths = find_images(image_folder)[0]
    model = load_model(model_path)
    expected = model.decision_function(paths)
    model.set_params(engine=two.engine, cache=tmp_path / "store")
    workers = [psutil.Process(worker.pid) for worker in two.workers]
    before = workers[0].rlimit(psutil.RLIMIT_FSIZE)
    try:
        for worker in workers:  # a shard would be larger
            worker.rlimit(psutil.RLIMIT_FSIZE, (20_000, before[1]))
        with pytest.warns(UserWarning, match=r"on a worker: .*cannot write") as said:
            np.testing.assert_array_equal(model.decision_function(paths), expected)
        assert sum("cannot write" in str(one.message) for one in said) == 1
    finally:
        for worker in workers:
            worker.rlimit(psutil.RLIMIT_FSIZE, before)


def test_workers_with_other_sources_are_refused():
    expected, found = ("1.0", "a" * 64), {"lrrspm": "1.0", "sources": "b" * 64}
    with pytest.raises(VersionError, match=r"other source files of lrrspm 1\.0 \(bbbbbbbbbb\)"):
        check_identity(expected, found, "worker w")


def test_workers_learn_a_codebook_from_shards(two, tmp_path):
    X = np.random.default_rng(0).random((20_000, 3), np.float32)
    with (
        Shards(len(X), 3, np.float32, tmp_path, rows=8192) as shards,
        open_engine(1, two.engine) as engine,
    ):
        shards.append(X)
        found = kmeans(shards, 10, 0, engine.executor)
    np.testing.assert_array_equal(found, learn_codebook(X, 10, random_state=0))


def test_workers_that_differ_are_warned_of(two, monkeypatch):
    ours = dict(makers(), numpy="0.1")
    monkeypatch.setattr(members, "makers", lambda: ours)
    with pytest.warns(UserWarning, match="numpy"), open_engine(1, two.engine):
        pass


def test_no_memory(two, dask_cluster):
    with open_engine(1, two.engine) as engine:
        with pytest.raises(ClusterError, match=r"ran out of memory at .*memory-limit"):
            list(engine.map_chunks(take_all_memory, range(4)))
        with pytest.raises(ClusterError, match=r"memory-limit"):
            list(engine.map_chunks(die, range(1)))
    for worker in list(dask_cluster.workers):
        worker.wait(20)
        dask_cluster.workers.remove(worker)


def test_without_a_scheduler_or_workers(dask_cluster, monkeypatch):
    for worker in list(dask_cluster.workers):
        dask_cluster.kill(worker)
    monkeypatch.setattr(module, "CONNECT", 0.5)
    with pytest.raises(ClusterError, match="dask worker"):
        open_engine(1, dask_cluster.engine).__enter__()
    with pytest.raises(ClusterError, match="no Dask scheduler answers"):
        open_engine(1, "dask://127.0.0.1:9").__enter__()
    with pytest.raises(ClusterError, match="needs certificates"):
        open_engine(1, "tls://127.0.0.1:9").__enter__()


def test_addresses():
    assert scheduler_address("dask://head") == "tcp://head:8786"
    assert scheduler_address("tls://head:1/") == "tls://head:1"
    for wrong in ("dask", "dask://", "http://head:1"):
        with pytest.raises(ValueError, match="expected threads, processes"):
            scheduler_address(wrong)
    with pytest.raises(TypeError, match="got int"):
        open_engine(1, 5).__enter__()  # type: ignore[arg-type]


def test_the_command_line(two, model_path, image_folder, tmp_path):
    lost = tmp_path / "lost.png"  # a file that was there when the list was made
    # Workers have another working directory.
    names = [os.path.relpath(path, image_folder) for path in find_images(image_folder)[0][:4]]
    paths = [*names, str(lost)]
    found = []
    for engine in (two.engine, "threads"):
        command = [sys.executable, "-m", "lrrspm", "predict", str(model_path), *paths, "--csv"]
        found.append(
            subprocess.run(
                [*command, "--engine", engine],
                capture_output=True,
                text=True,
                check=False,
                cwd=image_folder,
            )
        )
    assert [one.returncode for one in found] == [3, 3], [one.stderr for one in found]
    assert found[0].stdout == found[1].stdout
    assert "no such file" in found[0].stdout
    wrong = [sys.executable, "-m", "lrrspm", "predict", "m", "i", "--engine", "spark"]
    assert subprocess.run(wrong, capture_output=True, check=False).returncode == 2
    assert Path(image_folder, paths[0]).exists()
