"""The page in a real browser: add images, see classes and evidence."""

import re

import pytest
from playwright.sync_api import expect

from lrrspm import read_image
from lrrspm.images import ImageError

pytestmark = pytest.mark.network

REJECTED = "the server responded with a status of 422"


def upload(page, *paths):
    page.set_input_files("#files", [str(path) for path in paths])
    expect(page.locator(".item.waiting")).to_have_count(0)


def items(page):
    return page.locator(".item")


def reason_of(path):
    """Return why an image file cannot be used, in the library's words."""
    with pytest.raises(ImageError) as raised:
        read_image(path)
    return raised.value.reason


def test_one_image(page, files):
    expect(page.locator("#model-name")).to_have_text("small.lrrspm")
    expect(page.locator("#model-line")).to_have_text("3 classes from 36 images")
    upload(page, files["dots.png"])
    expect(page.locator("#drop")).to_be_hidden()
    expect(page.locator("#best")).to_have_text("dots")
    caption = re.compile(r"^dots\.png · 48 \u00d7 48 · \d+ ms$")
    expect(page.locator("#caption")).to_have_text(caption)
    names = page.locator(".bar .name").all_text_contents()
    shown = page.locator(".bar .value").all_text_contents()
    assert all(value.endswith(" %") for value in shown)
    values = [float(value.strip("<> %")) for value in shown]
    assert names[0] == "dots"
    assert sorted(names) == ["across", "along", "dots"]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(100, abs=0.3)
    assert page.locator("#map").get_attribute("src").startswith("data:image/png;base64,")
    assert page.locator("#image").get_attribute("src").startswith("blob:")
    expect(page.locator("#status")).to_have_text(f"dots.png: dots, {shown[0]}")
    expect(page.locator("#caution")).to_be_hidden()
    expect(page.locator("#calibrated")).to_be_visible()
    expect(page.locator("#uncalibrated")).to_be_hidden()
    expect(page.locator("#more")).to_be_hidden()


def answer(page, path, chances, known=True, familiar=True, least=None, calibrated=True):
    """Have the server say that the classes of an image have these probabilities, best first."""
    # A route cannot fetch what the page uploads.
    upload = {"name": path.name, "mimeType": "image/png", "buffer": path.read_bytes()}
    found = page.request.post(f"{page.url}api/explain", multipart={"file": upload}).json()
    for one, chance in zip(found["classes"], chances, strict=True):
        one["probability"] = chance
    found |= {"probability": chances[0], "known": known, "familiar": familiar}

    def explain(route):
        route.fulfill(json=found)

    def describe(route):
        card = route.fetch().json()
        route.fulfill(json={**card, "min_confidence": least, "calibrated": calibrated})

    page.route("**/api/explain*", explain)
    page.route("**/api/model", describe)
    page.reload()
    expect(page.locator("#model-name")).to_have_text("small.lrrspm")


def test_bars_are_probabilities_from_0_to_100(page, files):
    answer(page, files["dots.png"], [0.7, 0.25, 0.05])
    upload(page, files["dots.png"])
    expect(page.locator(".bar .value")).to_have_text(["70.0 %", "25.0 %", "5.0 %"])
    shares = []
    for bar in page.locator(".bar").all():
        fill, track = (bar.locator(part).bounding_box() for part in (".fill", ".track"))
        assert fill["x"] == pytest.approx(track["x"], abs=1)
        shares.append(fill["width"] / track["width"])
    assert shares == pytest.approx([0.7, 0.25, 0.05], abs=0.01)


@pytest.mark.parametrize("best", [0.49, 0.51])
def test_unsure_answers(page, files, best):
    answer(page, files["dots.png"], [best, 0.9 - best, 0.1])
    upload(page, files["dots.png"])
    unsure = best < 0.5
    expect(page.locator("#best")).to_have_text("dots?" if unsure else "dots")
    expect(items(page).locator("b")).to_have_text(["dots?" if unsure else "dots"])
    expect(page.locator("#caution")).to_be_visible(visible=unsure)
    if unsure:
        words = "Unsure: with 49.0 % it is more likely wrong than right."
        expect(page.locator("#caution")).to_have_text(words)
        expect(page.locator("#status")).to_have_text(f"dots.png: dots, 49.0 %. {words}")


def test_unknown_answers(page, files):
    answer(page, files["dots.png"], [0.7, 0.25, 0.05], known=False, least=0.8)
    upload(page, files["dots.png"])
    expect(page.locator("#best")).to_have_text("Unknown")
    expect(items(page).locator("b")).to_have_text(["Unknown"])
    words = "The best guess is dots, with 70.0 %; below 80.0 % the answer is \u201cunknown\u201d."
    expect(page.locator("#caution")).to_have_text(words)
    expect(page.locator("#facts")).to_contain_text("from 80.0 % on, else \u201cunknown\u201d")


@pytest.mark.parametrize("known", [True, False])
def test_unfamiliar_images(page, files, known):
    answer(page, files["dots.png"], [0.9, 0.07, 0.03], known, familiar=False)
    upload(page, files["dots.png"])
    expect(page.locator("#best")).to_have_text("dots" if known else "Unknown")
    words = "The image is unlike those that the model was trained on."
    guess = "" if known else " The best guess is dots, with 90.0 %."
    expect(page.locator("#caution")).to_have_text(words + guess)


