"""Agreement with the paper and between variants, by hand, and in the committed rows."""

from typing import Any

import pytest

from lrrspm.paper import agreement
from lrrspm.paper.experiments import NORMALIZED, Options
from lrrspm.paper.results import Results
from tests.conftest import HERE
from tests.paper.helpers import SECONDS

OPTIONS = Options()


@pytest.fixture(scope="module")
def committed():
    return Results(HERE.parent / "benchmarks" / "results" / "paper")


@pytest.fixture
def made(tmp_path):
    """LrrSPM on OT, LLC above it, and normalized codes above on all but one split."""
    results = Results(tmp_path)
    cases: tuple[tuple[dict[str, Any], tuple[float, ...]], ...] = (
        ({}, (84.0, 85.0, 84.0, 85.0, 84.5)),
        ({"method": "LLC"}, (86.0, 86.5, 86.0, 87.0, 86.5)),
        ({"normalize_codes": True}, (84.1, 85.2, 84.1, 85.2, 84.4)),
    )
    for changes, accuracies in cases:
        settings = OPTIONS.over_splits(OPTIONS.setting("OT", 100, **changes))
        for setting, accuracy in zip(settings, accuracies, strict=True):
            results.add_row(setting, accuracy=accuracy, seconds=SECONDS)
    return results


def test_signs_by_hand(made):
    (one,) = agreement.compare("LrrSPM", made, OPTIONS)
    assert (one.where, one.table) == ("OT", "table4")
    assert one.points == pytest.approx(84.5 - 85.63)
    rows = {row[0][0]: [cell[0] for cell in row[1:]] for row in
            agreement.agreement_table(made, OPTIONS).rows}  # fmt: skip
    assert rows["LrrSPM"] == ["1", "0", "1", "0", "1", "-1.13", "p = 1"]
    assert rows["LLC"][:3] == ["1", "1", "0"]
    assert "LrrSPM is below the paper in 1 of the 1 cells" in agreement.say_shortfall(made, OPTIONS)


def test_pairs_by_hand(made):
    ((one, base, test),) = agreement.pair(NORMALIZED, made, OPTIONS)
    assert (one.cell.mean, base.cell.mean) == pytest.approx((84.6, 84.5))
    assert test is not None
    assert test.points == pytest.approx(0.1)  # of +0.1, +0.2, +0.1, +0.2, -0.1
    assert test.errors == pytest.approx(0.1 / (0.015 / 5) ** 0.5)
    ((name, normalized, own, llc, sc),) = agreement.paired_table(made, OPTIONS).rows
    assert name == ("OT",)
    assert normalized == ("+0.10, p = 0.14 (4 of 5)",)
    assert llc[0].endswith("(5 of 5)")
    assert own == sc == ("",)
    (said,) = agreement.say_variants(made, OPTIONS)
    assert said.startswith("**Codes normalized**: higher in 1, lower in 0 of 1 cells.")


def test_unfinished_cells_and_quick_runs_do_not_count(made):
    assert agreement.compare("LrrSPM", made, Options(splits=6)) == []
    assert agreement.compare("LrrSPM", made, Options(quick=True)) == []
    assert agreement.say_shortfall(made, Options(quick=True)) == ""


def test_a_cell_of_two_tables_counts_once(committed):
    found = agreement.compare("LrrSPM", committed, OPTIONS)
    names = [one.where for one in found]
    assert len(names) == len(set(names)) == 24
    assert [one.where for one in found if one.table == "table3"] == [
        f"Caltech101, k = {k}" for k in (512, 1024, 2048, 4096)
    ]


def test_shortfall_of_the_committed_rows(committed):
    """The prose of docs/paper.md rests on this."""
    found = {one.where: one for one in agreement.compare("LrrSPM", committed, OPTIONS)}
    assert all(one.points < 0 for name, one in found.items() if name != "COIL20, 50 per class")
    for name, errors in (
        ("OT", -2.9), ("FP", -3.4), ("COIL20, 10 per class", -4.4), ("YaleB, 10 per class", -3.2),
    ):  # fmt: skip
        test = found[name].cell.difference
        assert test is not None
        assert test.errors == pytest.approx(errors, abs=0.05)


def test_normalized_codes_help_faces_and_harm_objects(committed):
    """The prose of docs/paper.md rests on this."""
    tests = {one.where: test for one, _, test in agreement.pair(NORMALIZED, committed, OPTIONS)}
    better = {n.split(",")[0] for n, t in tests.items() if t and t.significant and t.points > 0}
    worse = {n.split(",")[0] for n, t in tests.items() if t and t.significant and t.points < 0}
    assert better == {"YaleB", "COIL20"}
    assert worse == {"COIL100"}
    caltech = tests["Caltech101"]
    assert caltech is not None
    assert caltech.points < 0
    assert not any(t.significant for n, t in tests.items() if t and n in ("OT", "FP", "LS"))


def test_remarks_on_seconds_come_with_the_rows(committed, made):
    (said,) = committed.remarks(iter(["OT", "COIL100", "Caltech101"]))
    assert said.startswith("COIL100, Caltech101: ")
    assert committed.remarks(["OT"]) == made.remarks(["OT"]) == []
