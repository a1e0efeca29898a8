"""Downloads: every loader on a made archive, and everything that can go wrong on the way."""

import errno
import io
import os
import pathlib
import shutil
import stat
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from lrrspm._support.stages import Stages
from lrrspm.datasets import DATASETS, Archive, fetch, load, locate, verify
from lrrspm.datasets.catalogue import labeller
from lrrspm.datasets.download import UnreachableError
from lrrspm.datasets.unpack import HostileArchiveError, Limits, unpack
from tests.datasets.archives import (
    MADE,
    pack_tar,
    pack_zip,
    picture,
    running_server,
    use_small_sets,
)

pytestmark = pytest.mark.network


@pytest.fixture
def server(monkeypatch):
    use_small_sets(monkeypatch)
    monkeypatch.setattr("lrrspm.datasets.download._PAUSE", 0)
    with running_server() as running:
        yield running


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", MADE)
def test_fetch_lays_out_class_folders(name, server, monkeypatch, tmp_path):
    made = MADE[name]
    server.serve(monkeypatch, name, made.archive, None if name == "YaleB" else "right")
    told = []
    folder = fetch(name, tmp_path / "root", stages=Stages(lambda *what: told.append(what)))
    assert folder == tmp_path / "root" / name == locate(name, tmp_path / "root")
    assert contents(folder) == made.files
    assert os.listdir(tmp_path / "root") == [name]
    paths, labels = load(name, tmp_path / "root")
    assert [f"{label}/{Path(path).name}" for path, label in zip(paths, labels, strict=True)] == (
        sorted(made.files)
    )
    report = verify(name, tmp_path / "root")
    assert report.good
    assert report.equal is (None if name == "Caltech256" else True)
    assert ("unpack", len(made.files), len(made.files)) in told
    assert told[0][0] == "download, kB"

    fetch(name, tmp_path / "root")
    assert server.asked == [None]


