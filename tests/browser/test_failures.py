"""The page when answers are late, in the wrong order, or do not come; when files go away."""

import re
import shutil

import pytest
from playwright.sync_api import expect

from .test_page import items, upload

pytestmark = pytest.mark.network

GONE = "no answer; is the server still running?"
UNREADABLE = "the file cannot be read any more; add it again"


class Server:
    """What stands between a page and its server, and may keep questions for later or lose them."""

    def __init__(self, page):
        self.mode = "answers"
        self.held = []
        page.route("**/api/explain*", self._take)

    def _take(self, route):
        if self.mode == "answers":
            route.continue_()
        elif self.mode == "holds":
            self.held.append(route)
        else:
            route.abort()


@pytest.fixture
def server(opened, page):
    opened.expected.append("net::ERR_")
    return Server(page)


def bar(page, name):
    return page.locator(".bar", has=page.get_by_role("radio", name=name))


def ask_for(page, server, name):
    """Choose a class; its question is under way, and nothing is shown for it."""
    with page.expect_request("**/api/explain*"):
        bar(page, name).click()
    expect(page.locator("#stack")).to_have_class("waiting")


def shows(page, best, label):
    """Whether everything on the page is about one picture and one class."""
    expect(page.locator("#best")).to_have_text(best)
    expect(page.locator("#legend-label")).to_have_text(label)
    expect(page.locator("#sum")).to_contain_text(f"The evidence for {label} adds up to")
    expect(page.locator("#map")).to_have_attribute("alt", f"Evidence for {label}")
    expect(page.get_by_role("radio", name=label)).to_be_checked()
    expect(page.locator("#stack")).not_to_have_class("waiting")
    assert page.locator("#map").get_attribute("src")


def waits(page, best, label):
    """Whether a picture is shown whose evidence is still to come."""
    expect(page.locator("#best")).to_have_text(best)
    expect(page.get_by_role("radio", name=label)).to_be_checked()
    expect(page.locator("#sum")).to_have_text(f"The evidence for {label} is on its way …")
    expect(page.locator("#legend-label")).to_have_text("")
    expect(page.locator("#stack")).to_have_class("waiting")
    assert page.locator("#map").get_attribute("src") is None


def test_another_picture_before_the_answer(page, server, files):
    """Each picture has its own evidence over it, or none."""
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


def test_another_picture_before_the_failure(page, server, files):
    upload(page, files["dots.png"], files["across.png"])
    first = page.locator("#map").get_attribute("src")
    server.mode = "holds"
    ask_for(page, server, "along")
    items(page).nth(1).click()
    server.held.pop().abort()
    shows(page, "across", "across")
    expect(page.locator("#message")).to_be_hidden()  # the other picture's
    items(page).nth(0).click()
    shows(page, "dots", "dots")
    expect(page.locator("#map")).to_have_attribute("src", first)
    expect(page.locator("#message")).to_have_text(f"along cannot be shown: {GONE}")
    items(page).nth(1).click()
    items(page).nth(0).click()
    expect(page.locator("#message")).to_be_hidden()  # it has been seen


def test_answers_in_another_order(page, server, files):
    """The class that was chosen last is shown, whatever comes when, and whatever fails."""
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
    bar(page, "along").click()  # it has been kept
    shows(page, "dots", "along")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_class_that_cannot_be_had(page, server, files, width):
    page.set_viewport_size({"width": width, "height": 500})
    upload(page, files["dots.png"])
    bar(page, "across").click()
    shows(page, "dots", "across")
    server.mode = "lost"
    bar(page, "along").focus()
    bar(page, "along").click()
    alert = page.get_by_role("alert")
    expect(alert).to_have_text(f"along cannot be shown: {GONE}")
    expect(alert).to_be_in_viewport(ratio=1)
    shows(page, "dots", "across")
    expect(page.get_by_role("radio", name="across")).to_be_focused()
    expect(page.locator("#picture")).to_be_visible()
    expect(page.locator("#caption")).to_have_text(
        re.compile(r"^dots\.png · 48 \u00d7 48 · \d+ ms$")
    )
    server.mode = "answers"
    bar(page, "along").click()
    shows(page, "dots", "along")
    expect(page.locator("#message")).to_be_hidden()


