"""Middleware: limits, deadlines, hosts, origins, headers."""

import asyncio
import json
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from lrrspm.images import ImageError
from lrrspm.serve import middleware
from lrrspm.serve.app import create_app
from tests.serve.conftest import FakeClockLoop
from tests.serve.servers import encoded, limited, send


def scope_of(address, *headers):
    return {
        "type": "http", "method": "POST", "path": address, "raw_path": address.encode(),
        "query_string": b"", "headers": [(b"host", b"localhost"), *headers],
        "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("localhost", 80),
    }  # fmt: skip


def ask(app, chunks, pause=0.0, headers=(), forever=False):
    """Upload pieces with pauses, on a fake clock.

    Returns status, body, number of pieces read before the response, headers, and seconds.
    """
    read = 0
    sent = []

    async def receive():
        nonlocal read
        if read < len(chunks) or forever:
            await asyncio.sleep(pause)
            read += 1
            return {"type": "http.request", "body": chunks[(read - 1) % len(chunks)],
                    "more_body": forever or read < len(chunks)}  # fmt: skip
        await asyncio.Event().wait()

    async def send(message):
        sent.append((read, message))

    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:
        runner.run(app(scope_of("/api/explain", *headers), receive, send))
        seconds = runner.get_loop().time()
    (at, start), *rest = sent
    body = b"".join(message.get("body", b"") for _, message in rest)
    assert [message.get("more_body", False) for _, message in rest][-1] is False
    return start["status"], json.loads(body), at, dict(start["headers"]), seconds


@pytest.fixture
def inline_writes(monkeypatch):
    """Write uploads to disk in the same thread: the fake clock does not wait for others."""

    async def write(work, *arguments):
        return work(*arguments)

    monkeypatch.setattr("starlette.datastructures.run_in_threadpool", write)


FORM = (b"content-type", b"multipart/form-data; boundary=x")
CHUNKED = (b"transfer-encoding", b"chunked")
BEGINNING = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


@limited(request_bytes=1_000_000)
@pytest.mark.parametrize("length", [None, b"5000000"])
def test_large_request_is_rejected_during_upload(worker, inline_writes, length):
    sized = CHUNKED if length is None else (b"content-length", length)
    status, body, read, headers, _ = ask(
        create_app(worker), [BEGINNING, *[bytes(100_000)] * 49], headers=[FORM, sized]
    )
    assert status == 413
    assert body["error"].startswith("Request is larger than 1 MB; ")
    assert read == (11 if length is None else 0)
    assert headers[b"connection"] == b"close"


@limited(request_bytes=1000)
def test_rest_of_a_rejected_upload_is_not_read_forever(worker):
    status, _, read, _, seconds = ask(
        create_app(worker), [BEGINNING], 0.01, [FORM, CHUNKED], forever=True
    )
    assert status == 413
    assert seconds == pytest.approx(0.01 * read + middleware._DRAIN_SECONDS, abs=0.1)


@limited(seconds=30)
def test_upload_has_a_deadline(worker, inline_writes):
    """One piece of 100 kB per second is fast enough, but 1000 pieces are too many."""
    status, body, _, _, seconds = ask(
        create_app(worker), [BEGINNING, *[bytes(100_000)] * 1000], 1.0, [FORM, CHUNKED]
    )
    assert status == 408
    assert body == {"error": "Upload not complete after 30 seconds"}
    assert seconds == pytest.approx(30 + middleware._DRAIN_SECONDS)


class InlineExecutor(Executor):
    """Runs work at once, in the same thread: a fake clock does not wait for threads."""

    def submit(self, work, /, *arguments, **named):
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize(("rate", "status"), [(19_000, 408), (21_000, 422)])
def test_upload_has_a_minimum_rate(worker, inline_writes, rate, status):
    worker.workers.pool = InlineExecutor()
    size = 10_000
    grace = middleware._GRACE_SECONDS * middleware._MIN_RATE
    pieces = [BEGINNING, *[bytes(size)] * int(25 * grace / size), b"\r\n--x--\r\n"]
    app = create_app(worker)
    app._limits = app._limits.model_copy(update={"seconds": 1e6})
    found, body, *_ = ask(app, pieces, size / rate, [FORM, CHUNKED])
    assert found == status
    if status == 408:
        assert body == {"error": "Upload is too slow; at least 20 kB per second needed"}


