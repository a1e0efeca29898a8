"""Fixtures: a browser, servers, and pages that must report no errors and contact no other hosts."""

import json
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

from lrrspm import ImageClassifier, LRREncoder
from tests.conftest import draw
from tests.serve.servers import serving

from .chromium import options

# Milliseconds; a busy machine is slow, and real failures are rare.
_TIMEOUT = 60_000
expect.set_options(timeout=_TIMEOUT)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def address(model_path):
    """Address of a server of the small model, for images up to 1 MB."""
    with serving(model_path, "--port", "0", "--json", "--max-file-mb", "1") as (_, line):
        yield json.loads(line)["url"]


@pytest.fixture(scope="session")
def many_classes(tmp_path_factory):
    """Address of a server of a model with 30 classes, one of them with a long name."""
    rng = np.random.default_rng(0)
    kinds = ("across", "along", "dots", "slant")
    images = [draw(kinds[i % 4], rng, 24 + i % 30) for i in range(90)]
    labels = [f"class {i % 30:02}" + " with a long name" * 5 * (i % 30 == 7) for i in range(90)]
    path = tmp_path_factory.mktemp("many") / "many.lrrspm"
    ImageClassifier(LRREncoder(codebook_size=8), random_state=0).fit(images, labels).save(path)
    with serving(path, "--port", "0", "--json") as (_, line):
        yield json.loads(line)["url"]


class Opener:
    """Opens pages, and records their errors and the hosts they contact."""

    def __init__(self, browser):
        self._browser = browser
        self.contexts: list[Any] = []
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        # Parts of messages that a test expects, such as those on error responses.
        self.expected: list[str] = []

    def __call__(self, address, width=1280, height=860, **settings):
        size = {"width": width, "height": height}
        context = self._browser.new_context(viewport=size, **settings)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(_TIMEOUT)
        page.on("console", self._record)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.goto(address)
        return page

    def _record(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)


@pytest.fixture
def opened(browser):
    """Opens pages; none may report an error or contact another host."""
    opener = Opener(browser)
    yield opener
    for context in opener.contexts:
        context.close()
    expected = opener.expected
    assert [e for e in opener.errors if not any(part in e for part in expected)] == []
    assert all(host == "" or host.startswith("127.0.0.1:") for host in opener.hosts), opener.hosts


@pytest.fixture
def page(opened, address):
    return opened(address)


@pytest.fixture(scope="session")
def files(pictures, tmp_path_factory):
    """Image files to upload, good and bad, by name."""
    folder = tmp_path_factory.mktemp("files")
    for kind in ("across", "along", "dots"):
        Image.open(pictures / kind / "03.png").save(folder / f"{kind}.png")
    Image.open(pictures / "dots" / "04.png").save(folder / "scan.tif")
    (folder / "broken.jpg").write_bytes(b"not an image")
    (folder / "large.png").write_bytes(bytes(1_500_000))
    Image.new("1", (10_000, 10_000)).save(folder / "bomb.png")
    Image.new("L", (60, 40)).save(folder / "black.png")
    return {path.name: path for path in folder.iterdir()}
