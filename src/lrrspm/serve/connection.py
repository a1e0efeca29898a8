"""What a connection keeps to before there is a request for the gate to look at."""

from __future__ import annotations

import asyncio
import errno
import sys
from functools import cache
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .gate import HEADERS, complain, problem

# Seconds that the first line and the headers of a request may take.
_PATIENCE = 10.0
# Open files that the system is asked for, where it would give fewer.
_FILES = 8192
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connection(H11Protocol):
    """A connection whose headers may not take for ever, and one of not too many.

    What is wrong before the gate is reached is answered as it would there.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _most():
            self._refuse(503, "too many connections; try again")
        else:
            self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_headers()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is no sound HTTP request")

    def _await_headers(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_PATIENCE, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        begun, _ = self.conn.trailing_data
        if begun:
            self._refuse(408, f"the headers were not complete after {_PATIENCE:g} seconds")
        else:  # browsers connect ahead of need, and would take an answer for one to a later request
            self.transport.close()

    def _refuse(self, status: int, error: str) -> None:
        """Answer, unless an answer has begun, and hang up."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problem(
                status, error, **HEADERS, **{"Cache-Control": "no-store", "Connection": "close"}
            )
            start = h11.Response(
                status_code=status, headers=answer.raw_headers, reason=HTTPStatus(status).phrase
            )
            for event in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True  # what the gate answers goes nowhere
        self.transport.close()


@cache
def _most() -> int:
    """How many connections there may be: half of the files that may be open.

    The others are for uploads, and for those who are to be turned away.
    """
    if sys.platform == "win32":
        return _FILES // 2
    import resource

    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if files != resource.RLIM_INFINITY and files < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(files, most) // 2


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """In place of many tracebacks, a line where there is no room for a connection."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        complain(f"connections have to wait: {error.strerror}")
    else:
        loop.default_exception_handler(context)
