"""What killed runs leave on disk, and what live ones are using."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lrrspm._support import leftovers
from lrrspm._support.shards import PREFIX, Shards
from lrrspm.cache import FeatureStore, clear
from lrrspm.cache.store import TRAINING

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system has no locks for files")

_SCRIPT = """
import sys
import numpy as np
from lrrspm._support.shards import Shards
with Shards(4, 3, np.float32, sys.argv[1], 2) as shards:
    shards.append(np.ones((2, 3), np.float32))
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def running(folder):
    """Another process that has written one of two shards."""
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_a_folder_that_a_worker_is_late_to_write_into_is_found_again(tmp_path, monkeypatch):
    original = os.rmdir
    late: list[Path] = []

    def write_first(path, *given, **named):
        if not late:
            (folder,) = tmp_path.iterdir()
            late.append(folder / "000000.vectors")
            late[0].write_bytes(b"late")
        original(path, *given, **named)

    monkeypatch.setattr(os, "rmdir", write_first)
    with Shards(1, 1, np.float32, tmp_path) as shards:
        shards.append(np.ones((1, 1), np.float32))
    assert late[0].exists()
    with Shards(1, 1, np.float32, tmp_path):
        assert not late[0].parent.exists()
    assert list(tmp_path.iterdir()) == []


def test_the_next_run_deletes_what_a_killed_one_left(tmp_path):
    with running(tmp_path):
        (living,) = tmp_path.iterdir()
        with Shards(1, 1, np.float32, tmp_path):
            assert living.is_dir()  # its run is alive
    assert living.is_dir()  # killed
    (tmp_path / f"{PREFIX}of-old").mkdir()  # of whom nothing is known
    with Shards(1, 1, np.float32, tmp_path):
        assert not living.exists()
    assert [path.name for path in tmp_path.iterdir()] == [f"{PREFIX}of-old"]


def test_folders_of_other_machines_stay(tmp_path, monkeypatch):
    with running(tmp_path):
        pass
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert leftovers.abandoned(tmp_path, PREFIX) == []
    monkeypatch.undo()
    assert len(leftovers.abandoned(tmp_path, PREFIX)) == 1


def test_a_disk_without_locks(tmp_path, monkeypatch):
    def fail(_):
        raise OSError("no locks available")

    monkeypatch.setattr(leftovers, "lock_file", fail)
    with Shards(1, 1, np.float32, tmp_path) as shards:
        assert shards.append(np.ones((1, 1), np.float32)) == 1
        assert leftovers.abandoned(tmp_path, PREFIX) == []
    assert list(tmp_path.iterdir()) == []


def test_clearing_a_store_deletes_them(tmp_path):
    store = tmp_path / "store"
    FeatureStore(store)
    with running(store / TRAINING):
        assert clear(store) == (0, 0)
        assert len(list((store / TRAINING).iterdir())) == 1
    files, size = clear(store)
    assert files == 2  # a shard, and whose it was
    assert size > 2 * 3 * 4
    assert list((store / TRAINING).iterdir()) == []
    assert [path.name for path in store.iterdir()] in (
        [TRAINING, "lrrspm-store.json"],
        ["lrrspm-store.json", TRAINING],
    )
