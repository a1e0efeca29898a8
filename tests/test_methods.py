"""Behavior that every method shares."""

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from typer.testing import CliRunner

from lrrspm import (
    AveragePooling,
    Channel,
    HistogramPooling,
    ImageClassifier,
    KernelSVM,
    LinearSVM,
    LLCEncoder,
    LRREncoder,
    MaxPooling,
    SignedMaxPooling,
    SparseEncoder,
    VQEncoder,
    find_images,
    load_model,
)
from lrrspm.cli import app
from lrrspm.evaluation import evaluate, evaluate_all
from lrrspm.methods import BEYOND, METHODS, PRESETS, find_method

NAMES = list(METHODS)
ONE_CHANNEL = [*NAMES, "KernelLrrSPM", "NonlinearLrrSPM", "SupervisedLrrSPM"]


def small(method, **parameters):
    model = ImageClassifier(method=method, n_samples=2000, random_state=0)
    return model.set_params(channels__0__encoder__codebook_size=8, **parameters)


@pytest.mark.parametrize(
    ("method", "encoder", "pooling", "norm", "levels", "kernel"),
    [
        ("LrrSPM", LRREncoder, MaxPooling, "l2", (1, 2, 4), None),
        ("LinearBOF", VQEncoder, HistogramPooling, "l2", (1,), None),
        ("KernelBOF", VQEncoder, HistogramPooling, "l1", (1,), "intersection"),
        ("LinearSPM", VQEncoder, HistogramPooling, "l2", (1, 2, 4), None),
        ("KernelSPM", VQEncoder, HistogramPooling, "l1", (1, 2, 4), "intersection"),
        ("ScSPM", SparseEncoder, MaxPooling, "l2", (1, 2, 4), None),
        ("LLC", LLCEncoder, SignedMaxPooling, "l2", (1, 2, 4), None),
    ],
)
def test_recipes(method, encoder, pooling, norm, levels, kernel):
    (channel,) = METHODS[method].channels()
    assert type(channel.encoder) is encoder
    assert type(channel.pooling) is pooling
    assert (channel.pooling.norm, channel.levels) == (norm, levels)
    assert METHODS[method].kernel == kernel


def test_the_seven_rows_of_the_tables():
    assert NAMES == ["LrrSPM", "LinearBOF", "KernelBOF", "LinearSPM", "KernelSPM", "ScSPM", "LLC"]
    with pytest.raises(
        ValueError, match="no method 'magic'; choose from: fast, balanced, best, LrrSPM"
    ):
        ImageClassifier(method="magic").fit([np.zeros((9, 9))] * 2, [0, 1])


@pytest.mark.parametrize("method", ONE_CHANNEL)
def test_learns_made_images_and_survives_a_file(image_folder, tmp_path, method):
    paths, labels = find_images(image_folder)
    model = small(method).fit(paths[::2], labels[::2])
    assert model.score(paths[1::2], labels[1::2]) > 0.9
    assert isinstance(model.svm_, KernelSVM if find_method(method).kernel else LinearSVM)
    assert model.svm_.n_features_in_ == 8 * (1 if "BOF" in method else 21)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.method == method
    np.testing.assert_array_equal(loaded.decision_function(paths), model.decision_function(paths))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert clone(loaded).method == method
    # What is set after fit belongs to the next fit, not to the model.
    changes = {"regularization": 0.3, "n_neighbors": 2, "sparsity": 0.5}
    for name in changes.keys() & model.channels[0].encoder.get_params().keys():
        model.set_params(**{f"channels__0__encoder__{name}": changes[name]})
    model.save(tmp_path / "later")
    assert (tmp_path / "later").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("method", ONE_CHANNEL)
def test_same_bits_for_any_number_of_workers(image_folder, method):
    paths, labels = find_images(image_folder)
    one, *others = (
        small(method, n_jobs=n).fit(paths, labels).decision_function(paths) for n in (1, 2, 4)
    )
    for scores in others:
        np.testing.assert_array_equal(scores, one)


@pytest.mark.parametrize("method", ONE_CHANNEL)
def test_odd_images(method):
    rng = np.random.default_rng(0)
    images = [np.zeros((30, 30)), np.ones((1, 1)), rng.random((40, 50)), rng.random((17, 90))]
    model = small(method).fit(images, [0, 1, 0, 1])
    assert np.isfinite(model.decision_function([*images, np.zeros((1, 300))])).all()


def test_pooling_can_be_chosen(image_folder):
    paths, labels = find_images(image_folder)
    own = small("LrrSPM").fit(paths, labels)
    average = small("LrrSPM", channels__0__pooling=AveragePooling()).fit(paths, labels)
    assert isinstance(own.features_.channels_[0].pooling, MaxPooling)
    assert isinstance(average.features_.channels_[0].pooling, AveragePooling)
    assert not np.array_equal(own.decision_function(paths), average.decision_function(paths))


def test_several_methods_at_once_are_each_alone(image_folder, reads):
    """Shared splits, samples and codebooks change nothing; images are read twice."""
    paths, labels = find_images(image_folder)
    for shared in (False, True):
        reads.clear()
        classifiers = [small(name, C=0.01) for name in NAMES]
        together = evaluate_all(paths, labels, classifiers, 3, 2, shared, seed=1)
        assert len(reads) <= 2 * len(paths)
        for name, result in zip(NAMES, together, strict=True):
            alone = evaluate(paths, labels, small(name, C=0.01), 3, 2, shared, seed=1)
            np.testing.assert_array_equal(result.confusions, alone.confusions, err_msg=name)
            assert result.seconds.keys() == alone.seconds.keys()


