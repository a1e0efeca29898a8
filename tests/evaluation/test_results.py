"""Numbers of an evaluation, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import precision_recall_fscore_support

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


def test_precision_and_f1_by_hand():
    """Of a all 8 are right, and 9 predictions name it; of b one of two, and one names it."""
    found = Evaluation(["a", "b"], [UNEVEN], 10)
    assert found.class_metrics["a"] == pytest.approx((100, 800 / 9, 1600 / 17, 8))
    assert found.class_metrics["b"] == pytest.approx((50, 100, 200 / 3, 2))
    assert found.to_json()["macro"] == {
        "recall": 75.0,
        "precision": pytest.approx((800 / 9 + 100) / 2),
        "f1": pytest.approx((1600 / 17 + 200 / 3) / 2),
    }
    assert found.to_json()["class_metrics"]["b"]["tested"] == 2


@given(arrays(np.int64, (2, 4, 4), elements=st.integers(0, 9)))
def test_metrics_are_those_of_scikit_learn(matrices):
    """Over all splits together; a class that is never predicted has precision 0."""
    matrices += np.eye(4, dtype=np.int64)[[3, 0, 1, 2]]  # every class is tested
    truth, predicted = (
        np.repeat(places, matrices.sum(axis=0).ravel())
        for places in np.indices((4, 4)).reshape(2, 16)
    )
    expected = precision_recall_fscore_support(
        truth, predicted, labels=range(4), average=None, zero_division=0
    )
    found = Evaluation([0, 1, 2, 3], list(matrices), 0).class_metrics
    precision, recall, f1, tested = expected
    for name in range(4):
        metrics = (100 * recall[name], 100 * precision[name], 100 * f1[name], tested[name])
        assert found[name] == pytest.approx(metrics)


def test_classes_that_are_confused_with_each_other():
    """b and c: 30 % and 10 %, their mean 20; a and d are confused with nobody in return."""
    counts = np.array([[9, 1, 0, 0], [0, 7, 3, 0], [0, 1, 9, 0], [0, 0, 0, 10]])
    found = Evaluation(["a", "b", "c", "d"], [counts], 40)
    assert found.confused_groups(20) == [(["b", "c"], 20.0)]
    assert found.confused_groups(20.1) == []
    # a joins at the mean of its pairs: (5 + 0) / 2.
    (group,) = found.confused_groups(2.5)
    assert group.names == ["a", "b", "c"]
    assert group.share == pytest.approx((10 + 30 + 10) / 3)
    assert found.confused_groups(2.6) == [(["b", "c"], 20.0)]


def test_untested_and_single_classes_are_in_no_group():
    counts = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert Evaluation(["a", "b", "c"], [counts], 2).confused_groups() == []
    counts = np.array([[1, 5, 1], [0, 0, 0], [1, 0, 1]])
    (group,) = Evaluation(["a", "b", "c"], [counts], 9).confused_groups()
    assert group.names == ["a", "c"]
