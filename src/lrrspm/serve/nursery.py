"""The process that loads a model once, and forks workers that have limits of their own.

A worker decodes files of strangers. It has no descriptor but its connection to the
server, and the system ends it when it takes too much time; a fork replaces it within
milliseconds, and shares the model's memory.
"""

from __future__ import annotations

import gc
import io
import json
import os
import resource
import signal
import socket
import time
import traceback
from typing import Any, BinaryIO

import psutil

from . import frames
from .model import Model

# Bytes that a worker may keep after a job; one that has kept more is replaced.
_KEPT_BYTES = 64 * 10**6


def main(settings: str) -> None:
    """Load a model, say what it is, and fork a worker for each socket that arrives.

    Parameters
    ----------
    settings : str
        JSON: path of the model, memory in bytes and CPU seconds for each image.
    """
    for ignored in (signal.SIGINT, signal.SIGTERM):  # the server decides when to end
        signal.signal(ignored, signal.SIG_IGN)
    options = json.loads(settings)
    control = socket.socket(fileno=0)
    try:
        model = Model(options["path"])
    except (OSError, ValueError, ImportError, MemoryError) as error:
        reason = str(error) or "not enough memory for the model"
        control.sendall(frames.pack({"error": reason}))
        return
    memory = int(options["memory"] + 2e6 * model.megabytes)
    seconds = int(options["seconds"] + 2 * model.seconds)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets workers that end
    gc.collect()
    gc.freeze()
    hello = {"card": model.card, "labels": model.labels, "digest": model.digest}
    control.sendall(frames.pack({**hello, "seconds": seconds}))
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not message:  # the server has ended, however it did
            os.killpg(0, signal.SIGKILL)
        if not handles:  # too many open files; the server sees its end of the connection closed
            continue
        try:
            child = os.fork()
        except OSError:  # the server sees its end of the connection closed
            child = -1
        if child == 0:
            try:
                control.close()
                _work(model, socket.socket(fileno=handles[0]), memory, seconds)
            except (EOFError, OSError):  # the server has closed the connection
                pass
            finally:
                os._exit(0)
        os.close(handles[0])


def _work(model: Model, connection: socket.socket, memory: int, seconds: int) -> None:
    """Do one job after another until the server closes the connection."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # libtiff prints on stderr
        os.dup2(nowhere, standard)
    process = psutil.Process()
    loaded = process.memory_info().vms
    _limit(resource.RLIMIT_AS, loaded + memory)
    _limit(resource.RLIMIT_CORE, 0)
    stream = connection.makefile("rb")
    connection.sendall(frames.pack({"pid": os.getpid()}))
    last = False
    while not last:
        job, content = frames.read(stream)
        _limit(resource.RLIMIT_CPU, int(time.process_time()) + seconds)
        answer = _answer(model, job, io.BytesIO(content))
        del content  # or it would count as kept
        last = process.memory_info().vms > loaded + _KEPT_BYTES
        connection.sendall(frames.pack({**answer, "last": last}))


def _answer(model: Model, job: dict[str, Any], file: BinaryIO) -> dict[str, Any]:
    try:
        return model.answer(job, file)
    except MemoryError:
        return {"error": "takes too much memory to decode; shrink it first"}
    except Exception:
        return {"failure": traceback.format_exc()}


def _limit(kind: int, value: int) -> None:
    """Set a soft limit; the system ends a process, or refuses memory, at it."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
