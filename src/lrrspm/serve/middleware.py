"""Middleware around the application: hosts, origins, limits and security headers.

Starlette's TrustedHostMiddleware cannot accept all IP addresses and no other
name, and its RequestBodyLimitMiddleware looks at a request only when its body
is read; neither answers in JSON. Queue, minimum rate and deadline are ours.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from fastapi import HTTPException
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import RETRY, error_response
from .schemas import Limits

# An IPv6 address, or a name or IPv4 address; optionally a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Uploads read at a time, to keep few temporary files open; others wait unread. Small ones stay in
# memory and need not wait.
_UPLOADS = 32
SPOOL_BYTES = 2**18
"""Bytes from which a part of a form is kept on disk."""
# Seconds to read and discard the rest of a rejected upload: a client that is still sending would
# otherwise see a broken connection instead of the reason.
_DRAIN_SECONDS = 5.0
# Average bytes per second that an upload needs once these seconds have passed: a stalled upload
# would keep others waiting. If others do wait, it must be faster.
_MIN_RATE = 20_000
_GRACE_SECONDS = 5.0
_BUSY_RATE = 200_000
_BUSY_GRACE_SECONDS = 2.0
# Decoding is slow and even quadratic for others that Python knows, such as punycode.
_CHARSETS = ("utf-8", "utf8", "ascii", "us-ascii")
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


class GuardMiddleware:
    """Reject foreign hosts and origins, limit uploads, add security headers.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    hosts : collection of str
        Accepted hosts, without ports. A site whose name resolves to this
        machine ("DNS rebinding") sends its own name, and is rejected.
    any_address : bool
        Accept every IP address as well; an address cannot be rebound.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, hosts: Collection[str], any_address: bool
    ) -> None:
        self.app = app
        self.active: int = 0
        self._limits = limits
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address
        self._uploads = asyncio.Semaphore(_UPLOADS)
        self._uploading: set[_Exchange] = set()
        self._queued = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # uvicorn omits the body
            scope = {**scope, "method": "GET"}
        exchange = _Exchange(
            scope, receive, send, self._limits.request_bytes, lambda: self._queued > 0
        )
        rejection = self._reject(scope["method"], exchange.headers)
        try:
            if rejection is None and scope["method"] == "POST":
                await self._process(scope, exchange)
            else:
                await (rejection or self.app)(scope, exchange.receive, exchange.send)
        finally:
            await exchange.finish()

    def _reject(self, method: str, headers: Headers) -> JSONResponse | None:
        """Return the error response of a request with unacceptable headers, else None."""
        host = headers.get("host", "")
        if not self._accepts(host):
            return error_response(421, f"This server does not answer for host {host!r}")
        if method != "GET" and _is_cross_site(headers, host):
            return error_response(403, "Cross-site requests are not allowed")
        if _length(headers, 0) > self._limits.request_bytes:
            return error_response(413, _too_large(self._limits.request_bytes))
        if method == "POST" and (charset := _charset(headers)) not in _CHARSETS:
            return error_response(415, f"Charset {charset!r} is not supported; use UTF-8")
        if method == "POST" and self.active >= self._limits.waiting:
            return error_response(503, "Too many requests are waiting; try again", **RETRY)
        return None

    def _accepts(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        name = found[1] or found[2] if found else ""
        return name in self._hosts or (self._any_address and is_address(name))

    @asynccontextmanager
    async def _place(self, exchange: _Exchange) -> AsyncIterator[None]:
        """Wait for the turn of an upload; one that stays in memory needs none."""
        if _length(exchange.headers, SPOOL_BYTES + 1) <= SPOOL_BYTES:
            yield
            return
        if self._uploads.locked() and self._queued == 0:
            for one in self._uploading:
                one.hurry()
        self._queued += 1
        try:
            await self._uploads.acquire()
        finally:
            self._queued -= 1
        self._uploading.add(exchange)
        try:
            yield
        finally:
            self._uploading.discard(exchange)
            self._uploads.release()

    async def _process(self, scope: Scope, exchange: _Exchange) -> None:
        """Pass an upload on when its turn has come, and enforce the deadline."""
        self.active += 1
        timer = asyncio.timeout(self._limits.seconds)
        watch = asyncio.create_task(exchange.expire_on_disconnect(timer))
        error = None
        try:
            async with timer, self._place(exchange):
                await self.app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            if not timer.expired():
                raise
            seconds = f"{self._limits.seconds:g} seconds"
            if exchange.receiving:
                error = error_response(408, f"Upload not complete after {seconds}")
            else:
                error = error_response(503, f"Not done after {seconds}; try again", **RETRY)
        except asyncio.CancelledError:  # uvicorn's graceful shutdown has timed out
            exchange.drain_seconds = 0
            error = error_response(503, "The server is shutting down")
        finally:
            watch.cancel()
            self.active -= 1
        if error is not None and not exchange.started and not exchange.disconnected:
            await error(scope, exchange.receive, exchange.send)


class _Exchange:
    """A request and its response: limit what comes in, add headers to what goes out."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        max_bytes: int,
        others_wait: Callable[[], bool],
    ) -> None:
        self.headers = Headers(scope=scope)
        self._others_wait = others_wait
        self._timer: asyncio.Timeout | None = None
        self.started = self.receiving = self.disconnected = False
        self.drain_seconds = _DRAIN_SECONDS
        self._receive, self._send, self._max_bytes = receive, send, max_bytes
        self._cache = "no-store" if scope["path"].startswith("/api/") else "no-cache"
        self._size = 0
        self._seconds = 0.0
        # True while more of the upload is to come.
        self._more = "transfer-encoding" in self.headers or (
            self.headers.get("content-length", "0") != "0"
        )
        self._complete = asyncio.Event()
        self._unfinished = False

    async def receive(self) -> Message:
        """Receive the next piece of the upload, if it is soon and small enough."""
        clock = asyncio.get_running_loop().time
        start = clock()
        self.receiving = True
        try:
            async with asyncio.timeout_at(start + self._patience()) as self._timer:
                message = await self._next()
        except TimeoutError:
            needed = f"at least {self._min_rate[0] // 1000} kB per second needed"
            raise HTTPException(408, f"Upload is too slow; {needed}") from None
        finally:
            self._timer = None
        self.receiving = False
        self._seconds += clock() - start
        self._size += len(message.get("body", b""))
        if self._size > self._max_bytes:
            raise HTTPException(413, _too_large(self._max_bytes))
        if not self._more:
            self._complete.set()
        return message

    def hurry(self) -> None:
        """Apply the higher rate at once: others have begun to wait."""
        if self._timer is not None and not self._timer.expired():
            slower = _BUSY_GRACE_SECONDS - _GRACE_SECONDS
            slower += self._size / _BUSY_RATE - self._size / _MIN_RATE
            self._timer.reschedule((self._timer.when() or 0.0) + slower)

    def _patience(self) -> float:
        """Return the seconds that the next piece of the upload may take."""
        rate, grace = self._min_rate
        return grace + self._size / rate - self._seconds

    @property
    def _min_rate(self) -> tuple[int, float]:
        """Bytes per second that the upload needs now, and from which second on."""
        if self._others_wait():
            return _BUSY_RATE, _BUSY_GRACE_SECONDS
        return _MIN_RATE, _GRACE_SECONDS

    async def _next(self) -> Message:
        message = await self._receive()
        self._more = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def expire_on_disconnect(self, timer: asyncio.Timeout) -> None:
        """Expire the timer when the client disconnects after its upload."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        if not self.started and not timer.expired():
            timer.reschedule(asyncio.get_running_loop().time())

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            headers.update({**HEADERS, "Cache-Control": self._cache})
            if self._more:
                headers["Connection"] = "close"
        elif self._more and not message.get("more_body", False):
            self._unfinished = True
            message = {**message, "more_body": True}
        await self._send(message)

    async def finish(self) -> None:
        """Discard the rest of an upload whose response came early, then end the response."""
        if not self._unfinished:
            return
        try:
            async with asyncio.timeout(self.drain_seconds):
                while self._more and self.drain_seconds:
                    await self._next()
        except (TimeoutError, asyncio.CancelledError):  # the latter at shutdown
            pass
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def is_address(host: str) -> bool:
    """Return True for an IP address, False for a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _length(headers: Headers, unknown: int) -> int:
    """Return the length that a request declares."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() else unknown


def _charset(headers: Headers) -> str:
    """Return the charset of a form, read as the form parser reads it."""
    _, options = parse_options_header(headers.get("content-type"))
    named = {name.decode("latin-1"): value for name, value in options.items()}
    return named["charset"].decode("latin-1").lower() if "charset" in named else "utf-8"


def _is_cross_site(headers: Headers, host: str) -> bool:
    """Return True if a browser says that another site's page sent the request."""
    if "origin" in headers:
        return headers["origin"].partition("://")[2].lower() != host.lower()
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def _too_large(max_bytes: int) -> str:
    return f"Request is larger than {max_bytes / 1e6:g} MB; send fewer or smaller images"
