"""Worker processes: limits, replacement, isolation, and how they end."""

import asyncio
import contextlib
import errno
import gc
import io
import os
import resource
import signal
import socket
from contextlib import asynccontextmanager
from functools import partial

import psutil
import pytest
from fastapi import UploadFile
from starlette.testclient import TestClient

from lrrspm.serve import errors, processes
from lrrspm.serve.app import create_app
from lrrspm.serve.worker import Worker
from tests.serve import fake_model
from tests.serve.servers import send

pytestmark = pytest.mark.skipif(not processes.CAN_ISOLATE, reason="no processes that fork")


@pytest.fixture(autouse=True)
def _fake_model(monkeypatch):
    monkeypatch.setattr(processes, "_START", fake_model.START)
    monkeypatch.setattr(processes, "MEMORY_BYTES", fake_model.MEMORY)
    monkeypatch.setattr(processes, "CPU_SECONDS", fake_model.SECONDS)


@asynccontextmanager
async def started(count, path="model"):
    """Give a function that has a file's command obeyed by one of some processes."""
    pool = processes.Processes(path, count)
    await pool.start()

    def obey(command):
        upload = UploadFile(io.BytesIO(command.encode()))
        return pool.run({"kind": "predict", "top": 1}, upload)

    try:
        yield pool, obey
    finally:
        await pool.finish()
        pool.close()


def run(work, count=1, **options):
    """Run a test's coroutine, which gets the processes and that function."""

    async def main():
        async with started(count, **options) as (pool, obey):
            return await asyncio.wait_for(work(pool, obey), 60)

    return asyncio.run(main())


def done(answer):
    return answer["result"]["is"]


def ends(pid):
    """Wait for the end of a process; its connection closes a moment earlier."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(60)


@pytest.mark.parametrize("attack", ["spin", "crash"])
def test_overrun_ends_only_its_own_process(attack):
    async def work(pool, obey):
        first = done(await obey("pid"))
        assert await obey(attack) == {"error": processes.OVERRUN}
        second = done(await obey("pid"))
        assert first != second
        return first

    ends(run(work))


def test_others_go_on_during_an_overrun(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def work(pool, obey):
        attack = asyncio.create_task(obey(f"spin {pipe}"))
        pids = set()
        for _ in range(20):
            pids.add(done(await obey("pid")))
        assert len(pids) == 1
        await asyncio.to_thread(lambda: pipe.open("wb").close())
        assert await attack == {"error": processes.OVERRUN}

    run(work, count=2)


def test_limit_on_memory():
    async def work(pool, obey):
        before = done(await obey("pid"))
        assert done(await obey("allocate 60000000")) == 60_000_000
        refused = await obey(f"allocate {2 * fake_model.MEMORY}")
        assert refused == {"error": "takes too much memory to decode; shrink it first"}
        assert done(await obey("pid")) == before

    run(work)


def test_limit_on_cpu_time_is_for_each_image(monkeypatch):
    """The system counts from the start of the process, so the limit moves with every image."""
    monkeypatch.setattr(processes, "CPU_SECONDS", 2)

    async def work(pool, obey):
        assert len({done(await obey("burn 0.4")) for _ in range(7)}) == 1

    run(work)


def test_process_that_keeps_memory_is_replaced():
    async def work(pool, obey):
        small = done(await obey("keep 1000000"))
        assert done(await obey("keep 70000000")) == small
        assert done(await obey("pid")) != small

    run(work)


def test_workers_have_no_file_but_their_connection():
    async def work(pool, obey):
        held = [path for path in done(await obey("files")) if path != os.devnull]
        assert len([path for path in held if path.startswith("socket:")]) == 1
        assert all(path.startswith(("socket:", "/proc/")) for path in held)

    run(work, count=3)


def test_killed_processes_are_replaced():
    """An idle worker; and the process that forks them, whose workers go on."""

    async def work(pool, obey):
        first = done(await obey("pid"))
        os.kill(first, signal.SIGKILL)
        while not pool._idle._queue[0].reader.at_eof():
            await asyncio.sleep(0)
        second = done(await obey("pid"))
        os.kill(pool._nursery.pid, signal.SIGKILL)
        pool._nursery.wait()
        assert done(await obey("pid")) == second
        await obey("crash")
        assert done(await obey("pid")) not in (first, second)

    run(work)


@pytest.fixture
def held(tmp_path):
    """Give a command that makes a worker sleep, and a coroutine that waits until it does."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def asleep():
        await asyncio.to_thread(lambda: pipe.open("rb").close())

    return f"sleep {pipe}", asleep


