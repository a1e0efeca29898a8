"""Frames between server and workers: a head of two lengths, JSON, the bytes of a file.

JSON and not pickle: a worker decodes files of strangers, and might be taken over by one.
"""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, BinaryIO

_HEAD = struct.Struct("<II")
FORK = b"+"
"""What the server sends along with the socket of a worker to fork."""


def pack(content: dict[str, Any], size: int = 0) -> bytes:
    """Return the beginning of a frame, up to the ``size`` bytes of the file."""
    text = json.dumps(content).encode()
    return _HEAD.pack(len(text), size) + text


def read(stream: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """Read a frame: its JSON and its file. Raises EOFError where the stream ends."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError("the other process has ended")
    length, size = _HEAD.unpack(head)
    return json.loads(stream.read(length)), stream.read(size)


async def read_answer(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read a frame without a file. Raises EOFError where the stream ends."""
    length, _ = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    answer: dict[str, Any] = json.loads(await reader.readexactly(length))
    return answer
