"""HTTP connections with a limit on their number and on the time for request headers.

uvicorn has neither: its ``limit_concurrency`` counts a connection once its
headers are there, and its timeout is for connections kept alive after a response.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from functools import cache
from http import HTTPStatus
from typing import Any

import h11
import psutil
from uvicorn.protocols.http.h11_impl import H11Protocol

from .errors import OUT_OF_RESOURCES, error_response, print_error
from .middleware import HEADERS

# Seconds for a request's first line and headers.
_HEADER_SECONDS = 10.0
# Bytes of a rejected request that are read; more than headers may have.
_UNREAD_BYTES = 2**17
# Open files to request from the system, if its limit is lower.
_OPEN_FILES = 8192


class Connection(H11Protocol):
    """An HTTP connection; errors that no request has reached are JSON as well."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            self._reject(503, "Too many connections; try again")
        else:
            self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._reject(400, "Malformed HTTP request")

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(_HEADER_SECONDS, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        if self.conn.trailing_data[0]:
            self._reject(408, f"Headers not complete after {_HEADER_SECONDS:g} seconds")
        else:  # browsers connect ahead, and would match a response to their next request
            self.transport.close()

    def _reject(self, status: int, error: str) -> None:
        """Send an error response, unless a response has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = error_response(
                status, error, **HEADERS, **{"Cache-Control": "no-store", "Connection": "close"}
            )
            start = h11.Response(
                status_code=status, headers=response.raw_headers, reason=HTTPStatus(status).phrase
            )
            for event in (start, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True  # discard what the application still sends
        self._discard_unread()
        self.transport.close()

    def _discard_unread(self) -> None:
        """Read what has arrived: closing a socket before that resets the connection.

        The client would see the reset instead of the response, or after it.
        """
        with contextlib.suppress(OSError):  # nothing has arrived, or no file descriptor (Windows)
            os.read(self.transport.get_extra_info("socket").fileno(), _UNREAD_BYTES)


@cache
def max_connections() -> int:
    """Return half of the files that can still be opened; the rest is for uploads and rejections.

    The first call is at the start: it opens files itself, and raises their limit.
    """
    if sys.platform == "win32":
        return _OPEN_FILES // 2
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, (max(soft, wanted) - psutil.Process().num_fds()) // 2)


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Print one line, not many tracebacks, when no connection can be accepted."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES:
        print_error(f"cannot accept connections: {error.strerror}")
    else:
        loop.default_exception_handler(context)
