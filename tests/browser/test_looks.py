"""Layout of the page: narrow, dark, and the map exactly on the image."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageOps
from playwright.sync_api import expect

from .test_page import REJECTED, upload

pytestmark = pytest.mark.network


def overflow(page):
    """Return by how many pixels the page is wider than its window, and the elements outside."""
    return page.evaluate(
        """() => {
            const width = document.documentElement.clientWidth;
            const inside = (e) => !e.closest("#images") && !e.closest(".scroll, pre, .unseen");
            const out = [...document.querySelectorAll("body *")].filter(
                (e) => inside(e) && e.getBoundingClientRect().right > width + 1);
            return [document.documentElement.scrollWidth - width, out.map((e) => e.outerHTML)];
        }"""
    )


@pytest.mark.parametrize("width", [320, 360, 700, 1024, 1280])
def test_no_sideways_scrolling(opened, many_classes, files, width):
    opened.expected.append(REJECTED)
    page = opened(many_classes, width, 740)
    assert overflow(page) == [0, []]
    upload(page, *(files[name] for name in ("dots.png", "scan.tif", "broken.jpg", "across.png")))
    page.locator("#more").click()
    page.locator("#about summary").click()
    assert overflow(page) == [0, []]
    page.locator(".item").nth(2).click()
    expect(page.locator("#message")).to_be_visible()
    assert overflow(page) == [0, []]
    page.goto(f"{many_classes}docs")
    expect(page.locator("h2", has_text="/api/")).to_have_count(3)
    assert overflow(page) == [0, []]


def test_low_window_shows_all_bars(opened, many_classes, files):
    """As with 200 % zoom: the page scrolls, not a part of it."""
    for width, height in ((600, 400), (1280, 400)):
        page = opened(many_classes, width, height)
        upload(page, files["dots.png"])
        inside, whole = page.locator("#bars").evaluate("e => [e.clientHeight, e.scrollHeight]")
        assert inside == whole


def test_heading_beside_a_long_name_stays_on_one_line(opened, many_classes):
    page = opened(many_classes, 360)
    page.locator("#about summary").click()
    heads = page.locator("#about th")
    assert heads.nth(1).bounding_box()["height"] < 30
    assert overflow(page) == [0, []]
    wide = page.locator("#about .scroll").evaluate("e => e.scrollWidth - e.clientWidth")
    assert wide == 0


def test_api_page_fits_a_phone(opened, address):
    page = opened(f"{address}docs", 360)
    expect(page.locator("h2", has_text="/api/")).to_have_count(3)
    parts = page.locator(".scroll").evaluate_all(
        "all => all.map(e => e.scrollWidth - e.clientWidth)"
    )
    assert len(parts) > 10
    assert max(parts) == 0


def test_touch_targets_are_large_enough(opened, address, files):
    page = opened(address, 360, 740, has_touch=True)
    upload(page, files["dots.png"])
    for part in ("#add", "#clear", ".bar >> nth=0", ".item >> nth=0", ".remove >> nth=0"):
        assert page.locator(part).bounding_box()["height"] >= 24, part


def luminance(color):
    channels = np.array(color) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrasts(page):
    """Return the contrast of every visible text with its background, by text."""
    found = page.evaluate(
        """() => {
            const canvas = document.createElement("canvas").getContext("2d",
                {willReadFrequently: true});
            const channels = (color) => {
                canvas.clearRect(0, 0, 1, 1);
                canvas.fillStyle = color;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data];
            };
            const ground = (e) => {
                for (; e; e = e.parentElement) {
                    const behind = channels(getComputedStyle(e).backgroundColor);
                    if (behind[3] === 255) return behind.slice(0, 3);
                }
            };
            return [...document.querySelectorAll("body *")]
                .filter((e) => e.checkVisibility() && !e.matches(".unseen") &&
                    [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
                .map((e) => [e.textContent.trim(),
                    channels(getComputedStyle(e).color).slice(0, 3), ground(e)]);
        }"""
    )
    result = {}
    for text, ink, ground in found:
        bright, dark = sorted([luminance(ink), luminance(ground)], reverse=True)
        result[text] = (bright + 0.05) / (dark + 0.05)
    return result


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_in_light_and_dark_mode(opened, address, files, scheme):
    opened.expected.append(REJECTED)
    page = opened(address, color_scheme=scheme)
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    bright = luminance([int(c) for c in ground.strip("rgb()").split(",")])
    assert bright < 0.05 if scheme == "dark" else bright > 0.8
    assert len(empty := contrasts(page)) >= 6
    assert min(empty.values()) >= 4.5, empty
    upload(page, files["dots.png"], files["broken.jpg"])
    page.locator("#about summary").click()
    assert len(full := contrasts(page)) >= 30
    assert min(full.values()) >= 4.5, full


def quadrants(pixels):
    """Return the gray values at the centers of an image's quarters."""
    height, width = pixels.shape[:2]
    rows, columns = (height // 4, 3 * height // 4), (width // 4, 3 * width // 4)
    return [int(pixels[y, x].max()) for y in rows for x in columns]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_images_and_maps_are_upright(opened, address, tmp_path, kind):
    """Whatever the browser does with EXIF data, the image shown matches the map."""
    page = opened(address)
    pixels = np.repeat(np.repeat(np.array([[0, 80], [160, 240]], np.uint8), 60, 0), 90, 1)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[274] = orientation
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind, exif=exif)
        upright = ImageOps.exif_transpose(Image.open(file))
        path = tmp_path / f"{orientation}.{kind.lower()}"
        path.write_bytes(file.getvalue())
        upload(page, path)
        page.locator(".item").last.click()
        expect(page.locator("#caption")).to_contain_text(path.name)
        expect(page.locator("#caption")).to_contain_text(f"{upright.width} \u00d7 {upright.height}")
        shown = page.evaluate(
            """async () => {
                const image = document.getElementById("image");
                await image.decode();
                const canvas = document.createElement("canvas");
                [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
                const context = canvas.getContext("2d");
                context.drawImage(image, 0, 0);
                const all = context.getImageData(0, 0, canvas.width, canvas.height);
                return JSON.stringify([all.width, all.height, [...all.data]]);
            }"""
        )
        width, height, data = json.loads(shown)
        assert (width, height) == upright.size
        seen = np.array(data, np.uint8).reshape(height, width, 4)[..., :3]
        expected = np.asarray(upright.convert("RGB"))
        assert np.abs(np.subtract(quadrants(seen), quadrants(expected))).max() < 8, orientation
        boxes = [page.locator(part).bounding_box() for part in ("#image", "#map")]
        assert boxes[0] == boxes[1]
        assert boxes[0]["width"] / boxes[0]["height"] == pytest.approx(width / height, rel=0.01)