def test_a_file_that_has_gone(page, server, files, tmp_path):
    path = shutil.copy(files["dots.png"], tmp_path / "here.png")
    upload(page, path)
    path.unlink()
    bar(page, "along").click()
    expect(page.locator("#message")).to_have_text(f"along cannot be shown: {UNREADABLE}")
    shows(page, "dots", "dots")


def test_a_picture_that_cannot_be_shown_any_more(page, files):
    """Browsers drop pictures that are not shown, and find later that the file has gone."""
    upload(page, files["dots.png"], files["across.png"])
    page.locator("#picture").dispatch_event("error")
    expect(page.locator("#message")).to_have_text(UNREADABLE)
    items(page).nth(1).click()
    expect(page.locator("#message")).to_be_hidden()


def test_a_file_that_has_gone_before_it_is_read(page, server, files, tmp_path):
    paths = [shutil.copy(files["dots.png"], tmp_path / f"{i}.png") for i in range(3)]
    server.mode = "holds"
    page.set_input_files("#files", paths)
    expect(page.locator(".item.waiting")).to_have_count(3)
    paths[2].unlink()  # two are read at a time
    server.mode = "answers"
    for route in server.held:
        route.continue_()
    expect(items(page).nth(2)).to_contain_text(f"2.png: {UNREADABLE}")
    items(page).nth(2).click()
    expect(page.locator("#message")).to_have_text(UNREADABLE)
    expect(page.locator("#again")).to_be_hidden()  # that would not help


def test_a_folder(page, files, tmp_path):
    """Dropped by the browser itself: a script cannot make one."""
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
    expect(items(page).locator("b")).to_have_text(["Not read", "dots"])
    expect(page.locator("#message")).to_have_text(
        "this is a folder; drop the pictures in it instead"
    )
    expect(page.locator("#again")).to_be_hidden()


def test_a_busy_server_is_asked_again(opened, page, files):
    opened.expected.append("status of 503")
    busy = [True]

    def answer(route):
        if busy:
            busy.pop()
            route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "busy"})
        else:
            route.continue_()

    page.route("**/api/explain*", answer)
    upload(page, files["dots.png"])
    expect(page.locator("#best")).to_have_text("dots")


def test_a_server_that_comes_back(opened, page, server, files):
    """What failed while it was away is read with one press; what is broken stays so."""
    opened.expected.append("the server responded with a status of 422")
    again = page.get_by_role("button", name="Try again")
    upload(page, files["broken.jpg"])
    expect(page.locator("#message")).to_be_visible()
    expect(again).to_be_hidden()
    server.mode = "lost"
    upload(page, files["dots.png"], files["across.png"])
    items(page).nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text(GONE)
    again.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_have_text(GONE)  # still away
    server.mode = "answers"
    again.focus()
    page.keyboard.press("Enter")
    expect(items(page).nth(1)).to_be_focused()
    expect(items(page).locator("b")).to_have_text(["Not read", "dots", "across"])
    shows(page, "dots", "dots")
    expect(page.locator("#message")).to_be_hidden()
    expect(again).to_be_hidden()
    expect(page.locator(".thumb canvas")).to_have_count(2)


@pytest.mark.parametrize("status", [408, 503])
def test_a_server_without_time(opened, page, files, status):
    opened.expected.append(f"status of {status}")
    asked = []

    def refuse(route):
        asked.append(route)
        route.fulfill(
            status=status, headers={"Retry-After": "0.01"}, json={"error": "dots.png: too slow"}
        )

    page.route("**/api/explain*", refuse)
    upload(page, files["dots.png"])
    expect(page.locator("#message")).to_have_text("too slow")
    assert len(asked) == (5 if status == 503 else 1)
    page.unroute("**/api/explain*")
    page.get_by_role("button", name="Try again").click()
    shows(page, "dots", "dots")
