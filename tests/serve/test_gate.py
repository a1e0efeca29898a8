"""What every request passes: limits, hosts, origins, headers."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from starlette.testclient import TestClient

from lrrspm.images import ImageError
from lrrspm.serve import gate
from lrrspm.serve.app import create_app
from tests.serve.servers import limited, saved, send


def scope_of(address, *headers):
    return {
        "type": "http", "method": "POST", "path": address, "raw_path": address.encode(),
        "query_string": b"", "headers": [(b"host", b"localhost"), *headers],
        "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("localhost", 80),
    }  # fmt: skip


def ask(app, chunks, pause=0.0, headers=(), forever=False):
    """Send an upload piece by piece to an application; returns status, body and pieces read."""
    read = 0
    sent = []

    async def receive():
        nonlocal read
        if read < len(chunks) or forever:
            await asyncio.sleep(pause)
            read += 1
            return {"type": "http.request", "body": chunks[(read - 1) % len(chunks)],
                    "more_body": forever or read < len(chunks)}  # fmt: skip
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append((read, message))

    asyncio.run(app(scope_of("/api/explain", *headers), receive, send))
    (at, start), *rest = sent
    body = b"".join(message.get("body", b"") for _, message in rest)
    assert [message.get("more_body", False) for _, message in rest][-1] is False
    return start["status"], json.loads(body), at, dict(start["headers"])


FORM = (b"content-type", b"multipart/form-data; boundary=x")
CHUNKED = (b"transfer-encoding", b"chunked")
BEGINNING = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


@limited(request_bytes=1_000_000)
@pytest.mark.parametrize("length", [None, b"5000000"])
def test_a_large_request_is_refused_while_it_comes_in(worker, monkeypatch, length):
    monkeypatch.setattr(gate, "_LINGER", 0.2)
    sized = CHUNKED if length is None else (b"content-length", length)
    status, body, read, headers = ask(
        create_app(worker), [BEGINNING, *[bytes(100_000)] * 49], headers=[FORM, sized]
    )
    assert status == 413
    assert body["error"].startswith("the request has more than 1,000,000 bytes")
    assert read == (11 if length is None else 0)
    assert headers[b"connection"] == b"close"


@limited(request_bytes=1000)
def test_what_follows_a_refusal_is_not_read_for_ever(worker, monkeypatch):
    monkeypatch.setattr(gate, "_LINGER", 0.2)
    start = time.perf_counter()
    status, *_ = ask(create_app(worker), [BEGINNING], 0.001, [FORM, CHUNKED], forever=True)
    assert status == 413
    assert time.perf_counter() - start < 5


@limited(seconds=0.3)
def test_slow_uploads_end(worker, monkeypatch):
    monkeypatch.setattr(gate, "_LINGER", 0.1)
    status, body, _, _ = ask(create_app(worker), [BEGINNING, *[b"x"] * 1000], 0.05, [FORM, CHUNKED])
    assert status == 408
    assert body == {"error": "the upload was not complete after 0.3 seconds"}


@pytest.mark.parametrize(("pause", "status"), [(0.1, 408), (0.005, 422)])
def test_uploads_have_a_least_rate(worker, monkeypatch, pause, status):
    """20 pieces of 1000 bytes at 10,000 and at 200,000 bytes a second."""
    monkeypatch.setattr(gate, "_LINGER", 0.1)
    monkeypatch.setattr(gate, "_GRACE", 0.4)
    pieces = [BEGINNING, *[bytes(1000)] * 20, b"\r\n--x--\r\n"]
    with worker:
        found, body, _, _ = ask(create_app(worker), pieces, pause, [FORM, CHUNKED])
    assert found == status
    if status == 408:
        assert body == {"error": "the upload is too slow; it needs 20 kB a second"}


@pytest.fixture
def stuck(worker, monkeypatch):
    """Pictures take until they are let go."""
    go = threading.Event()
    examine = worker._classifier.examine

    def wait(image):
        go.wait(20)
        return examine(image)

    monkeypatch.setattr(worker._classifier, "examine", wait)
    yield go
    go.set()


@limited(seconds=0.3)
def test_slow_work_ends(own_client, stuck, picture):
    answer = send(own_client, "/api/explain", picture)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json() == {"error": "not done within 0.3 seconds; try again"}


@limited(seconds=0.3)
def test_work_on_an_upload_that_is_closed_ends(own_client, worker, monkeypatch):
    """Nobody waits for it any more, and nothing is said."""
    pixels = np.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8)
    examine, late, ends = worker._classifier.examine, threading.Event(), []

    def slow(file):
        late.wait(60)
        try:
            return examine(file)
        except ImageError as error:
            ends.append(error.reason)
            raise

    monkeypatch.setattr(worker._classifier, "examine", slow)
    assert send(own_client, "/api/explain", saved(pixels)).status_code == 503
    late.set()
    worker._pool.shutdown()
    assert len(ends) == 1
    assert "closed file" in ends[0]


def test_work_for_those_who_left_is_not_begun(own_client, worker, stuck, picture, monkeypatch):
    """A client sends 20 pictures and goes away: two threads begin with two of them."""
    part = BEGINNING.replace(b'"file"', b'"files"') + picture + b"\r\n"
    begun, examine = [], worker._classifier.examine

    def count(file):
        begun.append(file)
        return examine(file)

    monkeypatch.setattr(worker._classifier, "examine", count)
    upload = {"type": "http.request", "body": 20 * part + b"--x--\r\n"}
    sent = []

    async def come_and_go():
        messages = [upload]

        async def receive():
            while not messages and len(begun) < 2:
                await asyncio.sleep(0.01)
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await own_client.app(scope_of("/api/predict", FORM, CHUNKED), receive, send)

    start = time.perf_counter()
    asyncio.run(come_and_go())
    assert time.perf_counter() - start < 10  # and not the 20 seconds of those that are stuck
    assert sent == []
    assert own_client.app._under_way == 0
    stuck.set()
    worker._pool.shutdown()
    assert len(begun) == 2


@limited(waiting=3)
def test_too_many_requests_are_turned_away(own_client, stuck, picture):
    with ThreadPoolExecutor(3) as clients:
        waiting = [clients.submit(send, own_client, "/api/explain", picture) for _ in range(3)]
        while own_client.app._under_way < 3:
            time.sleep(0.01)
        refused = send(own_client, "/api/explain", picture)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json() == {"error": "too many requests are waiting; try again"}
        assert own_client.get("/api/model").status_code == 200
        stuck.set()
        assert [answer.result().status_code for answer in waiting] == [200, 200, 200]
    assert send(own_client, "/api/explain", picture).status_code == 200


def test_64_clients_at_once(client, picture):
    with ThreadPoolExecutor(64) as clients:
        asked = [clients.submit(send, client, "/api/predict", picture) for _ in range(64)]
        answers = [answer.result() for answer in asked]
    assert {answer.status_code for answer in answers} == {200}
    assert len({json.dumps(answer.json()["predictions"][0]["top"]) for answer in answers}) == 1


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RuntimeError("secret"), 500, "the server failed; what it printed says more"),
        (MemoryError(), 503, "out of memory; try again, or with a smaller picture"),
    ],
)
def test_failures_show_no_traceback(
    own_client, worker, monkeypatch, picture, error, status, reason
):
    def fail(image):
        raise error

    monkeypatch.setattr(worker._classifier, "examine", fail)
    answer = send(own_client, "/api/explain", picture)
    assert answer.status_code == status
    assert answer.json() == {"error": reason}
    assert "default-src 'none'" in answer.headers["content-security-policy"]


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
    answer = client.get("/api/model", headers={"Host": host})
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status == 421)


def test_hosts_of_a_server_for_everybody(worker):
    app = create_app(worker, [*gate.LOOPBACK, "camera.lan"], any_address=True)
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
def test_pages_of_other_sites_cannot_post(client, picture, headers, status):
    answer = send(client, "/api/explain", picture, headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


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