@pytest.mark.parametrize("name", ["OT", "FP"])
def test_parts_come_with_the_whole(name, server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    assert fetch(name, tmp_path) == tmp_path / "LS"
    classes = {"OT": ["MITcoast", "MITforest"]}.get(name) or [
        "CALsuburb", "MITcoast", "MITforest", "bedroom",
    ]  # fmt: skip
    assert sorted(set(load(name, tmp_path)[1])) == classes
    report = verify(name, tmp_path)
    assert report.good
    assert report.strays == []


def test_wrong_checksum(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "COIL20", MADE["COIL20"].archive, "md5:" + 32 * "0")
    with pytest.raises(ValueError, match=f"has not the checksum md5:{32 * '0'}"):
        fetch("COIL20", tmp_path)
    assert contents(tmp_path) == {}
    assert locate("COIL20", tmp_path) is None


def test_without_a_checksum_the_digests_decide(server, monkeypatch, tmp_path):
    other = {f"CroppedYale/yaleB01/{i}.pgm": picture(50 + i, "pgm") for i in range(3)}
    other |= {f"CroppedYale/yaleB39/{i}.pgm": picture(60 + i, "pgm") for i in range(2)}
    server.serve(monkeypatch, "YaleB", pack_zip(other), None)
    with pytest.raises(ValueError, match="not the published YaleB: a re-encoded copy"):
        fetch("YaleB", tmp_path)
    assert contents(tmp_path) == {}
    server.serve(monkeypatch, "YaleB", b"<html>moved</html>", None)
    with pytest.raises(ValueError, match="not an archive, or a damaged one"):
        fetch("YaleB", tmp_path)
    assert contents(tmp_path) == {}


def test_with_a_checksum_other_numbers_are_a_warning(server, monkeypatch, tmp_path):
    files = {f"bedroom/image_000{i}.jpg": picture(i, "jpg") for i in range(2)}
    server.serve(monkeypatch, "LS", pack_zip(files))
    with pytest.warns(UserWarning, match="bedroom has 2 images instead of 5"):
        fetch("LS", tmp_path)
    assert set(contents(tmp_path / "LS")) == set(files)


def test_a_broken_connection_is_resumed(server, monkeypatch, tmp_path):
    archive = MADE["LS"].archive
    server.serve(monkeypatch, "LS", archive)
    server.cuts = [1000, 500]
    fetch("LS", tmp_path)
    assert server.asked == [None, "bytes=1000-", "bytes=1500-"]
    assert contents(tmp_path / "LS") == MADE["LS"].files


def test_an_earlier_download_is_resumed(server, monkeypatch, tmp_path):
    archive = MADE["LS"].archive
    server.serve(monkeypatch, "LS", archive)
    server.cuts = [1000, 0]
    with pytest.raises(UnreachableError, match="no connection"):
        fetch("LS", tmp_path)
    part = tmp_path / ".downloads" / "LS" / "scene_categories.zip.part"
    assert part.read_bytes() == archive[:1000]
    (part.parent / "tmp1234").touch()  # of a run that was killed
    fetch("LS", tmp_path)
    assert server.asked[-1] == "bytes=1000-"
    assert contents(tmp_path / "LS") == MADE["LS"].files
    assert os.listdir(tmp_path) == ["LS"]


@pytest.mark.parametrize(("ranges", "have"), [(False, 1000), (True, 1_000_000)])
def test_what_cannot_be_continued_starts_over(ranges, have, server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.ranges = ranges
    (tmp_path / ".downloads" / "LS").mkdir(parents=True)
    (tmp_path / ".downloads" / "LS" / "scene_categories.zip.part").write_bytes(b"x" * have)
    fetch("LS", tmp_path)
    assert server.asked[0] == f"bytes={have}-"
    assert contents(tmp_path / "LS") == MADE["LS"].files


def test_a_server_that_never_gets_further_is_given_up(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.ranges = False
    server.cuts = [1000] * 9
    with pytest.raises(UnreachableError):
        fetch("LS", tmp_path)
    assert server.asked == [None, "bytes=1000-"]


def test_a_complete_part_is_not_asked_for_again(server, monkeypatch, tmp_path):
    archive = MADE["LS"].archive
    server.serve(monkeypatch, "LS", archive)
    (tmp_path / ".downloads" / "LS").mkdir(parents=True)
    (tmp_path / ".downloads" / "LS" / "scene_categories.zip.part").write_bytes(archive)
    fetch("LS", tmp_path)
    assert server.asked == [f"bytes={len(archive)}-"]
    assert contents(tmp_path / "LS") == MADE["LS"].files


def test_no_network_tells_the_manual_way(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.status = 404
    with pytest.raises(UnreachableError, match="the server answers 404 Not Found; without a netwo"):
        fetch("OT", tmp_path)
    address = "http://127.0.0.1:9/scene_categories.zip"  # nobody listens there
    archive = Archive(address, None, "nowhere")
    monkeypatch.setitem(DATASETS, "LS", replace(DATASETS["LS"], archive=archive))
    manual = r"no connection; .*'lrrspm datasets fetch LS --archive FILE'.*'lrrspm datasets add LS"
    with pytest.raises(UnreachableError, match=manual):
        fetch("LS", tmp_path)
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    file = tmp_path / "by-hand.zip"
    file.write_bytes(MADE["LS"].archive)
    fetch("LS", tmp_path, archive=file)
    assert contents(tmp_path / "LS") == MADE["LS"].files
    assert file.exists()


def test_a_given_archive_must_be_the_published_one(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    file = tmp_path / "other.zip"
    with pytest.raises(FileNotFoundError, match=r"other\.zip: no such file"):
        fetch("LS", tmp_path, archive=file)
    file.write_bytes(MADE["COIL20"].archive)
    with pytest.raises(ValueError, match=r"not the published scene_categories\.zip"):
        fetch("LS", tmp_path, archive=file)
    assert server.asked == []


class FullDisk(io.BytesIO):
    """A file on a disk with room for a little."""

    def __init__(self, path: Path, room: int) -> None:
        super().__init__()
        self.path, self.room = path, room

    def write(self, chunk):
        if self.tell() + len(chunk) > self.room:
            super().write(chunk[: self.room - self.tell()])
            with open(self.path, "wb") as file:
                file.write(self.getvalue())
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(chunk)


def test_full_disk_while_downloading(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    ordinary = Path.open

    def crowded(path, mode="r", *rest, **options):
        if path.suffix == ".part":
            return FullDisk(path, 700)
        return ordinary(path, mode, *rest, **options)

    with monkeypatch.context() as full:
        full.setattr(pathlib.Path, "open", crowded)
        with pytest.raises(OSError, match=f"{tmp_path}: the disk is full; LS needs about 2 MB"):
            fetch("LS", tmp_path)
    assert locate("LS", tmp_path) is None
    fetch("LS", tmp_path)
    assert server.asked == [None, "bytes=700-"]
    assert contents(tmp_path / "LS") == MADE["LS"].files


def test_full_disk_while_unpacking(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    copied = []

    def copy(source, file):
        copied.append(file.write(source.read()))
        if len(copied) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfileobj", copy)
        with pytest.raises(OSError, match="the disk is full"):
            fetch("LS", tmp_path)
    assert list(contents(tmp_path)) == [".downloads/LS/scene_categories.zip"]
    assert os.listdir(tmp_path) == [".downloads"]
    fetch("LS", tmp_path)
    assert server.asked == [None]
    assert contents(tmp_path) == {f"LS/{path}": data for path, data in MADE["LS"].files.items()}


def test_other_disk_errors_stay_what_they_are(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        fetch("LS", tmp_path / "file")


def test_a_killed_run_leaves_nothing_under_the_final_name(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    left = tmp_path / ".LS.unpacking" / "bedroom"
    left.mkdir(parents=True)
    (left / "image_0099.jpg").write_bytes(b"half")
    assert locate("LS", tmp_path) is None
    fetch("LS", tmp_path)
    assert contents(tmp_path) == {f"LS/{path}": data for path, data in MADE["LS"].files.items()}


def zip_with(name: str, mode: int = 0, content: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("bedroom/first.jpg", b"x")
        info = zipfile.ZipInfo("placeholder")
        info.filename = name
        info.external_attr = mode << 16
        archive.writestr(info, content)
    return out.getvalue()


def tar_with(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        archive.addfile(info)
    return out.getvalue()


HOSTILE = {
    "zip up": zip_with("../../bedroom/evil.jpg"),
    "zip up in the middle": zip_with("bedroom/../../evil.jpg"),
    "zip absolute": zip_with("/tmp/bedroom/evil.jpg"),
    "zip name": zip_with("bedroom/evil.jpg:stream.jpg"),
    "zip drive": zip_with("C:/bedroom/evil.jpg"),
    "zip backslashes": zip_with("..\\bedroom\\evil.jpg"),
    "zip link": zip_with("bedroom/evil.jpg", stat.S_IFLNK | 0o777, b"/etc/passwd"),
    "zip twice": pack_zip({"a/bedroom/1.jpg": b"x", "b/bedroom/1.jpg": b"y"}),
    "tar up": tar_with("../bedroom/evil.jpg"),
    "tar absolute": tar_with("/bedroom/evil.jpg"),
    "tar link": tar_with("bedroom/evil.jpg", tarfile.SYMTYPE, "/etc/passwd"),
    "tar hard link": tar_with("bedroom/evil.jpg", tarfile.LNKTYPE, "../outside"),
    "tar device": tar_with("bedroom/evil.jpg", tarfile.CHRTYPE),
    "tar pipe": tar_with("bedroom/evil.jpg", tarfile.FIFOTYPE),
    "many files": pack_zip({f"{i}": b"" for i in range(1100)}),
    "large": pack_tar({"bedroom/large.jpg": bytes(4_000_000)}, "w:gz"),
    "large and left out": pack_tar({"bedroom/large.txt": bytes(4_000_000)}, "w:gz"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives(kind, server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", HOSTILE[kind])
    with pytest.raises(HostileArchiveError, match="refused"):
        fetch("LS", tmp_path / "root")
    assert contents(tmp_path) == {}
    assert locate("LS", tmp_path / "root") is None


def test_odd_names_that_are_left_out_do_no_harm(tmp_path):
    file = tmp_path / "archive"
    file.write_bytes(pack_zip({"bedroom/Icon\r": b"", "bedroom/1.jpg": b"x"}))
    (tmp_path / "target").mkdir()
    label_of = labeller(DATASETS["LS"])
    assert unpack(file, tmp_path / "target", label_of, Limits(10, 10)) == 1
    assert contents(tmp_path / "target") == {"bedroom/1.jpg": b"x"}


def test_a_hostile_archive_in_an_archive(server, monkeypatch, tmp_path):
    inner = tar_with("101_ObjectCategories/../../Faces/evil.jpg")
    archive = pack_zip({"caltech-101/101_ObjectCategories.tar.gz": inner})
    server.serve(monkeypatch, "Caltech101", archive)
    with pytest.raises(HostileArchiveError, match="leads out of its folder"):
        fetch("Caltech101", tmp_path / "root")
    assert contents(tmp_path) == {}


def test_damaged_archives_are_named(tmp_path):
    whole = pack_zip({"bedroom/1.jpg": bytes(range(256)) * 40})
    flipped = bytearray(whole)
    flipped[5000] ^= 255
    tgz = pack_tar({"bedroom/1.jpg": os.urandom(20_000)}, "w:gz")
    for content in (whole[:3000], bytes(flipped), tgz[:9000], b"", b"<html></html>"):
        file = tmp_path / "archive"
        file.write_bytes(content)
        target = tmp_path / "target"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        with pytest.raises(ValueError, match="archive: not an archive, or a damaged one"):
            unpack(file, target, lambda path: path.parent.name, Limits(10, 10**6))
