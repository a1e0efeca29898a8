"""Damaged and hostile result files."""

import json

import pytest

from lrrspm.paper.experiments import Options
from lrrspm.paper.report import make_page, shown
from lrrspm.paper.results import Results
from lrrspm.report.page import Page, Text, to_html, verbatim

OPTIONS = Options(quick=True)
SECONDS = {"encode": 1.0, "train": 1.0, "test": 1.0}


@pytest.fixture
def filled(tmp_path):
    results = Results(tmp_path)
    setting = OPTIONS.setting("OT", OPTIONS.training(100))
    results.add_row(
        setting, accuracy=90.0, overall=90.0, per_class={}, images=9, seconds=SECONDS, wall=1.0
    )
    assert len(Results(tmp_path).records) == 1
    return results.path


def change(path, place, **fields):
    lines = path.read_text().splitlines()
    record = json.loads(lines[place]) | fields
    lines[place] = json.dumps({n: v for n, v in record.items() if v is not None})
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("first", ["", "{", "[]", '{"kind": "environment", "key": "x"}'])
def test_results_without_their_machine_are_ignored(first, filled):
    lines = filled.read_text().splitlines()
    filled.write_text("\n".join([first, *lines[1:]]) + "\n")
    with pytest.warns(UserWarning, match="unknown machine"):
        results = Results(filled.parent)
    assert not results.records
    assert shown(results, OPTIONS) == []
    assert to_html(make_page(results, OPTIONS))


@pytest.mark.parametrize(
    "fields",
    [
        {"environment": None},
        {"images": "9"},
        {"seconds": {}},
        {"accuracy": None},
        {"setting": {}},
        {"wall": []},
        {"error": 5},
    ],
)
def test_rows_that_lack_a_field_are_ignored(fields, filled):
    change(filled, 1, **fields)
    with pytest.warns(UserWarning, match="damaged last line"):
        results = Results(filled.parent)
    assert not results.records


@pytest.mark.parametrize(
    "error", ["[here](javascript:alert(1))", "[here](data:text/html,x)", "a ` [b](https://c.d) `"]
)
def test_text_of_errors_never_becomes_a_link(error):
    page = Page("", [Text(error), Text(f"failed: {verbatim(error)}")])
    assert "javascript" not in error or 'href="javascript' not in to_html(page)
    page = Page("", [Text(f"failed: {verbatim(error)}")])
    assert "<a " not in to_html(page)


def test_links_of_ours_stay_links():
    made = to_html(Page("", [Text("see [there](https://example.org/a) and [here](speed.md#x)")]))
    assert '<a href="https://example.org/a">there</a>' in made
    assert '<a href="speed.md#x">here</a>' in made
