"""Runs that are killed or stopped, or that cannot write."""

import hashlib
import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from lrrspm import dense_sift, find_images, read_image
from lrrspm.cache import contents
from lrrspm.cache.shelf import SHARD
from lrrspm.cli import app
from lrrspm.pipeline.engines import AHEAD, CHUNK
from lrrspm.report.draw import draw_predictions
from tests.conftest import hear_ctrl_c

JOBS = 2
QUICK = ["--method", "LrrSPM", "--codebook-size", "8", "--step", "12", "--jobs", str(JOBS)]
SMALL = ["--no-estimate", *QUICK]


def train(folder, output, cache, log, shard, options, kill_at):
    """Run ``lrrspm train``; every vector that is computed adds a byte to log.

    ``kill_at`` is None, or a kind of event, "vector" or "file", and the number of the event at
    which the process kills itself. A "file" event is that an image is opened, or that a file of
    the run is opened, renamed or removed.
    """
    import lrrspm.cache.shelf
    import lrrspm.pipeline.engines
    from lrrspm.channels import Channel

    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    lrrspm.cache.shelf.SHARD = shard
    lrrspm.pipeline.engines.CHUNK = 1
    counter = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    events = {"vector": itertools.count(1), "file": itertools.count(1)}

    def happened(kind):
        if next(events[kind]) == (kill_at and kind == kill_at[0] and kill_at[1]):
            os.kill(os.getpid(), signal.SIGKILL)

    compute = Channel.vector

    def counted(self, found):
        vector = compute(self, found)
        os.write(counter, b".")
        happened("vector")
        return vector

    Channel.vector = counted  # type: ignore[method-assign]
    roots = (str(folder), str(output.parent))

    def watch(event, arguments):
        if event in ("open", "os.rename", "os.remove") and str(arguments[0]).startswith(roots):
            os.write(files, b".")
            happened("file")

    files = os.open(log.with_suffix(".files"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.addaudithook(watch)
    app(["train", str(folder), "-o", str(output), "--cache", str(cache), *options])


class Trainer:
    """Starts ``train`` in processes that have the libraries loaded already."""

    def __init__(self, folder, place, shard, estimate=False):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["lrrspm.evaluation", "lrrspm.cli"])
        self.folder, self.place, self.shard = folder, place, shard
        self.options = QUICK if estimate else SMALL
        self.models = 1
        self.vectors = self.models * len(find_images(folder)[0])

    def start(self, name, cache=None, kill_at=None):
        """Start a run with an output, a log and a store of that name."""
        output, log, own = (self.place / f"{name}.{kind}" for kind in ("model", "log", "cache"))
        arguments = (self.folder, output, cache or own, log, self.shard, self.options, kill_at)
        process = self._context.Process(target=train, args=arguments)
        # The server's socket must have a short name, however long that of the temporary folder is.
        with mock.patch.object(tempfile, "tempdir", "/tmp"):
            process.start()
        return process

    def finish(self, name, process=None):
        """Wait for a run, and return the digest of its model."""
        process = process or self.start(name)
        process.join()
        assert process.exitcode == 0
        return hash_file(self.place / f"{name}.model")

    def count(self, kind, name):
        """Return the number of events of all runs of that name."""
        log = self.place / f"{name}.{ {'vector': 'log', 'file': 'files'}[kind] }"
        return log.stat().st_size if log.exists() else 0


def kill_at_random_moments(trainer, kills, seed=0):
    """Kill runs and let the next ones end; returns how many vectors had been computed."""
    expected = trainer.finish("whole")
    assert trainer.count("vector", "whole") == trainer.vectors
    rng = random.Random(seed)
    done_before: list[int] = []
    for number in range(kills):
        name = f"killed{number}"
        kind = ("vector", "file")[number % 2]
        # The last few file events may come in another number: threads open what they need.
        moment = rng.randrange(1, max(2, round(0.95 * trainer.count(kind, "whole"))))
        process = trainer.start(name, kill_at=(kind, moment))
        process.join()
        assert process.exitcode == -signal.SIGKILL
        model = trainer.place / f"{name}.model"
        assert not model.exists() or hash_file(model) == expected
        done_before.append(trainer.count("vector", name))
        assert trainer.finish(name) == expected
        twice = trainer.count("vector", name) - trainer.vectors
        # Of each model a shard that was not full, and what had not been taken from the threads.
        assert 0 <= twice <= trainer.models * (trainer.shard + AHEAD), done_before
        for path in trainer.place.glob(f"{name}.*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return done_before


def hash_file(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("estimate", [False, True])
def test_killed_runs_resume(image_folder, tmp_path, estimate):
    trainer = Trainer(image_folder, tmp_path, 8, estimate)
    assert len(kill_at_random_moments(trainer, kills=2)) == 2


def test_killed_runs_of_balanced_resume(image_folder, tmp_path):
    trainer = Trainer(image_folder, tmp_path, 8)
    trainer.options = ["--no-estimate", "--codebook-size", "8", "--jobs", str(JOBS)]
    trainer.models = 2  # channels, each with shards of its own
    trainer.vectors *= 2
    kill_at_random_moments(trainer, kills=4)


@pytest.mark.parametrize("estimate", [False, True])
def test_killed_runs_on_real_images_resume(data_dir, tmp_path, estimate):
    for folder in (data_dir / "LS").iterdir():
        (tmp_path / "LS" / folder.name).mkdir(parents=True)
        for image in sorted(folder.iterdir())[:10]:
            (tmp_path / "LS" / folder.name / image.name).symlink_to(image)
    trainer = Trainer(tmp_path / "LS", tmp_path, SHARD, estimate)
    done_before = kill_at_random_moments(trainer, kills=10)
    assert any(trainer.models * SHARD < done < trainer.vectors for done in done_before)


def test_processes_share_a_store(image_folder, tmp_path, capfd):
    trainer = Trainer(image_folder, tmp_path, shard=5)
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
    assert trainer.count("vector", "later") == 0


def started(*arguments, program=("-m", "lrrspm"), **settings):
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"preexec_fn": hear_ctrl_c, **settings},
    )


def left_over(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.name.startswith(".")]


SIGNALED = """
import itertools, os, sys

sent, number, folder, *arguments = sys.argv[1:]
opened = itertools.count(1)

def watch(event, given):
    if event == "open" and str(given[0]).startswith(folder) and next(opened) == int(number):
        os.kill(os.getpid(), int(sent))

from lrrspm.cli import app

sys.addaudithook(watch)
app(arguments)
"""
"""Runs a command that is sent a signal when it opens its n-th file in the folder of images."""


@pytest.mark.parametrize(("sent", "options"), [(signal.SIGINT, ["--json"]), (signal.SIGTERM, [])])
@pytest.mark.parametrize("number", [1, 50])  # while digests are computed, and while images are read
def test_stopped_by_a_signal(image_folder, tmp_path, sent, options, number):
    output = tmp_path / "out" / "m"
    output.parent.mkdir()
    slow = ["--method", "LrrSPM", "--step", "4", "--codebook-size", "256"]
    command = ["train", image_folder, "-o", output, "--cache", tmp_path / "cache", *slow, *options]
    with started(int(sent), number, image_folder, *command, program=["-c", SIGNALED]) as process:
        printed, said = process.communicate()
    assert process.returncode == 128 + sent
    assert said.splitlines()[-1] == "error: stopped"
    assert "Traceback" not in said
    assert printed == (json.dumps({"error": "stopped"}) + "\n" if options else "")
    assert list(output.parent.iterdir()) == []
    assert left_over(tmp_path) == []
    with pytest.raises(ProcessLookupError):  # nobody of its session is left
        os.killpg(process.pid, 0)


def test_processes_that_are_starting_leave_ctrl_c_to_the_command(image_folder, tmp_path):
    command = ["train", image_folder, "-o", tmp_path / "m", "--engine", "processes", "--jobs", 2]
    with started(*command) as process:
        parent = psutil.Process(process.pid)
        while not any("spawn_main" in str(child.cmdline()) for child in parent.children()):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
        _, said = process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert said.splitlines()[-1] == "error: stopped"
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("the worker has a bug"), None),
        (MemoryError(), "out of memory"),
        (OSError(5, "Input/output error", "a.png"), "a.png: Input/output error"),
    ],
)
def test_an_exception_in_a_worker(image_folder, tmp_path, monkeypatch, error, message):
    place = 20
    bad = read_image(find_images(image_folder)[0][place])
    met = []

    def fails(image, *rest):
        if np.array_equal(image, bad):
            met.append(1)
            if len(met) == 2:  # in the second pass
                raise error
        return dense_sift(image, *rest)

    arguments = ["train", image_folder, "-o", tmp_path / "m", "--cache", tmp_path / "c", *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr("lrrspm.descriptors.sift.dense_sift", fails)
        result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 1
    if message is None:
        assert result.exception is error  # a bug is shown as one
    else:
        assert message in result.stderr
    assert not (tmp_path / "m").exists()
    assert left_over(tmp_path) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("lrrspm")]
    # The vectors of the images before it are kept, but for those of its own chunk.
    arrays = {shelf["kind"]: shelf["arrays"] for shelf in contents(tmp_path / "c")}
    assert place - CHUNK < arrays["vectors"] <= place
    assert CliRunner().invoke(app, [str(a) for a in arguments]).exit_code == 0


