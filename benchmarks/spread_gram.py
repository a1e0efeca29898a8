"""The largest Gram matrix that is made: by two threads of the driver, and by two Dask workers.

31,622 made vectors of 8192 numbers, half precision, in shards. The workers make bands of it,
and the driver has it in the end; ``seconds`` and the most memory of each.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from lrrspm._support.environment import peak_memory
from lrrspm._support.parallel import workers
from lrrspm._support.shards import Shards
from lrrspm.pipeline import open_engine
from lrrspm.pipeline.spreading import spread_over
from lrrspm.svm import linear_gram
from tests.pipeline.clusters import Cluster

from ._measure import peak_of

N, D = 31_622, 8_192
_PART = 1_000


def gram(folder: Path) -> dict[str, Any]:
    """Measure both, each in a process of its own."""
    dask = Cluster(folder)
    dask.start_workers(2)
    found: dict[str, Any] = {"shape": [N, D]}
    try:
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as executor:
            for name, engine in {"threads": None, "workers": dask.engine}.items():
                found[name] = executor.submit(_make, engine, folder).result()
            found["worker_peak_mb"] = max(peak_of(worker.pid) for worker in dask.workers)
    finally:
        dask.close()
    found["same"] = found["threads"].pop("digest") == found["workers"].pop("digest")
    return found


def _make(engine: str | None, folder: Path) -> dict[str, Any]:
    with open_engine(2, engine) as opened:
        spread = None if engine is None else partial(spread_over, opened)
        with Shards(N, D, np.float16, folder, spread=spread) as shards, workers(2) as threads:
            for start in range(0, N, _PART):
                rng = np.random.default_rng(start)
                X = rng.standard_normal((min(_PART, N - start), D), np.float32)
                shards.append((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float16))
            begin = time.perf_counter()
            made = linear_gram(shards, threads)
            seconds = time.perf_counter() - begin
    digest = hashlib.sha256(np.ascontiguousarray(made).data).hexdigest()
    return {"seconds": seconds, "peak_mb": peak_memory(), "digest": digest}
