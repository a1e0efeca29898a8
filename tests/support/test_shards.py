"""Matrices in files: what was written is read, whole or not at all."""

import errno
import os
import pickle
import shutil
from pathlib import Path
from unittest.mock import patch

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm._support import remote, shard
from lrrspm._support.shards import Shard, ShardError, Shards, stacked_columns
from tests.buckets import Strict


def matrix(n, d, dtype=np.float16):
    return np.random.default_rng(0).standard_normal((n, d)).astype(dtype)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 9),
    rows=st.integers(1, 50),
    dtype=st.sampled_from([np.float16, np.float32]),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    group=st.sampled_from([1, 2, 4, 4096]),
    remote=st.booleans(),
    data=st.data(),
)
def test_rows_and_columns_come_back(tmp_path_factory, n, d, rows, dtype, cuts, group, remote, data):
    X = matrix(n, d, dtype)
    folder = "memory://shards" if remote else tmp_path_factory.mktemp("shards")
    small = {"GROUP": group, "_PIECE_BYTES": 1}  # 16 rows at a time
    with patch.multiple(shard, **small), Shards(n, d, dtype, folder, rows) as shards:
        for part in np.split(X, sorted(min(cut, n) for cut in cuts)):
            assert shards.append(part) == len(part)
        assert [one.start for one in shards] == list(range(0, n, rows))
        np.testing.assert_array_equal(np.concatenate([one.read() for one in shards]), X)
        wide = [block for one in shards for _, block in one.blocks()]
        np.testing.assert_array_equal(np.concatenate(wide), X.astype(np.float32))
        first = data.draw(st.integers(0, d - 1))
        last = data.draw(st.integers(first + 1, d))
        columns = stacked_columns(shards, n, first, last)
        assert columns.dtype == np.float32
        np.testing.assert_array_equal(columns, X[:, first:last].astype(np.float32))
        some = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=5)), np.int64)
        np.testing.assert_array_equal(shards.take(some), X[some])


def test_a_shard_is_small_and_can_be_sent(tmp_path):
    X = matrix(5, 3)
    with Shards(5, 3, X.dtype, tmp_path, rows=2) as shards:
        shards.append(X)
        sent = pickle.dumps(shards[1])
        assert len(sent) < 500
        np.testing.assert_array_equal(pickle.loads(sent).read(), X[2:4])


def test_the_number_of_rows_depends_on_the_length_alone():
    assert Shards(10**6, 21504, np.float16)._rows == 4096
    assert Shards(10, 21504, np.float16)._rows == 4096
    assert Shards(10, 696_320, np.float16)._rows == 128
    assert Shards(10, 10**9, np.float16)._rows == 16


def test_nothing_stays_on_disk(tmp_path):
    def stop_halfway():
        with Shards(6, 3, np.float32, tmp_path, 2) as shards:
            shards.append(matrix(4, 3, np.float32))
            assert len(list(tmp_path.rglob("*.vectors"))) == 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_halfway()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "block",
    [
        np.zeros((1, 4), np.float16),
        np.zeros((1, 3), np.float32),
        np.zeros(3, np.float16),
        np.zeros((4, 3), np.float16),
        np.array([[1, np.nan, 0]], np.float16),
        np.array([[1, np.inf, 0]], np.float16),
    ],
)
def test_other_rows_are_refused(tmp_path, block):
    reason = "rows of 3 numbers|more than the 3 rows|NaN or infinity"
    with Shards(3, 3, np.float16, tmp_path) as shards, pytest.raises(ValueError, match=reason):
        shards.append(block)


@pytest.mark.parametrize(("n", "d", "dtype"), [(0, 3, "f2"), (3, 0, "f2"), (3, 3, "i4")])
def test_other_matrices_are_refused(n, d, dtype):
    with pytest.raises(ValueError, match=r"at least one row|float16 or float32"):
        Shards(n, d, dtype)


def test_incomplete_matrices_are_not_read(tmp_path):
    with Shards(3, 3, np.float16, tmp_path) as shards:
        shards.append(matrix(2, 3))
        with pytest.raises(RuntimeError):
            list(shards)


def test_too_small_a_disk_is_noticed_before_the_work(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ShardError) as caught, Shards(100, 7, np.float16, tmp_path):
        pass
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path)
    assert "1,400 bytes" in str(caught.value)
    assert "TMPDIR" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_is_explained(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with Shards(4, 7, np.float32, tmp_path, 2) as shards, pytest.raises(ShardError) as caught:
        shards.append(matrix(4, 7, np.float32))
    assert caught.value.errno == errno.ENOSPC
    assert "112 bytes" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ShardError) as caught, Shards(4, 7, "f4", tmp_path / "file" / "folder"):
        pass
    assert caught.value.filename is not None


