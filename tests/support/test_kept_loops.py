"""Compiled loops on disk: damage is noticed, and a disk that fails stops nothing."""

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrrspm import SpatialPyramidFeatures, load_model
from lrrspm._support import kept_loops
from lrrspm._support.compiling import listen_to_compiling
from lrrspm._support.files import file_digest, machine_fault
from lrrspm._support.loops import compiled
from lrrspm.cache import FeatureStore
from lrrspm.images import ImageError, read_image
from lrrspm.pipeline.chunks import compile_reading
from lrrspm.pipeline.engines import open_engine
from lrrspm.pipeline.unreadable import Unreadable

CODE = """
import sys
import numpy as np
from lrrspm.images.decoding import weigh_colors
print(weigh_colors(np.full((2, 2, 3), 200, np.uint8)).tolist())
"""


def run(cache: Path) -> str:
    """Run a loop in a process of its own; a crash has no exit code of Python's."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def flip(content: bytes, places: list[int]) -> bytes:
    damaged = bytearray(content)
    for place in places:
        damaged[place] ^= 0xFF
    return bytes(damaged)


def test_a_damaged_file_is_deleted_and_made_again(tmp_path):
    said = run(tmp_path)
    (kept,) = tmp_path.rglob("*.nbc")
    good = kept.read_bytes()
    half = len(good) // 2
    for damaged in (b"", good[:half], flip(good, [half, half + 7]), flip(good, [3]), b"\0" * 999):
        kept.write_bytes(damaged)
        assert run(tmp_path) == said
        (again,) = tmp_path.rglob("*.nbc")
        assert again == kept
        # Whole again: the file begins with the checksum of the rest.
        assert len(again.read_bytes()) > half


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """A fresh loop, and the folder that its machine code goes to."""
    monkeypatch.setattr(kept_loops._Files, "_warned", False)

    @compiled()
    def triple(x):
        return 3 * x

    kept: Any = triple
    monkeypatch.setattr(kept._cache._cache_file, "_folder", tmp_path)
    return triple, tmp_path


def test_a_full_disk_is_a_warning_and_the_loop_runs(loop, monkeypatch):
    triple, folder = loop

    def full(self, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(UserWarning, match="cannot keep compiled loops .No space left"):
        assert triple(2) == 6
    assert not list(folder.iterdir())


def test_files_that_cannot_be_opened_are_as_none(loop, monkeypatch):
    triple, _ = loop

    def refuse(self):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert triple(np.float64(2)) == 6


def test_compiling_is_told_once(loop):
    triple, _ = loop
    told: list[None] = []
    listen_to_compiling(lambda: told.append(None))
    try:
        assert triple(2) == 6
        assert triple(2.0) == 6
        assert len(told) == 1
        listen_to_compiling(lambda: told.append(None))
        assert triple(3) == 9  # compiled already
        assert len(told) == 1
    finally:
        listen_to_compiling(None)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_a_fault_of_the_machine_is_not_blamed_on_an_image(code, tmp_path, monkeypatch):
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 2 2 255\n" + bytes(4))
    assert read_image(path).shape == (2, 2)
    error = OSError(code, os.strerror(code), str(path))
    assert machine_fault(error)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("PIL.Image.open", fail)
    with pytest.raises(OSError, match=os.strerror(code)) as refused:
        read_image(path)
    assert not isinstance(refused.value, ImageError)
    monkeypatch.setattr("hashlib.file_digest", fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        file_digest(path)


def train(path, _):
    SpatialPyramidFeatures().fit([path])


def try_first(path, _):
    with open_engine(1) as engine:
        found = Unreadable(FeatureStore(None))
        found.try_first(SpatialPyramidFeatures(), [path.with_name("none")], [None], engine)


def examine(path, model):
    load_model(model).examine(path)


@pytest.mark.parametrize("work", [train, try_first, examine])
def test_what_fails_while_reading_is_compiled_is_not_blamed_on_an_image(
    work, model_path, tmp_path, monkeypatch
):
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6 20 20 255\n" + bytes(1200))
    reason = "Ran out of input"
    compile_reading.cache_clear()
    monkeypatch.setattr("lrrspm.images.decoding.weigh_colors", partial(fail, EOFError(reason)))
    with pytest.raises(EOFError, match=reason):
        work(path, model_path)


def fail(error, *_):
    raise error
