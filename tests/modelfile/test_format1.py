"""Models of format 1, written by lrrspm 0.1 of commit df8a6ff: they load and score as ever.

They were trained on made images of tests.conftest.draw (six per class, codebook of five atoms,
levels 1 and 2, seed 3); format1.npz holds two test images and the scores of that time.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from lrrspm import load_model
from lrrspm.cli import app
from tests.conftest import HERE
from tests.modelfile.models import FORMAT_1, FORMAT_1_KERNEL, header

MODELS = {"LrrSPM": FORMAT_1, "KernelSPM": FORMAT_1_KERNEL}


@pytest.fixture(params=MODELS)
def old(request):
    """Return a method, its model file, two images and their scores."""
    with np.load(HERE / "golden" / "format1.npz") as file:
        images = [file["images_0"], file["images_1"]]
        return request.param, MODELS[request.param], images, file[request.param]


def test_scores_are_those_of_the_version_that_wrote_it(old):
    method, path, images, expected = old
    assert header(path)["format"] == 1
    model = load_model(path)
    assert model.method_name == method
    found = model.decision_function(images)
    assert found.dtype == expected.dtype
    # Bit for bit on one CPU; another sums in another order.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_saved_again_it_is_format_2_and_scores_the_same(old, tmp_path):
    _, path, images, _ = old
    model = load_model(path)
    model.save(tmp_path / "m")
    assert header(tmp_path / "m")["format"] == 2
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(images), model.decision_function(images))
    assert again.summary_ == model.summary_
    again.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


def test_refitted_it_is_the_same_model(old):
    """Every parameter survives: a clone that is trained alike has the channels of the old one."""
    from sklearn.base import clone

    method, path, images, _ = old
    model = load_model(path)
    fresh = clone(model).fit([*images, *images], ["a", "b"] * 2)
    assert type(fresh.svm_) is type(model.svm_)
    assert fresh.features_.channels_[0].levels == (1, 2)
    assert fresh.features_.channels_[0].encoder_.codebook_.shape == (5, 128)
    pooling = {"LrrSPM": ("MaxPooling", "l2"), "KernelSPM": ("HistogramPooling", "l1")}
    for one in (model, fresh):
        found = one.features_.channels_[0].pooling
        assert (type(found).__name__, found.norm) == pooling[method]


def test_info(old):
    method, path, _, _ = old
    done = CliRunner().invoke(app, ["info", str(path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["format"], found["library"]) == (1, header(path)["library"])
    assert found["classes"] == ["across", "along", "dots"]
    assert found["summary"]["images"] == 18
    parameters = found["parameters"]
    assert (parameters["method"], parameters["seed"], parameters["n_samples"]) == (method, 3, 2000)
    (channel,) = parameters["channels"]
    assert channel["descriptor"] == {"name": "SIFT", "step": 6, "patch_size": 16}
    assert channel["encoder"]["atoms"] == 5
    assert channel["levels"] == [1, 2]
    assert CliRunner().invoke(app, ["info", str(path)]).exit_code == 0
