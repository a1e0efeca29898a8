"""Attacks by image files and downloads; they call only what old and new versions share."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from . import Attack

Make = Callable[[Path], None]


def attacks() -> list[Attack]:
    """Return the attacks of this module."""
    files: list[tuple[str, str, Make]] = [
        ("1", "TIFF of 16 x 16 pixels, tiles of 46,000 x 46,000", giant_tile),
        ("1", "JPEG followed by a sparse 1 GiB", sparse_jpeg),
        ("1", "damaged TIFF, messages on stderr", damaged_tiff),
        ("2", "plain PGM of 2^19 comment lines", plain_comments),
        ("2", "TIFF of 7.9 M StripOffsets", partial(many_values, 273, 4, 7_900_000)),
        ("2", "TIFF with 3.9 M fractions in one tag", partial(many_values, 282, 5, 3_900_000)),
        ("2", "JPEG with 200 MB of EXIF blocks", exif_blocks),
        ("12", "PGM of 2000 x 2000, maxval 4095", partial(deep_pnm, b"P5", 4095)),
        ("12", "PGM of 2000 x 2000, maxval 100", partial(deep_pnm, b"P5", 100)),
        ("12", "PPM of 2000 x 2000, maxval 65535", partial(deep_pnm, b"P6", 65535)),
        ("13", "TIFF with a warning, -W error", warned_tiff),
    ]
    return [
        *(Attack(item, name, partial(_read, make)) for item, name, make in files),
        Attack("9", "file replaced by a pipe after the check", _swap),
        Attack("10", "archive with a pax header of 2 GiB", _unpack),
        Attack("10", "endless download", partial(_fetch, endless=True)),
        Attack("10", "one byte per connection", partial(_fetch, endless=False)),
        Attack("13", "CSV path with a NUL character", _csv),
    ]


def tiff(entries: list[tuple[int, int, int, int]], rest: bytes = b"") -> bytes:
    """Build a little-endian TIFF; ``rest`` begins at byte 1024."""
    table = b"".join(struct.pack("<HHLL", *entry) for entry in sorted(entries))
    start = b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + table + bytes(4)
    return start.ljust(1024, b"\0") + rest


def gray_tags(width: int, height: int, compression: int) -> list[tuple[int, int, int, int]]:
    facts = {256: width, 257: height, 258: 8, 259: compression, 262: 1, 277: 1}
    return [(tag, 4, 1, value) for tag, value in facts.items()]


def giant_tile(path: Path, side: int = 46_000) -> None:
    packed = zlib.compress(bytes(100))
    tile = [(322, 4, 1, side), (323, 4, 1, side), (324, 4, 1, 1024), (325, 4, 1, len(packed))]
    path.write_bytes(tiff([*gray_tags(16, 16, 8), *tile], packed))


def damaged_tiff(path: Path) -> None:
    strip = [(273, 4, 1, 1024), (278, 4, 1, 16), (279, 4, 1, 50)]
    path.write_bytes(tiff([*gray_tags(16, 16, 8), *strip], b"x" * 50))


def many_values(tag: int, kind: int, count: int, path: Path) -> None:
    strip = [(273, 4, 1, 1024), (278, 4, 1, 1 if tag == 273 else 16), (279, 4, 1, 256)]
    entries = {entry[0]: entry for entry in [*gray_tags(16, 16, 1), *strip]}
    entries[tag] = (tag, kind, count, 2048)
    values = struct.pack("<2L", 1024, 1024) * (count * (8 if kind == 5 else 4) // 8)
    path.write_bytes(tiff(list(entries.values()), bytes(1024) + values))


def warned_tiff(path: Path) -> None:
    """The resolution has two values where one is expected."""
    many_values(282, 5, 2, path)


def jpeg() -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (100, 100), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "JPEG")
    return out.getvalue()


def sparse_jpeg(path: Path, size: int = 2**30) -> None:
    path.write_bytes(jpeg())
    os.truncate(path, size)


def exif_blocks(path: Path, count: int = 3000) -> None:
    whole = jpeg()
    block = b"\xff\xe1" + struct.pack(">H", 65_535) + b"Exif\0\0" + bytes(65_527)
    path.write_bytes(whole[:2] + block * count + whole[2:])


def plain_comments(path: Path, count: int = 2**19) -> None:
    path.write_bytes(b"P2 8 8 255\n" + b"#\n" * count + b"7 " * 64)


def deep_pnm(magic: bytes, most: int, path: Path, side: int = 2000) -> None:
    bands = 3 if magic == b"P6" else 1
    values = np.random.default_rng(0).integers(0, most + 1, (side, side, bands))
    kind = np.uint8 if most < 256 else ">u2"
    path.write_bytes(b"%s %d %d %d\n" % (magic, side, side, most) + values.astype(kind).tobytes())


# Prints one JSON object: the outcome, seconds and megabytes beyond those before.
_MEASURE = """
import json, resource, sys, time
import warnings
{before}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
found, start = peak(), time.perf_counter()
try:
{body}
    result = "ok"
