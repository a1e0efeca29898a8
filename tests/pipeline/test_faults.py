"""What may go wrong while Dask workers predict: files vanish, stores refuse, the driver dies."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from typer.testing import CliRunner

from lrrspm._support import remote
from lrrspm.cli import app
from lrrspm.pipeline import open_engine
from lrrspm.pipeline.versions import ClusterError

from .. import buckets
from .clusters import Cluster, square

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.network

MANY = 6000


@pytest.fixture(scope="module")
def many(image_folder, tmp_path_factory):
    """A folder with links to images: six blocks, of which workers compute two at a time."""
    folder = tmp_path_factory.mktemp("many")
    images = sorted(image_folder.glob("*/*.png"))
    for number in range(MANY):
        (folder / f"{number:05}.png").symlink_to(images[number % len(images)])
    return folder


@pytest.fixture(scope="module")
def expected(model_path, many, tmp_path_factory):
    """Rows of threads."""
    rows = tmp_path_factory.mktemp("rows") / "rows.csv"
    run("predict", model_path, many, "-o", rows)
    return rows.read_bytes()


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    return result


@contextlib.contextmanager
def started(two, model_path, many, rows, written):
    """Start a prediction; its process and command when that many bytes are written."""
    command = [
        sys.executable, "-m", "lrrspm", "predict", model_path, many, "-o", rows,
        "--engine", two.engine,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    with process:
        try:
            while size_of_part(rows) < written:
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert not rows.exists()
            yield process, command
        finally:
            process.kill()


def size_of_part(rows):
    """Return the bytes of the hidden file; 0 where there is none, or it is being renamed."""
    try:
        return max(file.stat().st_size for file in rows.parent.glob(f".{rows.name}.*.part"))
    except (FileNotFoundError, ValueError):
        return 0


def test_a_file_that_vanishes_during_the_run(two, model_path, many, expected, tmp_path):
    last = many / f"{MANY - 1:05}.png"
    target = last.readlink()
    with started(two, model_path, many, tmp_path / "rows.csv", written=1) as (process, _):
        last.unlink()
        try:
            _, said = process.communicate(timeout=120)
        finally:
            last.symlink_to(target)
    assert process.returncode == 3, said
    lines, all_lines = (tmp_path / "rows.csv").read_bytes().splitlines(), expected.splitlines()
    assert lines[:-1] == all_lines[:-1]
    assert str(last).encode() in lines[-1]
    assert b"no such file" in lines[-1]


def test_a_killed_driver_resumes(two, model_path, many, expected, tmp_path):
    rows = tmp_path / "rows.csv"
    with started(two, model_path, many, rows, written=10_000) as (process, command):
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not rows.exists()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "resuming after" in done.stderr
    assert rows.read_bytes() == expected


def test_a_scheduler_that_dies(tmp_path):
    cluster = Cluster(tmp_path)
    notes = tmp_path / "notes"
    notes.touch()

    def kill():
        deadline = time.monotonic() + 60
        while not notes.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(cluster.scheduler_pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    try:
        cluster.start_workers(1)
        killer.start()
        with (
            pytest.raises(ClusterError, match="lost the scheduler"),
            open_engine(1, cluster.engine) as engine,
        ):
            list(engine.map_chunks(square, range(8), str(notes), 5.0))
    finally:
        killer.join()
        cluster.close()


@pytest.fixture
def flaky(two, image_folder, tmp_path, monkeypatch):
    """A bucket with images, and a client that tells workers how often it refuses them."""
    monkeypatch.setenv(buckets.ROOT, "")
    buckets.serve(tmp_path / "bucket")
    shutil.copytree(image_folder / "dots", tmp_path / "bucket" / "images")
    with distributed.Client(two.address, set_as_default=False) as client:
        client.run(buckets.serve, tmp_path / "bucket")
        yield client
        client.run(buckets.fail, 0)


def test_answers_of_503_to_a_worker(two, model_path, flaky, tmp_path):
    def predict(*more, code=0):
        run("predict", model_path, "bucket://images", "-o", tmp_path / "rows.csv", *more, code=code)
        rows = (tmp_path / "rows.csv").read_bytes()
        (tmp_path / "rows.csv").unlink()
        return rows.splitlines()

    rows = predict()
    flaky.run(buckets.fail, remote.TRIES - 1)
    assert predict("--engine", two.engine) == rows
    asked = flaky.run(buckets.fail, 10**9, "/05.png").values()
    counts = [count for of_worker in asked for count in of_worker.values()]
    assert counts == [remote.TRIES] * 12
    found = predict("--engine", two.engine, code=3)
    assert [row for row in found if b"05.png" not in row] == [
        row for row in rows if b"05.png" not in row
    ]
    (bad,) = [row for row in found if b"05.png" in row]
    assert b"503" in bad
