"""Files, tests, folders and headings that the documents name exist."""

import ast
import re
from collections import Counter
from functools import cache

import pytest

from tests.conftest import HERE

ROOT = HERE.parent
GENERATED = ("_build/", "gallery/", "reference/generated/")  # by make docs
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *(
        f"docs/{path}"
        for path in sorted(found.relative_to(ROOT / "docs") for found in ROOT.glob("docs/**/*.md"))
        if not str(path).startswith(GENERATED)
    ),
)
PROMISES = ("docs/reliability.md", "docs/serving.md", "docs/model-format.md")


def read(page):
    return (ROOT / page).read_text()


def paths_in(text):
    """Paths in backticks, as named from the root of the repository or of the package."""
    return re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.(?:py|md|toml|json))?)(?:::\w+)?`", text)


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    roots = (ROOT, ROOT / "src" / "lrrspm")
    named = paths_in(read(page))
    assert not [path for path in named if not any((root / path).exists() for root in roots)]


def anchors(text):
    """Addresses of the headings of a document, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    seen: Counter[str] = Counter()
    found = []
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.append(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def test_anchors_by_hand():
    text = "# Odd & even: `x`\n```sh\n# comment\n```\n## Twice\n## Twice\n"
    assert anchors(text) == ["odd--even-x", "twice", "twice-1"]


@pytest.mark.parametrize("page", PAGES)
def test_linked_files_and_headings_exist(page):
    text = read(page)
    links = re.findall(r"\]\((?![a-z]+:)([^)#]*)#?([^)]*)\)", text)
    folder = (ROOT / page).parent
    for path, anchor in links:
        if path.removeprefix("../").startswith(GENERATED):
            continue  # make docs checks these
        target = folder / path if path else ROOT / page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text()), f"{path}#{anchor}"


@cache
def functions(path):
    """Names of the functions of a file of tests."""
    return {node.name for node in ast.parse(read(path)).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_exist(page):
    named = re.findall(r"`([^`]*test_\w+[^`]*)`", read(page))
    assert named or page not in PROMISES
    for name in named:
        path, _, function = name.partition("::")
        assert path.startswith("tests/"), f"{name}: name the file, from the root"
        assert function.startswith("test_"), f"{name}: name the function"
        assert function in functions(path), name
