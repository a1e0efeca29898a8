"""Processes that read many files for a device."""

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from lrrspm import ImageClassifier, find_images
from lrrspm.gpu import DeviceError
from lrrspm.pipeline import engines, open_engine
from lrrspm.pipeline.handing import handing_folder
from tests.conftest import draw


def test_many_files_are_read_by_processes(device, image_folder, monkeypatch, reads):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(method="fast", n_samples=2000, random_state=0, n_jobs=2, device=device)
    expected = model.fit(paths, labels).decision_function(paths)
    reads.clear()
    monkeypatch.setattr(engines, "MANY", 1)
    np.testing.assert_array_equal(model.fit(paths, labels).decision_function(paths), expected)
    assert not reads  # in this process


def test_processes_are_started_for_more_files_where_these_are_only_read(device):
    some = ["a.png"] * engines.MANY
    with open_engine(2, None, device) as engine:
        assert engine._reads_apart(some)
        assert not engine._reads_apart(some, reading=True)
        assert engine._reads_apart(some * engines.WAITED_FOR, reading=True)
        assert engine.readers is not None
        engine.readers()
        assert engine._reads_apart(some, reading=True)


def test_no_process_starts_for_a_gpu_without_a_driver(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr("lrrspm.gpu.device._DRIVERS", ())
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr(engines, "_processes", None)  # what is called fails
    with (
        pytest.raises(DeviceError, match="was not found"),
        open_engine(2, None, "cuda", engines.MANY),
    ):
        pass


READING = """
import sys
import lrrspm.pipeline.engines
from lrrspm import ImageClassifier, SpatialPyramidFeatures, find_images

class Own(SpatialPyramidFeatures):
    pass

def make():
    class Inner(SpatialPyramidFeatures):
        pass

    return Inner()

print("begun", flush=True)
lrrspm.pipeline.engines.MANY = 4
paths, labels = find_images(sys.argv[1])
given = {"method": "fast", "n_samples": 500, "random_state": 0, "n_jobs": 2}
model = ImageClassifier(**given, device=sys.argv[2]).fit(paths, labels)
print((model.predict(paths) == labels).all())
with lrrspm.pipeline.open_engine(2, None, sys.argv[2]) as engine:
    assert engine._reads_apart(paths, SpatialPyramidFeatures())
    assert not engine._reads_apart(paths, Own())
    assert not engine._reads_apart(paths, make())
assert __file__ and __spec__ is None
"""


def test_readers_do_not_run_a_script_without_a_guard(device, image_folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(READING)
    command = [sys.executable, script, image_folder, device]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["begun", "True"]


def test_arrays_are_not_sent_to_processes(device):
    rng = np.random.default_rng(0)
    arrays = [draw(kind, rng) for kind in ("across", "along") for _ in range(3)]
    with open_engine(2, None, device) as engine:
        assert engine.readers is not None
        assert not engine._reads_apart(arrays * 1000)
        assert engine._reads_apart(["a.png"] * engines.MANY)


def test_without_readers_there_is_no_folder_of_theirs(device, monkeypatch):
    folders: list[str] = []

    @contextmanager
    def count():
        with handing_folder() as folder:
            folders.append(folder)
            yield folder

    monkeypatch.setattr(engines, "handing_folder", count)
    with open_engine(2, None, device, engines.MANY - 1) as engine:
        assert list(engine.map_chunks(list, [1, 2])) == [1, 2]
    assert not folders
    with open_engine(2, None, device, engines.MANY):
        assert len(folders) == 1
