"""Unpacking: hostile, odd and damaged archives."""

import io
import os
import shutil
import stat
import tarfile
import zipfile

import pytest

from benchmarks.attacks.images import pax_archive
from lrrspm.datasets import DATASETS, fetch, locate
from lrrspm.datasets.catalogue import labeler
from lrrspm.datasets.unpack import HostileArchiveError, Limits, unpack
from tests.datasets.archives import (
    contents,
    pack_tar,
    pack_zip,
)

pytestmark = pytest.mark.network


def zip_with(name: str, mode: int = 0, content: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("bedroom/first.jpg", b"x")
        info = zipfile.ZipInfo("placeholder")
        info.filename = name
        info.external_attr = mode << 16
        archive.writestr(info, content)
    return out.getvalue()


def tar_with(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", pax: bool = False) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("placeholder" if pax else name)
        info.pax_headers = {"path": name} if pax else {}
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
    "tar null byte": tar_with("bedroom/evil\0.jpg", pax=True),
    "tar backslashes": tar_with("..\\bedroom\\evil.jpg"),
    "tar drive": tar_with("C:/bedroom/evil.jpg"),
    "tar link inside": tar_with("bedroom/evil.jpg", tarfile.SYMTYPE, "first.jpg"),
    "tar hard link inside": tar_with("bedroom/evil.jpg", tarfile.LNKTYPE, "bedroom/first.jpg"),
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


def test_odd_names_of_ignored_files_are_harmless(tmp_path):
    file = tmp_path / "archive"
    file.write_bytes(pack_zip({"bedroom/Icon\r": b"", "bedroom/1.jpg": b"x"}))
    (tmp_path / "target").mkdir()
    label_of = labeler(DATASETS["LS"])
    assert unpack(file, tmp_path / "target", label_of, Limits(10, 10)) == 1
    assert contents(tmp_path / "target") == {"bedroom/1.jpg": b"x"}


def test_a_hostile_archive_in_an_archive(server, monkeypatch, tmp_path):
    inner = tar_with("101_ObjectCategories/../../Faces/evil.jpg")
    archive = pack_zip({"caltech-101/101_ObjectCategories.tar.gz": inner})
    server.serve(monkeypatch, "Caltech101", archive)
    with pytest.raises(HostileArchiveError, match="outside the destination"):
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
        with pytest.raises(ValueError, match="archive: not an archive, or damaged"):
            unpack(file, target, lambda path: path.parent.name, Limits(10, 10**6))


def test_long_headers_are_refused(tmp_path):
    pax_archive(tmp_path / "archive", 2**24)
    (tmp_path / "target").mkdir()
    with pytest.raises(ValueError, match="header of more than 1,048,576 bytes"):
        unpack(tmp_path / "archive", tmp_path / "target", lambda _: None, Limits(9, 10**9))


def test_long_names_and_members_are_read(tmp_path):
    """The limit of headers does not count what the files hold."""
    name = "/".join(["bedroom"] * 100) + "/1.jpg"
    files = {name: os.urandom(3 * 2**20), "bedroom/2.jpg": b"x", "other": bytes(2**22)}
    (tmp_path / "archive").write_bytes(pack_tar(files, "w:gz"))
    (tmp_path / "target").mkdir()
    label_of = labeler(DATASETS["LS"])
    assert unpack(tmp_path / "archive", tmp_path / "target", label_of, Limits(10, 10**8)) == 2
    assert contents(tmp_path / "target") == {
        "bedroom/1.jpg": files[name],
        "bedroom/2.jpg": b"x",
    }
