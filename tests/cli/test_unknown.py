"""What the commands say of images that a model does not know, or knows too well."""

import json

import numpy as np
import pytest
from PIL import Image

from lrrspm import load_model
from tests.cli.test_cli import run


@pytest.fixture
def noise(tmp_path):
    path = tmp_path / "noise.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60), np.uint8)).save(path)
    return path


@pytest.fixture
def strict(image_folder, tmp_path):
    """A model that finds every image unlike those it was trained on."""
    path = tmp_path / "strict.lrrspm"
    run("train", image_folder, "-o", path, "--method", "fast", "--codebook-size", "8")
    model = load_model(path)
    assert model.familiar_ is not None
    model.familiar_ = 1e6
    model.save(path)
    return path


def test_unfamiliar_images_are_unknown_and_say_why(strict, noise, tmp_path):
    asked = ["predict", strict, noise, "--min-confidence", "0"]
    assert "unlike the training images" in run(*asked).stdout
    (found,) = json.loads(run(*asked, "--json").stdout)["predictions"]
    assert (found["label"], found["known"], found["familiar"]) == ("unknown", False, False)
    done = run(*asked, "-o", tmp_path / "p.csv")
    assert done.stdout.endswith("1 image, 1 unknown\n")
    rows = (tmp_path / "p.csv").read_text().splitlines()
    assert rows[0].endswith(",best")
    assert ",unknown," in rows[1]
    # Without the option every image is answered.
    (found,) = json.loads(run("predict", strict, noise, "--json").stdout)["predictions"]
    assert (found["known"], found["familiar"]) == (True, False)


def test_unsure_images_are_unknown(strict, noise):
    model = load_model(strict)
    model.temperature_, model.familiar_ = 1e3, 0.0  # all classes are equally likely
    model.save(strict)
    done = json.loads(run("predict", strict, noise, "--min-confidence", 0.5, "--json").stdout)
    (found,) = done["predictions"]
    assert found["familiar"]
    assert found["label"] == "unknown"
    assert found["top"][0]["label"] != "unknown"


def test_a_percentage_is_no_probability(model_path, noise):
    refused = run("predict", model_path, noise, "--min-confidence", 80, code=2)
    assert "0.8" in refused.stderr


def test_score_warns_of_images_that_the_model_was_trained_on(image_folder, strict):
    said = run("score", strict, image_folder).stderr
    assert "trained on 36 of 36 images" in said


def test_options_of_splits_are_noted_where_they_do_not_count(image_folder, tmp_path):
    for part in ("train", "test"):
        (tmp_path / "set" / part).mkdir(parents=True)
        for kind in image_folder.iterdir():
            (tmp_path / "set" / part / kind.name).symlink_to(kind)
    asked = ["evaluate", tmp_path / "set", "--method", "fast", "--codebook-size", "8"]
    assert "ignoring --train-per-class" in run(*asked, "--splits", 2).stderr
    assert "ignoring" not in run(*asked).stderr


def test_what_came_from_a_cache_is_marked(image_folder, tmp_path):
    arguments = (image_folder, "--method", "fast", "--codebook-size", 8, "--cache", tmp_path / "c")
    train = ("train", *arguments, "-o", tmp_path / "m")
    assert json.loads(run(*train, "--json").stdout)["from_cache"] == {}
    found = json.loads(run(*train, "--json").stdout)["from_cache"]
    assert found == {"vectors": 36, "codebooks": True}
    assert "from the cache: 36 vectors of channels and the codebooks" in run(*train).stdout
    # Codebooks of splits are others than that of all images.
    split = ("evaluate", *arguments, "--splits", 1)
    assert "from the cache" not in run(*split).stdout
    assert "from the cache" in run(*split).stdout
    # A model that grows by nothing computes nothing.
    add = ("add", tmp_path / "m", image_folder, "--cache", tmp_path / "c", "--json")
    assert json.loads(run(*add).stdout)["from_cache"] == {"vectors": 36, "codebooks": False}
