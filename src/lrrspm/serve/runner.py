"""Start a server, announce it, and shut it down."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn

from .app import create_app
from .connection import Connection, max_connections, on_loop_error
from .corrections import Corrections
from .middleware import LOOPBACK, is_address
from .schemas import Limits
from .worker import Worker

# Seconds that requests have to finish after a signal, and that the process has to exit.
_SHUTDOWN_SECONDS = 3
_EXIT_SECONDS = 10.0
# Seconds without progress until a client that does not read is dropped, where the system can.
_STALL_SECONDS = 30
# Connections queued by the system, and accepted before any is handled.
_BACKLOG = 64
_LOGGER = logging.getLogger("uvicorn.error")
_BIND_ERRORS = {
    errno.EADDRINUSE: "already in use; choose another --port, or 0 for any free one",
    errno.EACCES: "permission denied; choose a --port from 1024",
    errno.EADDRNOTAVAIL: "not an address of this machine",
}


def run(
    path: str | os.PathLike[str],
    host: str,
    port: int,
    limits: Limits,
    n_jobs: int = -1,
    names: Sequence[str] = (),
    min_confidence: float | None = None,
    ready: Callable[[str], None] = lambda url: None,
    collect: str | os.PathLike[str] | None = None,
) -> None:
    """Serve a model until SIGINT or SIGTERM.

    Parameters
    ----------
    path : path
        Model file.
    host, port
        Where to listen; port 0 for any free one.
    limits, n_jobs, min_confidence
        See :class:`lrrspm.serve.worker.Worker`.
    names : sequence of str
        Further host names to answer for.
    ready : function
        Called with the URL as soon as the server answers.
    collect : path or None
        Folder for corrections, see :class:`lrrspm.serve.corrections.Corrections`.
    """
    # Clients are told about malformed forms; the log need not be.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    with _bind(host, port) as listener:
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
        corrections = None if collect is None else Corrections(collect)
        worker = Worker(path, limits, n_jobs, min_confidence, collects=corrections is not None)
        anywhere = host in ("0.0.0.0", "::")
        app = create_app(worker, {*LOOPBACK, host, *names}, anywhere, corrections)
        config = uvicorn.Config(
            app,
            http=Connection,
            backlog=min(_BACKLOG, max_connections()),
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        server = _Server(config, lambda: ready(url))
        try:
            server.run([listener])
        finally:
            worker.workers.close()
        server.exit_timer.cancel()


class _Server(uvicorn.Server):
    """A uvicorn server that announces itself, and shuts down quietly and in bounded time."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        # A working thread cannot be stopped. Exiting without it is safe: it writes no files but
        # uploads, which the system removes.
        self.exit_timer = threading.Timer(_EXIT_SECONDS, os._exit, [0])
        self.exit_timer.daemon = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        await super().startup(sockets)
        if not self.should_exit:
            try:
                self._ready()
            except OSError:  # stdout is closed
                _LOGGER.setLevel(logging.CRITICAL)
                raise

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            os._exit(0)
        self.should_exit = True  # uvicorn's own handler would raise the signal again at the end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _LOGGER.setLevel(logging.CRITICAL)  # or it would report each cancelled request
        self.exit_timer.start()
        await super().shutdown(sockets)


def canonical(host: str) -> str:
    """Return an address in its usual form (127.0.0.1 for 127.1, 0.0.0.0 for 0), a name as it is."""
    if is_address(host):
        return str(ipaddress.ip_address(host))
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return host


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a host."""
    return host in LOOPBACK or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def _bind(host: str, port: int) -> socket.socket:
    """Return a bound socket; until it listens, connections are refused."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"--host {host}: no such address ({error})") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # reuse the port of a server that just exited
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _STALL_SECONDS)
        listener.bind(address)
    except OSError as error:
        listener.close()
        reason = _BIND_ERRORS.get(error.errno or 0) or error.strerror or str(error)
        raise OSError(f"{host}, port {port}: {reason}") from None
    return listener
