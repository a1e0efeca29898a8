"""Connections: silent, slow, malformed, and too many."""

import asyncio
import errno
import json
import re
import resource
import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest
import uvicorn
from uvicorn.server import ServerState

from lrrspm.serve import connection, middleware, runner
from tests.conftest import hear_ctrl_c
from tests.serve.conftest import FakeClockLoop
from tests.serve.servers import port_of, serving

pytestmark = pytest.mark.network

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def respond_at_once(scope, receive, send):
    """Application that responds before it has read anything, and ends after the upload."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine", "more_body": True})
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def listening():
    """Accept connections; gives the port, and checks that the loop reports no errors."""
    config = uvicorn.Config(respond_at_once, http=connection.Connection, log_level="error")
    config.load()
    state, wrong = ServerState(), []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: wrong.append(context))
    server = await loop.create_server(
        lambda: connection.Connection(config, state, {}), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1]
    assert wrong == []


async def ask(port, *pieces):
    """Send a piece per second, and read until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    response = asyncio.create_task(reader.read())
    for piece in pieces:
        if not response.done():
            writer.write(piece)
            await asyncio.sleep(1)
    await asyncio.wait_for(response, 60)
    writer.close()
    return response.result()


def run(*pieces):
    """Send pieces to a server on a fake clock; returns the response."""

    async def send():
        async with listening() as port:
            return await ask(port, *pieces)

    return run_on_fake_clock(send())


def run_on_fake_clock(work):
    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:
        return runner.run(work)


def read(response):
    """Return status and error of an error response, and check the headers common to all."""
    head, _, body = response.partition(b"\r\n\r\n")
    headers = dict(re.findall(r"([\w-]+): (.*)", head.decode().lower().replace("\r", "")))
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert headers["cache-control"] == "no-store"
    for name, value in middleware.HEADERS.items():
        assert headers[name.lower()] == value.lower()
    return head.split(b"\r\n")[0].decode(), json.loads(body)["error"]


@pytest.mark.parametrize("before", [b"", GET + b"\r\n"])
def test_headers_have_a_deadline(before):
    """Those of the first request and those of later ones."""
    response = run(before, *(bytes([byte]) for byte in GET))
    if before:
        first, response = response.split(b"0\r\n\r\n", 1)
        assert b"fine" in first
    reason = "Headers not complete after 10 seconds"
    assert read(response) == ("HTTP/1.1 408 Request Timeout", reason)


def test_silent_connections_are_closed():
    assert run() == b""


def test_requests_may_take_longer_than_their_headers():
    upload = GET.replace(b"GET", b"POST") + b"Connection: close\r\nContent-Length: 16\r\n\r\n"
    assert run(upload, *[b"x"] * 16).endswith(b"fine\r\n0\r\n\r\n")


CHUNKED = GET.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"junk\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        GET + b"Host: other\r\n\r\n",
        GET + b"A: " + 70_000 * b"a",
        b"\x16\x03\x01\x02\x00\x01",  # a client that expects HTTPS
    ],
)
def test_malformed_requests_are_rejected(request_):
    reason = "Malformed HTTP request"
    assert read(run(request_ + b"\r\n")) == ("HTTP/1.1 400 Bad Request", reason)


def test_request_that_is_malformed_after_the_response_began():
    response = run(CHUNKED, b"no length\r\n")
    assert response.startswith(b"HTTP/1.1 200 ")
    assert response.count(b"HTTP/1.1") == 1


def test_too_many_connections_are_rejected(monkeypatch):
    monkeypatch.setattr(connection, "max_connections", lambda: 2)

    async def crowd():
        async with listening() as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            rejected = await ask(port)
            for _, writer in held:
                writer.close()
            await asyncio.sleep(1)
            return rejected, await ask(port, GET + b"Connection: close\r\n\r\n")

    rejected, accepted = run_on_fake_clock(crowd())
    reason = "Too many connections; try again"
    assert read(rejected) == ("HTTP/1.1 503 Service Unavailable", reason)
    assert b"fine" in accepted