def test_model_that_is_not_calibrated(page, files):
    answer(page, files["dots.png"], [0.7, 0.25, 0.05], calibrated=False)
    upload(page, files["dots.png"])
    expect(page.locator("#calibrated")).to_be_hidden()
    expect(page.locator("#uncalibrated")).to_contain_text("not calibrated")


def test_several_images(page, files):
    upload(page, files["dots.png"], files["across.png"])
    upload(page, files["along.png"])
    expect(items(page).locator("b")).to_have_text(["dots", "across", "along"])
    expect(items(page).locator("small")).to_have_text(["dots.png", "across.png", "along.png"])
    expect(page.locator(".thumb canvas")).to_have_count(3)
    expect(page.locator("#best")).to_have_text("dots")
    items(page).nth(2).click()
    expect(page.locator("#best")).to_have_text("along")
    expect(items(page).nth(2)).to_have_attribute("aria-current", "true")
    expect(page.locator('.item[aria-current="true"]')).to_have_count(1)
    page.get_by_role("button", name="Remove along.png").click()
    expect(items(page)).to_have_count(2)
    expect(page.locator("#best")).to_have_text("across")
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator("#drop")).to_be_visible()
    expect(page.locator("#result")).to_be_hidden()


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_dropped_and_pasted_images(page, files, way):
    content = list(files["dots.png"].read_bytes())
    page.evaluate(
        """([way, content]) => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(content)], "given.png", {type: "image/png"}));
            const event = way === "drop"
                ? new DragEvent("drop", {dataTransfer: held, bubbles: true, cancelable: true})
                : new ClipboardEvent("paste", {clipboardData: held, bubbles: true});
            document.body.dispatchEvent(event);
        }""",
        [way, content],
    )
    expect(page.locator("#best")).to_have_text("dots")
    expect(items(page).locator("small")).to_have_text(["given.png"])


def test_broken_file(opened, page, files):
    opened.expected.append(REJECTED)
    upload(page, files["broken.jpg"], files["dots.png"])
    reason = reason_of(files["broken.jpg"])
    expect(items(page).nth(0)).to_contain_text("Failed")
    expect(items(page).nth(0)).to_contain_text(f"broken.jpg: {reason}")
    expect(page.locator("#message")).to_have_text(reason[0].upper() + reason[1:])
    expect(page.locator("#message")).to_be_visible()
    expect(page.locator("#result")).to_be_hidden()
    items(page).nth(1).click()
    expect(page.locator("#best")).to_have_text("dots")
    expect(page.locator("#message")).to_be_hidden()


def test_too_large_file_is_not_sent(page, files):
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    upload(page, files["large.png"])
    expect(page.locator("#message")).to_have_text("File is larger than 1.0 MB; shrink it first")
    assert not [url for url in sent if "/api/" in url]


def test_image_with_too_many_pixels(opened, page, files):
    opened.expected.append(REJECTED)
    upload(page, files["bomb.png"])
    expect(page.locator("#message")).to_have_text(re.compile("89,478,485.*shrink it first"))


def test_format_that_the_browser_cannot_show(page, files):
    upload(page, files["scan.tif"])
    expect(page.locator("#best")).to_have_text("dots")
    assert page.locator("#image").get_attribute("src").startswith("data:image/jpeg;base64,")
    expect(page.locator(".thumb canvas")).to_have_count(1)


def test_another_class(page, files):
    upload(page, files["dots.png"])
    first = page.locator("#map").get_attribute("src")
    expect(page.get_by_role("radio", name="dots")).to_be_checked()
    page.locator(".bar", has_text="across").click()
    expect(page.locator("#sum")).to_contain_text("The evidence for across adds up to")
    expect(page.locator("#legend-label")).to_have_text("across")
    expect(page.locator("#map")).to_have_attribute("alt", "Evidence for across")
    assert page.locator("#map").get_attribute("src") != first
    expect(page.locator("#best")).to_have_text("dots")  # the best class stays
    page.locator(".bar", has_text="dots").click()
    expect(page.locator("#map")).to_have_attribute("src", first)


def test_direction_marks_are_escaped(page, files):
    page.set_input_files(
        "#files",
        {
            "name": "\u202egnp.svg",
            "mimeType": "image/png",
            "buffer": files["dots.png"].read_bytes(),
        },
    )
    expect(page.locator("#best")).to_have_text("dots")
    expect(page.locator("#caption")).to_contain_text("\\u202egnp.svg")


def test_opacity(page, files):
    upload(page, files["dots.png"])
    for value, shown in (("0", "0"), ("35", "0.35"), ("100", "1")):
        page.locator("#opacity").fill(value)
        expect(page.locator("#map")).to_have_css("opacity", shown)


