"""Folders with train/ and test/."""

import os

import pytest

from lrrspm import find_images
from lrrspm.images import find_labeled
from tests.images.test_finding import make


def names(root, paths):
    return [os.path.relpath(path, root) for path in paths]


def test_train_and_test_are_a_split(tmp_path):
    """They were two classes."""
    make(tmp_path, "train/cat/1.png", "train/dog/2.png", "test/cat/3.png", "Val/dog/4.png")
    paths, labels = find_images(tmp_path)
    assert (names(tmp_path, paths), labels) == (
        ["train/cat/1.png", "train/dog/2.png"],
        ["cat", "dog"],
    )
    paths, labels = find_images(tmp_path, part="test")
    assert (names(tmp_path, paths), labels) == (["test/cat/3.png", "Val/dog/4.png"], ["cat", "dog"])
    found = find_labeled(tmp_path)
    assert found.labels == ["cat", "dog", "cat", "dog"]
    assert found.tests == [False, False, True, True]
    # As if only the folder of training images had been given.
    assert find_images(tmp_path)[0] == find_images(tmp_path / "train")[0]


def test_training_images_alone(tmp_path):
    make(tmp_path, "train/cat/1.png", "train/dog/2.png", "test/3.png", "test/4.png")
    (tmp_path / "docs").mkdir()
    with pytest.warns(UserWarning, match="ignored 2 images outside the class folders"):
        assert find_images(tmp_path)[1] == ["cat", "dog"]
    with (
        pytest.warns(UserWarning, match="ignored 2 images"),
        pytest.raises(ValueError, match="no images in a folder test or"),
    ):
        find_images(tmp_path, part="test")
    with pytest.raises(ValueError, match="part must be"):
        find_images(tmp_path, part="both")  # type: ignore[arg-type]


def test_test_images_alone(tmp_path):
    make(tmp_path, "test/cat/1.png", "test/dog/2.png")
    assert find_images(tmp_path, part="test")[1] == ["cat", "dog"]
    with pytest.raises(ValueError, match="no images in a folder train"):
        find_images(tmp_path)


def test_classes_that_are_named_so(tmp_path):
    make(tmp_path, "train/1.png", "plane/2.png")
    assert find_images(tmp_path)[1] == ["plane", "train"]
    make(tmp_path, "test/a/3.png", "train/b/4.png")
    with pytest.warns(UserWarning, match="test, train are read as classes.* such as plane"):
        assert find_images(tmp_path)[1] == ["plane", "test", "train", "train"]


def test_folders_without_classes_of_their_own_are_classes(tmp_path):
    make(tmp_path, "train/1.png", "test/2.png")
    assert find_images(tmp_path)[1] == ["test", "train"]
