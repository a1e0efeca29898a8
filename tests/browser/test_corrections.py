"""Corrections on the page: name the right class, and the server saves the image."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.test_page import items, upload
from tests.serve.servers import serving

pytestmark = pytest.mark.network


def test_a_correction_is_saved(opened, model_path, files, tmp_path):
    folder = tmp_path / "corrections"
    with serving(model_path, "--port", "0", "--json", "--collect", folder) as (_, line):
        page = opened(json.loads(line)["url"])
        expect(page.locator("#fate")).to_contain_text("those that you correct are kept")
        upload(page, files["dots.png"], files["along.png"])
        right = page.get_by_label("Wrong? Name the right class")
        right.fill("across")
        right.press("Enter")
        expect(page.locator("#corrected")).to_have_text("Saved as across.")
        items(page).nth(1).click()
        expect(page.locator("#corrected")).to_have_text("")
        expect(right).to_have_value("")
        opened.expected.append("the server responded with a status of 422")
        right.fill("../up")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#corrected")).to_contain_text("A class has")
        items(page).nth(0).click()
        expect(page.locator("#corrected")).to_have_text("Saved as across.")
    (path,) = [path for path in folder.rglob("*") if path.is_file()]
    assert path.parent == folder / "across"
    assert path.read_bytes() == files["dots.png"].read_bytes()


def test_no_corrections_unless_asked_for(page, files):
    upload(page, files["dots.png"])
    expect(page.locator("#best")).to_be_visible()
    expect(page.locator("#correction")).to_be_hidden()
