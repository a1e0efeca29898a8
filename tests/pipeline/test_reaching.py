"""Who reaches whom: ports of workers that the driver, the scheduler or both cannot connect to."""

import asyncio
from typing import Any

import pytest

from lrrspm.pipeline import cluster as module
from lrrspm.pipeline import open_engine
from lrrspm.pipeline.versions import ClusterError

from .clusters import Cluster, square

pytest.importorskip("distributed")
pytestmark = pytest.mark.network

SQUARES = [number * number for number in range(40)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start_workers(2)
        yield cluster
    finally:
        cluster.close()


def client_of(engine) -> Any:
    return getattr(engine.executor, "_client")  # noqa: B009


def detours(said) -> int:
    return sum("come through the scheduler" in str(one.message) for one in said)


async def unreachable(*arguments, **named):
    """Wait as for a machine behind a firewall, which answers nothing."""
    await asyncio.sleep(600)


def test_results_come_through_the_scheduler_where_workers_cannot_be_reached(
    two, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    monkeypatch.setattr("distributed.client.gather_from_workers", unreachable)
    notes = str(tmp_path / "notes")
    with open_engine(1, two.engine) as engine:
        with pytest.warns(UserWarning, match="open the workers' ports") as said:
            assert list(engine.map_chunks(square, range(40), notes, 0.0)) == SQUARES
        assert detours(said) == 1
        monkeypatch.setattr(client_of(engine).scheduler, "gather", unreachable)
        with pytest.raises(ClusterError, match="must reach the workers' ports"):
            list(engine.map_chunks(square, range(40), notes, 0.0))


@pytest.mark.parametrize("reached", [False, True])
def test_dask_goes_through_the_scheduler_by_itself(two, tmp_path, monkeypatch, recwarn, reached):
    """It does so where it cannot connect; where that works, a result was just slow."""
    with open_engine(1, two.engine) as engine:
        pool = client_of(engine).rpc
        pool.timeout = 1.0
        connect, tried = pool.connect, []

        async def give_up(address, *arguments, **named):
            if address == two.address:
                return await connect(address, *arguments, **named)
            tried.append(address)
            if reached and len(tried) > 1:
                return await connect(address, *arguments, **named)
            await asyncio.sleep(pool.timeout)
            raise OSError("timed out")

        monkeypatch.setattr(pool, "connect", give_up)
        found = list(engine.map_chunks(square, range(40), str(tmp_path / "notes"), 0.0))
    assert found == SQUARES
    assert detours(recwarn) == (not reached)
    assert reached or len(tried) == 2  # by Dask, and to make sure


def test_a_result_that_is_lost_while_it_is_fetched(two, tmp_path, monkeypatch):
    """Dask has reset the future, which then is neither finished nor an error."""
    monkeypatch.setattr(module, "PATIENCE", 0.4)
    fetch: Any = getattr(module.Cluster, "_fetch")  # noqa: B009
    lost: list[Any] = []

    def lose(self, future, chunk):
        if lost:
            return fetch(self, future, chunk)
        lost.append(future)
        future._state.reset()
        raise TimeoutError

    monkeypatch.setattr(module.Cluster, "_fetch", lose)
    with open_engine(1, two.engine) as engine:
        found = list(engine.map_chunks(square, range(40), str(tmp_path / "notes"), 0.0))
    assert found == SQUARES
    assert lost
