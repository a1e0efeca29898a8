"""Numbers of an evaluation, by hand."""

import numpy as np
import pytest

from lrrspm.evaluation import Evaluation, Skipped

UNEVEN = np.array([[8, 0], [1, 1]])


def test_accuracy_is_the_mean_over_classes_not_over_images():
    found = Evaluation(["a", "b"], [UNEVEN], 10)
    assert found.accuracies == [75.0]  # 100 and 50 percent; 9 of 10 images are right
    assert found.mean == 75.0
    assert found.per_class == {"a": 100.0, "b": 50.0}
    assert found.to_json()["accuracy"] == {"mean": 75.0, "std": None, "splits": [75.0]}


def test_standard_deviation_is_that_of_a_sample():
    matrices = [np.diag([1, 1]), np.array([[1, 0], [1, 0]]), np.array([[0, 1], [1, 0]])]
    found = Evaluation(["a", "b"], matrices, 6)
    assert found.accuracies == [100.0, 50.0, 0.0]
    assert found.mean == 50.0
    assert found.std == pytest.approx(50.0)  # sqrt(5000 / 2); divided by 3 it would be 40.8
    assert Evaluation(["a", "b"], matrices[:1], 2).std is None


def test_classes_without_test_images_do_not_count():
    found = Evaluation(["a", "b", "c"], [np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]])], 4)
    assert found.mean == 75.0
    assert found.per_class == {"a": 100.0, "c": 50.0}


def test_confusions_add_up_over_splits():
    found = Evaluation(["a", "b"], [UNEVEN, np.diag([3, 4])], 20)
    np.testing.assert_array_equal(found.confusion, [[11, 0], [1, 5]])
    assert found.to_json()["confusion"] == [[11, 0], [1, 5]]


def test_skipped_images_as_json():
    assert Skipped("a.png", "empty").to_json() == {"path": "a.png", "reason": "empty"}
