"""Files, tests and folders that the documents name exist."""

import re

import pytest

from tests.conftest import HERE

ROOT = HERE.parent
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/evidence.md",
    "docs/future-work.md",
    "docs/reliability.md",
)


def paths_in(text):
    """Paths in backticks, as named from the root of the repository or of the package."""
    return re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.(?:py|md|toml|json))?)(?:::\w+)?`", text)


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    named = paths_in((ROOT / page).read_text())
    roots = (ROOT, ROOT / "src" / "lrrspm")
    missing = [path for path in named if not any((root / path).exists() for root in roots)]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_linked_files_exist(page):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text())
    folder = (ROOT / page).parent
    assert not [link for link in links if not (folder / link).exists()]


def test_tests_named_in_the_promises_exist():
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"`(\w*/?[\w/]*test_\w+(?:\.py)?(?:::\w+)?)`", text)
    assert len(named) >= 10
    for name in named:
        path, _, function = name.partition("::")
        assert path.startswith("tests/"), f"{name}: name the file, from the root"
        content = (ROOT / path).read_text()
        assert f"\ndef {function or 'test_'}" in content, name