def test_worker_that_blocks_is_replaced(monkeypatch):
    """A stopped process uses no CPU time, so only the clock tells."""

    async def work(pool, obey):
        first = done(await obey("pid"))
        os.kill(first, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(processes, "ANSWER_SECONDS", 0.0)
            pool.hello["seconds"] = 0.0
            assert await obey("pid") == {"busy": processes._LATE}
        pool.hello["seconds"] = fake_model.SECONDS
        assert done(await obey("pid")) != first
        return first

    ends(run(work))


def test_fork_that_blocks_is_given_up(monkeypatch):
    async def work(pool, obey):
        nursery = pool._nursery
        os.kill(nursery.pid, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(processes, "FORK_SECONDS", 0.0)
            assert await obey("crash") == {"busy": processes._LOST}
        assert nursery.poll() == -signal.SIGKILL
        assert done(await obey("pid"))

    run(work)


def test_load_that_blocks_is_given_up(monkeypatch):
    monkeypatch.setattr(processes, "LOAD_SECONDS", 0.01)
    before = psutil.Process().children()
    with pytest.raises(OSError, match="did not load within"):
        processes.Processes("stuck", 1)
    assert psutil.Process().children() == before


def test_lost_process_is_not_blamed_on_its_image(held):
    """All end at once, such as when memory runs out; and all but one, which then overruns."""
    command, asleep = held

    async def work(pool, obey):
        job = asyncio.create_task(obey(command))
        await asleep()
        os.killpg(pool._nursery.pid, signal.SIGKILL)
        assert await job == {"busy": processes._LOST}
        assert done(await obey("pid"))
        os.kill(pool._nursery.pid, signal.SIGKILL)
        pool._nursery.wait()
        assert await obey("crash") == {"busy": processes._LOST}
        assert await obey("crash") == {"error": processes.OVERRUN}

    run(work)


def test_busy_process_of_a_nursery_that_is_replaced(held):
    command, asleep = held

    async def work(pool, obey):
        job = asyncio.create_task(obey(command))
        await asleep()
        os.kill(pool._nursery.pid, signal.SIGKILL)
        pool._nursery.wait()
        await obey("crash")
        assert await job == {"busy": processes._LOST}
        assert done(await obey("pid"))

    run(work, count=2)


def test_changed_model_is_refused(tmp_path, monkeypatch, capsys):
    """A nursery that is started again has to load the same model."""
    monkeypatch.setattr(errors, "_printed", {})
    path = tmp_path / "model"
    path.write_text("first")

    async def work(pool, obey):
        hello = pool.hello
        path.write_text("second")
        os.kill(pool._nursery.pid, signal.SIGKILL)
        pool._nursery.wait()
        await obey("crash")
        assert list(await obey("pid")) == ["busy"]
        path.write_text("first")
        assert done(await obey("pid"))
        assert pool.hello == hello

    run(work, path=path)
    reason = f"{path}: changed since the server started; restart the server"
    assert capsys.readouterr().err == f"error: cannot start a worker process: {reason}\n"


def test_no_process_starts_during_shutdown(held, monkeypatch):
    command, asleep = held

    async def work(pool, obey):
        working = asyncio.create_task(obey(command))
        await asleep()
        waiting = [asyncio.create_task(obey("pid")) for _ in range(3)]
        await asyncio.sleep(0)
        monkeypatch.setattr(pool, "_fork", None)
        await pool.finish()
        assert await asyncio.gather(*waiting) == [{"busy": processes._CLOSING}] * 3
        assert working.cancelled()
        assert not pool._running

    run(work)


def test_unexpected_error_loses_no_worker(monkeypatch, capsys):
    monkeypatch.setattr(errors, "_printed", {})

    async def work(pool, obey):
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "open_connection", partial(_fail, RuntimeError()))
            await obey("crash")
            assert list(await obey("pid")) == ["busy"]
        assert done(await obey("pid"))

    run(work)
    assert capsys.readouterr().err == "error: cannot start a worker process: RuntimeError()\n"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limits for other processes")
def test_nursery_survives_too_many_open_files():
    async def work(pool, obey):
        nursery = pool._nursery.pid
        before = resource.prlimit(nursery, resource.RLIMIT_NOFILE)
        resource.prlimit(nursery, resource.RLIMIT_NOFILE, (0, before[1]))
        await obey("crash")
        assert list(await obey("pid")) == ["busy"]
        resource.prlimit(nursery, resource.RLIMIT_NOFILE, before)
        assert done(await obey("pid"))
        assert pool._nursery.pid == nursery

    run(work)


def test_job_of_a_cancelled_request_ends_alone(tmp_path):
    """Its answer does not reach the next request."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def work(pool, obey):
        first = asyncio.create_task(obey("allocate 50000000"))
        while not pool._running:
            await asyncio.sleep(0)
        first.cancel()
        assert isinstance(done(await obey("pid")), int)
        late = asyncio.create_task(obey(f"sleep {pipe}"))
        await asyncio.to_thread(lambda: pipe.open("rb").close())
        late.cancel()
        waiting = asyncio.create_task(obey("pid"))
        await asyncio.sleep(0)
        waiting.cancel()  # it has not begun, and does not

    run(work)


def test_no_process_is_left():
    pool = processes.Processes("model", 2)
    nursery = pool._nursery.pid
    group = [one.pid for one in psutil.process_iter() if _group(one.pid) == nursery]
    assert nursery in group
    del pool
    gc.collect()
    assert not any(psutil.pid_exists(pid) for pid in group)


def _group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@pytest.mark.parametrize(
    ("path", "error", "reason"),
    [
        ("bad", ValueError, "bad: a damaged model file"),
        ("dead", OSError, "ended while loading the model"),
    ],
)
def test_models_that_do_not_load(path, error, reason):
    with pytest.raises(error, match=reason):
        processes.Processes(path, 1)


def test_no_process_can_be_started(monkeypatch, capsys):
    monkeypatch.setattr(errors, "_printed", {})

    async def work(pool, obey):
        with monkeypatch.context() as patch:
            error = OSError(errno.EMFILE, "Too many open files")
            patch.setattr(socket, "socketpair", partial(_fail, error))
            await obey("crash")
            assert list(await obey("pid")) == ["busy"]
        assert done(await obey("pid"))

    run(work)
    assert capsys.readouterr().err == (
        "error: cannot start a worker process: [Errno 24] Too many open files\n"
    )


def _fail(error, *_, **__):
    raise error


@pytest.fixture
def fake_client():
    worker = Worker("model", n_jobs=2)
    app = create_app(worker)
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        yield client
    worker.workers.close()


def test_responses_of_overruns_and_failures(fake_client, capfd):
    good, bad = ("good", b"speak"), ("bad", b"crash")
    response = send(fake_client, "/api/predict", good, bad)
    assert response.status_code == 200
    first, second = response.json()["predictions"]
    assert first["label"] == "a"
    assert second == {"name": "bad", "error": processes.OVERRUN}
    response = send(fake_client, "/api/predict", bad)
    assert (response.status_code, response.json()["error"]) == (422, f"bad: {processes.OVERRUN}")
    assert send(fake_client, "/api/explain", bad).status_code == 422
    response = send(fake_client, "/api/predict", b"fail")
    assert response.status_code == 500
    assert response.json() == {"error": "Internal error; see the server's stderr"}
    assert capfd.readouterr() == ("", "")
