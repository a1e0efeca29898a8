import os

import pytest

from lrrspm.files import write_atomically


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
    with pytest.raises(ValueError, match="not an ordinary file"):
        write_atomically(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()


def test_targets_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        write_atomically(tmp_path / "no" / "file", b"")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, b"")
