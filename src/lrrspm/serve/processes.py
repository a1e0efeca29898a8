"""Workers seen from the server: processes with limits, or threads where there are none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from fastapi import UploadFile

from .._support.parallel import single_blas_thread
from . import frames
from .errors import print_error

CAN_ISOLATE = hasattr(os, "fork") and sys.platform != "darwin"
"""True where workers are processes. On macOS a fork cannot use BLAS and other system libraries."""
# Memory that a worker may take on top of the loaded model, and CPU seconds for an image.
MEMORY_BYTES = 300 * 10**6
CPU_SECONDS = 5
OVERRUN = "takes too much time or memory to decode"
# Wall-clock seconds for what should take none: a process that blocks uses no CPU time. An answer
# has them on top of its CPU seconds; loading a model may have to compile.
ANSWER_SECONDS = 30.0
FORK_SECONDS = 10.0
LOAD_SECONDS = 300.0
_DYING_SECONDS = 2.0
_NONE = "No worker process can be started; try again"
_LOST = "The worker process was lost; try again"
_LATE = "The worker process did not answer; try again"
_CLOSING = "The server is shutting down"
# Bytes of an answer that are read at a time.
_BUFFER = 2**20
_START = (
    "import sys, json; settings = json.loads(sys.argv[1]); sys.path[:] = settings['folders']; "
    "from lrrspm.serve.nursery import main; main(sys.argv[1])"
)
# One worker per core: BLAS with threads of its own would only get in the way.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Workers(Protocol):
    """Whatever does jobs on uploads."""

    hello: dict[str, Any]
    """``card`` and ``labels`` of the model, see :class:`lrrspm.serve.model.Model`."""

    async def start(self) -> None:
        """Start the workers; the event loop runs."""

    async def finish(self) -> None:
        """Start no more jobs."""

    def close(self) -> None:
        """End everything at once."""

    async def run(self, job: dict[str, Any], upload: UploadFile) -> dict[str, Any]:
        """Do a job when a worker is free; it does not start if it is cancelled first.

        Returns ``result``; or ``error``, the reason why the file cannot be used; or
        ``failure``, a traceback; or ``busy``, the reason why no worker can be had.
        """


class Threads:
    """Threads of this process, without limits: for systems that cannot isolate.

    Parameters
    ----------
    path : path
        Model file.
    count : int
    """

    def __init__(self, path: str | os.PathLike[str], count: int) -> None:
        from .model import Model

        self.model: Model = Model(path)
        self.hello: dict[str, Any] = {"card": self.model.card, "labels": self.model.labels}
        self._count = count

    async def start(self) -> None:
        self._blas = single_blas_thread()
        self._blas.__enter__()
        self.pool: ThreadPoolExecutor = ThreadPoolExecutor(self._count, "lrrspm-serve")

    async def finish(self) -> None:
        # In a thread: the loop can still send responses.
        await asyncio.to_thread(self.pool.shutdown, wait=True, cancel_futures=True)
        self._blas.__exit__(None, None, None)

    def close(self) -> None:
        """Threads cannot be ended."""

    async def run(self, job: dict[str, Any], upload: UploadFile) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, self.model.answer, job, upload.file)


class _Link(NamedTuple):
    """Connection to a worker process, its number, and the process that forked it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    pid: int
    nursery: subprocess.Popen[bytes]


