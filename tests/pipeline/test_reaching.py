"""Who reaches whom: ports of workers that the driver, the scheduler or both cannot connect to."""

import asyncio
from typing import Any

import pytest

from lrrspm.cache import makers
from lrrspm.pipeline import cluster as module
from lrrspm.pipeline import members, open_engine
from lrrspm.pipeline.versions import ClusterError, VersionError

from .clusters import Cluster, square

pytest.importorskip("distributed")
pytestmark = pytest.mark.network

SQUARES = [number * number for number in range(40)]


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


def test_workers_that_the_scheduler_cannot_reach_are_refused(tmp_path):
    cluster = Cluster(tmp_path, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="2s")
    try:
        addresses = "--listen-address=tcp://127.0.0.1:0", "--contact-address=tcp://127.0.0.1:9"
        cluster.start_workers(1, *addresses)
        with pytest.raises(ClusterError, match=r"cannot reach .*127\.0\.0\.1:9.*open the"):
            open_engine(1, cluster.engine).__enter__()
    finally:
        cluster.close()


class Answering:
    """A client with a scheduler, and what its workers answer."""

    def __init__(self, answers):
        self.answers, self.left = answers, set()

    def run(self, function, workers, on_error):
        return {worker: self.answers[worker] for worker in workers}

    def scheduler_info(self, **named):
        present = self.answers.keys() - self.left
        return {"workers": {worker: {"last_seen": 0.0} for worker in present}}


def test_workers_that_have_left_need_not_answer():
    client: Any = Answering({"a": makers(), "b": OSError("timed out")})
    found = members.Members(client, "scheduler")
    with pytest.raises(ClusterError, match=r"cannot reach b \(timed out\)"):
        found.check_workers({"a", "b"})
    found.check_new({"a", "b"})  # who joins does not hold up the others
    client.left.add("b")
    found.check_workers({"a", "b"})
    client.left.clear()
    client.answers["c"] = "has no lrrspm"
    with pytest.raises(VersionError, match="worker c has no lrrspm"):  # whoever else is silent
        found.check_workers({"a", "b", "c"})
