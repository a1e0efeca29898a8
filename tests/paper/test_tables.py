"""Tables, studies and the page: numbers by hand, and the committed page."""

from dataclasses import replace

import pytest

from lrrspm.paper import agreement, experiments, studies, tables
from lrrspm.paper.experiments import FIGURES, SCHEMATICS, Options
from lrrspm.paper.report import make_page
from lrrspm.paper.results import Results
from lrrspm.report import page
from tests.conftest import HERE
from tests.paper.helpers import (
    SECONDS,
    small,
)

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


def test_differences_by_hand():
    cell = tables.Cell(80, 0.3, 5, 5, paper=81, paper_std=0.4)
    assert cell.difference is not None
    assert cell.difference.errors == pytest.approx(-2 * 5**0.5)
    assert cell.lines() == ("80.00 ± 0.30", "(81.00 ± 0.40)", "-4.5 se, p = 0.0025")
    assert tables.Cell(80, None, 1, 5).lines() == ("80.00 (1 of 5 splits)",)
    assert tables.Cell(None, None, 0, 5, 76.2).lines() == ("not run", "(76.20)")
    # One split has no spread, and other images are not comparable.
    assert tables.Cell(80, None, 1, 1, 81, 0.4).lines() == ("80.00", "(81.00 ± 0.40)")
    assert replace(cell, other_data=True).lines() == ("80.00 ± 0.30", "(81.00 ± 0.40)")


def test_cells_by_hand(tmp_path):
    results = Results(tmp_path)
    settings = [small(split) for split in range(3)]
    for setting, accuracy in zip(settings, (70.0, 72.0, 77.0), strict=True):
        seconds = {"encode": 1.0, "train": 2.0, "test": accuracy, "read": 1e3, "sift": 1e3}
        results.add_row(setting, accuracy=accuracy, seconds=seconds)
    cell = tables.accuracy_cell(results, settings)
    assert (cell.mean, cell.done, cell.wanted) == (73, 3, 3)
    assert cell.std == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    spent = tables.seconds_cell(results, settings, ("encode", "train", "test"), 5.0)
    assert spent.mean == pytest.approx(76)
    assert spent.lines() == ("76.00", "(5.00)")


def test_changes_of_factors_by_hand(tmp_path):
    results = Results(tmp_path)
    options = Options(splits=2)
    for factor, accuracy in ((experiments.AS_IS, 75.0), (experiments.FACTORS[0], 73.5)):
        for setting in factor.settings("LS", 100, options):
            results.add_row(setting, accuracy=accuracy + setting.split, overall=76.0)
    rows = {row[0][0]: row[1:] for row in studies.factor_table(results, options).rows}
    assert rows["as in the tables"][0] == ("75.50 ± 0.71", "(76.34 ± 0.58)", "-1.5 se, p = 0.3")
    name = "image reading: longer side at most 200"
    assert rows[name] == (("74.00 ± 0.71, -1.50",), ("does not apply",))
    assert rows[studies.OVERALL][0] == ("76.00, +0.50",)
    (said,) = studies.say_factors(results, options)
    assert said.startswith("**LS, 100 per class**: -0.84 points from the paper, -1.5 standard")


def test_readings_by_hand(tmp_path):
    results = Results(tmp_path)
    options = Options(splits=2)
    for changes, accuracy in (({}, 85.0), ({"normalize_codes": True}, 70.0)):
        for setting in options.over_splits(options.setting("OT", 100, **changes)):
            results.add_row(setting, accuracy=accuracy + setting.split, seconds=SECONDS)
    assert agreement.say_readings(results, options) == (
        "Of the two readings of Algorithm 1, the one without normalized codes is closer to the "
        "paper in 1 of 1 cell: 1 of 1 in table 4. The largest difference is in OT: 85.50 ± 0.71 "
        "without, 70.50 ± 0.71 with, 85.63 in the paper."
    )


def test_the_committed_page_shows_the_committed_rows():
    results = Results(HERE.parent / "benchmarks" / "results" / "paper")
    assert results.records
    made = page.to_markdown(make_page(results, Options()))
    assert (HERE.parent / "docs" / "results.md").read_text() == made
    for figure in (*FIGURES, *SCHEMATICS):
        assert (HERE.parent / "docs" / "figures" / f"{figure}.svg").is_file()