def test_keyboard_only(page, files):
    def focused():
        return page.evaluate("() => document.activeElement.id || document.activeElement.className")

    def tab_to(wanted):
        for _ in range(20):
            page.keyboard.press("Tab")
            if focused() == wanted:
                return
        raise AssertionError(f"no way to {wanted}")

    # The browser needs a moment to learn that no dialog may open; it must know before Enter.
    page.on("filechooser", lambda _: None)
    tab_to("choose")
    outline = page.locator("#choose").evaluate("e => getComputedStyle(e).outlineStyle")
    assert outline == "solid"
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files([str(files["dots.png"]), str(files["across.png"])])
    expect(page.locator("#best")).to_have_text("dots")
    tab_to("item")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#best")).to_have_text("across")
    tab_to("opacity")
    page.keyboard.press("End")
    expect(page.locator("#map")).to_have_css("opacity", "1")
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="across")).to_be_focused()
    page.keyboard.press("ArrowDown")
    second = page.locator(".bar .name").nth(1).text_content()
    expect(page.locator("#legend-label")).to_have_text(second)
    expect(page.locator("#status")).to_have_text(re.compile(f"^across.png: {second}, .* %$"))
    page.keyboard.press("Shift+Tab")
    items(page).nth(1).focus()
    page.keyboard.press("Delete")
    expect(items(page)).to_have_count(1)
    expect(items(page).nth(0)).to_be_focused()
    page.keyboard.press("Delete")
    expect(page.locator("#choose")).to_be_focused()


def test_many_classes(opened, many_classes, files):
    page = opened(many_classes)
    upload(page, files["dots.png"])
    bars = page.locator(".bar")
    expect(bars).to_have_count(10)
    more = page.locator("#more")
    expect(more).to_have_text("Show all 30 classes")
    more.click()
    expect(bars).to_have_count(30)
    expect(more).to_have_attribute("aria-expanded", "true")
    name = bars.nth(20).locator(".name").text_content()
    bars.nth(20).click()
    expect(page.locator("#legend-label")).to_have_text(name)
    more.click()
    expect(bars).to_have_count(11)  # the chosen class remains
    expect(bars.nth(10).locator("input")).to_be_checked()


def test_black_image(page, files):
    upload(page, files["black.png"])
    expect(page.locator(".bar .value")).to_have_text(["33.3 %"] * 3)
    expect(page.locator("#best")).to_have_text("No evidence")
    expect(items(page).locator("b")).to_have_text(["No evidence"])
    expect(page.locator("#sum")).to_contain_text("all are equally likely")
    expect(page.locator("#status")).to_contain_text("black.png: The image has no evidence for")


@pytest.mark.parametrize("rough", [True, False])
def test_estimate_says_how_many_images_it_rests_on(page, rough):
    def respond(route):
        card = route.fetch().json()
        card["estimate"] = {
            "accuracy": 83.33, "low": 80.0, "high": 86.0, "images": 1200, "rough": rough,
        }  # fmt: skip
        route.fulfill(json=card)

    page.route("**/api/model", respond)
    page.reload()
    estimate = "about 83.3 % correct (95 %: 80.0 to 86.0), from 1,200 test images"
    estimate += "; too few for more than a rough estimate" * rough
    expect(page.locator("#model-line")).to_have_text(f"3 classes from 36 images · {estimate}")
    expect(page.locator("#facts dd").nth(3)).to_have_text(estimate)


def test_facts_about_the_model(page):
    page.get_by_role("link", name="About this model").click()
    about = page.locator("#about")
    expect(about).to_contain_text("LrrSPM: low-rank codes, max pooling, linear SVM")
    expect(about.locator("#classes tr")).to_have_text(["across12", "along12", "dots12"])
    expect(about.locator("#parameters")).to_contain_text("codebook size")


def test_nested_parameters_are_flattened(page):
    channel = {"descriptor": {"name": "SIFT", "patch_size": 16}, "levels": [1, 2, 4]}

    def respond(route):
        card = route.fetch().json()
        card["parameters"] = {"C": 1.5, "seed": None, "channels": [channel, {"weight": 0.5}]}
        route.fulfill(json=card)

    page.route("**/api/model", respond)
    page.reload()
    page.get_by_role("link", name="About this model").click()
    parameters = page.locator("#parameters")
    names = ["C", "seed", "channels 1 · descriptor · name", "channels 1 · descriptor · patch size",
             "channels 1 · levels", "channels 2 · weight"]  # fmt: skip
    expect(parameters.locator("dt")).to_have_text(names)
    values = ["1.5", "none", "SIFT", "16", "1, 2, 4", "0.5"]
    expect(parameters.locator("dd")).to_have_text(values)


def test_api_page(opened, address):
    page = opened(f"{address}docs")
    expect(page.locator("#paths h2").first).to_have_text("POST/api/predict")
    expect(page.locator("h2", has_text="/api/")).to_have_count(3)
    shared = ["ClassScore", "Prediction", "ErrorItem", "Patches", "Estimate", "Limits"]
    expect(page.locator("#paths h2").nth(-1)).to_have_text("Limits")
    assert page.locator("#paths h2").all_text_contents()[3:] == shared
    expect(page.locator("#shell")).to_contain_text(f"'{address}api/predict?top=3'")
