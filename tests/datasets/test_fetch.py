"""Downloads: every data set from a made archive, and everything that can go wrong."""

import errno
import hashlib
import io
import os
import pathlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lrrspm._support.stages import Stages
from lrrspm.datasets import DATASETS, Archive, fetch, load, locate, verify
from lrrspm.datasets.download import UnreachableError
from tests.datasets.archives import (
    MADE,
    contents,
    make_image,
    pack_zip,
)

pytestmark = pytest.mark.network


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
    right = hashlib.md5(MADE["COIL20"].archive).hexdigest()
    server.serve(monkeypatch, "COIL20", MADE["COIL20"].archive, "md5:" + 32 * "0")
    with pytest.raises(
        ValueError, match=f"Checksum mismatch: expected md5:{32 * '0'}, got md5:{right}"
    ):
        fetch("COIL20", tmp_path)
    assert contents(tmp_path) == {}
    assert locate("COIL20", tmp_path) is None


def test_without_a_checksum_the_digests_are_compared(server, monkeypatch, tmp_path):
    other = {f"CroppedYale/yaleB01/{i}.pgm": make_image(50 + i, "pgm") for i in range(3)}
    other |= {f"CroppedYale/yaleB39/{i}.pgm": make_image(60 + i, "pgm") for i in range(2)}
    server.serve(monkeypatch, "YaleB", pack_zip(other), None)
    with pytest.raises(ValueError, match="not the published YaleB: a re-encoded copy"):
        fetch("YaleB", tmp_path)
    assert contents(tmp_path) == {}
    server.serve(monkeypatch, "YaleB", b"<html>moved</html>", None)
    with pytest.raises(ValueError, match="not an archive, or damaged"):
        fetch("YaleB", tmp_path)
    assert contents(tmp_path) == {}


def test_with_a_checksum_wrong_counts_are_a_warning(server, monkeypatch, tmp_path):
    files = {f"bedroom/image_000{i}.jpg": make_image(i, "jpg") for i in range(2)}
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
    (part.parent / "tmp1234").touch()  # left by a killed run
    fetch("LS", tmp_path)
    assert server.asked[-1] == "bytes=1000-"
    assert contents(tmp_path / "LS") == MADE["LS"].files
    assert os.listdir(tmp_path) == ["LS"]


@pytest.mark.parametrize(("ranges", "have"), [(False, 1000), (True, 1_000_000)])
def test_a_download_that_cannot_resume_starts_over(ranges, have, server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.ranges = ranges
    (tmp_path / ".downloads" / "LS").mkdir(parents=True)
    (tmp_path / ".downloads" / "LS" / "scene_categories.zip.part").write_bytes(b"x" * have)
    fetch("LS", tmp_path)
    assert server.asked[0] == f"bytes={have}-"
    assert contents(tmp_path / "LS") == MADE["LS"].files


def test_a_server_that_makes_no_progress_is_given_up(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.ranges = False
    server.cuts = [1000] * 9
    with pytest.raises(UnreachableError):
        fetch("LS", tmp_path)
    assert server.asked == [None, "bytes=1000-"]


def test_a_complete_part_is_not_downloaded_again(server, monkeypatch, tmp_path):
    archive = MADE["LS"].archive
    server.serve(monkeypatch, "LS", archive)
    (tmp_path / ".downloads" / "LS").mkdir(parents=True)
    (tmp_path / ".downloads" / "LS" / "scene_categories.zip.part").write_bytes(archive)
    fetch("LS", tmp_path)
    assert server.asked == [f"bytes={len(archive)}-"]
    assert contents(tmp_path / "LS") == MADE["LS"].files


def test_without_a_network_the_error_says_what_to_do(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.status = 404
    with pytest.raises(UnreachableError, match="the server returned 404 Not Found; without a net"):
        fetch("OT", tmp_path)
    address = "http://127.0.0.1:9/scene_categories.zip"  # nobody listens there
    archive = Archive(address, "nowhere")
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
    with pytest.raises(
        ValueError, match=r"not the published scene_categories\.zip\. Checksum mismatch: exp"
    ):
        fetch("LS", tmp_path, archive=file)
    assert server.asked == []


class FullDisk(io.BytesIO):
    """A file on a disk that is almost full."""

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
        with pytest.raises(
            OSError, match=f"{tmp_path}: the disk is full; fetching LS needs about 2 MB"
        ):
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


def test_other_disk_errors_are_not_changed(server, monkeypatch, tmp_path):
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


def test_a_download_is_no_longer_than_the_set(server, monkeypatch, tmp_path):
    """COIL20 has 1 MB here; the server sends more, whether it says so or not."""
    for length in (True, False):
        server.serve(monkeypatch, "COIL20", bytes(2_000_001), None)
        server.length = length
        with pytest.raises(ValueError, match="more than 2,000,000 bytes"):
            fetch("COIL20", tmp_path)
        assert contents(tmp_path) == {}


def test_single_bytes_are_given_up(server, monkeypatch, tmp_path):
    server.serve(monkeypatch, "LS", MADE["LS"].archive)
    server.cuts = [1] * 1000
    with pytest.raises(UnreachableError, match=r"the connection broke 30 times; run .* again"):
        fetch("LS", tmp_path)
    assert len(server.asked) == 30
    server.cuts = []
    fetch("LS", tmp_path)
    assert server.asked[30] == "bytes=30-"
    assert contents(tmp_path / "LS") == MADE["LS"].files
