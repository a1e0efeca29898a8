"""Start a server, say so, and end it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import uvicorn

from .app import create_app
from .connection import Connection, on_loop_error
from .gate import LOOPBACK, is_address
from .limits import Limits
from .work import Worker

# Seconds that requests have to end when the server is stopped, and after which it has ended.
_FAREWELL = 3
_LAST = 10.0
# Seconds that an answer may wait for its reader to go on, where the system can tell.
_UNREAD = 30
# Connections that the system keeps waiting.
_BACKLOG = 64
_EVERY_ADDRESS = ("0.0.0.0", "::")


def run(
    path: str | os.PathLike[str],
    host: str,
    port: int,
    limits: Limits,
    n_jobs: int = -1,
    names: Sequence[str] = (),
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a model until SIGINT or SIGTERM.

    Parameters
    ----------
    path : path
        A model file.
    host, port
        Where to listen; port 0 is any that is free.
    names : sequence of str
        Further names that the server may be asked under.
    ready : function
        Called with the server's address once it answers.
    """
    # Remarks on damaged requests; their senders have been told.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    with _bind(host, port) as listener:
        app = create_app(
            Worker(path, limits, n_jobs), {*LOOPBACK, host, *names}, host in _EVERY_ADDRESS
        )
        shown = f"[{host}]" if ":" in host else host
        server = _Server(
            uvicorn.Config(
                app,
                http=Connection,
                # Also how many are let in before the first of them is looked at.
                backlog=_BACKLOG,
                ws="none",
                lifespan="on",
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_FAREWELL,
            ),
            lambda: ready(f"http://{shown}:{listener.getsockname()[1]}/"),
        )
        server.run([listener])


class _Server(uvicorn.Server):
    """A server that says when it answers, and ends soon and quietly."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # A thread cannot be stopped; ending without it harms nothing, for none writes any file
        # but uploads, which the system removes.
        self._last = threading.Timer(_LAST, os._exit, [0])
        self._last.daemon = True
        super().run(sockets)
        self._last.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            self._captured_signals.clear()  # they would be raised again now

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:  # twice: at once
            os._exit(0)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _hush()
        self._last.start()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        await super().startup(sockets)
        if not self.should_exit:
            try:
                self._ready()
            except OSError:  # nobody reads what it says
                _hush()
                raise


def _hush() -> None:
    """Have uvicorn say nothing of what is cut off when a server ends."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


def canonical(host: str) -> str:
    """An address in its usual form, such as 127.0.0.1 for 127.1 and 0.0.0.0 for 0; or a name."""
    if is_address(host):
        return str(ipaddress.ip_address(host))
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return host


def is_loopback(host: str) -> bool:
    """Whether an address or name is for this machine alone."""
    return host in LOOPBACK or (is_address(host) and host.startswith("127."))


def _bind(host: str, port: int) -> socket.socket:
    """A socket that has its address; until it listens whoever asks is turned away."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"--host {host}: no such address ({error})") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # the port of a server that just ended can be had again
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # whoever does not read on is cut off
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _UNREAD)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(f"{host}, port {port}: {_why(error)}") from None
    return listener


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "in use; choose another with --port, or 0 for any that is free"
    if error.errno == errno.EACCES:
        return "not allowed; choose a port from 1024 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "not an address of this machine"
    return error.strerror or str(error)
