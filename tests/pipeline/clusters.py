"""A Dask scheduler and workers, as processes of their own on this machine; work for them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lrrspm._support.shards import Shard

HERE = Path(__file__).resolve().parents[2]

Process = subprocess.Popen[bytes]


class Cluster:
    """A scheduler on loopback; workers without nannies, so that killed ones stay dead."""

    def __init__(
        self,
        folder: Path,
        allowed_failures: int = 3,
        certificate: tuple[Path, Path] | None = None,
        **environment: str,
    ) -> None:
        self.folder = folder
        self.workers: list[Process] = []
        settings = {
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
        }
        protocol = "tcp"
        if certificate is not None:
            settings |= {
                f"DASK_{name.replace('.', '__').upper()}": str(value)
                for name, value in encryption(*certificate).items()
            }
            protocol = "tls"
        self._environment = {**os.environ, **settings}
        self._started = 0
        file = folder / "scheduler.json"
        self._scheduler = self._start(
            "scheduler", "--port=0", "--no-dashboard", f"--protocol={protocol}",
            f"--scheduler-file={file}", environment=environment,
        )  # fmt: skip
        try:
            self.address = self._wait(lambda: json.loads(file.read_text())["address"])
        except BaseException:
            self.close()
            raise

    @property
    def scheduler_pid(self) -> int:
        return self._scheduler.pid

    @property
    def engine(self) -> str:
        return self.address.replace("tcp://", "dask://")

    def start_workers(self, count: int, *where: str, **environment: str) -> list[Process]:
        new = [
            self._start(
                "worker", self.address, "--no-nanny", "--nthreads=1", "--no-dashboard",
                *(where or ["--host=127.0.0.1"]), environment=environment,
            )
            for _ in range(count)
        ]  # fmt: skip
        self.workers += new
        self.wait_for_workers(sum(worker.poll() is None for worker in self.workers))
        return new

    def start_nanny(self, memory: str) -> Process:
        """Start a worker as the documents have it: a nanny restarts it, and limits its memory."""
        nanny = self._start(
            "worker", self.address, "--nworkers=1", "--nthreads=1", f"--memory-limit={memory}",
            "--host=127.0.0.1", "--no-dashboard",
        )  # fmt: skip
        self.workers.append(nanny)
        self.wait_for_workers(len(self.workers))
        return nanny

    def wait_for_workers(self, count: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def kill(self, worker: Process) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.workers.remove(worker)

    def close(self) -> None:
        for process in [*self.workers, self._scheduler]:
            process.kill()
            process.wait()

    def _start(
        self, kind: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> Process:
        module = f"distributed.cli.dask_{kind}"
        if kind == "scheduler":
            arguments = ("--host=127.0.0.1", *arguments)
        self._started += 1
        with open(self.folder / f"log-{self._started}", "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**self._environment, **(environment or {})},
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, look: Callable[[], str]) -> str:
        for _ in range(600):
            try:
                return look()
            except (OSError, ValueError):
                time.sleep(0.1)
        raise TimeoutError((self.folder / "log-1").read_text())


def encryption(certificate: Path, key: Path) -> dict[str, object]:
    """Return Dask's settings of a certificate that scheduler, workers and driver share."""
    roles = ("scheduler", "worker", "client")
    return {
        "distributed.comm.require_encryption": True,
        "distributed.comm.tls.ca_file": str(certificate),
        **{f"distributed.comm.tls.{role}.cert": str(certificate) for role in roles},
        **{f"distributed.comm.tls.{role}.key": str(key) for role in roles},
    }


def square(notes, seconds, chunk):
    """Square numbers, slowly; note each in a file that tells how often that was done."""
    results = []
    for number in chunk:
        with open(notes, "a") as file:
            file.write(f"{number} {os.getpid()}\n")
        time.sleep(seconds)
        results.append(number * number)
    return results


def die(chunk):
    """End the worker, as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def take_all_memory(chunk):
    raise MemoryError


def fill_memory(count, chunk):
    """Hold many numbers long enough for a nanny to notice."""
    numbers = np.ones(count)
    time.sleep(10)
    return [numbers[0] for _ in chunk]


def fill_the_disk(number):
    """Let the next writing of a shard fail half-way, with this number of an error."""
    original = Shard._fill

    def fill(shard, file, blocks):
        if shard.columns == 1:  # the one that tries the folder out
            return original(shard, file, blocks)
        file.write(b"half")
        Shard._fill = original  # type: ignore[method-assign]
        raise OSError(number, os.strerror(number), shard.path)

    Shard._fill = fill  # type: ignore[method-assign]


def die_at_a_shard(token):
    """End the worker that is first to compute from a shard: the one that can delete the token."""

    def deadly(function):
        def first(*arguments, **named):
            try:
                os.unlink(token)
            except FileNotFoundError:
                return function(*arguments, **named)
            os.kill(os.getpid(), signal.SIGKILL)

        return first

    for name in ("blocks", "columns_at"):
        setattr(Shard, name, deadly(getattr(Shard, name)))