def test_slow_uploads_make_way_for_others(worker, inline_writes, monkeypatch):
    """Forty at 26 kB per second have every place; another one gets one within seconds."""
    worker.workers.pool = InlineExecutor()
    app = create_app(worker)
    ending = b"\r\n--x--\r\n"
    large = [BEGINNING, bytes(400_000), ending]
    slow = [BEGINNING, *[bytes(26_000)] * 1000]

    async def upload(chunks, pause):
        todo, statuses = list(chunks), []

        async def receive():
            if not todo:
                await asyncio.Event().wait()
            await asyncio.sleep(pause)
            return {"type": "http.request", "body": todo.pop(0), "more_body": bool(todo)}

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await app(scope_of("/api/explain", FORM, CHUNKED), receive, send)
        return statuses[0], asyncio.get_running_loop().time()

    async def crowd():
        slow_ones = [asyncio.create_task(upload(slow, 1.0)) for _ in range(40)]
        await asyncio.sleep(3)
        begun = asyncio.get_running_loop().time()
        status, end = await upload(large, 0.0)
        for one in slow_ones:
            one.cancel()
        await asyncio.gather(*slow_ones, return_exceptions=True)
        return status, end - begun

    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:
        status, seconds = runner.run(crowd())
    assert status == 422  # zeros are no image, but they were read
    assert seconds < 3


def test_small_uploads_need_no_place(worker, inline_writes):
    worker.workers.pool = InlineExecutor()
    app = create_app(worker)
    app._uploads = asyncio.Semaphore(0)
    body = BEGINNING + bytes(1000) + b"\r\n--x--\r\n"
    length = (b"content-length", str(len(body)).encode())
    assert ask(app, [body], headers=[FORM, length])[0] == 422
    assert ask(app, [body], headers=[FORM, CHUNKED])[0] in (408, 503)


@pytest.fixture
def stuck(worker, monkeypatch):
    """Event that work on images waits for."""
    go = threading.Event()
    examine = worker.workers.model.classifier.examine

    def wait(image):
        go.wait(60)
        return examine(image)

    monkeypatch.setattr(worker.workers.model.classifier, "examine", wait)
    yield go
    go.set()


@pytest.fixture
def fake_clock_client(worker):
    with TestClient(
        create_app(worker), "http://localhost", backend_options={"loop_factory": FakeClockLoop}
    ) as client:
        yield client


def test_work_has_a_deadline(fake_clock_client, stuck, image):
    response = send(fake_clock_client, "/api/explain", image)
    stuck.set()
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.json() == {"error": "Not done after 30 seconds; try again"}


def test_late_work_finds_its_upload_closed(fake_clock_client, worker, inline_writes, monkeypatch):
    """Nobody waits for it, and nothing is printed."""
    pixels = np.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8)
    examine, late, reasons = worker.workers.model.classifier.examine, threading.Event(), []

    def slow(file):
        late.wait(60)
        try:
            return examine(file)
        except ImageError as error:
            reasons.append(error.reason)
            raise

    monkeypatch.setattr(worker.workers.model.classifier, "examine", slow)
    assert send(fake_clock_client, "/api/explain", encoded(pixels)).status_code == 503
    late.set()
    worker.workers.pool.shutdown()
    assert len(reasons) == 1
    assert "closed file" in reasons[0]


