"""Mistakes: which are found, and whose they are."""

import shutil

import numpy as np
import pytest

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm._support.stages import Stages
from lrrspm.evaluation.mistakes import MOST, Measured, find_mistakes
from lrrspm.evaluation.protocol import (
    evaluate_all,
    score_model,
    split_by_class,
    split_seeds,
    train_with_estimate,
)
from tests.conftest import mixed_up


def small(**parameters):
    return ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, random_state=0, **parameters)


def knowing(*classes):
    """A classifier of which only the classes are known."""
    model = ImageClassifier()
    model.classes_ = np.array(classes)
    return model


@pytest.fixture(scope="module")
def mixed(pictures, tmp_path_factory):
    """Paths and labels of pictures of which some lie in the wrong folder."""
    return find_images(mixed_up(pictures, tmp_path_factory.mktemp("mixed") / "set"))


def test_by_hand():
    scores = np.array([[1, 0, -1], [3, 1, 0], [0.5, 0.5, 0.25], [0, 2, 1.5]])
    found = find_mistakes(
        knowing("a", "b", "c"), list("wxyz"), np.array(["a", "b", "b", "c"]), scores, 4
    )
    # The third has equal scores for a and b, of which the first wins.
    assert [(m.path, m.label, m.predicted) for m in found] == [
        ("x", "b", "a"), ("z", "c", "b"), ("y", "b", "a")
    ]  # fmt: skip
    assert [m.lead for m in found] == [2, 0.5, 0]
    assert [(m.score, m.true_score) for m in found] == [(3, 1), (2, 1.5), (0.5, 0.5)]
    assert {m.split for m in found} == {4}


def test_by_hand_with_two_classes():
    (found,) = find_mistakes(
        knowing(3, 7), ["p", "q", "r"], np.array([3, 3, 7]), np.array([-1, 2, 0.5])
    )
    assert (found.path, found.label, found.predicted) == ("q", 3, 7)
    assert (found.score, found.true_score, found.lead) == (2, -2, 4)


def test_no_more_than_the_surest():
    scores = np.arange(1, 41) / 10
    paths = [str(i) for i in range(40)]
    found = find_mistakes(knowing("a", "b"), paths, np.array(["a"] * 40), scores)
    assert [m.path for m in found] == paths[: -MOST - 1 : -1]


@pytest.mark.parametrize("shared_codebook", [False, True])
@pytest.mark.parametrize("methods", [["LrrSPM"], ["KernelSPM", "LLC"]])
def test_each_mistake_is_its_models(mixed, methods, shared_codebook):
    paths, labels = mixed
    classifiers = [
        ImageClassifier(method=name, n_samples=500).set_params(
            encoder=ImageClassifier(method=name).new_features().encoder.set_params(codebook_size=8)
        )
        for name in methods
    ]
    measured: list[Measured] = []
    results = evaluate_all(
        paths, labels, classifiers, 4, 3, shared_codebook, seed=2, measured=measured
    )
    assert [one.result for one in measured] == results
    seeds = split_seeds(2, 3)
    for one in measured:
        assert 0 < len(one.mistakes) <= MOST
        assert len({m.path for m in one.mistakes}) == len(one.mistakes)
        assert [m.lead for m in one.mistakes] == sorted(m.lead for m in one.mistakes)[::-1]
        for mistake in one.mistakes:
            index = paths.index(mistake.path)
            trained = split_by_class(np.array(labels), 4, seeds[mistake.split - 1])
            assert index not in trained
            assert mistake.label == labels[index] != mistake.predicted
            examined = mistake.model.examine(mistake.path)
            names = mistake.model.classes_.tolist()
            assert names[int(examined.scores.argmax())] == mistake.predicted
            found = [examined.explain(name).score for name in (mistake.predicted, mistake.label)]
            assert found == pytest.approx([mistake.score, mistake.true_score], abs=1e-4)


def test_keeping_mistakes_changes_no_result(mixed):
    paths, labels = mixed
    plain, kept = (
        evaluate_all(paths, labels, [small()], 4, 2, measured=measured)[0]
        for measured in (None, list[Measured]())
    )
    plain.pop("seconds")
    kept.pop("seconds")
    assert plain == kept


def test_of_an_estimate(mixed):
    paths, labels = mixed
    model = small().set_params(random_state=1)
    measured: list[Measured] = []
    accuracy = train_with_estimate(paths, labels, model, measured=measured)
    ((result, mistakes),) = measured
    assert result["accuracy"] == {"mean": accuracy, "std": None, "splits": [accuracy]}
    assert result["images"] == model.summary_["held_out"]["images"] == np.sum(result["confusion"])
    wrong = np.sum(result["confusion"]) - np.trace(result["confusion"])
    assert len(mistakes) == wrong > 0
    # The second model's, which did not learn from the picture.
    assert all(m.model is not model for m in mistakes)
    measured.clear()
    train_with_estimate(paths, labels, small(), estimate=False, measured=measured)
    assert measured == []


def test_of_a_model_that_is_scored(mixed, pictures, tmp_path):
    model = small().fit(*find_images(pictures))
    paths, labels = mixed
    measured: list[Measured] = []
    gone = str(shutil.copy(paths[0], tmp_path / "gone.png"))
    (tmp_path / "gone.png").unlink()
    skipped: dict[int, str] = {}
    result = score_model(model, [gone, *paths], ["dots", *labels], Stages(), skipped, measured)
    assert list(skipped) == [0]
    (one,) = measured
    assert one.result == result
    found = {m.path: (m.label, m.predicted) for m in one.mistakes}
    predicted = model.predict(paths).tolist()
    wrong = {
        path: (label, guess)
        for path, label, guess in zip(paths, labels, predicted, strict=True)
        if label != guess
    }
    assert found == wrong
    assert len(found) == 6
