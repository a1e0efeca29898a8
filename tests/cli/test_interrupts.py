"""Runs that are killed, stopped, or have nowhere to write to."""

import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lrrspm import find_images
from lrrspm.cache.store import SHARD, contents
from lrrspm.cli import app
from lrrspm.descriptors.sift import dense_sift
from lrrspm.report.draw import draw_predictions
from tests.conftest import hear_ctrl_c

JOBS = 2
QUICK = ["--codebook-size", "8", "--step", "12", "--jobs", str(JOBS)]
SMALL = ["--no-estimate", *QUICK]


def train(folder, output, cache, log, shard, options):
    """``lrrspm train``; every vector that is computed adds a byte to log."""
    import lrrspm.cache.store
    from lrrspm.features import SpatialPyramidFeatures

    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    lrrspm.cache.store.SHARD = shard
    counter = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    compute = SpatialPyramidFeatures.vector

    def counted(self, descriptors):
        vector = compute(self, descriptors)
        os.write(counter, b".")
        return vector

    SpatialPyramidFeatures.vector = counted  # type: ignore[method-assign]
    app(["train", str(folder), "-o", str(output), "--cache", str(cache), *options])


class Trainer:
    """Starts ``train`` in processes that have the libraries loaded already."""

    def __init__(self, folder, place, shard, estimate=False):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["lrrspm.evaluation.protocol", "lrrspm.cli"])
        self.folder, self.place, self.shard = folder, place, shard
        self.options = QUICK if estimate else SMALL
        self.models = 2 if estimate else 1
        self.vectors = self.models * len(find_images(folder)[0])

    def start(self, name, cache=None):
        """A run with an output, a log and a store of that name."""
        output, log, own = (self.place / f"{name}.{kind}" for kind in ("model", "log", "cache"))
        arguments = (self.folder, output, cache or own, log, self.shard, self.options)
        process = self._context.Process(target=train, args=arguments)
        process.start()
        return process

    def finish(self, name, process=None):
        """Wait for a run, and for how its model came out."""
        process = process or self.start(name)
        process.join()
        assert process.exitcode == 0
        return hashlib.sha256((self.place / f"{name}.model").read_bytes()).hexdigest()

    def wait_for(self, vectors, name, process):
        """Wait until so many vectors have been computed."""
        while self.computed(name) < vectors and process.is_alive():
            time.sleep(0.001)

    def computed(self, name):
        log = self.place / f"{name}.log"
        return log.stat().st_size if log.exists() else 0


def kill_at_random_moments(trainer, kills, seed=0):
    """Kill runs, let the next ones end; returns how much was done when they were killed."""
    trainer.finish("first")  # whatever is compiled and loaded once
    start = time.perf_counter()
    expected = trainer.finish("whole")
    duration = time.perf_counter() - start
    assert trainer.computed("whole") == trainer.vectors
    rng = random.Random(seed)
    done_before: list[int] = []
    while len(done_before) < kills:
        name = f"killed{len(done_before)}"
        process = trainer.start(name)
        if len(done_before) % 2:  # every other one while vectors are computed
            trainer.wait_for(rng.randrange(1, trainer.vectors), name, process)
        else:
            time.sleep(rng.uniform(0.05, 0.95) * duration)
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:  # it may have ended just before
            model = trainer.place / f"{name}.model"
            assert not model.exists() or hash_file(model) == expected
            done_before.append(trainer.computed(name))
            assert trainer.finish(name) == expected
            twice = trainer.computed(name) - trainer.vectors
            # One shard of each model, and the vector that each other thread holds in its hands.
            assert 0 <= twice <= trainer.models * trainer.shard + JOBS - 1, done_before
        for path in trainer.place.glob(f"{name}.*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return done_before


def hash_file(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("estimate", [False, True])
def test_killed_runs_go_on(pictures, tmp_path, estimate):
    trainer = Trainer(pictures, tmp_path, 8, estimate)
    assert len(kill_at_random_moments(trainer, kills=2)) == 2


@pytest.mark.parametrize("estimate", [False, True])
def test_killed_runs_on_real_images_go_on(data_dir, tmp_path, estimate):
    for folder in (data_dir / "LS").iterdir():
        (tmp_path / "LS" / folder.name).mkdir(parents=True)
        for picture in sorted(folder.iterdir())[:10]:
            (tmp_path / "LS" / folder.name / picture.name).symlink_to(picture)
    trainer = Trainer(tmp_path / "LS", tmp_path, SHARD, estimate)
    done_before = kill_at_random_moments(trainer, kills=10)
    assert any(trainer.models * SHARD < done < trainer.vectors for done in done_before)


def test_processes_share_a_store(pictures, tmp_path, capfd):
    trainer = Trainer(pictures, tmp_path, shard=5)
    expected = trainer.finish("alone")
    shared = tmp_path / "shared"
    names = [f"run{i}" for i in range(4)]
    processes = [trainer.start(name, shared) for name in names]
    for name, process in zip(names, processes, strict=True):
        assert trainer.finish(name, process) == expected
    assert "warning" not in capfd.readouterr().err
    (vectors,) = (shelf for shelf in contents(shared) if shelf["kind"] == "vectors")
    assert vectors["arrays"] >= 36
    assert trainer.finish("later", trainer.start("later", shared)) == expected
    assert trainer.computed("later") == 0


def started(*arguments, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "lrrspm", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"preexec_fn": hear_ctrl_c, **settings},
    )


def left_over(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.name.startswith(".")]


@pytest.mark.parametrize(("sent", "options"), [(signal.SIGINT, ["--json"]), (signal.SIGTERM, [])])
def test_stopped_by_a_signal(pictures, tmp_path, sent, options):
    output = tmp_path / "out" / "m"
    output.parent.mkdir()
    cache = tmp_path / "cache"
    slow = ["--step", "1", "--codebook-size", "3000"]
    process = started("train", pictures, "-o", output, "--cache", cache, *slow, *options)
    while not cache.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(sent)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.splitlines()[-1] == "error: stopped"
    assert "Traceback" not in said
    assert printed == (json.dumps({"error": "stopped"}) + "\n" if options else "")
    assert list(output.parent.iterdir()) == []
    assert left_over(tmp_path) == []
    with pytest.raises(ProcessLookupError):  # nobody of its session is left
        os.killpg(process.pid, 0)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("the worker has a bug"), None),
        (MemoryError(), "out of memory"),
        (OSError(5, "Input/output error", "a.png"), "a.png: Input/output error"),
    ],
)
def test_an_exception_in_a_worker(pictures, tmp_path, monkeypatch, error, message):
    calls = []

    def fails(*_):
        calls.append(1)
        if len(calls) == 50:  # amid the second pass
            raise error
        return dense_sift(*_)

    monkeypatch.setattr("lrrspm.features.dense_sift", fails)
    arguments = ["train", pictures, "-o", tmp_path / "m", "--cache", tmp_path / "c", *SMALL]
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 1
    if message is None:
        assert result.exception is error  # a bug is shown as one
    else:
        assert message in result.stderr
    assert not (tmp_path / "m").exists()
    assert left_over(tmp_path) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("lrrspm")]
    # What was done is kept.
    monkeypatch.setattr("lrrspm.features.dense_sift", dense_sift)
    arrays = {shelf["kind"]: shelf["arrays"] for shelf in contents(tmp_path / "c")}
    assert arrays["vectors"] >= 50 - 36 - JOBS
    assert CliRunner().invoke(app, [str(a) for a in arguments]).exit_code == 0