@pytest.fixture(scope="module")
def plain_model(image_folder, tmp_path_factory):
    """What train writes where there is room; numba has then written all it caches."""
    path = tmp_path_factory.mktemp("plain") / "m"
    CliRunner().invoke(app, ["train", str(image_folder), "-o", str(path), *SMALL])
    return path.read_bytes()


def train_with_small_files(size, *arguments):
    """Run ``lrrspm train``; a limit on the size of files stands in for a full disk."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    process = started("train", *arguments, *SMALL, preexec_fn=limit)
    return process.communicate()[1], process.returncode


def test_no_room_for_the_model(image_folder, tmp_path, plain_model, model_path):
    output = tmp_path / "m"
    old = Path(model_path).read_bytes()
    output.write_bytes(old)
    said, code = train_with_small_files(len(plain_model) - 1, image_folder, "-o", output)
    assert code == 1
    assert said == f"error: {output}: File too large\n"
    assert output.read_bytes() == old != plain_model
    assert left_over(tmp_path) == []


def test_no_room_for_the_store(image_folder, tmp_path, plain_model):
    cache, output = tmp_path / "c", tmp_path / "m"
    room = len(plain_model)  # not enough for a shard of samples
    said, code = train_with_small_files(room, image_folder, "-o", output, "--cache", cache)
    assert code == 0, said
    assert said.count("warning") == 1
    assert f"{cache}: cannot write (File too large); going on without" in said
    assert output.read_bytes() == plain_model
    assert left_over(tmp_path) == []


def test_no_room_for_a_drawing(image_folder, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    paths, labels = find_images(image_folder)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*out\.png"):
        draw_predictions(tmp_path / "out.png", paths[:2], labels[:2], labels[:2])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_no_room_for_standard_output(image_folder, model_path):
    command = f"{sys.executable} -m lrrspm predict {model_path} {image_folder} --csv > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: [Errno 28] No space left on device; free some space\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["--help", "explain --help"])
def test_no_room_for_help(arguments):
    command = f"{sys.executable} -m lrrspm {arguments} > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: standard output: No space left on device\n"


def test_read_only_targets(image_folder, tmp_path, monkeypatch):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write everywhere, so pretend that it may not
        make = Path.mkdir

        def refuse(self, *arguments, **named):
            if locked in self.parents:
                raise PermissionError(13, "Permission denied", str(self))
            make(self, *arguments, **named)

        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked)
        monkeypatch.setattr(Path, "mkdir", refuse)
    for options, message in (
        (["-o", locked / "m"], f"{locked / 'm'}: its folder is read-only"),
        (
            ["-o", tmp_path / "m", "--cache", locked / "c"],
            f"{locked / 'c'}: cannot become a feature store",
        ),
    ):
        arguments = ["train", image_folder, *options, *SMALL]
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == 1
        assert message in result.stderr
    assert list(tmp_path.iterdir()) == [locked]
    assert list(locked.iterdir()) == []
