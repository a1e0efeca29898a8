"""A cluster over a network: scheduler and workers in namespaces of their own, and a link is cut.

Needs Linux, the command ``ip``, and the right to make namespaces; skipped elsewhere. Traffic
stays between the namespaces, which have no way out.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm.pipeline import cluster, members, open_engine

from .clusters import HERE, square

pytest.importorskip("distributed")
pytestmark = pytest.mark.network

# Of the addresses for tests of networks, RFC 2544.
NET = "198.18.77"
PORT = 8786


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, timeout=30)


def delete(namespace):
    with contextlib.suppress(subprocess.TimeoutExpired):
        run("ip", "netns", "delete", namespace, check=False)


class Network:
    """Namespaces on a bridge, which is in a namespace itself; and processes in them."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self._undo = contextlib.ExitStack()  # goes on where a step fails
        self._prefix = f"lrrspm{os.getpid()}"

    def build(self):
        """Make the bridge, and the namespace of the driver."""
        self._sweep()
        self._bridge = self._namespace("bridge")
        self._ip(self._bridge, "link", "add", "bridge", "type", "bridge")
        self._ip(self._bridge, "link", "set", "bridge", "up")
        return self.add("driver", 4)

    def add(self, name, number):
        """Make a namespace with a link to the bridge."""
        own, link = self._namespace(name), f"to{number}"
        ends = "link", "add", "wire", "type", "veth", "peer", "name", link
        self._ip(own, *ends, "netns", self._bridge)
        self._ip(self._bridge, "link", "set", link, "master", "bridge", "up")
        self._ip(own, "address", "add", f"{NET}.{number}/24", "dev", "wire")
        self._ip(own, "link", "set", "wire", "up")
        self._ip(own, "link", "set", "lo", "up")
        return own

    def cut(self, number):
        """Take down a link: packets are lost, and no connection is closed."""
        self._ip(self._bridge, "link", "set", f"to{number}", "down")

    def hide(self, namespace, number):
        """Let a namespace send nothing to the one with this number."""
        self._ip(namespace, "route", "add", "blackhole", f"{NET}.{number}/32")

    def start(self, namespace, *command):
        log = (self.folder / f"log-{len(self.processes)}").open("wb")
        paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        # Ten seconds without a sign of life, and a worker is gone; Dask's own are 300.
        settings = {
            "PYTHONPATH": paths,
            "DASK_TEMPORARY_DIRECTORY": str(self.folder),
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s",
        }
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, *command],
            env={**os.environ, **settings}, cwd=self.folder, stdout=log, stderr=log,
        )  # fmt: skip
        log.close()
        self.processes.append(process)
        self._undo.callback(process.wait)
        self._undo.callback(process.kill)
        return process

    def close(self):
        self._undo.close()

    def _namespace(self, name):
        full = f"{self._prefix}-{name}"
        self._undo.callback(delete, full)
        run("ip", "netns", "add", full)
        return full

    @staticmethod
    def _sweep():
        """Delete what tests left that were killed."""
        listed = run("ip", "netns", "list", check=False).stdout.decode()
        for name, number in re.findall(r"^(lrrspm(\d+)-\S+)", listed, re.MULTILINE):
            if not psutil.pid_exists(int(number)):
                delete(name)

    @staticmethod
    def _ip(namespace, *command):
        run("ip", "-n", namespace, *command)


@pytest.fixture
def network(tmp_path):
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("needs Linux and the command ip")
    network = Network(tmp_path)
    try:
        yield network
    finally:
        network.close()


@pytest.fixture
def driver(network):
    """The namespace of the driver, with a scheduler and two workers in theirs."""
    try:
        driver = network.build()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not permitted here: {error.stderr.decode()[:200]}")
    head = network.add("head", 1)
    module = "distributed.cli.dask_scheduler"
    network.start(head, "-m", module, f"--host={NET}.1", f"--port={PORT}", "--no-dashboard")
    for number in (2, 3):
        network.start(
            network.add(f"worker{number}", number), "-m", "distributed.cli.dask_worker",
            f"tcp://{NET}.1:{PORT}", f"--host={NET}.{number}", "--no-nanny", "--nthreads=1",
            "--no-dashboard",
        )  # fmt: skip
    return driver


def train(folder, target, engine):
    model = ImageClassifier(
        LRREncoder(codebook_size=8), n_samples=500, random_state=0, n_jobs=2, engine=engine
    )
    model.fit(*find_images(folder)).save(target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def test_a_cluster_of_machines(network, driver, image_folder, tmp_path):
    expected = train(image_folder, tmp_path / "expected", "threads")
    here = "tests.pipeline.test_namespaces"
    whole = network.start(driver, "-m", here, "train", str(image_folder), str(tmp_path / "model"))
    assert whole.wait(120) == 0, (tmp_path / "log-3").read_text()
    assert hashlib.sha256((tmp_path / "model").read_bytes()).hexdigest() == expected

    notes, output = tmp_path / "notes", tmp_path / "squares"
    notes.touch()
    cut = network.start(driver, "-m", here, "square", str(notes), str(output))
    deadline = time.monotonic() + 60
    while len(notes.read_text().splitlines()) < 8:
        assert time.monotonic() < deadline
        assert cut.poll() is None, (tmp_path / "log-4").read_text()
        time.sleep(0.05)
    network.cut(2)
    assert cut.wait(150) == 0, (tmp_path / "log-4").read_text()
    assert [int(line) for line in output.read_text().split()] == [n * n for n in range(60)]
    # What was under way behind the cut link was computed again.
    assert len(notes.read_text().splitlines()) > 60


def test_a_driver_that_reaches_the_scheduler_alone(network, driver, tmp_path):
    for number in (2, 3):
        network.hide(driver, number)
    here, output = "tests.pipeline.test_namespaces", tmp_path / "squares"
    whole = network.start(driver, "-m", here, "square", str(tmp_path / "notes"), str(output))
    assert whole.wait(120) == 0, (tmp_path / "log-3").read_text()
    assert [int(line) for line in output.read_text().split()] == [n * n for n in range(60)]
    assert len((tmp_path / "notes").read_text().splitlines()) == 60  # nothing was done twice
    assert "open the workers' ports" in (tmp_path / "log-3").read_text()


def main(task, source, target):
    """Run in the driver's namespace."""
    engine = f"dask://{NET}.1:{PORT}"
    from distributed import Client

    with Client(engine.replace("dask", "tcp"), timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    if task == "train":
        train(source, Path(target), engine)
        return
    # Not so short that busy cores count as hanging; and longer than CONNECT, as by default, so
    # Dask gives up connecting first.
    cluster.PATIENCE, members.SILENT = 2 * cluster.CONNECT, 10.0
    with open_engine(1, engine) as opened:
        found = list(opened.map_chunks(square, range(60), source, 0.2, first=1, most=2))
    Path(target).write_text("\n".join(map(str, found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