def test_rejected_request_is_read_before_the_connection_closes(monkeypatch):
    """Else the connection would be reset, and the response might not arrive."""
    monkeypatch.setattr(connection, "max_connections", lambda: 0)

    async def ahead():
        async with listening() as port:
            # All of it is there before the loop gets to accept the connection.
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(GET + b"A: " + 60_000 * b"a" + b"\r\n\r\n")
                return await asyncio.to_thread(client.makefile("rb").read)

    reason = "Too many connections; try again"
    assert read(asyncio.run(ahead())) == ("HTTP/1.1 503 Service Unavailable", reason)


def limit_files(count):
    """For a process about to start: it may open few files."""
    hear_ctrl_c()
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_out_of_open_files(model_path):
    """Three times as many connections as files: few messages, and the server recovers."""
    few = partial(limit_files, 100)
    with serving(model_path, "--port", "0", "--json", before=few) as (process, said):
        crowd = [socket.create_connection(("127.0.0.1", port_of(said))) for _ in range(300)]
        for one in crowd:
            one.settimeout(20)
        rejected = sum(one.recv(1000).startswith(b"HTTP/1.1 503 ") for one in crowd[200:])
        assert rejected > 50
        for one in crowd:
            one.close()
        with socket.create_connection(("127.0.0.1", port_of(said)), timeout=20) as last:
            last.sendall(GET + b"Connection: close\r\n\r\n")
            assert last.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
        process.terminate()
        messages = process.communicate(timeout=20)[1].splitlines()
    assert len(messages) <= 1
    assert all(line.startswith("error: cannot accept connections: ") for line in messages)


def test_crowd_at_the_start_with_few_open_files(model_path):
    """The first connections are more than the files that the server may open."""
    request = GET + b"Connection: close\r\n\r\n"
    few = partial(limit_files, 64)
    with serving(model_path, "--port", "0", "--json", before=few) as (process, said):
        crowd = [socket.create_connection(("127.0.0.1", port_of(said))) for _ in range(120)]
        for one in crowd:
            one.sendall(request)
        for one in crowd:
            one.close()
        with socket.create_connection(("127.0.0.1", port_of(said)), timeout=20) as last:
            last.sendall(request)
            assert last.makefile("rb").read().startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
        with socket.create_connection(("127.0.0.1", port_of(said)), timeout=20) as last:
            last.sendall(request)
            assert last.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
        process.terminate()
        messages = process.communicate(timeout=20)[1].splitlines()
    assert all(line.startswith("error: cannot ") for line in messages), messages


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not supported by the system")
def test_clients_that_do_not_read_are_dropped(monkeypatch):
    monkeypatch.setattr(runner, "_STALL_SECONDS", 1)
    with runner._bind("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            accepted.settimeout(20)
            with pytest.raises(TimeoutError) as raised:
                accepted.sendall(bytes(100_000_000))
            assert raised.value.errno == errno.ETIMEDOUT  # not the 20 seconds above


def test_limit_on_open_files_is_raised(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    monkeypatch.setattr("psutil.Process.num_fds", lambda _: 100)
    assert connection.max_connections.__wrapped__() == 2450
    assert asked == [(5000, 5000)]


def test_too_many_files_are_rejected_during_upload(model_path):
    part = (
        b'--B\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n" + bytes(1000) + b"\r\n"
    )
    head = (
        b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
        b"Content-Type: multipart/form-data; boundary=B\r\n\r\n"
    )
    with (
        serving(model_path, "--port", "0", "--json", "--max-files", "2") as (_, said),
        socket.create_connection(("127.0.0.1", port_of(said)), timeout=60) as client,
    ):
        client.sendall(head + 3 * part)  # and no more
        response = b""
        while not response.endswith(b"}"):
            more = client.recv(10_000)
            assert more, response
            response += more
    assert b" 422 " in response.splitlines()[0]
    assert b"Too many files. Maximum number of files is 2." in response
