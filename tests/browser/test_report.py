"""How a report looks: on a narrow screen, and printed."""

import re

import pytest
from playwright.sync_api import expect

from lrrspm.images import Finding
from lrrspm.report import write_report
from tests.report.reports import made_evaluation, made_run
from tests.report.test_plots import made

from .test_looks import contrasts, luminance

NAMES = [
    "MITinsidecity",
    "CALsuburb",
    "a_long_name_without_any_space_" * 3,
    "Küche & Bad",
    "PARoffice",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Write a report of two methods, one of them folded, with a folded finding."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    found = {
        "images": 3,
        "classes": {"a": 1, "b": 2},
        "findings": [Finding("broken", ["a/very/long/path" * 9], "cannot be read")],
        "counts": {"broken": 1},
    }
    evaluations = {n: made_evaluation(5, wrong, NAMES) for n, wrong in (("VQ", 0.2), ("LLC", 0.4))}
    evaluations["VQ"].certainty = made()
    write_report(path, made_run(audit=found), evaluations)
    return path.as_uri()


def hidden(page):
    """Return header and width of the tables, matrices excepted, that are partly out of sight."""
    return page.locator(".table:not(:has(.confusion))").evaluate_all(
        "tables => tables.filter(table => table.scrollWidth > table.clientWidth)"
        ".map(table => [table.querySelector('thead').innerText, table.scrollWidth])"
    )


@pytest.mark.parametrize("width", [360, 390, 700, 1280])
def test_tables_fit_the_screen(opened, report, width):
    page = opened(report, width, 800)
    for summary in page.locator("summary").all():
        summary.click()
    assert hidden(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    header = page.locator("thead", has_text="most often confused with").first
    expect(header.get_by_text("recall %")).to_be_visible()
    expect(header.get_by_text("test images")).to_be_visible(visible=width > 480)


def column(page, place):
    """Return the texts of a column of the table of classes."""
    table = page.locator("table", has_text="most often confused with").first
    return table.locator(f"tbody tr > :nth-child({place})").all_text_contents()


def test_headings_sort_tables(opened, report):
    page = opened(report)
    head = page.locator("thead", has_text="most often confused with").first
    recalls = [float(value) for value in column(page, 2)]
    assert recalls == sorted(recalls)
    head.get_by_role("button", name="precision %").click()
    first = [float(value) for value in column(page, 4)]
    assert first == sorted(first)
    expect(head.locator("[aria-sort]")).to_have_text("precision %")
    head.get_by_role("button", name="precision %").click()
    assert [float(value) for value in column(page, 4)] == first[::-1]
    expect(head.locator("[aria-sort=descending]")).to_have_count(1)
    head.get_by_role("button", name="class").click()
    names = column(page, 1)
    assert sorted(names, key=str.lower) == names
    assert sorted(names) == sorted(NAMES)
    # Rows stay whole.
    assert sorted(float(value) for value in column(page, 2)) == recalls
    assert [float(value) for value in column(page, 2)] != recalls


def test_tables_can_be_read_without_scripts(opened, report):
    page = opened(report, java_script_enabled=False)
    expect(page.locator("thead", has_text="precision %").first).to_be_visible()
    expect(page.locator("thead button")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_can_be_read_in_light_and_dark(opened, report, scheme):
    page = opened(report, color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert luminance([int(v) for v in re.findall(r"\d+", ground)]) < 0.1 or scheme == "light"
    low = {text: ratio for text, ratio in contrasts(page).items() if ratio < 4.5}
    assert low == {}


def test_folded_parts_are_printed(opened, report):
    page = opened(report)
    folded = page.locator("details table")
    assert folded.count() > 3
    assert not any(seen(folded))
    page.emulate_media(media="print")
    for _ in range(100):  # folded parts are laid out in one of the next frames
        if all(seen(folded)):
            return
        page.wait_for_timeout(100)
    assert all(seen(folded))


def seen(parts):
    return parts.evaluate_all(
        "parts => parts.map(part => part.checkVisibility({ contentVisibilityAuto: true })"
        " && part.getBoundingClientRect().height > 20)"
    )


def test_columns_can_be_sorted(opened, report):
    table = opened(report).locator("table.sortable").filter(has_text="recall %").first

    def column(place):
        return table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()

    before = column(1)
    recall = table.get_by_role("button", name="recall %")
    recall.click()
    assert [float(text) for text in column(2)] == sorted(map(float, column(2)))
    recall.click()
    assert [float(text) for text in column(2)] == sorted(map(float, column(2)), reverse=True)
    expect(table.locator("th[aria-sort=descending]")).to_have_count(1)
    table.get_by_role("button", name="class", exact=True).click()
    assert sorted(column(1)) == sorted(before)
    assert column(1)[-1] == "PARoffice"