def test_codebook_is_learned_once_for_all_methods(image_folder, learned):
    paths, labels = find_images(image_folder)
    evaluate_all(paths, labels, [small(name) for name in NAMES], 3, 2)
    assert learned == [8, 8]  # one per split


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_commands(image_folder, tmp_path):
    run("methods")
    assert list(json.loads(run("methods", "--json"))["methods"]) == [*PRESETS, *METHODS, *BEYOND]
    fast = ["--codebook-size", 8, "--jobs", 1]
    arguments = ["evaluate", image_folder, "--method", "all", "--train-per-class", 4, *fast]
    run(*arguments, "--splits", 1)
    found = json.loads(run(*arguments, "--splits", 1, "--json"))["methods"]
    assert list(found) == NAMES
    encoders = {
        name: found[name]["parameters"]["channels"][0]["encoder"] for name in ("LLC", "LrrSPM")
    }
    assert encoders["LLC"]["n_neighbors"] == 5
    assert encoders["LrrSPM"]["regularization"] == 0.7
    model = tmp_path / "m"
    run("train", image_folder, "-o", model, "--method", "KernelSPM", *fast)
    assert json.loads(run("info", model, "--json"))["parameters"]["method"] == "KernelSPM"
    predicted = json.loads(run("predict", model, image_folder / "dots" / "00.png", "--json"))
    assert predicted["predictions"][0]["label"] == "dots"


def test_presets_say_when_to_use_which():
    found = json.loads(run("methods", "--json"))["presets"]
    assert list(found) == list(PRESETS)
    assert all(preset["use"] and preset["images_per_second"] > 0 for preset in found.values())
    assert found["best"]["accuracy"]["LS"] > found["fast"]["accuracy"]["LS"]
    lines = run("methods").split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == ["preset", *PRESETS]
    assert max(map(len, lines)) <= 60


def test_other_methods_have_no_lambda(tmp_path):
    arguments = ["train", str(tmp_path), "-o", "m", "--method", "LLC", "--lambda", "0.1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--lambda: LLC has no such option" in result.stderr


def test_same_method_twice_with_one_codebook(image_folder):
    """Kinds that differ in anything have features of their own."""
    paths, labels = find_images(image_folder)
    classifiers = [small("LrrSPM", C=0.01), small("LrrSPM", C=0.01)]
    classifiers[1].set_params(channels__0__pooling=AveragePooling())
    together = evaluate_all(paths, labels, classifiers, 3, 2, True)
    for classifier, result in zip(classifiers, together, strict=True):
        alone = evaluate(paths, labels, classifier, 3, 2, True)
        np.testing.assert_array_equal(result.confusions, alone.confusions)


def test_method_in_any_case(image_folder, tmp_path):
    options = ["--method", "KERNELspm", "--codebook-size", "4", "--no-estimate", "--json"]
    result = CliRunner().invoke(app, ["train", str(image_folder), "-o", f"{tmp_path}/m", *options])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["parameters"]["method"] == "KernelSPM"


def test_channels_override_the_methods_own(image_folder):
    """The method's kernel stays."""
    paths, labels = find_images(image_folder)
    channels = [Channel(VQEncoder(codebook_size=8), levels=(1, 2))]
    model = ImageClassifier(method="KernelSPM", channels=channels, random_state=0)
    model.fit(paths, labels)
    assert model.features_.transform(paths[:1]).shape == (1, 5 * 8)
    assert isinstance(model.svm_, KernelSVM)


def test_an_encoder_that_a_method_does_not_have_is_refused():
    model = ImageClassifier(LRREncoder(), method="KernelSPM")
    with pytest.raises(ValueError, match="KernelSPM encodes with VQEncoder, got LRREncoder"):
        model.fit([np.zeros((9, 9))] * 2, [0, 1])
    both = ImageClassifier(LRREncoder(), channels=[Channel()])
    with pytest.raises(ValueError, match="give channels or an encoder, not both"):
        both.fit([np.zeros((9, 9))] * 2, [0, 1])


@pytest.mark.parametrize("method", [*METHODS, *BEYOND, *PRESETS])
def test_only_moments_enlarge_small_images(method):
    """The paper enlarges nothing; patches of 64 pixels would hold little of a small image."""
    moments = method in ("LrrFV", "FV", "VLAD", "balanced", "best")
    assert ImageClassifier(method=method).new_features().min_side == (192 if moments else None)


def test_the_smallest_side_can_be_chosen():
    sides = {
        ImageClassifier(method="balanced", **given).new_features().min_side
        for given in (
            {"min_side": None},
            {"min_side": np.int64(100)},
            {"max_side": 150},
            {"max_side": None},
        )
    }
    assert sides == {None, 100, 150, 192}
    assert ImageClassifier(LRREncoder()).new_features().min_side is None
    with pytest.raises(ValueError, match="min_side must be a number, None or 'auto'"):
        ImageClassifier(min_side="large").new_features()


def test_enlarged_images_survive_a_file(image_folder, tmp_path):
    paths, labels = find_images(image_folder)
    given: dict[str, Any] = {"method": "balanced", "n_samples": 2000, "random_state": 0}
    model = ImageClassifier(**given).fit(paths, labels)
    scores = model.decision_function(paths)
    assert not np.array_equal(
        scores, ImageClassifier(**given, min_side=None).fit(paths, labels).decision_function(paths)
    )
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    assert loaded.features_.min_side == 192
    np.testing.assert_array_equal(loaded.decision_function(paths), scores)
    # What balanced takes by itself is no choice: LrrSPM enlarges nothing.
    assert loaded.min_side == "auto"
    other = clone(loaded).set_params(method="LrrSPM", channels=None)
    assert other.new_features().min_side is None
    assert clone(loaded).set_params(max_side=150).new_features().min_side == 150
    explained = model.explain(paths[0])
    with Image.open(paths[0]) as image:
        assert explained.map.shape == image.size[::-1]
