"""Plots in reports: every dot is where its numbers are."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from lrrspm import config
from lrrspm.evaluation.certainty import Certainty
from lrrspm.report.plots import calibration_plot, risk_plot
from tests.report.reports import made_evaluation, report

# Class of images where there is one.
FIRST = np.zeros(200, np.int64)


def made(n_images=400, wrong=0.2):
    """Make certainties: the surer, the more often right."""
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.3, 1, n_images)
    right = rng.random(n_images) < 1 - wrong * (1.3 - chances)
    return Certainty(chances, right, True, np.ones(n_images, bool), np.arange(n_images) % 4)


@pytest.mark.parametrize("wrong", [0.02, 0.3, 1.2])
def test_risk_plot(wrong):
    certainty = made(wrong=wrong)
    plot = risk_plot(certainty)
    points = np.array([each.split(",") for each in plot.line.split()], float)
    most = float(plot.up[-1].words)
    shares, risks = certainty.risks()
    assert 100 < len(points) <= 200
    assert points[-1] == pytest.approx([plot.width, plot.height * (1 - 100 * risks[-1] / most)])
    places = np.searchsorted(shares, points[:, 0] / plot.width - 1e-3)
    expected = plot.height * (1 - 100 * risks[places] / most)
    assert points[:, 1] == pytest.approx(expected, abs=1)
    assert points[:, 1].min() >= 0
    rows = certainty.coverage()
    assert len(plot.marks) == len(config.CONFIDENCES)
    for mark, row in zip(plot.marks, rows, strict=True):
        answered, right = row["answered"] or 0, row["right"] or 0
        assert mark.x == pytest.approx(plot.width * answered / 100, abs=0.1)
        assert mark.y == pytest.approx(plot.height * (1 - (100 - right) / most), abs=0.1)
        assert f"{answered:.1f} % of images answered, {right:.1f} %" in mark.words
    labeled = [mark.x for mark in plot.marks if mark.label]
    assert -np.diff(labeled).max() >= 20
    assert (plot.across[0].at, plot.across[-1].at) == (0, plot.width)
    assert (plot.up[0].at, plot.up[-1].at) == (plot.height, 0)


def test_a_wrong_first_answer_does_not_fill_the_plot():
    chances = np.linspace(0.99, 0.6, 200)
    plot = risk_plot(Certainty(chances, np.arange(200) != 0, True, np.ones(200, bool), FIRST[:200]))
    assert plot.up[-1].words == "10"


def test_calibration_plot():
    certainty = made()
    plot = calibration_plot(certainty)
    bins = certainty.bins()
    assert len(plot.marks) == len(bins)
    for mark, one in zip(plot.marks, bins, strict=True):
        assert mark.x == pytest.approx(plot.width * one.probability, abs=0.1)
        assert mark.y == pytest.approx(plot.height * (1 - one.right), abs=0.1)
    sizes = sorted((one.n_images, mark.radius) for mark, one in zip(plot.marks, bins, strict=True))
    assert [radius for _, radius in sizes] == sorted(radius for _, radius in sizes)


@pytest.mark.parametrize(
    "certainty",
    [
        Certainty(np.array([0.4]), np.array([False]), True, np.array([True]), FIRST[:1]),
        Certainty(np.ones(5), np.ones(5, bool), True, np.ones(5, bool), FIRST[:5]),
        Certainty(np.full(30, 0.2), np.zeros(30, bool), True, np.ones(30, bool), FIRST[:30]),
        Certainty(np.full(30, 0.9), np.ones(30, bool), True, np.zeros(30, bool), FIRST[:30]),
    ],
    ids=["one image", "always right", "always wrong", "nothing familiar"],
)
def test_plots_of_extreme_cases(certainty):
    evaluation = made_evaluation(3, 0.2)
    evaluation.certainty = certainty
    page = report(evaluation)
    for svg in re.findall(r"<svg viewBox.*?</svg>", page.source, re.S):
        for part in ElementTree.fromstring(svg).iter():
            for name in {"cx", "cy", "x", "y"} & {*part.keys()}:
                assert -60 < float(part.attrib[name]) < 400


def test_report_shows_certainty_where_there_is_one():
    evaluation = made_evaluation(3, 0.2)
    assert not re.search("Answering only when sure|Calibration:", report(evaluation).text)
    evaluation.certainty = made()
    page = report(evaluation)
    off = f"{100 * evaluation.certainty.calibration_error:.1f}"
    assert f"off by {off} points on average" in page.text
    assert len(page.named("circle")) == len(config.CONFIDENCES) + len(evaluation.certainty.bins())
    assert len(page.table("minimum confidence")) == len(config.CONFIDENCES)
    evaluation.certainty = made()._replace(calibrated=False)
    page = report(evaluation)
    assert "These classifiers are not calibrated" in page.text
    assert "Calibration:" not in page.text
    assert len(page.named("circle")) == len(config.CONFIDENCES)
