"""Decoded files that are kept from one pass over them to the next."""

import os
import pickle
import weakref

import numpy as np
import pytest
from PIL import Image

from lrrspm import Channel, ImageClassifier, LRREncoder, VQEncoder, find_images
from lrrspm.descriptors import LocalColor
from lrrspm.images import KeptImages
from lrrspm.images.decoding import decode
from tests.images.test_reading import read


@pytest.fixture
def decoded(monkeypatch):
    """The files that are decoded while a test runs."""
    seen = []

    def spy(source, *rest):
        seen.append(source)
        return decode(source, *rest)

    monkeypatch.setattr("lrrspm.images.kept.decode", spy)
    return seen


@pytest.fixture
def path(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (50, 81, 3), dtype=np.uint8)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    return str(tmp_path / "a.png")


@pytest.mark.parametrize("max_side", [None, 300, 40])
@pytest.mark.parametrize("first", [(True, False), (False, True), (True, True)])
def test_same_pixels_as_without(path, decoded, max_side, first):
    images = KeptImages()
    read(path, max_side, *first, kept=images)
    images.close()
    found = read(path, max_side, True, False, images)
    np.testing.assert_array_equal(found.gray, read(path, max_side).gray)
    assert (found.color, found.shape) == (None, (50, 81))
    assert decoded == [path]


def test_color_is_decoded_again_if_gray_was_kept(path, decoded):
    images = KeptImages()
    read(path, 300, kept=images)
    for _ in range(2):  # the second time it is there
        found = read(path, 300, False, True, images)
        np.testing.assert_array_equal(found.color, read(path, 300, False, True).color)
    assert decoded == [path] * 2


def test_a_block_of_images_is_given_back_with_its_last_one(tmp_path):
    paths = [str(tmp_path / f"{i}.png") for i in range(3)]
    for i, path in enumerate(paths):
        Image.fromarray(np.full((20 + i, 30), i, np.uint8)).save(path)
    images = KeptImages()
    for path in paths:
        read(path, None, kept=images)
    images.close()
    gone: list[bool] = []
    first = images._images[(paths[0], None)].decoded.pixels
    weakref.finalize(_owner(first), gone.append, True)
    del first
    for i, path in enumerate(paths):
        assert not gone
        pixels = images.decode(path, None, False).pixels
        np.testing.assert_array_equal(pixels, np.full((20 + i, 30), i))
        del pixels
    assert gone


def _owner(array):
    while array.base is not None:
        array = array.base
    return array


def test_each_size_is_its_own(path, decoded):
    images = KeptImages()
    for max_side in (40, 300, 40):
        found = read(path, max_side, kept=images)
        np.testing.assert_array_equal(found.gray, read(path, max_side).gray)
    assert len(decoded) == 2


def test_after_closing_images_are_given_out_once(path, decoded):
    images = KeptImages()
    for count in (1, 1):  # kept while it is open
        read(path, None, kept=images)
        assert len(decoded) == count
    images.close()
    for count in (1, 2, 3):
        read(path, None, kept=images)
        assert len(decoded) == count


def test_a_file_that_was_replaced_is_decoded_again(path, decoded):
    images = KeptImages()
    read(path, None, kept=images)
    images.close()
    other = np.full((50, 81), 7, np.uint8)
    Image.fromarray(other).save(path + ".png")
    os.replace(path + ".png", path)
    found = read(path, None, kept=images)
    np.testing.assert_array_equal(found.gray, other / np.float32(255))


def test_room_is_limited_and_used_again(tmp_path, decoded):
    paths = [str(tmp_path / f"{i}.png") for i in range(3)]
    for value, path in enumerate(paths):
        Image.fromarray(np.full((10, 10), value, np.uint8)).save(path)
    images = KeptImages(most=250)
    for path in paths + paths:
        read(path, None, kept=images)
    assert decoded == [*paths, paths[2]]
    for path in paths[:2]:  # replaced: the room of the old content is free
        Image.fromarray(np.full((10, 10), 99, np.uint8)).save(path)
    del decoded[:]
    for path in paths[:2] * 2:
        assert read(path, None, kept=images).gray[0, 0] == np.float32(99) / np.float32(255)
    assert decoded == paths[:2]


def test_another_process_keeps_nothing(path, decoded):
    images = pickle.loads(pickle.dumps(KeptImages()))
    for _ in range(2):
        read(path, None, kept=images)
    assert decoded == [path] * 2


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_training_decodes_each_file_once_and_keeps_the_bits(image_folder, decoded, n_jobs):
    paths, labels = find_images(image_folder)
    channels = [
        Channel(LRREncoder(codebook_size=6)),
        Channel(VQEncoder(codebook_size=4), LocalColor((16,), (8,)), when="color"),
    ]
    model = ImageClassifier(channels=channels, n_samples=500, random_state=0, n_jobs=n_jobs)
    model.fit(paths, labels)
    assert sorted(decoded) == sorted(paths)
    vectors = model.features_.transform(paths)
    alone = model.new_features().fit(paths)
    np.testing.assert_array_equal(alone.transform(paths), vectors)
    again = model.new_svm().fit(vectors, labels)
    np.testing.assert_array_equal(model.decision_function(paths), again.decision_function(vectors))
