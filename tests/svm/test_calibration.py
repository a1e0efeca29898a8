import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm.svm import familiarity, fit_temperature, fit_thresholds, probabilities


@settings(deadline=None)
@given(
    temperature=st.floats(0.05, 5),
    n_classes=st.integers(2, 6),
    seed=st.integers(0, 1000),
)
def test_the_temperature_that_drew_the_labels_is_found(temperature, n_classes, seed):
    rng = np.random.default_rng(seed)
    scores = temperature * rng.normal(scale=2, size=(4000, n_classes))
    chances = probabilities(scores, temperature)
    labels = np.array([rng.choice(n_classes, p=row) for row in chances])
    assert fit_temperature(scores, labels) == pytest.approx(temperature, rel=0.15)


def test_hand_computed():
    """Three of four are right, so both classes have 3/4 and 1/4 at the best temperature."""
    scores, indices = np.array([[1.0, -1.0]] * 4), np.array([0, 0, 0, 1])
    found = fit_temperature(scores, indices, 0)
    assert found == pytest.approx(2 / np.log(3), rel=1e-3)
    np.testing.assert_allclose(probabilities(scores[:1], found), [[0.75, 0.25]], atol=1e-3)
    # With a doubt of 1/6 they have 2/3 and 1/3.
    assert fit_temperature(scores, indices) == pytest.approx(2 / np.log(2), rel=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_any_scores_give_probabilities(scale):
    scores = scale * np.array([[3.0, 1.0, -2.0], [0.0, 0.0, 0.0]])
    found = probabilities(scores, fit_temperature(scores, np.array([0, 1])))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[1], 1 / 3)


def test_familiarity_by_hand():
    """The same for all images if scores are alike, and more where one class stands out."""
    found = familiarity(np.array([[2.0, 2.0], [1.0, -1.0], [5.0, 3.0]]), 0.5)
    expected = [np.log(2), np.log(np.exp(2) + np.exp(-2)), np.log(np.exp(2) + np.exp(-2))]
    np.testing.assert_allclose(found, expected)


def test_thresholds_by_hand():
    """One of four equal samples weighs as much as the others together."""
    scores = np.array([[0.0, -1.0]] * 4)
    labels = np.array([0, 0, 0, 1])
    added, temperature = fit_thresholds(scores, labels, np.array([1.0, 1.0, 1.0, 3.0]))
    assert added.sum() == pytest.approx(0)
    # Both classes are then equally likely.
    np.testing.assert_allclose(probabilities(scores + added, temperature), 0.5, atol=0.01)


@settings(deadline=None, max_examples=20)
@given(n_classes=st.integers(2, 5), seed=st.integers(0, 1000))
def test_thresholds_that_drew_the_labels_are_found(n_classes, seed):
    rng = np.random.default_rng(seed)
    wanted = rng.uniform(-0.3, 0.3, n_classes)
    wanted -= wanted.mean()
    scores = rng.normal(size=(8000, n_classes))
    chances = probabilities(scores + wanted, 0.4)
    labels = np.array([rng.choice(n_classes, p=row) for row in chances])
    added, temperature = fit_thresholds(scores, labels, np.ones(len(labels)))
    assert temperature == pytest.approx(0.4, rel=0.1)
    np.testing.assert_allclose(added, wanted, atol=0.08)


@pytest.mark.parametrize("n", [4, 40])
def test_few_samples_that_are_all_right_leave_a_doubt(n):
    """Of n right ones, the next is right with (n + 1) / (n + 2)."""
    indices = np.arange(n) % 2
    scores = np.where(np.eye(2)[indices] > 0, 1.0, -1.0)
    found = probabilities(scores, fit_temperature(scores, indices))[np.arange(n), indices]
    np.testing.assert_allclose(found, (n + 1) / (n + 2), atol=1e-4)
