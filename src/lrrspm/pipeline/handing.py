"""Handing over: results of processes whose arrays go through memory files, not through pipes.

A pipe takes 64 KB at a time, so pixels of 2000 images per second fill the receiver's day.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_MEMORY = Path("/dev/shm")
"""Files here are in memory on Linux; elsewhere they are temporary ones."""
_LEAST = 2**16


class Filed(NamedTuple):
    """A pickled result, its arrays' numbers in a file, one after another, and their sizes."""

    body: bytes
    path: str
    sizes: list[int]


@contextmanager
def handing_folder() -> Iterator[str]:
    """Yield a folder for files of results, which is deleted at the end."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lrrspm-", dir=place) as folder:
        yield folder


def hand_over(folder: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process, and leave the numbers of its arrays in a file."""
    result = function(*arguments)
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    sizes = [part.nbytes for part in parts]
    if sum(sizes) < _LEAST:
        return result
    path = None
    try:
        descriptor, path = tempfile.mkstemp(dir=folder)
        with open(descriptor, "wb") as file:
            file.writelines(parts)
    except OSError:  # no room there: a pipe it is
        if path is not None:
            with suppress(OSError):
                os.unlink(path)
        return result
    return Filed(body, path, sizes)


def receive(result: Any) -> Any:
    """Return what :func:`hand_over` was given; its file is deleted."""
    if not isinstance(result, Filed):
        return result
    numbers = np.fromfile(result.path, np.uint8)
    os.unlink(result.path)
    ends = np.cumsum([0, *result.sizes]).tolist()
    parts = [numbers[first:last] for first, last in pairwise(ends)]
    return pickle.loads(result.body, buffers=parts)