def test_lost_and_cut_files_are_named(tmp_path):
    path = tmp_path / "shard"
    shard = Shard(str(path), 0, 2, 3, np.dtype("<f4"))
    with pytest.raises(ShardError) as caught:
        shard.read()
    assert caught.value.errno == errno.ENOENT
    path.write_bytes(b"\0" * 23)
    for call in (shard.read, lambda: shard.columns_at(0, 3), lambda: list(shard.blocks())):
        with pytest.raises(ShardError) as caught:
            call()
        assert caught.value.errno == errno.EIO
        assert caught.value.filename == str(path)


def test_others_may_write_the_shards(tmp_path):
    X = matrix(5, 3)
    with Shards(5, 3, X.dtype, tmp_path, rows=2, apart=True) as shards:
        planned = pickle.loads(pickle.dumps(shards.planned()))
        for shard in planned[:2]:
            assert shard.write(iter(X[shard.start : shard.stop, None])) == 2
        assert planned[2].write([X[:0]]) == 0  # too few rows: no file
        with pytest.raises(ShardError) as caught:
            shards.adopt()
        assert caught.value.filename == planned[2].path
        planned[2].write([X[4:]])
        planned[2].write([X[4:]])  # by two workers at once
        shards.adopt()
        np.testing.assert_array_equal(np.concatenate([shard.read() for shard in shards]), X)
        assert len(list(Path(planned[0].path).parent.glob("*.vectors"))) == 3
        with pytest.raises(ValueError, match="NaN or infinity"):
            planned[0].write([X[:1], np.full((1, 3), np.nan, X.dtype)])
        np.testing.assert_array_equal(planned[0].read(), X[:2])


def test_an_array_beside_shards_goes_with_them(tmp_path):
    with Shards(1, 1, np.float16, tmp_path) as shards:
        beside = shards.beside((2, 3))
        np.testing.assert_array_equal(beside.opened(), np.zeros((2, 3)))
        beside.opened()[1] = 5
        np.testing.assert_array_equal(beside.opened(), [[0, 0, 0], [5, 5, 5]])
        files = list(tmp_path.glob("*/*"))
        beside.delete()
        assert len(list(tmp_path.glob("*/*"))) == len(files) - 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_needs_folders(monkeypatch):
    fsspec.register_implementation("strict", Strict, clobber=True)
    monkeypatch.setattr(Strict, "made", {"/home", "/home/store"})
    X = matrix(5, 3)
    with Shards(5, 3, X.dtype, "strict://home/store/.training", rows=2) as shards:
        shards.append(X)
        np.testing.assert_array_equal(shards[1].read(), X[2:4])
    assert not [path for path in Strict.store if path.startswith("/home/")]


def test_a_shard_that_is_written_after_its_run_is_deleted():
    X = matrix(4, 3)
    with Shards(4, 3, X.dtype, "memory://shards", rows=2, apart=True) as shards:
        for shard in (planned := shards.planned()):
            shard.write([X[:2]])
        shards.adopt()
    files = fsspec.filesystem("memory")
    assert files.find("/shards") == []
    planned[0].write([X[:2]])  # by a task that was cancelled
    assert files.find("/shards") == []


@pytest.mark.skipif(os.name != "posix", reason="the system has no modes of files")
@pytest.mark.parametrize("spread", [None, map])
def test_workers_may_be_other_users(tmp_path, spread):
    tmp_path.chmod(0o2770)
    X = matrix(2, 3)
    with Shards(2, 3, X.dtype, tmp_path / ".training", spread=spread, apart=True) as shards:
        (shard,) = shards.planned()
        shard.write([X])
        folder = Path(shard.path).parent
        modes = [path.stat().st_mode & 0o7777 for path in (folder.parent, folder)]
        file = Path(shard.path).stat().st_mode & 0o7777
    if spread is None:
        assert (modes[1] & 0o777, file) == (0o700, 0o600)
    else:
        assert (modes, file) == ([0o2770, 0o2770], 0o660)


def test_a_place_that_cannot_be_written_to_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    monkeypatch.setattr(Strict, "made", set())
    fsspec.register_implementation("strict", Strict, clobber=True)
    with pytest.raises(ShardError, match="cannot keep vectors here"):
        Shards(4, 3, "f4", "strict://home/store").__enter__()
    assert list(tmp_path.iterdir()) == []
