"""The documentation site names everything: public names, pages, words, pictures. No Sphinx here."""

import ast
import importlib
import re

import pytest

import lrrspm
from tests.conftest import HERE

DOCS = HERE.parent / "docs"
ROOMS = sorted(
    path.parent.name
    for path in (HERE.parent / "src" / "lrrspm").glob("[a-z]*/__init__.py")
    if "__all__" in path.read_text() and path.parent.name != "cli"  # its names are commands
)
EXAMPLES = sorted(DOCS.glob("examples/plot_*.py"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)


def named_in_reference():
    """Full names in the lists of the reference, and of constants that it describes."""
    found = set()
    for path in DOCS.glob("reference/*.md"):
        module = None
        for line in path.read_text().splitlines():
            if directive := re.match(r"\.\. (?:py:module|currentmodule):: (\S+)", line):
                module = directive[1]
            elif name := re.fullmatch(r"(?:   |\.\. py:data:: )(\w+)", line):
                found.add(f"{module}.{name[1]}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room):
    public = importlib.import_module(f"lrrspm.{room}").__all__
    assert public
    named = named_in_reference()
    missing = {name for name in public if not {f"lrrspm.{name}", f"lrrspm.{room}.{name}"} & named}
    assert not missing, f"add them to docs/reference/{room}.md"


def test_every_name_of_the_package_is_in_the_reference():
    assert {f"lrrspm.{name}" for name in lrrspm.__all__} <= named_in_reference()


def test_the_reference_names_nothing_that_is_gone():
    for full in named_in_reference():
        module, _, name = full.rpartition(".")
        assert hasattr(importlib.import_module(module), name), full


def in_contents(folder=DOCS, page="index"):
    """Pages that are listed in the contents of a page, and in theirs."""
    path = (folder / page).with_suffix(".md")
    if not path.exists():  # the gallery is generated
        return set()
    found = {path.resolve()}
    for entries in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(), re.DOTALL):
        for entry in entries.splitlines():
            if entry and not entry.startswith(":"):
                titled = re.search(r"<(.+)>$", entry)
                found |= in_contents(path.parent, titled[1] if titled else entry)
    return found


def test_every_page_is_in_the_contents():
    missing = set(PAGES) - in_contents()
    assert not missing, "add them to a list of contents in docs/index.md"


def test_every_word_is_in_the_glossary():
    table = (HERE.parent / "CONTRIBUTING.md").read_text().partition("## Words")[2]
    words = re.findall(r"^\| ([a-z, ]+) \|", table.partition("Some phrases")[0], re.MULTILINE)
    words = [word for cell in words[1:] for word in cell.split(", ")]  # not the table's head
    assert len(words) > 10
    text = (DOCS / "glossary.md").read_text()
    assert not [word for word in words if f"\n{word}\n  " not in text]


def test_pictures_of_pages_are_drawn_by_examples():
    drawn = {path.stem for path in EXAMPLES}
    for path in PAGES:
        text = path.read_text()
        shown = re.findall(r"gallery/images/sphx_glr_(\w+)_\d{3}\.png", text)
        linked = re.findall(r"gallery/(plot_\w+)\.rst", text)
        assert {*shown, *linked} <= drawn, path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_a_title_and_a_plot(path):
    text = path.read_text()
    title, line, *_ = (ast.get_docstring(ast.parse(text)) or "").split("\n")
    assert line == "=" * len(title)
    assert text.count("plt.show()") == 1


def test_there_are_examples():
    assert len(EXAMPLES) >= 8
