"""Mistakes: which are found, and whose they are."""

import shutil

import numpy as np
import pytest

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm._support.stages import Stages
from lrrspm.evaluation import (
    evaluate_all,
    find_mistakes,
    most_confident,
    score_model,
    split_by_class,
    split_seeds,
    train_with_estimate,
)
from lrrspm.evaluation.mistakes import MOST
from tests.conftest import mixed_up


def small(**parameters):
    return ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, random_state=0, **parameters)


def knowing(*classes):
    """A classifier that has only its classes, and a temperature of 1."""
    model = ImageClassifier()
    model.temperature_ = 1.0
    model.classes_ = np.array(classes)
    return model


@pytest.fixture(scope="module")
def mixed(image_folder, tmp_path_factory):
    """Paths and labels of images, some of which are in the wrong folder."""
    return find_images(mixed_up(image_folder, tmp_path_factory.mktemp("mixed") / "set"))


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
    # Shares of exp(score).
    total = np.exp([3, 1, 0]).sum()
    assert found[0].probability == pytest.approx(np.exp(3) / total)
    assert found[0].true_probability == pytest.approx(np.exp(1) / total)


def test_by_hand_with_two_classes():
    (found,) = find_mistakes(
        knowing(3, 7), ["p", "q", "r"], np.array([3, 3, 7]), np.array([-1, 2, 0.5])
    )
    assert (found.path, found.label, found.predicted) == ("q", 3, 7)
    assert (found.score, found.true_score, found.lead) == (2, -2, 4)


def test_no_more_than_the_most_confident():
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
            channels__0__encoder__codebook_size=8
        )
        for name in methods
    ]
    seeds = split_seeds(2, 3)
    for one in evaluate_all(paths, labels, classifiers, 4, 3, shared_codebook, seed=2):
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


def test_the_most_confident_of_several_splits():
    """One per image, the one with the largest lead."""
    model = knowing("a", "b")
    first, second = (
        find_mistakes(model, ["p", "q"], np.array(["a", "a"]), np.array(scores), split)
        for split, scores in ((1, [1.0, 3.0]), (2, [2.0, 0.5]))
    )
    found = most_confident([*first, *second])
    assert [(m.path, m.split, m.lead) for m in found] == [("q", 1, 6), ("p", 2, 4)]


def test_mistakes_of_an_estimate(mixed):
    paths, labels = mixed
    model = small().set_params(random_state=1)
    result, _ = train_with_estimate(paths, labels, model, mistakes=True)
    assert result is not None
    assert (result.std, result.accuracies) == (None, [result.mean])
    assert result.images == model.summary_["estimate"]["images"] == result.confusion.sum()
    wrong = result.confusion.sum() - np.trace(result.confusion)
    assert len(result.mistakes) == wrong > 0
    # Those of a fold's model, which was not trained on the image.
    assert all(m.model is not model for m in result.mistakes)
    assert train_with_estimate(paths, labels, small(), estimate=False).estimate is None


def test_mistakes_of_a_saved_model(mixed, image_folder, tmp_path):
    model = small().fit(*find_images(image_folder))
    paths, labels = mixed
    gone = str(shutil.copy(paths[0], tmp_path / "gone.png"))
    (tmp_path / "gone.png").unlink()
    result = score_model(model, [gone, *paths], ["dots", *labels], Stages(), skip=True)
    assert [one.path for one in result.skipped] == [gone]
    found = {m.path: (m.label, m.predicted) for m in result.mistakes}
    predicted = model.predict(paths).tolist()
    wrong = {
        path: (label, guess)
        for path, label, guess in zip(paths, labels, predicted, strict=True)
        if label != guess
    }
    assert found == wrong
    assert len(found) == 6
