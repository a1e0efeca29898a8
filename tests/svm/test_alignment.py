"""Alignment of products with classes, and the channels' weights that are learned by it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import Channel, ImageClassifier, LRREncoder, VQEncoder, evaluate, find_images
from lrrspm import load_model as load
from lrrspm.descriptors import LBP, RootSIFT
from lrrspm.modelfile import describe_parameters
from lrrspm.svm import class_alignment
from tests import naive


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 30), st.sampled_from([np.float16, np.float32]))
def test_agrees_with_naive(seed, n, precision):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n + 5, 40)).astype(precision), rng.integers(0, 3, n + 5)
    members = rng.permutation(n + 5)[:n]
    found = class_alignment(X, labels, members, None)
    expected = naive.class_alignment(X[members].astype(float), labels[members])
    assert found == pytest.approx(expected, abs=1e-5)
    assert -1 - 1e-9 <= found <= 1 + 1e-9


def test_classes_apart_align_and_one_class_does_not():
    labels = np.repeat([0, 1, 2], 5)
    apart = np.eye(3, dtype=np.float32)[labels]
    everything = np.arange(15)
    assert class_alignment(apart, labels, everything, None) > 0.99
    assert class_alignment(apart, np.zeros(15), everything, None) == 0
    assert class_alignment(np.zeros_like(apart), labels, everything, None) == 0


def channels(weight=None):
    return [
        Channel(VQEncoder(4), LBP((16,), (8,), (1,)), weight=weight),
        Channel(LRREncoder(16), RootSIFT((16,), (8,)), weight=weight),
    ]


def classifier(**parameters):
    parameters = {"channels": channels(), "random_state": 0, "n_samples": 3000, **parameters}
    return ImageClassifier(**parameters)


def test_weights_are_squares_of_alignments_over_their_mean(image_folder):
    paths, labels = find_images(image_folder)
    model = classifier().fit(paths, labels)
    y, everything = np.array(labels), np.arange(len(labels))
    alone = []
    for one in channels():
        features = classifier(channels=[one]).fit(paths, labels).features_
        vectors, columns = features.transform(paths), features.channels_[0].level_columns
        atoms = features.channels_[0].encoder_.n_atoms
        assert [here.stop - here.start for here in columns] == [atoms, 4 * atoms, 16 * atoms]
        alone.append([class_alignment(vectors[:, h], y, everything, None) for h in columns])
    squares = np.square(np.maximum(alone, np.max(alone) / 10))
    found = [channel.weight for channel in model.features_.channels_]
    np.testing.assert_allclose(found, squares / squares.mean(), atol=0.006)
    assert len({one for weight in found for one in weight}) > 3
    fixed = classifier()
    fixed.set_params(channels__0__weight=found[0], channels__1__weight=found[1])
    np.testing.assert_array_equal(
        fixed.fit(paths, labels).decision_function(paths), model.decision_function(paths)
    )


def test_the_levels_of_a_single_channel_have_weights_too(image_folder):
    paths, labels = find_images(image_folder)
    (found,) = classifier(channels=channels()[1:]).fit(paths, labels).features_.channels_
    assert len(set(found.weight)) > 1
    assert np.mean(found.weight) == pytest.approx(1, abs=0.01)


def test_same_bits_for_any_number_of_workers_from_a_store_and_apart(
    image_folder, tmp_path, monkeypatch
):
    paths, labels = find_images(image_folder)
    expected = classifier().fit(paths, labels).decision_function(paths)
    for change in ({"n_jobs": 4}, {"cache": tmp_path}, {"cache": tmp_path, "n_jobs": 2}):
        found = classifier(**change).fit(paths, labels).decision_function(paths)
        np.testing.assert_array_equal(found, expected)
    monkeypatch.setattr("lrrspm.training.MEMORY", 0)
    found = classifier().fit(paths, labels).decision_function(paths)
    np.testing.assert_array_equal(found, expected)


def test_a_loaded_model_has_the_weights_and_learns_them_anew(image_folder, tmp_path):
    paths, labels = find_images(image_folder)
    model = classifier().fit(paths, labels)
    model.save(tmp_path / "m.lrrspm")
    loaded = load(tmp_path / "m.lrrspm")
    expected = model.decision_function(paths)
    np.testing.assert_array_equal(loaded.decision_function(paths), expected)
    assert describe_parameters(loaded) == describe_parameters(model)
    assert [channel.weight for channel in loaded.new_channels()] == [None, None]
    np.testing.assert_array_equal(loaded.fit(paths, labels).decision_function(paths), expected)


def test_labels_of_test_images_are_not_seen(image_folder, monkeypatch):
    """One codebook from all images leaves the weights at 1; else only members count."""
    seen = []

    def spy(X, labels, members, *_):
        seen.append(len(members))
        return 0.5

    monkeypatch.setattr("lrrspm.weighting.class_alignment", spy)
    paths, labels = find_images(image_folder)
    evaluate(paths, labels, classifier(), 3, 1, shared_codebook=True)
    assert seen == []
    evaluate(paths, labels, classifier(), 3, 1)
    assert seen == [3 * len(set(labels))] * 2 * 3  # channels and levels
