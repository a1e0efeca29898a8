"""What every method of the registry does."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from lrrspm import (
    ImageClassifier,
    KernelSVM,
    LinearSVM,
    LRREncoder,
    find_images,
    learn_codebook,
    load_model,
)
from lrrspm.cli import app
from lrrspm.evaluation.protocol import evaluate, evaluate_all
from lrrspm.methods import METHODS, find_method

NAMES = list(METHODS)


def small(method, **parameters):
    encoder = find_method(method).encoder().set_params(codebook_size=8)
    return ImageClassifier(
        encoder, n_samples=2000, **{"method": method, "random_state": 0, **parameters}
    )


def test_the_seven_rows_of_the_tables():
    assert NAMES == ["LrrSPM", "LinearBOF", "KernelBOF", "LinearSPM", "KernelSPM", "ScSPM", "LLC"]
    with pytest.raises(ValueError, match="no method 'magic'; there are: LrrSPM, LinearBOF"):
        ImageClassifier(method="magic").fit([np.zeros((9, 9))] * 2, [0, 1])


@pytest.mark.parametrize("method", NAMES)
def test_learns_made_pictures_and_survives_a_file(pictures, tmp_path, method):
    paths, labels = find_images(pictures)
    model = small(method).fit(paths[::2], labels[::2])
    assert model.score(paths[1::2], labels[1::2]) > 0.9
    assert isinstance(model.svm_, KernelSVM if METHODS[method].kernel else LinearSVM)
    assert model.svm_.n_features_in_ == 8 * (21 if METHODS[method].pyramid else 1)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.method == method
    np.testing.assert_array_equal(loaded.decision_function(paths), model.decision_function(paths))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert clone(loaded).method == method
    # What is set after fit belongs to the next fit, not to the model.
    changes = {"regularization": 0.3, "n_neighbors": 2, "sparsity": 0.5}
    for name in changes.keys() & model.encoder.get_params().keys():
        model.set_params(**{f"encoder__{name}": changes[name]})
    model.save(tmp_path / "later")
    assert (tmp_path / "later").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("method", NAMES)
def test_same_bits_for_any_number_of_workers(pictures, method):
    paths, labels = find_images(pictures)
    one, four = (small(method, n_jobs=n).fit(paths, labels) for n in (1, 4))
    np.testing.assert_array_equal(one.decision_function(paths), four.decision_function(paths))


@pytest.mark.parametrize("method", NAMES)
def test_odd_pictures(method):
    rng = np.random.default_rng(0)
    images = [np.zeros((30, 30)), np.ones((1, 1)), rng.random((40, 50)), rng.random((17, 90))]
    model = small(method).fit(images, [0, 1, 0, 1])
    assert np.isfinite(model.decision_function([*images, np.zeros((1, 300))])).all()


def test_pooling_can_be_chosen(pictures):
    paths, labels = find_images(pictures)
    own = small("LrrSPM").fit(paths, labels)
    average = small("LrrSPM", pooling="average").fit(paths, labels)
    assert own.features_.pooling == "max"
    assert average.features_.pooling == "average"
    assert not np.array_equal(own.decision_function(paths), average.decision_function(paths))


def test_several_methods_at_once_are_each_alone(pictures, reads):
    """Shared splits, samples and codebooks change nothing; images are read twice."""
    paths, labels = find_images(pictures)
    for shared in (False, True):
        reads.clear()
        classifiers = [small(name, C=0.01) for name in NAMES]
        together = evaluate_all(paths, labels, classifiers, 3, 2, shared, seed=1)
        assert len(reads) <= 2 * len(paths)
        for name, result in zip(NAMES, together, strict=True):
            alone = evaluate(paths, labels, small(name, C=0.01), 3, 2, shared, seed=1)
            assert result["confusion"] == alone["confusion"], name
            assert set(result["seconds"]) == set(alone["seconds"])


def test_codebook_is_learnt_once_for_all_methods(pictures, monkeypatch):
    runs = []

    def spy(*arguments):
        runs.append(arguments[1])
        return learn_codebook(*arguments)

    monkeypatch.setattr("lrrspm.encoders.base.learn_codebook", spy)
    paths, labels = find_images(pictures)
    evaluate_all(paths, labels, [small(name) for name in NAMES], 3, 2)
    assert runs == [8, 8]  # one a split


def test_commands(pictures, tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert all(name in run("methods") for name in NAMES)
    assert list(json.loads(run("methods", "--json"))["methods"]) == NAMES
    fast = ["--codebook-size", 8, "--jobs", 1]
    arguments = ["evaluate", pictures, "--method", "all", "--train-per-class", 4, *fast]
    text = run(*arguments, "--splits", 2)
    assert [line.split()[0] for line in text.splitlines()[1:8]] == NAMES
    found = json.loads(run(*arguments, "--splits", 1, "--json"))["methods"]
    assert list(found) == NAMES
    assert found["LLC"]["parameters"]["n_neighbors"] == 5
    assert found["LrrSPM"]["parameters"]["lambda"] == 0.7
    model = tmp_path / "m"
    run("train", pictures, "-o", model, "--method", "KernelSPM", *fast)
    assert "method: KernelSPM" in run("info", model)
    assert "dots" in run("predict", model, pictures / "dots" / "00.png")


def test_other_methods_have_no_lambda(tmp_path):
    arguments = ["train", str(tmp_path), "-o", "m", "--method", "LLC", "--lambda", "0.1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "belong to LrrSPM" in result.stderr


def test_same_method_twice_with_one_codebook(pictures):
    """Kinds that differ in anything have features of their own."""
    paths, labels = find_images(pictures)
    classifiers = [small("LrrSPM", C=0.01), small("LrrSPM", C=0.01, pooling="average")]
    together = evaluate_all(paths, labels, classifiers, 3, 2, True)
    for classifier, result in zip(classifiers, together, strict=True):
        alone = evaluate(paths, labels, classifier, 3, 2, True)
        assert result["confusion"] == alone["confusion"]


def test_unknown_method(tmp_path):
    result = CliRunner().invoke(app, ["train", str(tmp_path), "-o", "m", "--method", "magic"])
    assert result.exit_code == 1
    assert "no method 'magic'" in result.stderr


def test_encoder_overrides_the_methods_own(pictures):
    paths, labels = find_images(pictures)
    model = ImageClassifier(LRREncoder(codebook_size=8), method="KernelSPM", random_state=0)
    model.set_params(pooling="max").fit(paths, labels)
    assert isinstance(model.features_.encoder_, LRREncoder)
    assert isinstance(model.svm_, KernelSVM)