@pytest.fixture(scope="module")
def plain_model(pictures, tmp_path_factory):
    """What train writes where there is room; and numba has written all that it keeps."""
    path = tmp_path_factory.mktemp("plain") / "m"
    CliRunner().invoke(app, ["train", str(pictures), "-o", str(path), *SMALL])
    return path.read_bytes()


def train_with_small_files(size, *arguments):
    """``lrrspm train``; a limit on the size of files stands in for a full disk."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    process = started("train", *arguments, *SMALL, preexec_fn=limit)
    return process.communicate()[1], process.returncode


def test_no_room_for_the_model(pictures, tmp_path, plain_model):
    output = tmp_path / "m"
    output.write_text("old")
    said, code = train_with_small_files(len(plain_model) - 1, pictures, "-o", output)
    assert code == 1
    assert said == f"error: {output}: File too large\n"
    assert output.read_text() == "old"
    assert left_over(tmp_path) == []


def test_no_room_for_the_store(pictures, tmp_path, plain_model):
    cache, output = tmp_path / "c", tmp_path / "m"
    room = len(plain_model)  # not enough for a shard of samples
    said, code = train_with_small_files(room, pictures, "-o", output, "--cache", cache)
    assert code == 0, said
    assert said.count("warning") == 1
    assert f"{cache}: cannot be written to (File too large); going on" in said
    assert output.read_bytes() == plain_model
    assert left_over(tmp_path) == []


def test_no_room_for_a_picture(pictures, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    paths, labels = find_images(pictures)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*out\.png"):
        draw_predictions(tmp_path / "out.png", paths[:2], labels[:2], labels[:2])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_no_room_for_what_is_printed(pictures, model_path):
    command = f"{sys.executable} -m lrrspm predict {model_path} {pictures} --csv > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: [Errno 28] No space left on device\n"


def test_read_only_targets(pictures, tmp_path, monkeypatch):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write everywhere; let it be told otherwise
        make = Path.mkdir

        def refuse(self, *arguments, **named):
            if locked in self.parents:
                raise PermissionError(13, "Permission denied", str(self))
            make(self, *arguments, **named)

        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked)
        monkeypatch.setattr(Path, "mkdir", refuse)
    for options, message in (
        (["-o", locked / "m"], f"{locked / 'm'}: its folder is read-only"),
        (["-o", tmp_path / "m", "--cache", locked / "c"], f"{locked / 'c'}: cannot be made"),
    ):
        arguments = ["train", pictures, *options, *SMALL]
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == 1
        assert message in result.stderr
    assert list(tmp_path.iterdir()) == [locked]
    assert list(locked.iterdir()) == []
