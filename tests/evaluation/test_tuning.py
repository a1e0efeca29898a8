"""Tuning tries what it says, in time, and its winner is the model that train makes."""

import json
import re
import shlex
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import SIFT, Channel, LRREncoder, SpatialPyramidFeatures, find_images
from lrrspm.classifier import ImageClassifier
from lrrspm.evaluation import Candidate, Evaluation, Tuning, tune
from lrrspm.evaluation.tuning import _draw, keep_levels
from lrrspm.methods import PRESETS
from lrrspm.svm import cross_scores
from tests.report.reports import run


@pytest.fixture(scope="module")
def small(image_folder, tmp_path_factory):
    """Five made images of each of two classes."""
    folder = tmp_path_factory.mktemp("small") / "set"
    for kind in ("across", "dots"):
        (folder / kind).mkdir(parents=True)
        for i in range(5):
            shutil.copy(image_folder / kind / f"{i:02}.png", folder / kind)
    return folder


@pytest.fixture(scope="module")
def tuned(small, tmp_path_factory):
    """Run the command; return its JSON and the model."""
    model = tmp_path_factory.mktemp("tuned") / "m.lrrspm"
    done = run("tune", small, "-o", model, "--seed", 3, "--json")
    return json.loads(done.stdout), model


def test_every_candidate_is_tried(tuned):
    found, _ = tuned
    tried = {(one["method"], tuple(one["levels"]), one["C"]) for one in found["candidates"]}
    levels = {"fast": [(1,), (1, 2), (1, 2, 4)], "balanced": [(1,), (1, 4)], "best": [(1,), (1, 4)]}
    assert tried == {
        (method, some, C) for method in PRESETS for some in levels[method]
        for C in (1, 3, 10, 30, 100)
    }  # fmt: skip
    assert len(tried) == len(found["candidates"])
    assert found["left_out"] == []
    assert all(one["low"] <= one["accuracy"] <= one["high"] for one in found["candidates"])
    assert found["images"] == 10


def test_the_model_is_that_of_the_printed_command(tuned, tmp_path):
    found, model = tuned
    words = shlex.split(found["command"])
    assert words[:2] == ["lrrspm", "train"]
    words[words.index("-o") + 1] = str(tmp_path / "again.lrrspm")
    run(*words[1:])
    assert (tmp_path / "again.lrrspm").read_bytes() == model.read_bytes()


def test_the_estimate_is_that_of_train(tuned):
    found, _ = tuned
    assert found["estimate"]["accuracy"] == pytest.approx(found["winner"]["accuracy"])
    assert found["estimate"]["images"] == found["images"]


def test_store_and_workers_change_nothing(small, tmp_path):
    paths, labels = find_images(small)
    results = [
        tune(paths, labels, ["fast"], [1, 10], seed=3, n_jobs=jobs, cache=cache).candidates
        for jobs, cache in ((1, None), (2, tmp_path), (1, tmp_path))
    ]
    counts = [[one.evaluation.confusion.tolist() for one in found] for found in results]
    assert counts[0] == counts[1] == counts[2]


def test_candidates_are_tried_with_the_loss_of_their_preset(small, monkeypatch):
    losses = []

    def watched(*given):
        losses.append(given[3].loss)
        return cross_scores(*given)

    monkeypatch.setattr("lrrspm.evaluation.tuning.cross_scores", watched)
    tune(*find_images(small), ["fast", "best"], [10], seed=3)
    assert losses == ["squared_hinge"] * 3 + ["squared"] * 2


def test_no_time_leaves_the_first_candidate(small):
    found = tune(*find_images(small), budget=0)
    (one,) = found.candidates
    assert (one.method, one.levels, one.C) == ("fast", (1, 2, 4), 10)
    assert len(found.left_out) == 34
    assert found.winner is one


def test_unreadable_images_are_left_out(small, tmp_path):
    folder = tmp_path / "set"
    shutil.copytree(small, folder)
    (folder / "dots" / "broken.png").write_bytes(b"no image")
    found = tune(*find_images(folder), ["fast"], [10], max_skipped=0.5)
    assert [one.path for one in found.skipped] == [str(folder / "dots" / "broken.png")]
    assert found.images == 10
    with pytest.raises(ValueError, match=r"broken\.png"):
        tune(*find_images(folder), ["fast"], [10])