def test_work_for_disconnected_clients_does_not_start(
    own_client, worker, stuck, image, monkeypatch
):
    """A client sends 20 images and disconnects: two threads have begun with two of them."""
    part = BEGINNING.replace(b'"file"', b'"files"') + image + b"\r\n"
    begun, examine = [], worker.workers.model.classifier.examine
    both = threading.Event()

    def count(file):
        begun.append(file)
        if len(begun) == 2:
            both.set()
        return examine(file)

    monkeypatch.setattr(worker.workers.model.classifier, "examine", count)
    upload = {"type": "http.request", "body": 20 * part + b"--x--\r\n"}
    sent = []

    async def come_and_go():
        messages = [upload]

        async def receive():
            if messages:
                return messages.pop()
            await asyncio.to_thread(both.wait, 60)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await own_client.app(scope_of("/api/predict", FORM, CHUNKED), receive, send)

    asyncio.run(come_and_go())
    assert sent == []  # so it did not wait for the work to end
    assert own_client.app.active == 0
    stuck.set()
    worker.workers.pool.shutdown()
    assert len(begun) == 2


@limited(waiting=3)
def test_too_many_requests_are_rejected(own_client, stuck, image):
    with ThreadPoolExecutor(3) as clients:
        waiting = [clients.submit(send, own_client, "/api/explain", image) for _ in range(3)]
        while own_client.app.active < 3:
            time.sleep(0.01)
        rejected = send(own_client, "/api/explain", image)
        assert rejected.status_code == 503
        assert rejected.headers["retry-after"] == "1"
        assert rejected.json() == {"error": "Too many requests are waiting; try again"}
        assert own_client.get("/api/model").status_code == 200
        stuck.set()
        assert [response.result().status_code for response in waiting] == [200, 200, 200]
    assert send(own_client, "/api/explain", image).status_code == 200


def test_64_clients_at_once(client, image):
    with ThreadPoolExecutor(64) as clients:
        asked = [clients.submit(send, client, "/api/predict", image) for _ in range(64)]
        responses = [response.result() for response in asked]
    assert {response.status_code for response in responses} == {200}
    assert len({json.dumps(one.json()["predictions"][0]["top"]) for one in responses}) == 1


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RuntimeError("secret"), 500, "Internal error; see the server's stderr"),
        (MemoryError(), 503, "Out of memory; try again, or with a smaller image"),
    ],
)
def test_failures_show_no_traceback(own_client, worker, monkeypatch, image, error, status, reason):
    def fail(image):
        raise error

    monkeypatch.setattr(worker.workers.model.classifier, "examine", fail)
    response = send(own_client, "/api/explain", image)
    assert response.status_code == status
    assert response.json() == {"error": reason}
    assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("[::1]:8000", 200),
        ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("192.0.2.1", 421), ("", 421),
        ("[::1", 421), ("localhost@evil.example", 421), ("evil.example@localhost", 421),
        ("localhost#.evil.example", 421), ("localhost/evil.example", 421), ("local\thost", 421),
        ("localhost?", 421), ("localhost:", 421), ("localhost:evil", 421), ("[localhost]", 421),
        ("::1", 421), ("localhost\\evil.example", 421),
    ],
)  # fmt: skip
def test_hosts(client, host, status):
    response = client.get("/api/model", headers={"Host": host})
    assert response.status_code == status
    assert ("error" in response.json()) == (status == 421)


def test_hosts_of_a_public_server(worker):
    app = create_app(worker, [*middleware.LOOPBACK, "camera.lan"], any_address=True)
    with TestClient(app) as client:
        for host, status in (("192.0.2.1:80", 200), ("camera.lan", 200), ("evil.example", 421)):
            assert client.get("/", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1:8000"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://127.0.0.1:9000"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_other_sites_cannot_post(client, image, headers, status):
    response = send(client, "/api/explain", image, headers=headers)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("address", ["/", "/docs", "/static/app.js", "/api/model", "/nowhere"])
def test_headers(client, address):
    headers = client.get(address).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
        "img-src": "'self' blob: data:", "connect-src": "'self'", "frame-ancestors": "'none'",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-store" if "/api/" in address else "no-cache")
    assert not [name for name in headers if name.startswith("access-control")]