class Processes:
    """Processes with limits on memory and time; one that overruns is replaced.

    Parameters
    ----------
    path : path
        Model file.
    count : int
    """

    def __init__(self, path: str | os.PathLike[str], count: int) -> None:
        self.hello: dict[str, Any] = {}
        self._count = count
        self._settings = {
            "path": os.fspath(path),
            "folders": sys.path,
            "memory": MEMORY_BYTES,
            "seconds": CPU_SECONDS,
        }
        self._start_nursery()

    def _start_nursery(self) -> None:
        self._control, other = socket.socketpair()
        command = [sys.executable, "-P", "-c", _START, json.dumps(self._settings)]
        with other:
            self._nursery = subprocess.Popen(
                command,
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
                start_new_session=True,  # Ctrl-C is for the server, which ends the whole group
            )
        self._end = weakref.finalize(self, _end, self._nursery, self._control)
        try:
            hello = self._read_hello()
        except BaseException:  # also Ctrl-C
            self.close()
            raise
        self.hello = self.hello or hello

    def _read_hello(self) -> dict[str, Any]:
        """Wait until the model is loaded; refuse another one than was loaded first."""
        self._control.settimeout(LOAD_SECONDS)
        try:
            with self._control.makefile("rb") as stream:
                hello, _ = frames.read(stream)
        except EOFError:
            raise OSError("the model process ended while loading the model") from None
        except TimeoutError:
            raise OSError(f"the model did not load within {LOAD_SECONDS:g} seconds") from None
        self._control.setblocking(False)
        if "error" in hello:
            raise ValueError(hello["error"])
        if self.hello and hello["digest"] != self.hello["digest"]:
            path = self._settings["path"]
            raise ValueError(f"{path}: changed since the server started; restart the server")
        return hello

    def close(self) -> None:
        self._end()

    async def start(self) -> None:
        self._closing = False
        self._running: set[asyncio.Task[dict[str, Any]]] = set()
        self._opening = asyncio.Lock()
        self._idle: asyncio.LifoQueue[_Link | None] = asyncio.LifoQueue()
        for _ in range(self._count):
            self._idle.put_nowait(await self._replace(None))

    async def finish(self) -> None:
        self._closing = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        while not self._idle.empty():
            _drop(self._idle.get_nowait())
        self._idle.put_nowait(None)  # wakes those that wait, one after another

    async def run(self, job: dict[str, Any], upload: UploadFile) -> dict[str, Any]:
        link = await self._idle.get()
        if self._closing:
            self._idle.put_nowait(link)  # for the next one that waits
            return {"busy": _CLOSING}
        # A job that has begun goes on without its request: its answer has to be read.
        task = asyncio.create_task(self._do(link, job, upload))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _do(
        self, link: _Link | None, job: dict[str, Any], upload: UploadFile
    ) -> dict[str, Any]:
        try:
            if link is None or link.reader.at_eof() or link.nursery is not self._nursery:
                link = await self._replace(link)  # it ended while idle
            if link is None:
                return {"busy": _NONE}
            try:
                content = await upload.read()
            except ValueError:  # the request has ended, and closed its upload
                return {"busy": "The request has ended"}
            used, link = link, None
            answer = await self._ask(used, job, content)
            link = await self._replace(used) if answer.pop("last") else used
            # An overrun ends one process. Where the process that forks is gone too, or forks no
            # more, the image is not to blame.
            if answer == {"error": OVERRUN} and (link is None or link.nursery is not used.nursery):
                return {"busy": _LOST}
            return answer
        finally:
            self._idle.put_nowait(link)

    async def _ask(self, link: _Link, job: dict[str, Any], content: bytes) -> dict[str, Any]:
        """Have a job done; ``last`` is True in the answer if the worker is of no more use."""
        usable = False
        try:
            link.writer.write(frames.pack(job, len(content)))
            link.writer.write(content)
            async with asyncio.timeout(self.hello["seconds"] + ANSWER_SECONDS):
                answer = await frames.read_answer(link.reader)
            usable = True
            return answer
        except (EOFError, ConnectionError):
            return {"error": OVERRUN, "last": True}
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(link.pid, signal.SIGKILL)
            return {"busy": _LATE, "last": True}
        finally:
            if not usable:
                _drop(link)

    async def _replace(self, link: _Link | None) -> _Link | None:
        """Have a worker forked in place of another; return None if that is not possible now."""
        _drop(link)
        async with self._opening:
            try:
                if self._nursery.poll() is None:
                    try:
                        return await self._fork()
                    except OSError:
                        if not await asyncio.to_thread(self._nursery_ends):
                            raise
                self.close()
                await asyncio.to_thread(self._start_nursery)
                return await self._fork()
            except Exception as error:
                print_error(f"cannot start a worker process: {str(error) or repr(error)}")
                return None

    def _nursery_ends(self) -> bool:
        """Whether the nursery is gone; a killed one closes its connections before it is."""
        try:
            self._nursery.wait(_DYING_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def _fork(self) -> _Link:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [frames.FORK], [theirs.fileno()])
            reader, writer = await asyncio.open_connection(sock=ours, limit=_BUFFER)
        except BaseException:
            ours.close()
            raise
        try:
            async with asyncio.timeout(FORK_SECONDS):
                hello = await frames.read_answer(reader)
            return _Link(reader, writer, hello["pid"], self._nursery)
        except BaseException as error:
            writer.close()
            if isinstance(error, EOFError):
                raise OSError("the model process cannot fork") from None
            if isinstance(error, TimeoutError):
                self.close()
                raise OSError(
                    f"the model process did not fork within {FORK_SECONDS:g} seconds"
                ) from None
            raise


def _drop(link: _Link | None) -> None:
    if link is not None:
        link.writer.close()


def _end(nursery: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Kill the nursery and its workers, which write no files."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(nursery.pid, signal.SIGKILL)
    nursery.wait()
    control.close()
