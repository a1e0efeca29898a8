"""A classifier on a device: the same model, the same bits every time, errors that help."""

import json
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from lrrspm import Channel, ImageClassifier, LRREncoder, find_images, load_model
from lrrspm._support.stages import Stages
from lrrspm.cache import FeatureStore
from lrrspm.cli import app
from lrrspm.descriptors import SIFT, Projection
from lrrspm.gpu import DeviceError, check_device
from lrrspm.loading import score_images


def small(device="cpu", **parameters):
    return ImageClassifier(
        **{
            "method": "fast",
            "n_samples": 2000,
            "random_state": 0,
            "device": device,
            "min_side": None,
            **parameters,
        }
    )


@pytest.fixture(scope="module")
def folder(image_folder):
    return find_images(image_folder)


@pytest.mark.parametrize("method", ["fast", "balanced"])
def test_models_are_interchangeable(method, device, folder, tmp_path):
    paths, labels = folder
    plain, fast = (small(d, method=method).fit(paths, labels) for d in ("cpu", device))
    for one, other in zip(plain.features_.channels_, fast.features_.channels_, strict=True):
        np.testing.assert_array_equal(one.encoder_.codebook_, other.encoder_.codebook_)
    scores = plain.decision_function(paths)
    np.testing.assert_allclose(fast.decision_function(paths), scores, rtol=0, atol=5e-3)
    fast.save(tmp_path / "fast.lrrspm")
    loaded = load_model(tmp_path / "fast.lrrspm")
    assert loaded.device == "cpu"
    np.testing.assert_allclose(loaded.decision_function(paths), scores, rtol=0, atol=5e-3)
    np.testing.assert_array_equal(
        loaded.set_params(device=device).decision_function(paths), fast.decision_function(paths)
    )


def test_same_bits_for_any_number_of_threads(device, folder):
    paths, labels = folder
    one, three = (small(device, n_jobs=n).fit(paths, labels) for n in (1, 3))
    np.testing.assert_array_equal(one.decision_function(paths), three.decision_function(paths))


def test_store_keeps_devices_apart(device, folder, tmp_path, reads):
    paths, labels = folder
    model = small(device, cache=tmp_path).fit(paths, labels)
    cold = model.decision_function(paths)
    reads.clear()
    np.testing.assert_array_equal(model.decision_function(paths), cold)
    assert not reads
    model.set_params(device="cpu").decision_function(paths)
    assert len(reads) == len(paths)
    assert FeatureStore(tmp_path).active


@pytest.mark.parametrize("method", ["fast", "balanced"])
def test_store_keeps_codebooks_of_devices_apart(method, device, folder, tmp_path, monkeypatch):
    """k-means of a device may differ in its last bits; the CPU's results must not."""
    from lrrspm.gpu import clustering, executor

    paths, labels = folder
    given = {"method": method, "n_samples": 500}
    alone = small(**given).fit(paths, labels)
    monkeypatch.setattr(executor, "LEAST_CLUSTERED", 0)
    begin = clustering.DeviceRows.take
    monkeypatch.setattr(clustering.DeviceRows, "take", lambda *rows: 1.01 * begin(*rows))
    models = [small(d, **given, cache=tmp_path).fit(paths, labels) for d in (device, "cpu")]
    pairs = [
        [np.array_equal(one.encoder_.codebook_, other.encoder_.codebook_) for one, other in zip(
            model.features_.channels_, alone.features_.channels_, strict=True)]
        for model in models
    ]  # fmt: skip
    assert not all(pairs[0])
    assert all(pairs[1])


def test_unreadable_images_are_skipped(device, folder, tmp_path):
    paths, labels = folder
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    model = small(device).fit(paths, labels)
    found = score_images(model, [paths[0], str(bad), paths[1]], Stages(), skip=True)
    assert list(found.skipped) == [1]
    np.testing.assert_array_equal(
        found.scores, score_images(model, paths[:2], Stages(), skip=False).scores
    )


def test_other_methods_are_refused_before_the_work(device, folder, reads):
    with pytest.raises(ValueError, match=r"LLCEncoder.*fast, balanced, best"):
        small(device, method="LLC").fit(*folder)
    assert not reads


