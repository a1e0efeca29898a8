"""How many requests does a server answer, how soon, and does it keep its memory?

``lrrspm serve`` with a model of LS, asked over loopback by this process: 1, 8
and 64 clients at once, 60 seconds each. Most requests are predictions of one
image of LS; among them are explanations, files that are not images (which
must be answered 422) and uploads over the limit (413). A request that is
answered differently has failed; target: none. Memory of the server's process at
the end over that after the first ten seconds: target at most 1.1. Seconds are
the client's, from the first byte sent to the last received, predictions alone.

Then 64 clients again, with an attacker who sends files that take gigabytes or
minutes to decode, and forms that take minutes to parse. Of the others no
request may fail; target for their p99: at most three times that without.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from lrrspm import find_images

from ._measure import data_folder, figure, measure, show
from .attacks.server import Hostile, ask, hostile_requests

SECONDS = 180.0
CLIENTS = (1, 8, 64)
SETTLED = 10.0  # seconds after which memory should not grow
LIMIT_MB = 8
PER_CLASS = 20
# Of so many requests one is an explanation, not an image, or too large.
EXPLAIN, MALFORMED, OVERSIZED = 10, 50, 250


class Request(NamedTuple):
    """A request and the status that it should have."""

    kind: str
    address: str
    body: bytes
    status: int


def run(seconds: float = SECONDS) -> dict[str, Any]:
    """Measure requests per second, seconds of each, memory."""
    paths, labels = find_images(data_folder("LS"))
    chosen = [p for _, group in itertools.groupby(zip(labels, paths, strict=True), lambda r: r[0])
              for _, p in itertools.islice(group, PER_CLASS)]  # fmt: skip
    requests = make_requests([Path(path).read_bytes() for path in chosen])
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "LS.lrrspm"
        options = ["--no-estimate", "--method", "LrrSPM"]
        _command("train", str(data_folder("LS")), "-o", str(model), *options)
        with serving(model) as (process, port):
            memory = Memory(process)
            rounds = {n: send(n, port, requests, seconds / len(CLIENTS)) for n in CLIENTS}
            held = memory.stop()
            attacked = send(CLIENTS[-1], port, requests, seconds / len(CLIENTS), hostile_requests())
    counts = sum((one["counts"] for one in rounds.values()), Counter[str]())
    failed = sum(one["failed"] for one in rounds.values())
    figures = []
    for n, one in rounds.items():
        name = f"serve, {n} client{'s' * (n > 1)}"
        figures += [
            figure(f"{name}: requests a second", one["per_second"]),
            figure(f"{name}: p50 ms", one["p50"]),
            figure(f"{name}: p99 ms", one["p99"]),
        ]
    growth = None if held is None else held[-1] / held[int(SETTLED)]
    figures += [
        figure("serve: failed requests", failed, "<= 0"),
        figure("serve, attacked: failed requests of others", attacked["failed"], "<= 0"),
        figure("serve, attacked: requests of the attacker", attacked["attacks"]),
        figure(
            "serve, attacked: p99 over that without",
            attacked["p99"] / rounds[CLIENTS[-1]]["p99"],
            "<= 3",
        ),
        figure("serve: memory at the end over that after ten seconds", growth, "<= 1.1"),
    ]
    return {
        "figures": figures,
        "seconds": seconds,
        "requests": dict(counts),
        "megabytes_by_second": held,
    }


def make_requests(images: list[bytes]) -> list[Request]:
    """Requests to be sent one after the other, in a fixed order."""
    made = []
    for i in range(1, np.lcm.reduce([EXPLAIN, MALFORMED, OVERSIZED]) + 1):
        image = images[i % len(images)]
        if i % OVERSIZED == 0:
            large = bytes(LIMIT_MB * 1_000_000 + 1)
            made.append(Request("oversized", "/api/predict", _form("files", large), 413))
        elif i % MALFORMED == 0:
            half = bytes(100) + image[len(image) // 2 :]
            made.append(Request("malformed", "/api/predict", _form("files", half), 422))
        elif i % EXPLAIN == 0:
            made.append(Request("explain", "/api/explain", _form("file", image), 200))
        else:
            made.append(Request("predict", "/api/predict", _form("files", image), 200))
    return made


def _form(field: str, content: bytes) -> bytes:
    head = f'--limit\r\nContent-Disposition: form-data; name="{field}"; filename="a"\r\n\r\n'
    return head.encode() + content + b"\r\n--limit--\r\n"


def _command(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "lrrspm", *arguments], check=True, stdout=subprocess.DEVNULL
    )


@contextmanager
def serving(model: Path, environment: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """Run a server; yields the number of its process, and its port."""
    command = [sys.executable, "-m", "lrrspm", "serve", str(model), "--port", "0", "--json"]
    limit = ["--max-request-mb", str(LIMIT_MB)]
    with subprocess.Popen(
        [*command, *limit], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            yield process.pid, int(url.strip("/").rsplit(":", 1)[1])
        finally:
            process.terminate()


class Memory:
    """Megabytes that a server and its processes hold, recorded each second."""

    def __init__(self, process: int) -> None:
        self._process = psutil.Process(process)
        self._held: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            family = [self._process, *self._process.children(recursive=True)]
            # Shared pages count once: each process has its share of them.
            self._held.append(sum(map(_held, family)) / 1e6)
            if self._done.wait(1):
                return

    def stop(self) -> list[float] | None:
        """Return what was recorded, or None if the system does not tell or it was too short."""
        self._done.set()
        self._thread.join()
        return self._held if len(self._held) > SETTLED + 1 else None


def _held(process: psutil.Process) -> float:
    """Return the bytes that a process holds; 0 if it has just ended."""
    try:
        info = process.memory_full_info()
    except psutil.Error:
        return 0.0
    return float(getattr(info, "pss", info.uss))


def send(
    clients: int,
    port: int,
    requests: list[Request],
    seconds: float,
    hostile: Sequence[Hostile] = (),
) -> dict[str, Any]:
    """Ask from several threads for a while; hostile requests come from one more."""
    end = time.perf_counter() + seconds
    spent: list[float] = []  # of predictions
    counts, failures = Counter[str](), Counter[str]()
    todo = itertools.cycle(requests)
    lock = threading.Lock()
    work = partial(_ask, port, end, todo, lock, spent, counts, failures)
    threads = [threading.Thread(target=work) for _ in range(clients)]
    attacks = Counter[int]()
    if hostile:
        threads.append(threading.Thread(target=_attack, args=(port, end, hostile, attacks)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reason, count in failures.items():
        print(f"serve: {count} failed: {reason}", file=sys.stderr)
    p50, p99 = 1e3 * np.quantile(spent, [0.5, 0.99])
    return {
        "per_second": counts.total() / seconds,
        "p50": float(p50),
        "p99": float(p99),
        "counts": counts,
        "failed": failures.total(),
        "attacks": attacks.total(),
    }


def _attack(port: int, end: float, hostile: Sequence[Hostile], counts: Counter[int]) -> None:
    """Send one hostile request after another; counts the statuses."""
    for request in itertools.cycle(hostile):
        if time.perf_counter() >= end:
            return
        counts[ask(port, request)] += 1


def _ask(
    port: int,
    end: float,
    todo: Iterator[Request],
    lock: threading.Lock,
    spent: list[float],
    counts: Counter[str],
    failures: Counter[str],
) -> None:
    """Run one client: one request after another over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    kind = {"Content-Type": "multipart/form-data; boundary=limit"}
    while (start := time.perf_counter()) < end:
        with lock:
            request = next(todo)
        try:
            connection.request("POST", request.address, request.body, kind)
            answer = connection.getresponse()
            content = json.loads(answer.read())
            wrong = answer.status != request.status or ("error" in content) != (answer.status > 299)
            reason = f"{request.kind} answered {answer.status}" if wrong else ""
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            reason = f"{request.kind}: {error!r}"
        with lock:
            counts[request.kind] += 1
            if reason:
                failures[reason] += 1
            elif request.kind == "predict":
                spent.append(time.perf_counter() - start)
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="A server under load.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="in all")
    seconds = parser.parse_args().seconds
    show("serve", measure("serve", partial(run, seconds)))


if __name__ == "__main__":
    main()
