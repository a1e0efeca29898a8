"""Connections: those that send nothing, too slowly, or what is no request; and too many."""

import asyncio
import errno
import json
import re
import resource
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from lrrspm.serve import connection, gate, run
from tests.serve.servers import port_of, serving

pytestmark = pytest.mark.network

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def answer_at_once(scope, receive, send):
    """An application that answers before it has read anything, and takes its time to end."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine", "more_body": True})
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def listening():
    """A server of connections; gives its port, and what the loop complains of."""
    config = uvicorn.Config(answer_at_once, http=connection.Connection, log_level="error")
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
    """Send pieces, and read until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(reader.read())
    for piece in pieces:
        if not answer.done():
            writer.write(piece)
            await asyncio.sleep(0.05)
    await asyncio.wait_for(answer, 20)
    writer.close()
    return answer.result()


def read(answer):
    """Status and error of an answer of our own, with the headers that all answers have."""
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = dict(re.findall(r"([\w-]+): (.*)", head.decode().lower().replace("\r", "")))
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert headers["cache-control"] == "no-store"
    for name, value in gate.HEADERS.items():
        assert headers[name.lower()] == value.lower()
    return head.split(b"\r\n")[0].decode(), json.loads(body)["error"]


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(connection, "_PATIENCE", 0.3)


@pytest.mark.parametrize("before", [b"", GET + b"\r\n"])
def test_headers_may_not_take_for_ever(hasty, before):
    """Neither those of the first request nor those of later ones."""

    async def trickle():
        async with listening() as port:
            pieces = [before, *(bytes([byte]) for byte in 20 * GET)]
            return await ask(port, *pieces)

    answer = asyncio.run(trickle())
    if before:
        first, answer = answer.split(b"0\r\n\r\n", 1)
        assert b"fine" in first
    reason = "the headers were not complete after 0.3 seconds"
    assert read(answer) == ("HTTP/1.1 408 Request Timeout", reason)


def test_connections_that_say_nothing_are_closed(hasty):
    async def say_nothing():
        async with listening() as port:
            return await ask(port)

    assert asyncio.run(say_nothing()) == b""


def test_requests_may_take_longer_than_their_headers(hasty):
    async def send_slowly():
        async with listening() as port:
            upload = (
                GET.replace(b"GET", b"POST") + b"Connection: close\r\nContent-Length: 16\r\n\r\n"
            )
            return await ask(port, upload, *[b"x"] * 16)

    assert asyncio.run(send_slowly()).endswith(b"fine\r\n0\r\n\r\n")


CHUNKED = GET.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"junk\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        GET + b"Host: other\r\n\r\n",
        GET + b"A: " + 70_000 * b"a",
        b"\x16\x03\x01\x02\x00\x01",  # whoever takes it for HTTPS
    ],
)
def test_what_is_no_request_hears_so(request_):
    async def send():
        async with listening() as port:
            return await ask(port, request_ + b"\r\n")

    reason = "this is no sound HTTP request"
    assert read(asyncio.run(send())) == ("HTTP/1.1 400 Bad Request", reason)


def test_a_request_that_goes_bad_after_the_answer_began():
    async def send():
        async with listening() as port:
            return await ask(port, CHUNKED, b"no length\r\n")

    answer = asyncio.run(send())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_too_many_connections_are_turned_away(monkeypatch):
    monkeypatch.setattr(connection, "_most", lambda: 2)

    async def crowd():
        async with listening() as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            refused = await ask(port)
            for _, writer in held:
                writer.close()
            await asyncio.sleep(0.2)
            return refused, await ask(port, GET + b"Connection: close\r\n\r\n")

    refused, answered = asyncio.run(crowd())
    reason = "too many connections; try again"
    assert read(refused) == ("HTTP/1.1 503 Service Unavailable", reason)
    assert b"fine" in answered


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limit for another process")
def test_no_more_files_may_be_opened(model_path):
    """Three times as many connections as files: few lines, and afterwards all is well."""
    with serving(model_path, "--port", "0", "--json") as (process, said):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (100, 100))
        crowd = [socket.create_connection(("127.0.0.1", port_of(said))) for _ in range(300)]
        for one in crowd:
            one.settimeout(20)
        refused = sum(one.recv(1000).startswith(b"HTTP/1.1 503 ") for one in crowd[200:])
        assert refused > 50
        for one in crowd:
            one.close()
        with socket.create_connection(("127.0.0.1", port_of(said)), timeout=20) as last:
            last.sendall(GET + b"Connection: close\r\n\r\n")
            assert last.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
        process.terminate()
        complaints = process.communicate(timeout=20)[1].splitlines()
    assert len(complaints) <= 1
    assert all(line.startswith("error: connections have to wait") for line in complaints)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system cannot tell")
def test_who_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(run, "_UNREAD", 1)
    with run._bind("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            accepted.settimeout(20)
            with pytest.raises(TimeoutError) as raised:
                accepted.sendall(bytes(100_000_000))
            assert raised.value.errno == errno.ETIMEDOUT  # and not those 20 seconds


def test_files_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert connection._most.__wrapped__() == 2500
    assert asked == [(5000, 5000)]


def test_too_many_files_are_refused_before_all_have_come(model_path):
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
        answer = b""
        while not answer.endswith(b"}"):
            more = client.recv(10_000)
            assert more, answer
            answer += more
    assert b" 422 " in answer.splitlines()[0]
    assert b"more than 2 pictures; send fewer" in answer