def test_classes_that_cannot_be_crossed(small):
    paths, labels = find_images(small)
    with pytest.raises(ValueError, match="two classes with two or more images"):
        tune(paths[4:6], labels[4:6])


def test_command_prints_and_refuses(small, tmp_path):
    text = run("tune", small, "--budget", 0).stdout
    assert "--method fast --C 10" in text
    assert re.search(r"with best; --budget \d+0 is about enough", text)
    lines = text.split("\n\n")[0].splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 60
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"precious")
    run("tune", small, "-o", photo, code=2)
    assert photo.read_bytes() == b"precious"
    run("tune", small, "--budget", -1, code=2)


def candidate(method, levels, C, right):
    confusion = np.array([[right, 100 - right], [100 - right, right]])
    return Candidate(method, levels, C, Evaluation(["a", "b"], [confusion], 200), 1.0, 1.0)


@pytest.mark.parametrize(
    ("right", "winner"),
    [((80, 81, 90, 91), 2), ((90, 90, 90, 91), 0), ((70, 91, 90, 91), 1), ((0, 0, 0, 9), 3)],
)
def test_the_winner_is_the_simplest_of_the_good_ones(right, winner):
    # One standard error of 90 % of 200 images is 2 points.
    kinds = [("fast", (1,), 1), ("fast", (1, 2), 1), ("balanced", (1,), 3), ("best", (1,), 1)]
    found = [candidate(*kind, share) for kind, share in zip(kinds, right, strict=True)]
    assert Tuning(found[::-1], [], 200).winner is found[winner]
    assert Tuning(found, [], 200).best.evaluation.mean == max(right)


@pytest.mark.parametrize("method", list(PRESETS))
def test_levels_that_are_kept_are_those_of_fewer_levels(small, method):
    paths, _ = find_images(small)
    model = ImageClassifier(method=method, random_state=0)
    features = model.new_features().fit(paths)
    count = len(features.channels_[0].levels)
    vectors = features.transform(paths)
    assert keep_levels(features, vectors, count) is vectors
    for fewer in range(1, count):
        levels = features.channels_[0].levels[:fewer]
        places = range(len(model.new_channels()))
        other = ImageClassifier(method=method, random_state=0)
        other.set_params(**{f"channels__{i}__levels": levels for i in places})
        expected = other.new_features().fit(paths).transform(paths)
        # Of vectors of length 1; roots of sums near 0 differ by more than the sums do.
        apart = np.linalg.norm(keep_levels(features, vectors, fewer) - expected, axis=1)
        assert apart.max() < 5e-3


def test_levels_that_are_kept_have_their_weights(small):
    paths, _ = find_images(small)
    weights = ((1.0, 2.0, 6.0), (3.0, 1.0, 1.0))

    def vectors(count):
        channels = [
            Channel(LRREncoder(4), SIFT(step=step), levels=(1, 2, 4)[:count], weight=w[:count])
            for step, w in zip((6, 9), weights, strict=True)
        ]
        features = SpatialPyramidFeatures(channels, n_samples=500, random_state=0).fit(paths)
        return features, features.transform(paths)

    for fewer in (1, 2):
        features, everything = vectors(3)
        found = keep_levels(features, everything, fewer)
        np.testing.assert_allclose(found, vectors(fewer)[1], atol=1e-6)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 40), st.integers(0, 9))
def test_drawn_images(labels, most, seed):
    y = np.array(labels)
    rows = _draw(y, most, seed)
    assert (np.diff(rows) > 0).all()
    if len(y) <= most:
        assert len(rows) == len(y)
        return
    # Classes of few images still have two; the share of the others is rounded down.
    assert len(rows) <= most + 2 * len(np.unique(y))
    for name in np.unique(y):
        drawn, there = (y[rows] == name).sum(), (y == name).sum()
        assert drawn == min(there, max(2, int(most / len(y) * there)))