except Exception as error:
    result = f"{{type(error).__name__}}: {{error}}"[:200]
seconds = round(time.perf_counter() - start, 2)
print(json.dumps({{"seconds": seconds, "mb": round(peak() - found), "result": result}}))
"""
_WARM = """
import os, tempfile
import numpy as np
from PIL import Image
from lrrspm import read_image
with tempfile.TemporaryDirectory() as folder:
    for mode in ("L", "RGB"):
        Image.new(mode, (400, 400)).save(folder + "/a.png")
        read_image(folder + "/a.png")
"""


def _run(before: str, body: str, *arguments: str, limit: float = 150) -> dict[str, Any]:
    """Run statements in a process of its own."""
    code = _MEASURE.format(before=before, body="\n".join("    " + x for x in body.splitlines()))
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True, text=True, timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"seconds": limit, "mb": None, "result": f"stopped after {limit:g} s"}
    if done.returncode:
        return {"seconds": None, "mb": None, "exit": done.returncode, "result": done.stderr[-200:]}
    found: dict[str, Any] = json.loads(done.stdout)
    for place in arguments:
        found["result"] = found["result"].replace(place, Path(place).name)
    found["result"] = re.sub(r"127\.0\.0\.1:\d+", "SERVER", found["result"])
    return found | {"stderr": len(done.stderr)}


def _read(make: Make, folder: Path) -> dict[str, Any]:
    path = folder / "image"
    make(path)
    try:
        return _run(_WARM, "warnings.simplefilter('error')\nread_image(sys.argv[1])", str(path))
    finally:
        path.unlink()


def _swap(folder: Path) -> dict[str, Any]:
    """Replace the file by a pipe at the moment that it is looked at."""
    before = (
        _WARM
        + """
stat = os.stat
def swap(path, *rest, **options):
    state = stat(path, *rest, **options)
    if path == sys.argv[1]:
        os.unlink(path)
        os.mkfifo(path)
        os.stat = stat
    return state
"""
    )
    path = folder / "image.jpg"
    path.write_bytes(jpeg())
    try:
        return _run(before, "os.stat = swap\nread_image(sys.argv[1])", str(path), limit=10)
    finally:
        path.unlink()


def pax_archive(path: Path, size: int = 2**31) -> None:
    """Write a gzip file with a tar header of very many zeros."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, size
    packer = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        file.write(packer.compress(info.tobuf()))
        for _ in range(size // 2**20):
            file.write(packer.compress(bytes(2**20)))
        file.write(packer.flush())


def _unpack(folder: Path) -> dict[str, Any]:
    path = folder / "archive.tgz"
    pax_archive(path)
    before = """
from pathlib import Path
from lrrspm.datasets.unpack import Limits, unpack
"""
    body = (
        "Path(sys.argv[1] + '.out').mkdir()\n"
        "unpack(Path(sys.argv[1]), Path(sys.argv[1] + '.out'), lambda _: None, Limits(9, 10**8))"
    )
    try:
        return _run(before, body, str(path))
    finally:
        path.unlink()


def _fetch(folder: Path, endless: bool) -> dict[str, Any]:
    """Fetch COIL20 (10 MB) from a server that never stops, or sends single bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-9999999/10000000")
            if not endless:
                self.send_header("Content-Length", str(10_000_000 - start))
            self.end_headers()
            try:
                self.wfile.write(b"x")
                while endless:
                    self.wfile.write(bytes(2**18))
            except OSError:
                pass
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    before = """
from dataclasses import replace
from lrrspm.datasets import DATASETS, fetch
from lrrspm.datasets import download
download._PAUSE = 0
archive = replace(DATASETS["COIL20"].archive, address=f"http://127.0.0.1:{sys.argv[2]}/a.zip")
DATASETS["COIL20"] = replace(DATASETS["COIL20"], archive=archive)
"""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = folder / "root"
        try:
            found = _run(before, "fetch('COIL20', sys.argv[1])", str(root),
                         str(server.server_address[1]), limit=10)  # fmt: skip
        finally:
            server.shutdown()
    left = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    return found | {"disk_mb": round(left / 1e6)}


def _csv(folder: Path) -> dict[str, Any]:
    path = folder / "images.csv"
    path.write_bytes(b"path,label\n" + b"a.jpg,cat\n" * 500 + b"b\0.jpg,dog\n")
    return _run("from lrrspm import find_images", "find_images(sys.argv[1])", str(path))
