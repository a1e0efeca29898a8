import os

import pytest

from lrrspm._support.files import check_target, write_atomically


def test_atomic_writing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_links_stay_links_and_pipes_pipes(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        write_atomically(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()


def test_permissions_stay(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_read_only_files_are_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    # The superuser may write everywhere, so the answer is made.
    monkeypatch.setattr(os, "access", lambda asked, _: asked != path)
    with pytest.raises(PermissionError, match="file is read-only"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_dangling_links(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "no" / "file")
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        check_target(tmp_path / "link")


def test_targets_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        write_atomically(tmp_path / "no" / "file", b"")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, b"")
