"""Fuzz the image reader: ``python -m fuzz.images SECONDS [RESULT.json]``.

Damaged images are read in a child process with limits of the operating system. A finding is a
crash, a hang (5 s of CPU for one image), an overrun (300 MB) or any exception but ImageError; the
image stays as ``crash-*`` in the current folder.
"""

from __future__ import annotations

import io
import json
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pillow_heif
from PIL import Image

from lrrspm import read_image
from lrrspm.images import ImageError, decoding

MEGABYTES, CPU_SECONDS = 300, 5
EDGES = (0, 1, 2, 3, 7, 16, 127, 128, 255, 256, 4095, 32767, 32768, 46_000, 65_535, 65_536, 2**20,
         2**24, 2**26, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1)  # fmt: skip

Field = tuple[int, int, str]
"""Place, bytes and byte order of a number in a file."""


def main(seconds: float, result: Path | None) -> None:
    """Run children one after another until the time is up; report and store what was found."""
    counts: Counter[str] = Counter()
    findings = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        seed = 0
        while (left := seconds - (time.monotonic() - start)) > 0:
            child = subprocess.run(
                [sys.executable, "-m", "fuzz.images", "--child", str(seed), str(left), scratch],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            progress = Path(scratch, "progress")
            if progress.exists():
                counts.update(json.loads(progress.read_text()))
                progress.unlink()
            if child.returncode:
                kept = Path(f"crash-{seed}")
                kept.write_bytes(Path(scratch, "image").read_bytes())
                reason = child.stderr.strip().splitlines()[-1:] or ["no message"]
                findings.append({"exit": child.returncode, "reason": reason[0], "file": str(kept)})
                print(kept, child.returncode, reason[0], flush=True)
            seed += 1
    report = {
        "seconds": round(time.monotonic() - start),
        "images": sum(counts.values()),
        "by_format": dict(sorted(counts.items())),
        "findings": findings,
        "limits": {"mb": MEGABYTES, "cpu_seconds": CPU_SECONDS},
    }
    print(json.dumps(report))
    if result is not None:
        result.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(bool(findings))


def run_child(seed: int, seconds: float, scratch: Path) -> None:
    """Read damaged images within limits; the current one is in the scratch folder."""
    # Large images are slow, take memory as documented, and are no different.
    decoding._MAX_PIXELS = decoding._MAX_REDUCED = 2**20
    path = scratch / "image"
    known = [(kind, content, fields(kind, content)) for kind, content in seeds()]
    for _, content, _ in known:
        check(content, path)  # compiles, imports and fills caches
    used = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_AS, (used * 1024 + MEGABYTES * 10**6,) * 2)
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    end = time.monotonic() + min(seconds, 60)
    try:
        while time.monotonic() < end:
            kind, content, places = known[rng.integers(len(known))]
            counts[kind] += 1
            damaged = mutate(kind, content, places, rng)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            check(damaged, path)
            signal.setitimer(signal.ITIMER_PROF, 0)
    finally:
        (scratch / "progress").write_text(json.dumps(counts))


def check(content: bytes, path: Path) -> None:
    """Gray values are finite, or the refusal names the file and the reason."""
    path.write_bytes(content)
    for max_side in (None, 8):
        try:
            image = read_image(path, max_side)
        except ImageError as error:
            assert str(error).startswith(f"{path}: ")
            assert error.reason
        else:
            assert image.dtype == np.float32
            assert image.ndim == 2
            assert image.size > 0
            assert np.isfinite(image).all()


def seeds() -> Iterator[tuple[str, bytes]]:
    """Small images in every format, mode and packing."""
    noise = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    exif = Image.Exif()
    exif[0x0112] = 6
    for mode in ("L", "RGB", "CMYK"):
        for progressive in (False, True):
            yield packed(image.convert(mode), "JPEG", progressive=progressive, exif=exif)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        yield packed(convert(image, mode), "PNG", exif=exif)
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "I"):
        for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            yield packed(convert(image, mode), "TIFF", compression=compression, exif=exif)
    yield packed(image, "TIFF", compression="jpeg")
    yield packed(image.convert("1"), "TIFF", compression="group4")
    yield "TIFF", tiled(1)
    yield "TIFF", tiled(8)
    for lossless in (False, True):
        yield packed(image, "WEBP", lossless=lossless, exif=exif)
        yield packed(image.convert("RGBA"), "WEBP", lossless=lossless)
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield packed(convert(image, mode), "BMP")
    yield packed(image, "AVIF", exif=exif)
    yield packed(image.convert("RGBA"), "AVIF")
    heif = io.BytesIO()
    pillow_heif.from_pillow(image).save(heif, exif=exif.tobytes())
    yield "HEIF", heif.getvalue()
    yield packed(image.convert("P"), "GIF")
    yield packed(image.convert("P"), "GIF", save_all=True, append_images=[image])
    for mode in ("1", "L", "RGB", "I;16"):
        yield packed(convert(image, mode), "PPM")
    yield "PPM", b"P1 3 2 1 0 1 0 1 1"
    yield "PPM", b"P2 2 2 255 1 2 # comment\n 3 4"
    yield "PPM", b"P3 2 1 4095 1 2 3 4000 5 6"
    yield "PPM", b"P5 4 4 100\n" + bytes(range(0, 96, 6))
    yield "PPM", b"P6 2 2 4095\n" + bytes(24)


