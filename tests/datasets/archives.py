"""Small archives in the published layouts, and a server that can misbehave."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image

from lrrspm.datasets import DATASETS, Report, catalogue
from lrrspm.datasets.folders import class_digest

Files = dict[str, bytes]


def make_image(seed: int, suffix: str, size: tuple[int, int] = (9, 7)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, {"jpg": "JPEG", "png": "PNG", "pgm": "PPM"}[suffix])
    return out.getvalue()


def image_digest(content: bytes) -> str:
    """Compute the digest straight from its definition."""
    image = Image.open(io.BytesIO(content))
    if image.format != "JPEG":
        content = f"{image.width}x{image.height}:".encode() + image.tobytes()
    return hashlib.sha256(content).hexdigest()


def pack_zip(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def pack_tar(files: Files, mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _images(counts: dict[str, int], template: str, **numbers: int) -> tuple[Files, Files]:
    """Make images in an official layout, and the same in ours."""
    official: Files = {}
    ours: Files = {}
    number = numbers.get("first", 1)
    for label, count in counts.items():
        if not numbers.get("through"):
            number = numbers.get("first", 1)
        for _ in range(count):
            path = template.format(label=label, number=number, short=label[:3])
            content = make_image(len(official), path[-3:])
            official[path] = content
            ours[f"{label}/{path.rpartition('/')[2]}"] = content
            number += numbers.get("step", 1)
    return official, ours


@dataclass
class Made:
    """A small archive in the official layout of a set, and the files it should become."""

    archive: bytes
    files: Files
    counts: dict[str, int]


def _made_ls() -> Made:
    counts = {"CALsuburb": 2, "MITcoast": 3, "MITforest": 4, "bedroom": 5, "industrial": 1}
    official, ours = _images(counts, "{label}/image_{number:04}.jpg")
    rest = {"__MACOSX/bedroom/._image_0001.jpg": b"", "bedroom/Thumbs.db": b"x"}
    return Made(pack_zip(official | rest), ours, counts)


def _made_caltech101() -> Made:
    counts = {"BACKGROUND_Google": 3, "Faces": 2, "accordion": 2}
    official, ours = _images(counts, "101_ObjectCategories/{label}/image_{number:04}.jpg")
    inner = pack_tar(official | {"101_ObjectCategories/BACKGROUND_Google/tmp": b"x"}, "w:gz")
    notes = pack_tar({"Annotations/accordion/annotation_0001.mat": b"x"})
    files = {"caltech-101/101_ObjectCategories.tar.gz": inner, "caltech-101/Annotations.tar": notes}
    rest = {"__MACOSX/caltech-101/._101_ObjectCategories.tar.gz": b"x"}
    return Made(pack_zip(files | rest), ours, counts)


def _made_caltech256() -> Made:
    counts = {"001.ak47": 2, "056.dog": 3, "198.spider": 2, "257.clutter": 1}
    layout = "256_ObjectCategories/{label}/{short}_{number:04}.jpg"
    official, ours = _images(counts, layout)
    rest = {
        "256_ObjectCategories/056.dog/greg/vw1.jpg": make_image(99, "jpg"),
        "256_ObjectCategories/198.spider/RENAME2": b"x",
    }
    return Made(pack_tar(official | rest), ours, counts)


def _made_flowers() -> Made:
    counts = {"01_Daffodil": 3, "02_Snowdrop": 3}
    official, ours = _images(counts, "jpg/image_{number:04}.jpg", through=True)
    return Made(pack_tar(official | {"jpg/files.txt": b"x"}, "w:gz"), ours, counts)


def _made_coil(folder: str, counts: dict[str, int], step: int) -> Made:
    layout = folder + "/{label}__{number}.png"
    official, ours = _images(counts, layout, first=0, step=step)
    return Made(pack_zip(official | {f"{folder}/convertGroupppm2png.pl": b"x"}), ours, counts)


def _made_yale() -> Made:
    counts = {"yaleB01": 3, "yaleB39": 2}
    official, ours = _images(counts, "CroppedYale/{label}/{label}_P00A+0{number:02}E+00.pgm")
    rest = {
        "CroppedYale/yaleB01/yaleB01_P00_Ambient.pgm": make_image(98, "pgm"),
        "CroppedYale/yaleB01/yaleB01_P00A-110E-20.pgm.bad": make_image(97, "pgm"),
        "CroppedYale/yaleB01/yaleB01_P00.info": b"x",
    }
    return Made(pack_zip(official | rest), ours, counts)


MADE = {
    "LS": _made_ls(),
    "Caltech101": _made_caltech101(),
    "Caltech256": _made_caltech256(),
    "17flowers": _made_flowers(),
    "COIL20": _made_coil("coil-20-proc", {"obj1": 3, "obj10": 2, "obj2": 3}, 1),
    "COIL100": _made_coil("coil-100", {"obj1": 3, "obj100": 2}, 5),
    "YaleB": _made_yale(),
}


def use_small_sets(monkeypatch) -> None:
    """Make the catalogue describe the small sets instead of the published ones."""
    manifests = {}
    for name, made in MADE.items():
        known = {
            label: catalogue.Published(
                count,
                class_digest(
                    image_digest(content)
                    for path, content in made.files.items()
                    if path.startswith(f"{label}/")
                ),
            )
            for label, count in made.counts.items()
        }
        manifests[name] = known
        _resize(monkeypatch, name, known)
    _resize(monkeypatch, "OT", {k: v for k, v in manifests["LS"].items() if k.startswith("MIT")})
    _resize(monkeypatch, "FP", {k: v for k, v in manifests["LS"].items() if k != "industrial"})
    monkeypatch.setattr(catalogue, "_read_manifest", manifests.__getitem__)


def _resize(monkeypatch, name: str, known: dict[str, catalogue.Published]) -> None:
    changed = replace(
        DATASETS[name],
        images=sum(c.images for c in known.values()),
        classes=len(known),
        megabytes=1,
        pixels=(7, 9) if DATASETS[name].pixels else None,
    )
    monkeypatch.setitem(DATASETS, name, changed)


@dataclass
class Server:
    """A web server with one file; connections break after so many bytes (``cuts``)."""

    content: bytes = b""
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    length: bool = True
    status: int = 200
    asked: list[str | None] = field(default_factory=list)
    port: int = 0

    def serve(self, monkeypatch, name: str, content: bytes, checksum: str | None = "right") -> None:
        """Make this server the source of a data set."""
        self.content = content
        if checksum == "right":
            checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        archive = DATASETS[name].archive
        assert archive is not None
        address = f"http://127.0.0.1:{self.port}/{archive.file_name}?download=1"
        archive = replace(archive, address=address, checksum=checksum)
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], archive=archive))

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append(wanted)
        start = int(wanted[len("bytes=") : -1]) if wanted and self.ranges else 0
        if self.status != 200:
            request.send_error(self.status)
            return
        if start >= len(self.content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(self.content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if start:
            whole = len(self.content)
            request.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        if self.length:
            request.send_header("Content-Length", str(len(self.content) - start))
        request.end_headers()
        cut = self.cuts.pop(0) if self.cuts else len(self.content)
        with suppress(OSError):  # the client may have had enough
            request.wfile.write(self.content[start : start + cut])
        request.close_connection = True


@contextmanager
def running_server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def states(report: Report) -> dict[str, str]:
    """Return the state of each class of a report."""
    return {row.label: row.state for row in report.classes}


def rewrite(folder: Path, size: tuple[int, int] | None, form: str) -> None:
    """Re-encode all images of a folder in place, resized if a size is given."""
    for path in folder.rglob("*.*"):
        image = Image.open(io.BytesIO(path.read_bytes()))
        out = io.BytesIO()
        (image.resize(size) if size else image).save(out, form)
        path.write_bytes(out.getvalue())


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
