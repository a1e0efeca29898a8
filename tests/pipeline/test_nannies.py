"""Workers of Dask with nannies and a memory limit, started as docs/scaling.md says."""

import os
import re
import signal
import threading
import time
from typing import Any

import pytest

from lrrspm.pipeline import open_engine
from lrrspm.pipeline.versions import ClusterError

from .clusters import HERE, Cluster, fill_memory, square
from .test_spreading import train

pytest.importorskip("distributed")
pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def recommended(dask_cluster):
    """The cluster, with a worker that has the memory limit of the documents."""
    page = (HERE / "docs" / "scaling.md").read_text()
    (limit,) = re.findall(r"dask worker .*--memory-limit (\w+)", page)
    dask_cluster.start_nanny(limit)
    return dask_cluster


def test_the_same_model_within_the_recommended_memory(
    recommended, image_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("lrrspm.training.MEMORY", 1)  # bands of a Gram matrix, from shards
    expected = train(image_folder, tmp_path / "model")
    found = train(image_folder, tmp_path / "model", engine=recommended.engine, cache=tmp_path / "s")
    assert found == expected


def test_a_nanny_restarts_a_worker(recommended, tmp_path):
    notes = tmp_path / "notes"
    notes.touch()

    def kill_one() -> None:
        while not (lines := notes.read_text().splitlines()):
            time.sleep(0.02)
        os.kill(int(lines[0].split()[1]), signal.SIGKILL)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    with open_engine(1, recommended.engine) as engine:
        found = list(engine.map_chunks(square, range(20), str(notes), 0.05))
    assert found == [number * number for number in range(20)]
    assert len({line.split()[1] for line in notes.read_text().splitlines()}) == 2


def test_a_worker_beyond_its_memory_limit_is_ended(tmp_path):
    cluster = Cluster(tmp_path, allowed_failures=0)
    try:
        cluster.start_nanny("700MB")
        with open_engine(1, cluster.engine) as engine:
            everywhere: Any = getattr(engine.executor, "everywhere")  # noqa: B009
            before = everywhere(os.getpid)
            with pytest.raises(ClusterError, match=r"memory-limit"):
                list(engine.map_chunks(fill_memory, range(1), 100_000_000))
            # Another one takes its place.
            found = list(engine.map_chunks(square, range(8), str(tmp_path / "notes"), 0.0))
            assert found == [number * number for number in range(8)]
            assert everywhere(os.getpid) != before
    finally:
        cluster.close()