def test_maxima_of_projected_descriptors_are_refused(device, folder, reads):
    # 126 values and two places: as many as SIFT has, so nothing else would notice.
    channel = Channel(LRREncoder(8), SIFT(), projection=Projection(126))
    with pytest.raises(ValueError, match=r"cannot compute.*Projection"):
        ImageClassifier(channels=[channel], device=device).fit(*folder)
    assert not reads


def test_unknown_device(folder):
    with pytest.raises(DeviceError, match="choose from: cpu, cuda"):
        small("tpu").fit(*folder)


def test_without_torch(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match=r"needs torch: pip install 'lrrspm\[gpu\]'"):
        small("cuda").fit(*folder)


@pytest.mark.parametrize("kind", ["ImportError", "OSError", "ModuleNotFoundError"])
def test_a_broken_torch_is_named(kind, folder, monkeypatch, tmp_path):
    broken = tmp_path / "torch"
    broken.mkdir()
    (broken / "__init__.py").write_text(f"raise {kind}('libcudart.so.13: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(DeviceError, match=rf"{kind}: libcudart\.so\.13: cannot open"):
        small("cuda").fit(*folder)


def test_without_a_gpu(folder):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    name = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(DeviceError, match="was not found"):
        small(name).fit(*folder)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cuda:2", "sees 2"),
        ("cuda:256", "sees 2"),
        ("cuda:99999", "sees 2"),
        ("cuda:-1", "number GPUs"),
        ("cuda:", "number GPUs"),
        ("cuda:01", "number GPUs"),
        ("cudax", "choose from: cpu"),
    ],
)
def test_numbers_of_gpus(name, reason, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    sys.modules["triton"].__spec__ = ModuleSpec("triton", None)
    assert [check_device(f"cuda{end}") for end in ("", ":0", ":1")] == ["cuda", "cuda:0", "cuda:1"]
    with pytest.raises(DeviceError, match=reason):
        check_device(name)


def test_without_triton(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(DeviceError, match="needs Triton"):
        check_device("cuda")
    assert check_device("torch") == "cpu"


PRECISIONS = """
import torch
from lrrspm.gpu import describe_device
from lrrspm.gpu.device import precision_of_products, single_precision

assert precision_of_products() == "highest"
for word in ("high", "medium", "highest"):
    torch.set_float32_matmul_precision(word)
    with single_precision():
        assert precision_of_products() == "highest"
    assert precision_of_products() == word
for word in ("tf32", "ieee"):
    torch.backends.cuda.matmul.fp32_precision = word
    expected = "high" if word == "tf32" else "highest"
    assert precision_of_products() == describe_device("torch")[2] == expected
    with single_precision():
        assert precision_of_products() == "highest"
    assert torch.backends.cuda.matmul.fp32_precision == word
"""


def test_precision_said_in_the_new_way():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has no such way")
    subprocess.run([sys.executable, "-c", PRECISIONS], check=True)


def test_command_line(device, image_folder, tmp_path):
    def run(*arguments):
        done = CliRunner().invoke(app, [*map(str, arguments), "--json", "--device", device])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    model = tmp_path / "model.lrrspm"
    run("train", image_folder, "-o", model, "--method", "fast", "--no-estimate")
    assert run("score", model, image_folder)["accuracy"]["mean"] == 100
    assert run("predict", model, image_folder)["predictions"]
    run("evaluate", image_folder, "--train-per-class", 3, "--splits", 1, "--method", "fast")
    assert run("add", model, image_folder, "--no-estimate")["known"]
    assert "suspects" in run("review", image_folder, "--method", "fast")
    found = run("tune", image_folder, "--budget", 0)
    assert found["command"].endswith(f"--device {device}")


def test_command_line_with_an_unknown_device(image_folder, model_path):
    arguments = ["predict", str(model_path), str(image_folder), "--json", "--device", "tpu"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "--device" in json.loads(done.stdout)["error"]
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        ImageClassifier(device="tpu").fit(*find_images(image_folder))
