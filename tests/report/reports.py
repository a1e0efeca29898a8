"""Helpers: parse reports, make their input, and run the commands that write them."""

import base64
import hashlib
import re
import shlex
from html.parser import HTMLParser
from importlib import resources
from xml.etree import ElementTree

import numpy as np
from typer.testing import CliRunner

from lrrspm._support.stages import Stages
from lrrspm.cli import app
from lrrspm.evaluation.results import Evaluation
from lrrspm.report import Run, make_report

_VOID = {"br", "img", "meta", "hr"}


class Parsed(HTMLParser):
    """A parsed page; tags that are not closed in order are an error."""

    def __init__(self, text):
        super().__init__()
        self.source = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.tables: list[list[list[str]]] = []
        self.parts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"style", "script"} & set(self.open):
            return
        self.parts.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.parts))

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def table(self, *header):
        """Return the rows of the one table whose header starts with these names."""
        (found,) = [rows for rows in self.tables if tuple(rows[0][: len(header)]) == header]
        return found[1:]


def parse(path):
    text = path.read_text(encoding="utf-8")
    found = Parsed(text)
    check_alone(text, found)
    return found


def check_alone(text, found):
    """Check that the page fetches nothing, and runs nothing but the script that sorts tables."""
    policy = found.named("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'; img-src data:; ")
    assert not {"link", "iframe", "object", "base"} & {tag for tag, _ in found.tags}
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert script == resources.files("lrrspm.report").joinpath("templates/sort.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert re.findall("script-src (.*?);", policy["content"]) == [f"'sha256-{digest}'"]
    assert found.named("script") == [{}]
    for _, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith("#")
        assert "url(" not in attributes.get("style", "")
    assert not re.search(r"url\(|@import", text[: text.index("</style>")])
    anchors = [link["href"][1:] for link in found.named("a")]
    targets = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert anchors == targets


def matrix_cells(text):
    """Return color and words of each cell that is not empty, by the names of row and column."""
    (found,) = re.findall(
        r'<table class="confusion.*?</table>|<svg class="heat.*?</svg>', text, re.S
    )
    root = ElementTree.fromstring(found)
    if root.tag == "table":
        head, *rows = root.iter("tr")
        return {
            (row[0].get("title"), over.get("title")): (cell.attrib["style"][11:], cell.get("title"))
            for row in rows
            for over, cell in zip(head[1:], row[1:], strict=True)
            if cell.attrib
        }
    # A name starts 8 below the top of its row, or 8 right of the left side of its column.
    columns = {
        int(place): name
        for place, name in re.findall(r'translate\((\d+) \d+\) rotate\(-90\)">(.+?)<', found)
    }
    cells = {}
    for _, name, *squares in root.findall("g"):
        for square in squares:
            x, y = int(square.attrib["x"]), int(square.attrib["y"])
            assert y + 8 == int(name.attrib["y"])
            cells[name.text, columns[x + 8]] = (square.get("fill"), square[0].text)
    return cells


def typed(*arguments):
    """Return a command as it is typed in a shell."""
    return shlex.join(["lrrspm", *map(str, arguments)])


def run(*arguments, code=0):
    """Run a command, and check its exit code."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


FAST = ["--method", "LrrSPM", "--codebook-size", "8", "--jobs", "1"]


def made_evaluation(n_classes, wrong, names=None):
    """Make an evaluation of four splits with a share of wrong predictions.

    No two classes have the same number of test images, and no two stages take the same time, so
    that a number in the wrong place is seen.
    """
    rng = np.random.default_rng(0)
    confusions = []
    for _ in range(4):
        counts = np.zeros((n_classes, n_classes), np.int64)
        for i in range(n_classes):
            misses = rng.binomial(15 + i, wrong)
            counts[i, i] = 15 + i - misses
            np.add.at(counts[i], rng.choice(np.delete(np.arange(n_classes), i), misses), 1)
        confusions.append(counts)
    return Evaluation(
        class_names=names or [f"class number {i:03}" for i in range(n_classes)],
        confusions=confusions,
        images=90 * n_classes,
        seconds={"encode": 1 + wrong, "train": 2 + wrong, "test": 3 + wrong},
    )


def made_run(**changes):
    """Make the description of a run; ``changes`` are fields of it."""
    stages = Stages()
    stages.add("read", 1.5)
    classes = {"a": 1, "b": 2}
    found = {"images": 3, "classes": classes, "findings": [], "counts": {}}
    given = Run(
        "A title", "About it.", "lrrspm x", {"LrrSPM": {"seed": 7}}, stages, found,
        classes, [],
    )  # fmt: skip
    return given._replace(**changes)


def report(evaluations=None, **changes):
    """Parse the report of evaluations by method, or of one evaluation."""
    if isinstance(evaluations, Evaluation):
        evaluations = {"LrrSPM": evaluations}
    text = make_report(made_run(**changes), evaluations or {})
    found = Parsed(text)
    check_alone(text, found)
    return found
