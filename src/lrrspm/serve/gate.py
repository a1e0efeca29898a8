"""What every request passes: who may ask, how much, for how long, and the headers of the answer."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import sys
import time
from collections.abc import Collection

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import Limits

# An IPv6 address, or a name or an IPv4 address; and a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Requests whose uploads are read at a time, so that few temporary files are open; others wait
# with their uploads unread.
_AT_ONCE = 32
# Seconds that the rest of a refused upload is read and dropped: whoever sends it would otherwise
# find the connection broken, and never see why.
_LINGER = 5.0
# Bytes a second that an upload has to come in with, on the whole and after some seconds: one that
# stands still would keep others waiting.
_SLOWEST = 20_000
_GRACE = 5.0
# Seconds in which the same is not complained of twice, and when it was last.
_SILENCE = 60.0
_complaints: dict[str, float] = {}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def problem(status: int, error: str, **headers: str) -> JSONResponse:
    """An answer that says what went wrong."""
    return JSONResponse({"error": plain(error)}, status, headers)


# Marks that have what follows read from right to left: "gnp.exe" backwards ends in "png".
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text that JSON can carry and people read as it is: what is neither is written out."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return _DIRECTIONS.sub(lambda mark: ascii(mark[0])[1:-1], text)


def complain(about: str) -> None:
    """A line on stderr, the same at most once a minute."""
    now = time.monotonic()
    if now - _complaints.get(about, -_SILENCE) >= _SILENCE:
        _complaints[about] = now
        print(f"error: {about}", file=sys.stderr, flush=True)


class Gate:
    """An ASGI application before another one.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    hosts : collection of str
        Names under which the server may be asked, without ports. A page of
        another site that has its own name resolved to this machine ("DNS
        rebinding") asks under that name, and is refused.
    any_address : bool
        Whether it may be asked under every IP address too; those have no
        name that could be resolved anew.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        hosts: Collection[str] = LOOPBACK,
        any_address: bool = False,
    ) -> None:
        self.app = app
        self._limits = limits
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # whoever sends the answer leaves its body out
            scope = {**scope, "method": "GET"}
        visit = _Visit(scope, receive, send, self._limits.request_bytes)
        refusal = self._refusal(scope, visit)
        try:
            if refusal is not None:
                await refusal(scope, visit.receive, visit.send)
            elif scope["method"] == "POST":
                await self._let_in(scope, visit)
            else:
                await self.app(scope, visit.receive, visit.send)
        finally:
            await visit.finish()

    def _refusal(self, scope: Scope, visit: _Visit) -> JSONResponse | None:
        """Why a request is turned away at its headers, or None."""
        headers = visit.headers
        host = headers.get("host", "")
        if not self._is_ours(host):
            return problem(421, f"this server does not answer for the host {host!r}")
        if scope["method"] != "GET" and _is_cross_site(headers, host):
            return problem(403, "requests from pages of other sites are refused")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._limits.request_bytes:
            return problem(413, _too_large(self._limits.request_bytes))
        if scope["method"] == "POST" and self._under_way >= self._limits.waiting:
            return problem(503, "too many requests are waiting; try again", **{"Retry-After": "1"})
        return None

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        name = found[1] or found[2] if found else ""
        return name in self._hosts or (self._any_address and is_address(name))

    async def _let_in(self, scope: Scope, visit: _Visit) -> None:
        """Have a request wait for its turn, within the time that it has."""
        self._under_way += 1
        timer = asyncio.timeout(self._limits.seconds)
        watch = asyncio.create_task(_end_with(visit, timer))
        try:
            async with timer, self._slots:
                await self.app(scope, visit.receive, visit.send)
        except TimeoutError:
            if not timer.expired():
                raise
            if not visit.started and not visit.left:
                await self._too_slow(visit)(scope, visit.receive, visit.send)
        except asyncio.CancelledError:  # the server ends, and has waited long enough
            visit.linger = 0
            if not visit.started:
                await problem(503, "the server is stopping")(scope, visit.receive, visit.send)
        finally:
            watch.cancel()
            self._under_way -= 1

    def _too_slow(self, visit: _Visit) -> JSONResponse:
        seconds = f"{self._limits.seconds:g} seconds"
        if visit.receiving:
            return problem(408, f"the upload was not complete after {seconds}")
        return problem(503, f"not done within {seconds}; try again", **{"Retry-After": "1"})


class _Visit:
    """One request and its answer: counts what comes in, adds headers to what goes out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, most: int) -> None:
        self.headers = Headers(scope=scope)
        self.started = False
        self.receiving = False
        self.left = False
        self.linger = _LINGER
        self._receive, self._send, self._most = receive, send, most
        self._api = scope["path"].startswith("/api/")
        self._size = 0
        self._waited = 0.0
        # Whether there is more to come of the upload.
        self._more = "transfer-encoding" in self.headers or (
            self.headers.get("content-length", "0") != "0"
        )
        self._complete = asyncio.Event()
        self._owed = False

    async def receive(self) -> Message:
        self.receiving = True
        message = await self._piece()
        self.receiving = False
        self._more = _has_more(message)
        self._size += len(message.get("body", b""))
        if self._size > self._most:
            raise HTTPException(413, _too_large(self._most))
        if not self._more:
            self._complete.set()
        return message

    async def _piece(self) -> Message:
        """What comes next of an upload, if it comes soon enough."""
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            async with asyncio.timeout(_GRACE + self._size / _SLOWEST - self._waited):
                return await self._receive()
        except TimeoutError:
            least = f"{_SLOWEST // 1000} kB a second"
            raise HTTPException(408, f"the upload is too slow; it needs {least}") from None
        finally:
            self._waited += clock() - start

    async def leave(self) -> None:
        """Wait until whoever sent a complete upload is gone."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.left = True

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers["Cache-Control"] = "no-store" if self._api else "no-cache"
            if self._more:
                headers["Connection"] = "close"
        elif self._more and not message.get("more_body", False):
            self._owed = True
            message = {**message, "more_body": True}
        await self._send(message)

    async def finish(self) -> None:
        """End an answer that came before the upload's end: read on for a while, and drop it."""
        if not self._owed:
            return
        try:
            async with asyncio.timeout(self.linger):
                while self._more and self.linger:
                    message = await self._receive()
                    self._more = _has_more(message)
        except (TimeoutError, asyncio.CancelledError):  # the latter: the server ends
            pass
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _end_with(visit: _Visit, timer: asyncio.Timeout) -> None:
    """Have a request's time end as soon as nobody waits for the answer."""
    await visit.leave()
    if not visit.started and not timer.expired():
        timer.reschedule(asyncio.get_running_loop().time())


def is_address(host: str) -> bool:
    """Whether a host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_cross_site(headers: Headers, host: str) -> bool:
    """Whether a browser says that a page of another site asks."""
    if "origin" in headers:
        return headers["origin"].partition("://")[2].lower() != host.lower()
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def _too_large(most: int) -> str:
    return f"the request has more than {most:,} bytes; send fewer or smaller pictures"


def _has_more(message: Message) -> bool:
    """Whether more of an upload is to come after a message."""
    return message["type"] == "http.request" and message.get("more_body", False)
