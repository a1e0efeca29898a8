"""Claims of the paper: arithmetic on its own tables, and our rows."""

import pytest

from lrrspm.paper import claims, claims_of_speed, findings
from lrrspm.paper.claims import claims_table
from lrrspm.paper.experiments import Options
from lrrspm.paper.findings import FAILS, HOLDS, PARTLY, RIGHT, ROUNDED, WRONG
from lrrspm.paper.published import read_published
from lrrspm.paper.results import Results
from lrrspm.paper.tables import NOT_RUN
from tests.conftest import HERE

OPTIONS = Options()


@pytest.fixture(scope="module")
def found():
    results = Results(HERE.parent / "benchmarks" / "results" / "paper")
    return {name: claim.finding for name, claim in claims.claims(results, OPTIONS).items()}


def test_digits_by_hand():
    assert findings.compare_digits(["5.49", "46"], [5.4879, 46.07]) == RIGHT
    assert findings.compare_digits(["25.67"], [25.6638]) == ROUNDED
    assert findings.compare_digits(["21"], [21.61]) == ROUNDED
    assert findings.compare_digits(["1397"], [1297.0]) == WRONG
    assert findings.judge([True, True]) == HOLDS
    assert findings.judge([True, False]) == PARTLY
    assert findings.judge([False]) == FAILS
    assert findings.say_span({"a": 2.0, "b": 1.0}) == "1.00 (b) to 2.00 (a)"


def test_speed_ups_of_the_paper_by_hand():
    ratios = claims_of_speed.time_ratios(claims_of_speed.published_seconds, "ScSPM")
    assert ratios["OT"] == pytest.approx(5375.41 / 116.67)
    assert ratios["COIL20"] == pytest.approx((424.48 + 0.79) / (16.54 + 1.4))
    assert len(ratios) == 9


@pytest.mark.parametrize(
    ("name", "right", "said"),
    [
        ("ScSPM", WRONG, "Caltech256 23.16, 17flowers 21.61, COIL20 23.71"),
        ("LLC", WRONG, "Caltech101 3.44, Caltech256 2.74"),
        ("lambda", RIGHT, "the highest of the curve"),
        ("epsilon", RIGHT, "1.96 points"),
        ("codebooks", WRONG, "+4.48 points; 13.97 times the seconds, so an increase by 1297 %"),
        ("scenes", RIGHT, "rank 1 in 2, rank 2 in 1 of 3 cells; significantly above LLC in 0 of 3"),
        ("OT and LS", WRONG, "ScSPM 46.07 (OT), LLC 5.49 (OT)"),
        ("OT and LS", WRONG, "swapped"),
        ("Caltech101", RIGHT, "+28.78 (LinearBOF)"),
        ("CPU time", ROUNDED, "3.38 % and 29.08 %"),
        ("17flowers", ROUNDED, "+4.98 points, 21.6 times"),
        ("table 10", ROUNDED, "coding alone: ScSPM 25.66 (COIL20) to 42.58 (YaleB); LLC 9.58"),
        ("best", RIGHT, "rank 1 in 14, rank 2 in 1 of 15 cells"),
        ("all right", WRONG, "100.00 (COIL20), 99.85 (COIL100)"),
        ("faces", RIGHT, "99.81"),
        ("both", WRONG, "ScSPM 0.79 s, 1.40 (classification, COIL20)"),
        ("shares", RIGHT, "ScSPM 2.35 % (YaleB) to 3.90 % (COIL20); LLC 5.99 %"),
        ("competitive", RIGHT, "rank 1 in 17, rank 2 in 3, rank 3 in 1 of 21 cells"),
        ("literature", findings.NOT_IN_TABLES, "80.30 (Caltech101), 41.19 (Caltech256)"),
    ],
)
def test_claims_by_the_papers_own_tables(found, name, right, said):
    assert found[name].right == right
    assert said in found[name].paper


def test_claims_by_our_rows(found):
    """The prose of docs/paper.md rests on these verdicts."""
    assert found["ScSPM"].holds == found["LLC"].holds == FAILS
    assert found["scenes"].holds == found["best"].holds == FAILS
    assert found["competitive"].holds == found["codebooks"].holds == PARTLY
    assert found["lambda"].holds == found["epsilon"].holds == HOLDS


def test_every_claim_is_checked_without_rows(tmp_path):
    results = Results(tmp_path)
    names = list(read_published()["claims"])
    made = claims.describe(results, OPTIONS)
    assert list(made) == names
    assert len(claims_table(results, OPTIONS).rows) == len(names)
    assert {claim["holds"] for claim in made.values()} == {NOT_RUN, findings.NOT_OURS}
