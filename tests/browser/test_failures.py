"""The page with late, reordered or missing responses, and with deleted files."""

import re
import shutil

import pytest
from playwright.sync_api import expect

from .test_page import items, upload

pytestmark = pytest.mark.network

GONE = "no response; is the server still running?"
UNREADABLE = "the file is no longer readable; add it again"


class Server:
    """Stands between a page and its server; passes, holds or loses requests."""

    def __init__(self, page):
        self.mode = "passes"
        self.held = []
        page.route("**/api/explain*", self._take)

    def _take(self, route):
        if self.mode == "passes":
            route.continue_()
        elif self.mode == "holds":
            self.held.append(route)
        else:
            route.abort()


@pytest.fixture
def server(opened, page):
    opened.expected.append("net::ERR_")
    return Server(page)


def sentence(reason):
    """Return a reason as the page shows it on its own."""
    return reason[0].upper() + reason[1:]


def bar(page, name):
    return page.locator(".bar", has=page.get_by_role("radio", name=name))


def ask_for(page, server, name):
    """Choose a class; its request is sent, and nothing is shown for it yet."""
    with page.expect_request("**/api/explain*"):
        bar(page, name).click()
    expect(page.locator("#stack")).to_have_class("waiting")


def shows(page, best, label):
    """Expect everything on the page to be about one image and one class."""
    expect(page.locator("#best")).to_have_text(best)
    expect(page.locator("#legend-label")).to_have_text(label)
    expect(page.locator("#sum")).to_contain_text(f"The evidence for {label} adds up to")
    expect(page.locator("#map")).to_have_attribute("alt", f"Evidence for {label}")
    expect(page.get_by_role("radio", name=label)).to_be_checked()
    expect(page.locator("#stack")).not_to_have_class("waiting")
    assert page.locator("#map").get_attribute("src")


def waits(page, best, label):
    """Expect an image whose evidence is being loaded."""
    expect(page.locator("#best")).to_have_text(best)
    expect(page.get_by_role("radio", name=label)).to_be_checked()
    expect(page.locator("#sum")).to_have_text(f"Loading the evidence for {label} …")
    expect(page.locator("#legend-label")).to_have_text("")
    expect(page.locator("#stack")).to_have_class("waiting")
    assert page.locator("#map").get_attribute("src") is None


def test_switching_images_before_the_response(page, server, files):
    """Each image has its own evidence on top, or none."""
    upload(page, files["dots.png"], files["across.png"], files["along.png"])
    server.mode = "holds"
    ask_for(page, server, "along")
    waits(page, "dots", "along")
    items(page).nth(1).click()
    shows(page, "across", "across")
    other = page.locator("#map").get_attribute("src")
    items(page).nth(0).click()
    waits(page, "dots", "along")
    server.held.pop().continue_()
    shows(page, "dots", "along")
    assert page.locator("#map").get_attribute("src") != other


def test_switching_images_before_the_failure(page, server, files):
    upload(page, files["dots.png"], files["across.png"])
    first = page.locator("#map").get_attribute("src")
    server.mode = "holds"
    ask_for(page, server, "along")
    items(page).nth(1).click()
    server.held.pop().abort()
    shows(page, "across", "across")
    expect(page.locator("#message")).to_be_hidden()  # the other image's
    items(page).nth(0).click()
    shows(page, "dots", "dots")
    expect(page.locator("#map")).to_have_attribute("src", first)
    expect(page.locator("#message")).to_have_text(f"Cannot show along: {GONE}")
    items(page).nth(1).click()
    items(page).nth(0).click()
    expect(page.locator("#message")).to_be_hidden()  # it was seen


def test_responses_in_another_order(page, server, files):
    """The class chosen last is shown, whatever arrives or fails when."""
    upload(page, files["dots.png"])
    server.mode = "holds"
    for name in ("along", "across", "along", "across"):
        ask_for(page, server, name)
    along, across, again, last = server.held
    across.continue_()
    shows(page, "dots", "across")
    last.abort()
    along.abort()
    with page.expect_request_finished():
        again.continue_()
    shows(page, "dots", "across")
    expect(page.locator("#message")).to_be_hidden()
    server.mode = "lost"
    bar(page, "along").click()  # it was kept
    shows(page, "dots", "along")