def convert(image: Image.Image, mode: str) -> Image.Image:
    return image.convert("I").convert(mode) if mode == "I;16" else image.convert(mode)


def packed(image: Image.Image, kind: str, **settings: Any) -> tuple[str, bytes]:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return kind, file.getvalue()


def tiled(compression: int) -> bytes:
    """A gray TIFF of 16 x 16 pixels in one tile, which Pillow does not write."""
    pixels = bytes(range(256)) if compression == 1 else zlib.compress(bytes(range(256)))
    tags = {256: 16, 257: 16, 258: 8, 259: compression, 262: 1, 277: 1, 322: 16, 323: 16, 324: 200,
            325: len(pixels)}  # fmt: skip
    table = b"".join(struct.pack("<HHLL", tag, 4, 1, value) for tag, value in tags.items())
    return (b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + table).ljust(200, b"\0") + pixels


def fields(kind: str, content: bytes) -> list[Field]:
    """Return the numbers in a file that say how large something is, or where."""
    if kind == "TIFF":
        start = int.from_bytes(content[4:8], "little")
        count = int.from_bytes(content[start : start + 2], "little")
        entries = [start + 2 + 12 * i for i in range(count)]
        found = [(4, 4, "little"), (start, 2, "little")]
        for place in entries:  # values more often than numbers, types and counts
            found += [(place, 2, "little"), (place + 2, 2, "little"), (place + 4, 4, "little")]
            found += [(place + 8, 4, "little"), (place + 8, 2, "little")]
        return found
    if kind == "PNG":
        starts = [match.start() - 4 for match in re.finditer(rb"[A-Za-z]{4}", content)]
        return [(16, 4, "big"), (20, 4, "big"), (24, 1, "big"), (25, 1, "big"), (28, 1, "big")] + [
            (place, 4, "big") for place in starts if place >= 8
        ]
    if kind in ("AVIF", "HEIF"):
        boxes = [match.start() for match in re.finditer(rb"[a-zA-Z]{4}", content)]
        sizes = [match.end() + 4 * i for match in re.finditer(b"ispe", content) for i in (1, 2)]
        return [(place, 4, "big") for place in [*(box - 4 for box in boxes if box >= 4), *sizes]]
    if kind == "JPEG":
        starts = [match.end() for match in re.finditer(rb"\xff[\xc0-\xfe]", content)]
        found = [(place, 2, "big") for place in starts]
        for match in re.finditer(rb"\xff[\xc0\xc2]", content):
            found += [(match.end() + 3, 2, "big"), (match.end() + 5, 2, "big")]
        return found
    if kind == "GIF":
        frames = [match.start() for match in re.finditer(b",", content)]
        return [(6, 2, "little"), (8, 2, "little"), (10, 1, "little")] + [
            (place + 1 + 2 * i, 2, "little") for place in frames for i in range(4)
        ]
    if kind == "BMP":
        return [(place, 4, "little") for place in range(2, 54, 4)] + [(26, 2, "little")]
    if kind == "WEBP":
        chunks = [match.end() for match in re.finditer(rb"RIFF|VP8.|ALPH|EXIF", content)]
        return [(place + 4 * i, 4, "little") for place in chunks for i in range(3)]
    return []  # PNM has text


def mutate(kind: str, content: bytes, places: list[Field], rng: np.random.Generator) -> bytes:
    """Put edge values into numbers of the header, then damage other bytes now and then."""
    values = bytearray(content)
    if kind == "PPM":
        header = re.sub(rb"\d+", lambda match: _number(match[0], rng), content[:20])
        values = bytearray(header + content[20:])
    for _ in range(rng.integers(1, 4) if places else 0):
        place, size, order = places[rng.integers(len(places))]
        value = int(rng.choice(np.array(EDGES, object))) % 256**size
        values[place : place + size] = value.to_bytes(size, order)
    action = rng.integers(6)
    if action == 0:
        for place in rng.integers(len(values), size=rng.integers(1, 9)):
            values[place] = rng.integers(256)
    elif action == 1:
        del values[rng.integers(len(values)) :]
    elif action == 2:
        start, length = rng.integers(len(values)), rng.integers(1, 64)
        values[start:start] = values[start : start + length] * int(rng.integers(1, 10_000))
    elif action == 3:
        values += bytes(int(rng.integers(1, 10**6)))
    if kind == "PNG" and rng.integers(4):
        _repair_sums(values)
    return bytes(values)


def _number(found: bytes, rng: np.random.Generator) -> bytes:
    return found if rng.integers(3) else str(rng.choice(np.array(EDGES, object))).encode()


def _repair_sums(content: bytearray) -> None:
    """Make the checksums of a PNG's chunks right, so that what they hold is looked at."""
    place = 8
    while place + 12 <= len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        if end + 4 > len(content):
            return
        content[end : end + 4] = zlib.crc32(content[place + 4 : end]).to_bytes(4, "big")
        place = end + 4


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        run_child(int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
    else:
        main(float(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
