"""lrrspm add: more images, more classes, other labels."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from lrrspm import find_images, load_model
from tests.cli.test_cli import FAST, run
from tests.conftest import draw
from tests.modelfile.models import FORMAT_1


@pytest.fixture
def trained(image_folder, tmp_path):
    """A model of two classes, its images, and a store with their vectors."""
    for kind in ("across", "along"):
        shutil.copytree(image_folder / kind, tmp_path / "old" / kind)
    model, cache = tmp_path / "m.lrrspm", ("--cache", tmp_path / "store")
    run("train", tmp_path / "old", "-o", model, *FAST, *cache)
    return model, tmp_path / "old", cache


def test_new_class_relabeled_image_and_back(trained, image_folder, tmp_path):
    model, old, cache = trained
    before = model.read_bytes()
    shutil.copytree(image_folder / "dots", tmp_path / "new" / "dots")
    shutil.copy(old / "across" / "03.png", tmp_path / "new" / "dots" / "corrected.png")
    other = tmp_path / "other.lrrspm"
    result = run("add", model, old, tmp_path / "new", "-o", other, "--json", *cache)
    found = json.loads(result.stdout)
    assert model.read_bytes() == before
    assert (len(found["new"]), found["known"], found["gone"]) == (12, 23, {})
    assert found["relabeled"] == [str(tmp_path / "new" / "dots" / "corrected.png")]
    assert (found["new_classes"], found["gone_classes"]) == (["dots"], [])
    assert found["images_per_class"] == {"across": 11, "along": 12, "dots": 13}
    assert found["images"] == found["estimate"]["images"] == 36
    grown = load_model(other)
    assert grown.predict([image_folder / "dots" / "00.png"]).tolist() == ["dots"]
    text = run("add", other, old, "--forget-missing", *cache).stdout
    assert "0 new images, 23 known, 1 with a new label; forgot 12 images" in text
    assert "gone classes: dots" in text
    assert other.read_bytes() == before


def test_missing_images_are_not_forgotten_silently(trained, image_folder, tmp_path):
    model, _, _ = trained
    before = model.read_bytes()
    shutil.copytree(image_folder / "dots", tmp_path / "new" / "dots")
    result = run("add", model, tmp_path / "new", "--json", code=1)
    reason = json.loads(result.stdout)["error"]
    assert ": 24 images of the model (12 of across, 12 of along); add" in reason
    assert "--forget-missing" in reason
    assert model.read_bytes() == before


def test_retrain_is_train(trained, image_folder, tmp_path):
    model, old, _ = trained
    shutil.copytree(image_folder / "dots", old / "dots")
    run("add", model, old, "--jobs", "1", "-o", tmp_path / "grown")
    run("add", model, old, "--jobs", "1", "--retrain")
    run("train", old, "-o", tmp_path / "anew", *FAST)
    paths, _ = find_images(old)
    grown, retrained, anew = map(load_model, (tmp_path / "grown", model, tmp_path / "anew"))
    expected = anew.decision_function(paths)
    np.testing.assert_array_equal(retrained.decision_function(paths), expected)
    assert not np.array_equal(grown.decision_function(paths), expected)


def test_unreadable_images_are_skipped(trained, tmp_path):
    model, old, _ = trained
    for i in range(2):
        name = old / "along" / f"new{i}.png"
        Image.fromarray(draw("along", np.random.default_rng(50 + i))).save(name)
    (old / "along" / "broken.png").write_bytes(b"junk")
    found = json.loads(run("add", model, old, "--json", code=3).stdout)
    assert found["new"] == [str(old / "along" / f"new{i}.png") for i in range(2)]
    assert [one["path"] for one in found["skipped"]] == [str(old / "along" / "broken.png")]
    assert found["images"] == 26


def test_a_model_of_an_older_version(image_folder, tmp_path):
    shutil.copy(FORMAT_1, tmp_path / "old.lrrspm")
    result = run("add", tmp_path / "old.lrrspm", image_folder, "--json", code=1)
    assert json.loads(result.stdout)["error"].endswith("training images; train it again")


def test_files_that_are_no_models_stay(trained, tmp_path):
    model, old, _ = trained
    (tmp_path / "precious.jpg").write_bytes(b"an image")
    run("add", model, old, "-o", tmp_path / "precious.jpg", code=2)
    assert (tmp_path / "precious.jpg").read_bytes() == b"an image"