@pytest.mark.parametrize("width", [360, 1280])
def test_evidence_that_cannot_be_loaded(page, server, files, width):
    page.set_viewport_size({"width": width, "height": 500})
    upload(page, files["dots.png"])
    bar(page, "across").click()
    shows(page, "dots", "across")
    server.mode = "lost"
    bar(page, "along").focus()
    bar(page, "along").click()
    alert = page.get_by_role("alert")
    expect(alert).to_have_text(f"Cannot show along: {GONE}")
    expect(alert).to_be_in_viewport(ratio=1)
    shows(page, "dots", "across")
    expect(page.get_by_role("radio", name="across")).to_be_focused()
    expect(page.locator("#image")).to_be_visible()
    expect(page.locator("#caption")).to_have_text(
        re.compile(r"^dots\.png · 48 \u00d7 48 · \d+ ms$")
    )
    server.mode = "passes"
    bar(page, "along").click()
    shows(page, "dots", "along")
    expect(page.locator("#message")).to_be_hidden()


def test_deleted_file(page, server, files, tmp_path):
    path = shutil.copy(files["dots.png"], tmp_path / "here.png")
    upload(page, path)
    path.unlink()
    bar(page, "along").click()
    expect(page.locator("#message")).to_have_text(f"Cannot show along: {UNREADABLE}")
    shows(page, "dots", "dots")


def test_image_that_can_no_longer_be_shown(page, files):
    """Browsers discard images that are not shown, and may later find the file deleted."""
    upload(page, files["dots.png"], files["across.png"])
    page.locator("#image").dispatch_event("error")
    expect(page.locator("#message")).to_have_text(sentence(UNREADABLE))
    items(page).nth(1).click()
    expect(page.locator("#message")).to_be_hidden()


def test_file_deleted_before_it_is_read(page, server, files, tmp_path):
    paths = [shutil.copy(files["dots.png"], tmp_path / f"{i}.png") for i in range(3)]
    server.mode = "holds"
    page.set_input_files("#files", paths)
    expect(page.locator(".item.waiting")).to_have_count(3)
    paths[2].unlink()  # two are read at a time
    server.mode = "passes"
    for route in server.held:
        route.continue_()
    expect(items(page).nth(2)).to_contain_text(f"2.png: {UNREADABLE}")
    items(page).nth(2).click()
    expect(page.locator("#message")).to_have_text(sentence(UNREADABLE))
    expect(page.locator("#again")).to_be_hidden()  # it would not help


def test_folder(page, files, tmp_path):
    """Dropped through the browser: a script cannot create one."""
    (tmp_path / "holiday").mkdir()
    box = page.locator("#drop").bounding_box()
    held = {"items": [], "files": [str(tmp_path / "holiday"), str(files["dots.png"])]}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send(
            "Input.dispatchDragEvent",
            {
                "type": kind,
                "x": box["x"] + 50,
                "y": box["y"] + 50,
                "data": {**held, "dragOperationsMask": 1},
            },
        )
    expect(page.locator(".item.waiting")).to_have_count(0)
    expect(items(page).locator("b")).to_have_text(["Failed", "dots"])
    expect(page.locator("#message")).to_have_text("This is a folder; drop the images in it instead")
    expect(page.locator("#again")).to_be_hidden()


def test_busy_server_is_asked_again(opened, page, files):
    opened.expected.append("status of 503")
    busy = [True]

    def respond(route):
        if busy:
            busy.pop()
            route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "busy"})
        else:
            route.continue_()

    page.route("**/api/explain*", respond)
    upload(page, files["dots.png"])
    expect(page.locator("#best")).to_have_text("dots")


def test_server_that_comes_back(opened, page, server, files):
    """One press retries what failed while it was away; broken files stay failed."""
    opened.expected.append("the server responded with a status of 422")
    again = page.get_by_role("button", name="Try again")
    upload(page, files["broken.jpg"])
    expect(page.locator("#message")).to_be_visible()
    expect(again).to_be_hidden()
    server.mode = "lost"
    upload(page, files["dots.png"], files["across.png"])
    items(page).nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text(sentence(GONE))
    again.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text(sentence(GONE))  # still away
    server.mode = "passes"
    again.focus()
    page.keyboard.press("Enter")
    expect(items(page).nth(1)).to_be_focused()
    expect(items(page).locator("b")).to_have_text(["Failed", "dots", "across"])
    shows(page, "dots", "dots")
    expect(page.locator("#message")).to_be_hidden()
    expect(again).to_be_hidden()
    expect(page.locator(".thumb canvas")).to_have_count(2)


@pytest.mark.parametrize("status", [408, 503])
def test_server_without_time(opened, page, files, status):
    opened.expected.append(f"status of {status}")
    asked = []

    def reject(route):
        asked.append(route)
        route.fulfill(
            status=status, headers={"Retry-After": "0.01"}, json={"error": "dots.png: too slow"}
        )

    page.route("**/api/explain*", reject)
    upload(page, files["dots.png"])
    expect(page.locator("#message")).to_have_text("Too slow")
    assert len(asked) == (5 if status == 503 else 1)
    page.unroute("**/api/explain*")
    page.get_by_role("button", name="Try again").click()
    shows(page, "dots", "dots")
