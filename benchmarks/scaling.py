"""What do a cluster and a million images cost? A Dask scheduler and workers on this machine.

- *efficiency*: vectors of images of LS by 2 workers and by 2 threads, in turns: all 4485 with
  ``fast``, 1200 with ``balanced``;
- *overhead*: 100,000 chunks of one number each, and as many numbers in chunks of their own
  size, neither with any work: microseconds per chunk and per image, and the CPU time
  of the scheduler;
- *kills*: one training while workers are killed (-9) ten times at random, and one whose
  driver is killed at work and started again; models must have the same bytes as those of
  threads, and so must those of 1, 2 and 4 workers;
- *memory*: ``predict`` on 200,000 links to images of LS, memory of the driver and of the
  workers in the first and in the last tenth. Patches are 32 pixels apart, so that an
  image takes 2 ms; vectors are as long as those of ``fast``.
- *training*: 20,000 of these images, more than the driver may hold: their vectors are 430 MB, and
  none of them may come to the driver. Its memory with and without a store that workers
  share, and the model must have the bytes of that of threads.
- *gram*: the largest Gram matrix that is made, by threads of the driver and by workers.

``python -m benchmarks.scaling PART...`` measures some of them and keeps the others' results.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lrrspm import SIFT, Channel, ImageClassifier, LRREncoder, find_images
from lrrspm._support.environment import describe_environment, peak_memory
from lrrspm._support.stages import Stages
from lrrspm.pipeline import cluster, encode_images, fit_features, open_engine
from tests.pipeline.clusters import Cluster

from ._measure import RESULTS, best_of, data_folder, figure, measure, peak_of, show
from .killing import kills, some_images
from .spread_gram import gram

EFFICIENCY_IMAGES = {"fast": 4485, "balanced": 1200}
LINKS, CHUNKS = 200_000, 100_000
TRAIN_IMAGES = 20_000


def efficiency(folder: Path) -> dict[str, Any]:
    """Compare 2 workers with 2 threads."""
    dask = Cluster(folder)
    dask.start_workers(2)
    found = {}
    try:
        for method, count in EFFICIENCY_IMAGES.items():
            paths, _ = some_images(count)
            features = ImageClassifier(method=method, n_samples=20_000).new_features()
            features.random_state = 0
            with open_engine(2) as threads, open_engine(2, dask.engine) as workers:
                fit_features([features], paths, [np.arange(len(paths))], threads, Stages())
                matrices = [
                    encode_images([features], paths, engine, Stages()).matrices[0]
                    for engine in (threads, workers)
                ]
                assert np.array_equal(matrices[0], matrices[1])
                del matrices
                best = best_of(
                    2,
                    {
                        "threads": lambda f=features, p=paths, e=threads: _encode(f, p, e),  # type: ignore[misc]
                        "workers": lambda f=features, p=paths, e=workers: _encode(f, p, e),  # type: ignore[misc]
                    },
                    warm_up=False,
                )
            found[method] = {**best, "images": len(paths)}
    finally:
        dask.close()
    return found


def _encode(features: Any, paths: list[str], engine: Any) -> None:
    encode_images([features], paths, engine, Stages())


def _nothing(chunk: Any) -> list[int]:
    return [0] * len(chunk)


def overhead(folder: Path) -> dict[str, Any]:
    """Measure chunks without work."""
    dask = Cluster(folder)
    dask.start_workers(2)
    found: dict[str, Any] = {}
    try:
        scheduler = psutil.Process(dask.scheduler_pid)
        with open_engine(1, dask.engine) as engine:
            list(engine.map_chunks(_nothing, range(1000)))
            most, cluster.MOST = cluster.MOST, 1
            try:
                before, start = sum(scheduler.cpu_times()[:2]), time.perf_counter()
                assert len(list(engine.map_chunks(_nothing, range(CHUNKS), first=1))) == CHUNKS
                took = time.perf_counter() - start
                spent = sum(scheduler.cpu_times()[:2]) - before
            finally:
                cluster.MOST = most
            found["chunks"] = {
                "count": CHUNKS,
                "seconds": took,
                "scheduler_cpu_seconds": spent,
                "scheduler_mb": scheduler.memory_info().rss / 1e6,
            }
            count = 100_000
            start = time.perf_counter()
            assert len(list(engine.map_chunks(_nothing, range(count)))) == count
            found["images"] = {"count": count, "seconds": time.perf_counter() - start}
    finally:
        dask.close()
    return found


def memory(folder: Path) -> dict[str, Any]:
    """Watch the memory of a long prediction on a cluster."""
    paths, _ = find_images(data_folder("LS"))
    few = some_images(150)
    channel = Channel(LRREncoder(), SIFT(step=32))
    model = ImageClassifier(channels=[channel], n_samples=5000, random_state=0, n_jobs=2)
    model.fit(*few).save(folder / "model")
    links = folder / "links"
    for number in range(LINKS):
        where = links / f"{number // 1000:04}"
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{number:07}.jpg").symlink_to(paths[number % len(paths)])
    dask = Cluster(folder)
    dask.start_workers(2)
    output = folder / "rows.csv"
    try:
        start = time.perf_counter()
        driver = subprocess.Popen(
            [sys.executable, "-m", "lrrspm", "predict", str(folder / "model"), str(links),
             "-o", str(output), "--engine", dask.engine],
            stdout=-3,
        )  # fmt: skip
        processes = {
            "driver": psutil.Process(driver.pid),
            **{f"worker {n}": psutil.Process(w.pid) for n, w in enumerate(dask.workers, 1)},
            "scheduler": psutil.Process(dask.scheduler_pid),
        }
        seen: list[dict[str, float]] = []
        while driver.poll() is None:
            try:
                row = {name: one.memory_info().rss / 1e6 for name, one in processes.items()}
            except psutil.NoSuchProcess:
                break
            part = next(iter(folder.glob(".rows.csv.*.part")), None)
            row["bytes"] = float(part.stat().st_size) if part is not None else 0.0
            seen.append(row)
            time.sleep(1)
        driver.wait()
        took = time.perf_counter() - start
    finally:
        dask.close()
    with output.open() as file:
        rows = sum(1 for _ in file) - 1
    working = [row for row in seen if row["bytes"]]
    tenth = max(1, len(working) // 10)
    return {
        "images": LINKS,
        "rows": rows,
        "seconds": took,
        "peak_mb": {name: max(row[name] for row in seen) for name in processes},
        "first_tenth_mb": {n: max(row[n] for row in working[:tenth]) for n in processes},
        "last_tenth_mb": {n: max(row[n] for row in working[-tenth:]) for n in processes},
        "tenths_driver_mb": [
            round(max(row["driver"] for row in part.tolist()))
            for part in np.array_split(np.array(working, object), 10)
            if len(part)
        ],
    }


def training(folder: Path) -> dict[str, Any]:
    """Train beyond memory: vectors through the driver, and vectors that stay on the workers."""
    dask = Cluster(folder)
    dask.start_workers(2)
    found: dict[str, Any] = {"images": TRAIN_IMAGES}
    runs = {"threads": ("threads", None), "store": (dask.engine, folder / "store")}
    runs["no store"] = (dask.engine, None)
    try:
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as executor:
            for name, given in runs.items():
                found[name] = executor.submit(_train_beyond, *given, folder / "model").result()
            pids = [worker.pid for worker in dask.workers]
            found["worker_peak_mb"] = max(map(peak_of, pids))
    finally:
        dask.close()
    found["same"] = len({found[name]["digest"] for name in runs}) == 1
    return found


def _train_beyond(engine: str, store: Path | None, target: Path) -> dict[str, Any]:
    from lrrspm import training as module
    from lrrspm.svm import stored

    module.MEMORY = stored.GRAM_BYTES = 1.0
    paths, labels = find_images(data_folder("LS"))
    chosen = np.arange(TRAIN_IMAGES) % len(paths)
    channel = Channel(LRREncoder(), SIFT(step=32))
    model = ImageClassifier(
        channels=[channel], n_samples=5000, random_state=0, n_jobs=2, engine=engine, cache=store
    )
    before, start = peak_memory(), time.perf_counter()
    model.fit([paths[i] for i in chosen], [labels[i] for i in chosen]).save(target)
    return {
        "digest": hashlib.sha256(target.read_bytes()).hexdigest(),
        "seconds": time.perf_counter() - start,
        "before_mb": before,
        "peak_mb": peak_memory(),
        "passes": model.svm_.n_iter_,
    }


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "efficiency": efficiency,
    "overhead": overhead,
    "kills": kills,
    "memory": memory,
    "training": training,
    "gram": gram,
}


def run(*parts: str) -> dict[str, Any]:
    """Measure some parts; those left out keep their results."""
    file = RESULTS / "scaling.json"
    found = json.loads(file.read_text())["result"]["found"] if file.exists() else {}
    for name in parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            measured = PARTS[name](Path(folder))
        about = {"commit": describe_environment()["commit"], "load": psutil.getloadavg()[1]}
        found[name] = {**measured, **about}
    return {"figures": _figures(found), "found": found}


def _figures(found: dict[str, Any]) -> list[dict[str, Any]]:
    figures = []
    for method in ("fast", "balanced"):
        one = found.get("efficiency", {}).get(method)
        ratio = None if one is None else one["threads"] / one["workers"]
        figures.append(
            figure(f"{method}: speed of 2 Dask workers over 2 threads", ratio, ">= 0.85")
        )
    if "overhead" in found:
        chunks, images = found["overhead"]["chunks"], found["overhead"]["images"]
        figures += [
            figure("overhead per chunk, us", 1e6 * chunks["seconds"] / chunks["count"]),
            figure("overhead per image, us", 1e6 * images["seconds"] / images["count"]),
            figure(
                "scheduler CPU per chunk, us",
                1e6 * chunks["scheduler_cpu_seconds"] / chunks["count"],
            ),
        ]
    if "kills" in found:
        same = found["kills"]
        names = ["processes", "1 workers", "2 workers", "4 workers"]
        names += ["same after kills", "same after driver"]
        figures.append(
            figure(
                "runs whose model equals that of threads, of 6", sum(same[n] for n in names), ">= 6"
            )
        )
        figures += [
            figure("the same: workers killed in one run", same["killed"], ">= 10"),
            figure("the same: drivers killed at work", same["drivers killed"], ">= 1"),
        ]
    if "memory" in found:
        one = found["memory"]
        figures += [
            figure("200,000 images: driver, peak MB", one["peak_mb"]["driver"], "<= 2000"),
            figure(
                "200,000 images: larger worker, peak MB",
                max(one["peak_mb"]["worker 1"], one["peak_mb"]["worker 2"]),
                "<= 1500",
            ),
            *(
                figure(
                    f"{who}, last tenth over first",
                    max(one["last_tenth_mb"][n] / one["first_tenth_mb"][n] for n in names),
                    "<= 1.1",
                )
                for who, names in (
                    ("driver", ["driver"]),
                    ("larger worker", ["worker 1", "worker 2"]),
                    ("scheduler", ["scheduler"]),
                )
            ),
            figure("images per second", one["rows"] / one["seconds"]),
        ]
    if "training" in found:
        one = found["training"]
        figures += [
            figure("training on 20,000 images: driver, peak MB", one["store"]["peak_mb"]),
            figure("the same without a shared store", one["no store"]["peak_mb"]),
            figure("training: larger worker, peak MB", one["worker_peak_mb"], "<= 1500"),
            figure("training: models equal that of threads", float(one["same"]), ">= 1"),
        ]
    if "gram" in found:
        one = found["gram"]
        ratio = one["threads"]["seconds"] / one["workers"]["seconds"]
        figures += [
            figure("Gram matrix of 31,622 vectors: speed of 2 Dask workers over 2 threads", ratio),
            figure("the same: larger worker, peak MB", one["worker_peak_mb"], "<= 1500"),
            figure("the same: driver, peak MB", one["workers"]["peak_mb"]),
            figure("the same: bits equal those of threads", float(one["same"]), ">= 1"),
        ]
    return figures


if __name__ == "__main__":
    show("scaling", measure("scaling", lambda: run(*sys.argv[1:])))
