"""Results of processes come back as they were, through files or without."""

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from lrrspm.pipeline.handing import Filed, hand_over, handing_folder, receive


def results(count):
    rng = np.random.default_rng(0)
    large = rng.integers(0, 256, (count, 200, 3), dtype=np.uint8)
    return [("name", [large, large, rng.random((7, 3), np.float32).T, np.empty((0, 2))], None)]


def assert_equal(found, expected):
    assert (found[0][0], found[0][2]) == ("name", None)
    for one, other in zip(found[0][1], expected[0][1], strict=True):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert found[0][1][0] is found[0][1][1]  # sent once
    found[0][1][0][0] = 0  # can be written to


def test_large_results_go_through_a_file():
    with handing_folder() as folder:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            sent = pool.submit(hand_over, folder, results, 500).result()
        assert isinstance(sent, Filed)
        assert len(sent.body) < 2000
        assert len(os.listdir(folder)) == 1
        assert_equal(receive(sent), results(500))
        assert not os.listdir(folder)
    assert not Path(folder).exists()


def test_small_results_do_not(tmp_path):
    assert_equal(receive(hand_over(str(tmp_path), results, 3)), results(3))
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("moment", ["mkstemp", "open"])
def test_without_room_a_pipe_takes_them(tmp_path, monkeypatch, moment):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    where = "tempfile.mkstemp" if moment == "mkstemp" else "builtins.open"
    with monkeypatch.context() as patch:
        patch.setattr(where, full)
        sent = hand_over(str(tmp_path), results, 500)
    assert not isinstance(sent, Filed)
    assert_equal(receive(sent), results(500))
    assert not os.listdir(tmp_path)


KILLED = """
import time
from multiprocessing import get_context
from lrrspm.pipeline.engines import _processes
from lrrspm.pipeline.handing import handing_folder

if __name__ == "__main__":
    with handing_folder() as folder, _processes(1, get_context("spawn"), folder) as pool:
        pool.submit(abs, 1).result()
        print(folder, flush=True)
        time.sleep(60)
"""


def test_nothing_is_left_of_a_killed_run(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(KILLED)
    with subprocess.Popen([sys.executable, str(script)], stdout=-1, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.kill()
    until = time.monotonic() + 30
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()
