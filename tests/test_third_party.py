"""Parts of another package, installed beside ours, go everywhere that built-in ones go."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

from lrrspm import Channel, ImageClassifier, LRREncoder, find_images, load_model
from lrrspm._support.registry import registered
from lrrspm.cache import contents
from lrrspm.cli import app
from lrrspm.evaluation import evaluate_all
from lrrspm.modelfile import ModelFileError
from tests.conftest import HERE

COLORS = {"blue": (60, 60, 200), "green": (60, 200, 60), "red": (200, 60, 60)}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package installed into it."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
            "--no-index", "--target", str(folder), str(HERE / "plugin"),
        ],
        check=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def tiny(installed, monkeypatch):
    """The package, importable as if it were installed for good."""
    monkeypatch.syspath_prepend(str(installed))
    yield importlib.import_module("lrrspm_tiny")
    sys.modules.pop("lrrspm_tiny", None)


@pytest.fixture(scope="module")
def colored(tmp_path_factory):
    """Images that differ in color; their gray values do not tell them apart."""
    root = tmp_path_factory.mktemp("colored")
    rng = np.random.default_rng(0)
    for name, color in COLORS.items():
        (root / name).mkdir()
        for i in range(8):
            noise = rng.normal(0, 30, (30, 36, 3))
            pixels = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_fit_predict_and_explain(tiny, colored):
    paths, labels = find_images(colored)
    model = ImageClassifier(method="TinySPM", random_state=0).fit(paths, labels)
    assert model.features_.transform(paths[:2]).shape == (2, 5 * 4 * 64)
    assert (model.predict(paths) == labels).all()
    explained = model.explain(paths[0])
    assert explained.contributions.sum() == pytest.approx(explained.score, abs=1e-5)
    assert explained.map.sum() == pytest.approx(explained.score, abs=1e-4)
    assert explained.map.shape == (30, 36)
    assert set(explained.size) == {12}


def test_evaluate_beside_built_in_methods_changes_nothing(tiny, colored, tmp_path):
    paths, labels = find_images(colored)
    lrr = ImageClassifier(LRREncoder(codebook_size=8), cache=tmp_path / "cache")
    foreign = ImageClassifier(method="TinySPM", cache=tmp_path / "cache")
    alone = evaluate_all(paths, labels, [lrr.set_params(cache=None)], 4, 2)[0]
    lrr.set_params(cache=tmp_path / "cache")
    together = evaluate_all(paths, labels, [lrr, foreign], 4, 2)
    again = evaluate_all(paths, labels, [foreign, lrr], 4, 2)
    for found in (together[0], again[1]):
        np.testing.assert_array_equal(found.confusions, alone.confusions)
    np.testing.assert_array_equal(together[1].confusions, again[0].confusions)
    assert together[1].mean == 100


def test_vectors_are_cached_until_the_package_changes(tiny, colored, tmp_path, monkeypatch):
    paths, labels = find_images(colored)
    seen = []
    describe = tiny.ColorGrid.describe

    def spy(self, pixels):
        seen.append(pixels.shape)
        return describe(self, pixels)

    monkeypatch.setattr(tiny.ColorGrid, "describe", spy)
    model = ImageClassifier(method="TinySPM", random_state=0, cache=tmp_path / "cache")
    scores = model.fit(paths, labels).decision_function(paths)
    count = len(seen)
    np.testing.assert_array_equal(model.decision_function(paths), scores)
    assert len(seen) == count
    shelf = next(s for s in contents(tmp_path / "cache") if s["kind"] == "vectors")
    assert shelf["about"]["descriptor"]["package"] == "lrrspm-tiny"
    monkeypatch.setattr("lrrspm.cache.keys.source_digest", lambda module: "changed")
    np.testing.assert_array_equal(model.decision_function(paths), scores)
    assert len(seen) == count + len(paths)


def test_save_and_load(tiny, colored, tmp_path):
    paths, labels = find_images(colored)
    channels = [
        Channel(tiny.SoftEncoder(3), tiny.ColorGrid(step=6), levels=(1,), weight=2.0),
        Channel(LRREncoder(codebook_size=5)),
    ]
    model = ImageClassifier(channels=channels, random_state=0).fit(paths, labels)
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    np.testing.assert_array_equal(loaded.decision_function(paths), model.decision_function(paths))
    assert isinstance(loaded.features_.channels_[0].encoder_, tiny.SoftEncoder)
    loaded.save(tmp_path / "again.lrrspm")
    assert (tmp_path / "again.lrrspm").read_bytes() == (tmp_path / "m.lrrspm").read_bytes()


def test_a_model_without_its_package_is_refused_by_the_packages_name(
    tiny, colored, tmp_path, monkeypatch
):
    paths, labels = find_images(colored)
    ImageClassifier(method="TinySPM", random_state=0).fit(paths, labels).save(tmp_path / "m.lrrspm")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site" not in os.path.basename(p)])
    with pytest.raises(ModelFileError, match="needs the package 'lrrspm-tiny'"):
        load_model(tmp_path / "m.lrrspm")


@pytest.mark.parametrize("value", [{"a": 1}, np.zeros(2), [1, {2}], 1j, np.complex128(1)])
def test_parameters_that_no_file_can_hold_are_named(tiny, colored, tmp_path, monkeypatch, value):
    """Such a part can be used. The command, which saves, refuses it before any image is read."""
    monkeypatch.setattr(tiny.SoftEncoder.__init__, "__defaults__", (4, value, None))
    reason = "this SoftEncoder cannot be saved: its parameter sharpness is a"
    paths, labels = find_images(colored)
    monkeypatch.setattr(tiny.SoftEncoder, "encode", lambda self, X, codes: codes.fill(1))
    model = ImageClassifier(method="TinySPM", random_state=0).fit(paths, labels)
    with pytest.raises(ValueError, match=reason):
        model.save(tmp_path / "m.lrrspm")
    (tmp_path / "none").mkdir()
    arguments = ["train", str(tmp_path / "none"), "-o", str(tmp_path / "m"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--method", "TinySPM"])
    assert result.exit_code == 1
    assert reason in json.loads(result.stdout)["error"]


def test_command_line(tiny, colored, tmp_path):
    assert "TinySPM" in json.loads(run("methods", "--json"))["methods"]
    model = tmp_path / "m.lrrspm"
    run(
        "train", colored, "-o", model, "--method", "TinySPM", "--step", 6, "--cache", tmp_path / "c"
    )
    facts = json.loads(run("info", model, "--json"))
    assert facts["parameters"]["method"] == "TinySPM"
    assert facts["parameters"]["channels"][0]["descriptor"]["step"] == 6
    predicted = json.loads(run("predict", model, colored / "red", "--json"))["predictions"]
    assert {one["label"] for one in predicted} == {"red"}
    found = json.loads(run("evaluate", colored, "--method", "TinySPM", "--train-per-class", 4,
                           "--json"))  # fmt: skip
    assert found["accuracy"]["mean"] == 100
    run("explain", model, colored / "red" / "0.png", "-o", tmp_path / "why.png")


def test_only_its_own_classes_are_registered(tiny):
    derived = type("Derived", (tiny.SoftEncoder,), {})
    found = registered("encoders", tiny.SoftEncoder())
    assert found == ("SoftEncoder", "lrrspm-tiny", "1.2")
    assert registered("encoders", derived()) is None
    assert registered("encoders", LRREncoder()) == ("LRREncoder", None, None)


def test_scikit_learn_checks(tiny):
    check_estimator(tiny.SoftEncoder())
