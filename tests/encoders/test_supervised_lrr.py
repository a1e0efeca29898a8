"""Labels in the codebook: per class, from training images alone."""

import numpy as np
import pytest

from lrrspm import (
    Channel,
    ImageClassifier,
    LRREncoder,
    SpatialPyramidFeatures,
    dense_sift,
    find_images,
    learn_codebook,
)
from lrrspm.encoders import SupervisedLRREncoder
from lrrspm.evaluation import evaluate
from tests import naive


def seeds(n, seed=0):
    return np.random.RandomState(seed).randint(2**31, size=n).tolist()


def by_class(values, labels, sizes):
    names = np.unique(labels)
    parts = zip(names, sizes, seeds(len(names)), strict=True)
    return np.concatenate([learn_codebook(values[labels == y], k, s) for y, k, s in parts])


def test_atoms_of_each_class_are_its_own():
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 6), np.float32), rng.choice(["b", "a", "c"], 300)
    encoder = SupervisedLRREncoder(11, random_state=0).fit(X, y)
    codebook = by_class(X, y, [4, 4, 3])
    np.testing.assert_array_equal(encoder.codebook_, codebook)
    expected = naive.lrr_codes(X, codebook, 0.7, 0)
    plain = encoder.set_params(threshold=0).transform(X)
    np.testing.assert_allclose(plain, expected, atol=1e-4)
    np.testing.assert_array_equal(
        plain, LRREncoder(threshold=0, codebook=codebook).fit_transform(X)
    )


def test_by_hand():
    """Two classes with two points each, all of them atoms."""
    X = np.array([[0, 1], [5, 0], [0, 2], [7, 0]])
    found = SupervisedLRREncoder(4, random_state=0).fit(X, [1, 0, 1, 0]).codebook_
    np.testing.assert_allclose(sorted(found[:2].tolist()), [[5, 0], [7, 0]], atol=1e-6)
    np.testing.assert_allclose(sorted(found[2:].tolist()), [[0, 1], [0, 2]], atol=1e-6)


def test_labels_stay_with_the_descriptors_of_their_image():
    """Images of several sizes, so that each has another number of descriptors."""
    rng = np.random.default_rng(0)
    images = [rng.random((20 + 7 * i, 30)) for i in range(6)]
    labels = np.array([1, 0, 0, 1, 1, 0])
    channel = Channel(SupervisedLRREncoder(6, random_state=0))
    features = SpatialPyramidFeatures([channel], n_samples=10**6, random_state=0)
    found = features.fit(images, labels).channels_[0].encoder_.codebook_
    values = [dense_sift(image.astype(np.float32)).values for image in images]
    own = np.repeat(labels, [len(part) for part in values])
    np.testing.assert_array_equal(found, by_class(np.concatenate(values), own, [3, 3]))


def test_same_bits_for_any_number_of_workers_and_from_a_store(image_folder, tmp_path):
    paths, labels = find_images(image_folder)

    def scores(**parameters):
        model = ImageClassifier(SupervisedLRREncoder(9), n_samples=3000, random_state=0)
        return model.set_params(**parameters).fit(paths, labels).decision_function(paths)

    expected = scores()
    for parameters in ({"n_jobs": 2}, {"n_jobs": 4}, {"cache": tmp_path}, {"cache": tmp_path}):
        np.testing.assert_array_equal(scores(**parameters), expected)


def test_a_store_never_gives_the_codebook_of_other_labels(image_folder, tmp_path):
    paths, labels = find_images(image_folder)
    turned = [*labels[1:], labels[0]]
    books = []
    for given in (labels, turned):
        channel = Channel(SupervisedLRREncoder(9))
        features = SpatialPyramidFeatures([channel], 3000, random_state=0, cache=tmp_path)
        books.append(features.fit(paths, given).channels_[0].encoder_.codebook_)
    assert not np.array_equal(*books)


def test_labels_of_test_images_are_never_used(image_folder):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(SupervisedLRREncoder(9), random_state=0)
    with pytest.raises(ValueError, match="labels, so one codebook from all images would know"):
        evaluate(paths, labels, model, 4, 2, shared_codebook=True)


def test_probabilities_are_not_learned_from_images_whose_labels_made_the_codebook(image_folder):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(SupervisedLRREncoder(9), random_state=0).fit(paths, labels)
    assert model.temperature_ is None
    assert model.familiar_ is None
    np.testing.assert_allclose(model.predict_proba(paths[:2]).sum(axis=1), 1)


def test_labels_are_needed(image_folder):
    paths, _ = find_images(image_folder)
    features = SpatialPyramidFeatures([Channel(SupervisedLRREncoder(9))])
    with pytest.raises(ValueError, match="SupervisedLRREncoder learns from labels, but y is None"):
        features.fit(paths)
    with pytest.raises(ValueError, match="36 images, but 2 labels"):
        features.fit(paths, [0, 1])
    with pytest.raises(ValueError, match="codebook_size must be at least 3, the number of classes"):
        SupervisedLRREncoder(2).fit(np.ones((6, 4)), [0, 1, 2, 0, 1, 2])


def test_other_encoders_do_not_look_at_labels(image_folder):
    paths, _ = find_images(image_folder)
    features = SpatialPyramidFeatures([Channel(LRREncoder(8))], 2000, random_state=0)
    vectors = features.fit_transform(paths, object())
    np.testing.assert_array_equal(features.fit(paths).transform(paths), vectors)
