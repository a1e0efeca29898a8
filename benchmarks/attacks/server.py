"""Attacks on ``lrrspm serve``; they use only what old and new versions share."""

from __future__ import annotations

import http.client
import io
import json
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from PIL import Image

from . import Attack

FORM = {"Content-Type": "multipart/form-data; boundary=limit"}


class Hostile(NamedTuple):
    """A request of an attacker: its headers and its body."""

    headers: dict[str, str]
    body: bytes


def attacks() -> list[Attack]:
    """Return the attacks of this module."""
    return [
        Attack("1", "server: 8 TIFFs with a giant tile at once", partial(_at_once, giant_tile)),
        Attack("2", "server: 8 PGMs of 2^19 comments at once", partial(_at_once, comments)),
        Attack("3", "server: charset=punycode, long fields", _punycode),
        Attack("11", "server: 260 images of 65535 x 1", _thin_images),
        Attack("11", "server: 40 uploads at 26 kB per second", _slow_uploads),
    ]


def hostile_requests() -> list[Hostile]:
    """Return what an attacker among other clients sends."""
    files = (giant_tile(), comments(), many_strips())
    return [*(Hostile(FORM, form(file)) for file in files), punycode()]


def form(content: bytes, field: str = "files") -> bytes:
    """Return a form with one file."""
    head = f'--limit\r\nContent-Disposition: form-data; name="{field}"; filename="a"\r\n\r\n'
    return head.encode() + content + b"\r\n--limit--\r\n"


def giant_tile(side: int = 46_000) -> bytes:
    """A TIFF of 16 x 16 pixels in one tile of gigabytes."""
    data = zlib.compress(bytes(16))
    longs = {256: 16, 257: 16, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side}
    return _tiff({**longs, 324: -1, 325: len(data)}, data)


def many_strips(count: int = 1_000_000) -> bytes:
    """A TIFF that lists a million strips."""
    values = {256: 16, 257: 16, 258: 8, 259: 1, 262: 1, 273: -count, 277: 1, 278: 1, 279: 256}
    return _tiff(values, bytes(4 * count))


def _tiff(values: dict[int, int], data: bytes) -> bytes:
    """A TIFF of 32-bit tags; a negative value is that many values at the end of the file."""
    place = 8 + 2 + 12 * len(values) + 4
    tags = [
        struct.pack("<HHII", tag, 4, max(1, -value), place if value < 0 else value)
        for tag, value in values.items()
    ]
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(tags) + bytes(4) + data


def comments(lines: int = 2**19) -> bytes:
    """A plain PGM that is mostly comments."""
    return b"P2\n4 4\n255\n" + lines * b"#\n" + 16 * b"0 "


def punycode(fields: int = 2, letters: int = 250_000) -> Hostile:
    """A form whose fields take long to decode."""
    part = b'--limit\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + letters * b"b" + b"\r\n"
    kind = FORM["Content-Type"] + "; charset=punycode"
    return Hostile({"Content-Type": kind}, fields * part + b"--limit--\r\n")


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Serve a small model; gives the process and the port."""
    rng = np.random.default_rng(0)
    images = folder / "images"
    for name in ("dark", "light"):
        (images / name).mkdir(parents=True, exist_ok=True)
        for i in range(4):
            pixels = rng.integers(0, 256, (48, 48), np.uint8) // (1 + (name == "dark"))
            Image.fromarray(pixels).save(images / name / f"{i}.png")
    command = [sys.executable, "-m", "lrrspm"]
    model = str(folder / "m.lrrspm")
    train = [
        *command,
        "train",
        str(images),
        "-o",
        model,
        "--method",
        "LrrSPM",
        "--codebook-size",
        "8",
    ]
    subprocess.run([*train, "--no-estimate"], check=True, capture_output=True)
    serve = [*command, "serve", model, "--port", "0", "--json"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            yield psutil.Process(process.pid), int(url.strip("/").rsplit(":", 1)[1])
        finally:
            process.terminate()


class _Peak:
    """Megabytes of a process and its children, at most, while this is entered."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._start, self.most = self._held(), 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _held(self) -> float:
        total = 0
        for one in (self._process, *self._process.children(recursive=True)):
            try:
                info = one.memory_full_info()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            total += info.uss  # not what workers share
        return total / 1e6

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.most = max(self.most, self._held() - self._start)

    def kept(self) -> float:
        return self._held() - self._start

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def ask(port: int, request: Hostile, timeout: float = 120) -> int:
    """Send a form to be predicted; returns the status, 0 for none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/api/predict", request.body, request.headers)
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _good() -> Hostile:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (700, 700), np.uint8)).save(
        file, "PNG"
    )
    return Hostile(FORM, form(file.getvalue()))


def _during(folder: Path, *hostile: Hostile) -> dict[str, Any]:
    """Send hostile requests at once, then a good one: how long does it take?"""
    with _serving(folder) as (process, port), _Peak(process) as peak:
        threads = [threading.Thread(target=ask, args=(port, one)) for one in hostile]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        start = time.perf_counter()
        status = ask(port, _good())
        seconds = time.perf_counter() - start
        for thread in threads:
            thread.join()
    return {"seconds": seconds, "mb": peak.most, "result": f"good image: {status or 'none'}"}


def _at_once(make: Callable[[], bytes], folder: Path) -> dict[str, Any]:
    return _during(folder, *[Hostile(FORM, form(make()))] * 8)


def _punycode(folder: Path) -> dict[str, Any]:
    return _during(folder, punycode())


def _thin_images(folder: Path) -> dict[str, Any]:
    with _serving(folder) as (process, port), _Peak(process) as peak:
        start = time.perf_counter()
        for i in range(260):
            file = io.BytesIO()
            Image.new("L", (65_535 - i, 1)).save(file, "PNG")
            ask(port, Hostile(FORM, form(file.getvalue())))
        seconds, kept = time.perf_counter() - start, peak.kept()
    return {"seconds": seconds, "mb": kept, "result": "memory kept"}


def _slow_uploads(folder: Path) -> dict[str, Any]:
    head = (
        b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n"
        b"Content-Type: multipart/form-data; boundary=limit\r\n\r\n"
    )
    done = threading.Event()

    def trickle(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            try:
                connection.sendall(head + form(b"")[:80])
                while not done.wait(0.5):
                    connection.sendall(bytes(13_000))
            except OSError:
                pass

    with _serving(folder) as (_, port):
        threads = [threading.Thread(target=trickle, args=(port,)) for _ in range(40)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        start = time.perf_counter()
        status = ask(port, _good())
        seconds = time.perf_counter() - start
        done.set()
        for thread in threads:
            thread.join()
    return {"seconds": seconds, "mb": None, "result": f"good image: {status or 'none'}"}
