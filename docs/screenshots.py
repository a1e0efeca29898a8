"""Take the screenshots in these documents: the page of ``lrrspm serve``, and a report.

``make screenshots`` runs it, with made images (parts.py) and Chromium.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from lrrspm.cli import app
from tests.browser.chromium import options
from tests.serve.servers import serving

from .parts import draw_folder, draw_part

HERE = Path(__file__).parent
SHOWN = ("scratched", "stained", "chipped", "sound", "stained", "chipped")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        draw_folder(folder / "parts", per_class=150)
        draw_folder(folder / "few", per_class=25)  # so few that there are mistakes to show
        model, report = folder / "parts.lrrspm", folder / "report.html"
        with chdir(folder):
            run("train", "parts", "-o", model)
            run("train", "few", "-o", "few.lrrspm", "--report", report)
        images = draw_new(folder)
        browser = playwright.chromium.launch(**options())
        with serving(model, "--port", "0", "--json") as (_, said):
            address = json.loads(said)["url"]
            take_page(browser, address, images)
        with opened(browser, 1100, 720) as page:
            page.goto(report.as_uri())
            shoot(page, "report")
            for name, part in (("confidence", "Answering only"), ("mistakes", "Most confident")):
                page.get_by_role("link", name=part).click()
                shoot(page, name)


def run(*arguments: object) -> None:
    """Run an lrrspm command."""
    app([str(argument) for argument in arguments], standalone_mode=False)


def draw_new(folder: Path) -> list[str]:
    """Draw images that the model was not trained on."""
    rng = np.random.default_rng(99)
    paths = []
    for number, kind in enumerate(SHOWN):
        paths.append(str(folder / f"part-{number + 1:02}.png"))
        Image.fromarray(draw_part(kind, rng)).save(paths[-1])
    return paths


def take_page(browser: Browser, address: str, images: list[str]) -> None:
    """Take the page with several images: wide and light, narrow and dark."""
    for name, width, height, scheme in (("page", 1280, 690, "light"), ("phone", 390, 1180, "dark")):
        with opened(browser, width, height, scheme) as page:
            page.goto(address)
            page.set_input_files("input[type=file]", images)
            page.wait_for_load_state("networkidle")
            page.get_by_text("part-02.png").first.click()
            page.wait_for_load_state("networkidle")
            shoot(page, name)


@contextmanager
def opened(browser: Browser, width: int, height: int, scheme: str = "light") -> Iterator[Page]:
    """Open a tab of its own, at a resolution that shows sharp letters."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=1.5,
    )
    yield context.new_page()
    context.close()


def shoot(page: Page, name: str) -> None:
    """Write docs/NAME.jpg."""
    page.screenshot(path=HERE / f"{name}.jpg", quality=88)


if __name__ == "__main__":
    main()
