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
    sure = Certainty(np.ones(3), np.ones(3, bool), True, np.ones(3, bool))
    assert sure.bins() == [Bin(3, 1.0, 1.0)]
    assert sure.calibration_error == 0


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.4, 0.5, 0.8, 1.0]), st.booleans()), min_size=1))
def test_risks_are_those_of_counting(pairs):
    chances, right = (np.array(column) for column in zip(*pairs, strict=True))
    coverage, risk = Certainty(chances, right, True, np.ones(len(right), bool)).risks()
    naive = []
    for least in sorted(set(chances), reverse=True):
        answered = [ok for chance, ok in pairs if chance >= least]
        naive.append((len(answered) / len(pairs), answered.count(False) / len(answered)))
    assert list(zip(coverage, risk, strict=True)) == naive


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
    for found in (estimate, scored, split):
        assert found is not None
        assert found.certainty is not None
        assert found.certainty.right.sum() == np.trace(found.confusion)
        assert len(found.certainty.probabilities) == found.confusion.sum()
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
    assert split.certainty is not None
    assert not split.certainty.calibrated
