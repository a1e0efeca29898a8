"""Does a model change when workers or the driver of its training are killed?

Training on 300 images with processes and 1, 2 and 4 workers; one long training, on finely
described images, while ten workers are killed (-9) at random moments and replaced; and a
command that is killed twice after it has begun to write vectors, and started again. Models
must have the bytes of those of threads.
"""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from lrrspm import SIFT, Channel, ImageClassifier, LRREncoder, find_images
from tests.pipeline.clusters import Cluster

from ._measure import data_folder

IMAGES, LONG_IMAGES, STEP = 300, 2000, 2
"""Images; those of the long training, and the distance of their patches in pixels."""

KILLS, PAUSE = 10, (0.5, 3.0)
"""Workers that are killed, and the seconds from one to the next."""


def kills(folder: Path) -> dict[str, Any]:
    """Kill workers, then the driver; compare models."""
    paths, labels = some_images(IMAGES)
    target = folder / "model"
    expected = _train(paths, labels, target, "threads")
    found: dict[str, Any] = {"images": len(paths), "expected": expected}
    found["processes"] = _train(paths, labels, target, "processes") == expected
    dask = Cluster(folder, allowed_failures=KILLS)
    try:
        for count, new in ((1, 1), (2, 1), (4, 2)):
            dask.start_workers(new)
            found[f"{count} workers"] = _train(paths, labels, target, dask.engine) == expected
        found |= _kill_workers(dask, target)
        found["drivers killed"], found["same after driver"] = _kill_driver(folder, dask.engine)
    finally:
        dask.close()
    return found


def some_images(count: int) -> tuple[list[str], list[str]]:
    """Return images of all classes of LS."""
    paths, labels = find_images(data_folder("LS"))
    chosen = np.linspace(0, len(paths) - 1, count).astype(int).tolist()
    return [paths[i] for i in chosen], [labels[i] for i in chosen]


def _train(
    paths: list[str], labels: list[str], target: Path, engine: str, step: int | None = None
) -> str:
    parts: dict[str, Any] = {"method": "fast"}
    if step is not None:
        parts = {"channels": [Channel(LRREncoder(), SIFT(step=step))]}
    model = ImageClassifier(**parts, n_samples=20_000, random_state=0, n_jobs=2, engine=engine)
    model.fit(paths, labels).save(target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def _kill_workers(dask: Cluster, target: Path) -> dict[str, Any]:
    """Kill workers during one training, each with another to take its place."""
    paths, labels = some_images(LONG_IMAGES)
    expected = _train(paths, labels, target, "threads", STEP)
    rng, done = random.Random(0), threading.Event()
    moments: list[float] = []

    def kill() -> None:
        while len(moments) < KILLS and not done.wait(rng.uniform(*PAUSE)):
            dask.kill(rng.choice(dask.workers))
            moments.append(time.perf_counter() - begin)
            dask.start_workers(1)

    killer = threading.Thread(target=kill)
    begin = time.perf_counter()
    killer.start()
    try:
        same = _train(paths, labels, target, dask.engine, STEP) == expected
        seconds = time.perf_counter() - begin
    finally:
        done.set()
        killer.join()
    return {
        "long images": len(paths),
        "killed": sum(moment < seconds for moment in moments),  # not what came after its end
        "kill seconds": [round(moment, 1) for moment in moments],
        "seconds": seconds,
        "runs": 1,
        "same after kills": same,
    }


def _kill_driver(folder: Path, engine: str) -> tuple[int, bool]:
    """Kill the command twice after it has begun to write vectors, then let it end.

    Returns the kills that met a running command, and whether its model is that of threads.
    """
    images, store = folder / "images", folder / "store"
    for path, label in zip(*some_images(IMAGES), strict=True):
        (images / label).mkdir(parents=True, exist_ok=True)
        (images / label / Path(path).name).symlink_to(path)

    def command(name: str, *more: str) -> list[str]:
        fixed = ["train", str(images), "-o", str(folder / name), "--method", "fast"]
        step = ["--step", str(STEP)]  # slow enough to be met at work
        return [sys.executable, "-m", "lrrspm", *fixed, *step, "--no-near-copies", *more]

    def shards() -> int:
        return len(list(store.glob("vectors/*/*.safetensors")))

    subprocess.run(command("threads"), check=True, capture_output=True)
    distributed = command("driver", "--engine", engine, "--cache", str(store))
    killed = 0
    for _ in range(2):
        before = shards()
        process = subprocess.Popen(distributed, stdout=-3, stderr=-3)
        while process.poll() is None and shards() == before:
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
    assert killed, "the command ended before it could be killed"
    subprocess.run(distributed, check=True, capture_output=True)
    return killed, (folder / "threads").read_bytes() == (folder / "driver").read_bytes()
