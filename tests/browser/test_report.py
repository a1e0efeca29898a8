"""How a report looks: on a narrow screen, and printed."""

import pytest
from playwright.sync_api import expect

from lrrspm.evaluation.mistakes import Measured
from lrrspm.images import Finding
from lrrspm.report import write_report
from tests.report.reports import made_result, made_run

NAMES = [
    "MITinsidecity",
    "CALsuburb",
    "a_long_name_without_any_space_" * 3,
    "Küche & Bad",
    "PARoffice",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two methods, so that one is folded away, and a finding, which is so too."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    found = {
        "images": 3,
        "classes": {"a": 1, "b": 2},
        "findings": [Finding("broken", ["a/very/long/path" * 9], "cannot be read")],
        "counts": {"broken": 1},
    }
    results = {name: made_result(5, wrong, NAMES) for name, wrong in (("VQ", 0.2), ("LLC", 0.4))}
    measured = {name: Measured(result, []) for name, result in results.items()}
    write_report(path, made_run(audit=found), measured)
    return path.as_uri()


def hidden(page):
    """Tables that are wider than what is seen of them, but for matrices: columns and pixels."""
    return page.locator(".table:not(:has(.confusion))").evaluate_all(
        "tables => tables.filter(table => table.scrollWidth > table.clientWidth)"
        ".map(table => [table.querySelector('thead').innerText, table.scrollWidth])"
    )


@pytest.mark.parametrize("width", [360, 390, 700, 1280])
def test_tables_are_seen_whole(opened, report, width):
    page = opened(report, width, 800)
    for summary in page.locator("summary").all():
        summary.click()
    assert hidden(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    header = page.locator("thead", has_text="most often taken for").first
    expect(header.get_by_text("accuracy %")).to_be_visible()
    expect(header.get_by_text("test pictures")).to_be_visible(visible=width > 480)


def test_what_is_folded_away_is_printed(opened, report):
    page = opened(report)
    folded = page.locator("details table")
    assert folded.count() > 3
    assert not any(seen(folded))
    page.emulate_media(media="print")
    for _ in range(100):  # what was folded is laid out with one of the next frames
        if all(seen(folded)):
            return
        page.wait_for_timeout(100)
    assert all(seen(folded))


def seen(parts):
    return parts.evaluate_all(
        "parts => parts.map(part => part.checkVisibility({ contentVisibilityAuto: true })"
        " && part.getBoundingClientRect().height > 20)"
    )
