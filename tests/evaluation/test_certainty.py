"""How sure a classifier was, and how often it was right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm import find_images
from lrrspm._support.stages import Stages
from lrrspm.evaluation.certainty import Bin, Certainty, join
from lrrspm.evaluation.estimates import train_with_estimate
from lrrspm.evaluation.protocol import evaluate, score_model
from tests.conftest import mixed_up
from tests.evaluation.test_mistakes import small

MADE = Certainty(
    np.array([0.9, 0.5, 0.9, 0.7]),
    np.array([True, False, False, True]),
    calibrated=True,
    familiar=np.ones(4, bool),
    classes=np.zeros(4, np.int64),
)


def test_risk_against_coverage_by_hand():
    coverage, risk = MADE.risks()
    # Two images are equally sure, and answered together.
    assert coverage.tolist() == [0.5, 0.75, 1]
    assert risk.tolist() == pytest.approx([1 / 2, 1 / 3, 2 / 4])
    # One that is not familiar comes last, however sure.
    coverage, risk = MADE._replace(familiar=np.array([True, True, False, True])).risks()
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert risk.tolist() == pytest.approx([0, 0, 1 / 3, 2 / 4])


def test_coverage_by_hand():
    found = {row["confidence"]: (row["answered"], row["right"]) for row in MADE.coverage()}
    assert found == {
        0.5: (100, 50), 0.6: (75, pytest.approx(200 / 3)), 0.7: (75, pytest.approx(200 / 3)),
        0.8: (50, 50), 0.9: (50, 50), 0.95: (0, None),
    }  # fmt: skip
    shown = MADE._replace(familiar=np.array([True, True, False, True])).coverage()
    assert [row["answered"] for row in shown] == [75, 50, 50, 25, 25, 0]


def test_bins_by_hand():
    assert MADE.bins() == [Bin(1, 0.5, 0.0), Bin(1, 0.7, 1.0), Bin(2, 0.9, 0.5)]
    assert MADE.calibration_error == pytest.approx((0.5 + 0.3 + 2 * 0.4) / 4)
    sure = Certainty(np.ones(3), np.ones(3, bool), True, np.ones(3, bool), np.zeros(3, np.int64))
    assert sure.bins() == [Bin(3, 1.0, 1.0)]
    assert sure.calibration_error == 0


def test_classes_count_the_same_however_many_images_they_have():
    # Class 2 has no image; class 0 has four, three of them right; class 3 has one, wrong.
    found = Certainty(
        np.array([0.99, 0.85, 0.75, 0.55, 0.65]),
        np.array([True, True, True, False, False]),
        True,
        np.ones(5, bool),
        np.array([0, 0, 0, 0, 3]),
    )
    shown = {row["confidence"]: (row["answered"], row["right"]) for row in found.coverage()}
    assert shown == {
        0.5: (100, pytest.approx(100 * 0.75 / 2)), 0.6: (87.5, pytest.approx(100 * 0.75 / 1.75)),
        0.7: (37.5, 100), 0.8: (25, 100), 0.9: (12.5, 100), 0.95: (12.5, 100),
    }  # fmt: skip
    coverage, risk = found.risks()
    np.testing.assert_allclose(coverage, [1 / 8, 2 / 8, 3 / 8, 7 / 8, 1])
    np.testing.assert_allclose(risk, [0, 0, 0, 4 / 7, 5 / 8])
    # Those of fewer than so many answers are left out, but never all.
    assert len(found.risks(4)[0]) == 2
    assert found.risks(9)[0].tolist() == [1]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.2, 0.4, 0.5, 0.8, 1.0]), st.booleans(), st.sampled_from([0, 1, 3])
        ),
        min_size=1,
    )
)
def test_risks_and_coverage_are_those_of_counting(images):
    chances, right, classes = (np.array(column) for column in zip(*images, strict=True))
    found = Certainty(chances, right, True, np.ones(len(right), bool), classes)

    def naive(least):
        """Go through the classes one by one."""
        shares, wrong = [], []
        for c in sorted(set(classes.tolist())):
            own = [(chance, ok) for chance, ok, label in images if label == c]
            answers = [ok for chance, ok in own if chance >= least]
            shares.append(len(answers) / len(own))
            wrong.append(answers.count(False) / len(own))
        return sum(shares) / len(shares), sum(wrong) / sum(shares) if sum(shares) else None

    expected = [naive(least) for least in sorted(set(chances.tolist()), reverse=True)]
    np.testing.assert_allclose(np.transpose(found.risks()), expected, atol=1e-12)
    for row in found.coverage():
        answered, risk = naive(row["confidence"])
        assert row["answered"] == pytest.approx(100 * answered)
        assert row["right"] == (None if risk is None else pytest.approx(100 * (1 - risk)))


def test_splits_together():
    both = join([MADE, MADE._replace(calibrated=False)])
    assert both is not None
    assert both.probabilities.tolist() == [*MADE.probabilities] * 2
    assert both.right.tolist() == [*MADE.right] * 2
    assert not both.calibrated
    assert join([]) is None


def test_certainty_is_that_of_the_predictions(image_folder, tmp_path):
    paths, labels = find_images(mixed_up(image_folder, tmp_path / "set"))
    model = small()
    estimate = train_with_estimate(paths, labels, model).estimate
    scored = score_model(model, paths, labels, Stages())
    split = evaluate(paths, labels, small(), 4, 2)
    for found in (scored, split):
        assert found.certainty is not None
        assert found.certainty.right.sum() == np.trace(found.confusion)
        assert len(found.certainty.probabilities) == found.confusion.sum()
        # Answering everything is as good as the accuracy says.
        everything = found.certainty._replace(familiar=np.ones_like(found.certainty.right))
        assert 100 * (1 - everything.risks()[1][-1]) == pytest.approx(found.mean)
    assert scored.certainty is not None
    chances = model.predict_proba(paths)
    np.testing.assert_allclose(scored.certainty.probabilities, chances.max(axis=1))
    right = model.classes_[chances.argmax(axis=1)] == np.array(labels)
    np.testing.assert_array_equal(scored.certainty.right, right)
    assert scored.certainty.calibrated
    scores = model.decision_function(paths)
    known = model.is_known(scores, 0.8)
    np.testing.assert_array_equal(scored.certainty.confidences >= 0.8, known)
    assert estimate is not None
    assert estimate.certainty is not None
    assert estimate.certainty.calibrated
    assert len(estimate.certainty.probabilities) == len(paths)
    assert split.certainty is not None
    assert not split.certainty.calibrated
