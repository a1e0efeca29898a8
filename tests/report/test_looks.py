"""A report has the colors of the page of lrrspm serve."""

import re
from importlib import resources

import pytest

from lrrspm.report.draw import AGAINST, FOR

PAGE = resources.files("lrrspm.serve").joinpath("static/style.css").read_text()
REPORT = resources.files("lrrspm.report").joinpath("templates/page.css").read_text()


def palettes(text):
    """Return the colors of a style sheet, for light and for dark screens."""
    light, dark = re.findall(r":root \{(.*?)\}", text, re.S)
    return [dict(re.findall(r"(--[\w-]+): ([^;]+);", part)) for part in (light, dark)]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_report_and_page_have_the_same_colors(scheme):
    page, report = palettes(PAGE)[scheme], palettes(REPORT)[scheme]
    assert report
    assert report == {name: page[name] for name in report}


def test_evidence_has_the_colors_of_its_legend():
    light, _ = palettes(PAGE)
    assert (light["--for"], light["--against"]) == (FOR, AGAINST)


def test_report_and_page_have_the_same_type():
    page, report = (re.findall(r"font: (1rem/1\.5 [^;]+);", text) for text in (PAGE, REPORT))
    assert len(page) == 1
    assert page == report
