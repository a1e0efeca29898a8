"""The feature store and picture files: odd ones, and such that change meanwhile."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from lrrspm.audit import warn_about
from lrrspm.files import MAX_BYTES, file_digest
from lrrspm.store import contents


def run_for_a_while(*arguments):
    """A command in a process of its own, which is killed if it does not end."""
    command = [sys.executable, "-m", "lrrspm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def odd(pictures, tmp_path):
    """The made pictures, a pipe, a device that never ends, and a file that is too large."""
    folder = tmp_path / "odd"
    shutil.copytree(pictures, folder)
    os.mkfifo(folder / "dots" / "pipe.jpg")
    (folder / "dots" / "zero.jpg").symlink_to("/dev/zero")
    with (folder / "dots" / "large.jpg").open("wb") as file:
        file.truncate(1000 * MAX_BYTES)
    return folder


def test_pipes_and_devices_do_not_stop_a_run(odd, pictures, tmp_path, model_path):
    cache, options = tmp_path / "cache", ["--codebook-size", "8", "--jobs", "2"]
    with_store = [*options, "--cache", cache, "--on-error", "skip"]
    trained = run_for_a_while("train", odd, "-o", tmp_path / "m", *with_store)
    assert trained.returncode == 3, trained.stderr
    assert "pipe.jpg: not an ordinary file" in trained.stderr
    assert "zero.jpg: not an ordinary file" in trained.stderr
    assert "large.jpg: 1,073,741,824,000 bytes are more than" in trained.stderr
    run_for_a_while("train", pictures, "-o", tmp_path / "plain", *options)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()
    predicted = run_for_a_while("predict", model_path, odd, "--cache", cache)
    assert predicted.returncode == 3, predicted.stderr
    assert "3 of 39 files were skipped" in predicted.stderr
    vectors = [shelf["arrays"] for shelf in contents(cache) if shelf["kind"] == "vectors"]
    assert vectors == [36, 36, 36]


def test_warnings_do_not_read_what_is_no_picture(odd):
    """Two of each, so that they are of the same length."""
    names = ["pipe.jpg", "zero.jpg", "large.jpg"] * 2
    warn_about([str(odd / "dots" / name) for name in names], ["dots"] * 6)


def test_digests(odd, tmp_path):
    known = tmp_path / "a"
    known.write_bytes(b"abc")
    assert file_digest(known) == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    (tmp_path / "empty").touch()
    nothing = [tmp_path / "empty", tmp_path / "missing", tmp_path, *odd.glob("dots/*.jpg")]
    assert len(nothing) == 6
    assert [file_digest(path) for path in nothing] == [None] * 6
