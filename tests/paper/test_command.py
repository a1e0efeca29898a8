"""The command ``lrrspm paper``."""

import json
import re

import pytest
import typer

from lrrspm.paper.experiments import NOT_RUN_PARTS, PARTS, TABLES
from lrrspm.paper.reference import REFERENCE
from lrrspm.paper.results import Results
from lrrspm.paper.studies import STUDIES
from tests.paper.helpers import (
    invoke,
)

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


def test_all_computes_everything_the_data_allow(quick):
    rows = Results(quick)
    assert {r["setting"]["dataset"] for r in rows.records.values()} == {"COIL20"}
    assert (quick / "report.html").is_file()
    assert (quick / "figure1.svg").is_file()
    assert (quick / "figure1.png").is_file()
    assert not (quick / "figure3.svg").exists()  # without Yale B
    made = (quick / "report.html").read_text()
    for heading in ("Protocol", "Tables", "Where we differ", "Running time"):
        assert f"<h2>{heading}</h2>" in made
    # Data sets, code and seconds, too; a quick run is not compared with the paper.
    assert made.count("<table>") == len(TABLES) + len(REFERENCE) + len(STUDIES) + 3
    assert "not run" in made
    assert "A quick run" in made
    # One file that loads nothing from elsewhere.
    assert not re.findall(r'(?:src|href)="(?!data:|#)', made)
    assert "<script" not in made


def test_a_second_run_computes_nothing(quick, root):
    before = (quick / "rows.jsonl").read_bytes()
    first = invoke("table7", "--quick", "--json", root=root, folder=quick)
    second = invoke("table7", "--quick", "--json", root=root, folder=quick)
    assert first.output == second.output
    assert (quick / "rows.jsonl").read_bytes() == before
    cell = json.loads(first.stdout)["parts"]["table7"]["LLC"]["4 per class"]
    assert cell["done"] == cell["wanted"] == 2
    assert 0 <= cell["mean"] <= 100


@pytest.mark.parametrize(
    ("form", "expected"),
    [("text", "Table 7. Objects"), ("markdown", "| LLC | "), ("html", '<th scope="row">LLC</th>')],
)
def test_tables_in_each_format(quick, root, form, expected):
    done = invoke("table7", "--quick", "--format", form, root=root, folder=quick)
    assert expected in done.output


def test_report_of_nothing(root, tmp_path):
    target = tmp_path / "page.md"
    done = invoke("report", "-o", str(target), root=root, folder=tmp_path / "none")
    assert done.exit_code == 0, done.output
    made = target.read_text()
    # Nothing was run, so every number is the paper's.
    assert "not run<br>(85.63 ± 0.56)" in made
    assert "Nothing has been run yet." in made
    assert "| all | 0 | 0 |" in made
    assert not (tmp_path / "none").exists()


def test_an_empty_page_is_a_warning(quick, root):
    done = invoke("report", root=root, folder=quick)
    assert done.exit_code == 0
    assert "no results with these options; " in done.stderr


def test_every_part_has_json(quick, root):
    done = invoke(*PARTS, *NOT_RUN_PARTS, "--quick", "--json", root=root, folder=quick)
    assert set(json.loads(done.stdout)["parts"]) == {*PARTS, *NOT_RUN_PARTS}


@pytest.mark.parametrize("part", NOT_RUN_PARTS)
def test_parts_that_need_no_run_need_no_data(part, tmp_path):
    done = invoke(part, root=tmp_path / "none", folder=tmp_path / "results")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table11"], "'table11' is not one of: table3"),
        (["table4", "--methods", "LLC,SPM"], "no method 'SPM'"),
        (["table4", "-o", "page.html"], "only 'all' and 'report' write a page"),
        (["report", "-o", "page.pdf"], "must be a .html or .md file"),
    ],
)
def test_wrong_usage(root, tmp_path, arguments, message):
    assert invoke(*arguments, root=root, folder=tmp_path).exit_code == 2
    refused = invoke(*arguments, root=root, folder=tmp_path, standalone_mode=False).exception
    assert isinstance(refused, typer.BadParameter)
    assert message in refused.message


def test_failures_are_shown_and_counted(tmp_path):
    folder = tmp_path / "COIL20" / "obj1"
    folder.mkdir(parents=True)
    (folder / "obj1__0.png").write_text("no image")
    done = invoke("table7", "--quick", "--methods", "LLC", root=tmp_path, folder=tmp_path / "r")
    assert done.exit_code == 3
    assert "failed" in done.output
    assert "Failed: `every class has 1 image" in done.output
