"""Numbers in README and docs come from result files: none is typed, and none edited by hand."""

import re

import pytest

from benchmarks import readme
from tests.conftest import HERE

ROOT = HERE.parent
NAMES = [str(page.relative_to(ROOT)) for page in readme.PAGES]

# Generated as a whole, and compared in tests/paper/test_tables.py.
WHOLE = ("docs/results.md",)

# Decimals outside of generated blocks that are no results, by page: what they are.
CONSTANTS = {
    "README.md": {
        "3.11.4": "version",
        "4.0": "license",
        "20": "measured elsewhere, as the page says",
    },
    "docs/beyond.md": {"20": "measured elsewhere, as the page says"},
    "docs/citing.md": dict.fromkeys(("10.1016", "1409.5786", "2015.10.005"), "address"),
    "docs/datasets.md": {"4.0": "license"},
    "docs/everyday.md": {
        "0.8": "an example",
        "0.9": "an example",
        "0.2": "the default temperature",
        "0.5": "the range of a table",
        "0.95": "the range of a table",
    },
    "docs/folders.md": {"11.3": "version of Pillow"},
    "docs/future-work.md": {"0.7": "lambda", "0.98": "epsilon"},
    "docs/gpu.md": {"0.0001": "tolerance of a test, and of a table"},
    "docs/guide/descriptors.md": {"0.2": "limit of SIFT", "0.3": "weight of places"},
    "docs/guide/encoders.md": {"0.7": "lambda"},
    "docs/guide/images.md": {"0.2989": "gray", "0.5870": "gray", "0.1140": "gray"},
    "docs/licenses.md": dict.fromkeys(("1.0", "2.0", "4.0"), "license"),
    "docs/model-format.md": {"0.2989": "gray", "0.5870": "gray", "0.1140": "gray"},
    "docs/paper.md": {"2.0": "license", "0.98": "epsilon"},
    "docs/releasing.md": dict.fromkeys(("3.11", "3.12", "3.13", "3.14"), "version of Python"),
    "docs/reliability.md": {"0.97": "limit of the audit"},
    "docs/scaling.md": dict.fromkeys(("0.2", "0.3", "0.5", "0.9", "1.5"), "limits and settings"),
    "docs/serving.md": {"0.9": "an example", "0.26": "limit", "127.0.0.1": "address"},
    "docs/theory/lrr.md": {"0.7": "lambda", "0.98": "epsilon"},
    "docs/theory/lrrfv.md": {"0.1": "lambda"},
}


@pytest.fixture(scope="module")
def tables():
    return readme.tables()


def blocks(text):
    return dict(re.findall(r"<!-- (\w+) -->\n(.*?)<!-- /\1 -->", text, re.DOTALL))


@pytest.mark.parametrize("page", NAMES)
def test_tables_are_those_of_the_result_files(page, tables):
    text = (ROOT / page).read_text()
    found = blocks(text)
    assert set(re.findall(r"<!-- (\w+) -->", text)) == set(found), "a block is not closed"
    for marker, content in found.items():
        assert content == f"{tables[marker]}\n", "run 'make readme'"


def test_every_table_is_on_a_page(tables):
    shown = {marker for page in readme.PAGES for marker in blocks(page.read_text())}
    assert shown == set(tables)


def test_a_number_that_is_edited_is_found(tables):
    text = (ROOT / "docs" / "paper.md").read_text()
    edited = text.replace("85.63 ± 0.56", "85.64 ± 0.56", 1)
    assert edited != text
    assert blocks(edited)["accuracy"] != f"{tables['accuracy']}\n"


def typed_numbers(text):
    """Decimals, rates and points outside of generated blocks, code and addresses."""
    text = re.sub(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+|^    [^\n]*$", "", text,
                  flags=re.DOTALL | re.MULTILINE)  # fmt: skip
    measured = r"\d+(?=\s(?:images\sper\ssecond|points|times\sas)\b)"
    return re.findall(rf"\d+(?:\.\d+)+|{measured}", text)


def test_typed_numbers_by_hand():
    text = (
        "Gains 0.5 or 3 points at 20 images\nper second, 7 folds, `C=0.1`, [x](v1.2.md).\n"
        "<!-- a -->\n0.7\n<!-- /a -->\n| 81.5 |\n"
    )
    assert typed_numbers(text) == ["0.5", "3", "20", "81.5"]


@pytest.mark.parametrize("page", [name for name in NAMES if name not in WHOLE])
def test_decimals_outside_of_tables_are_no_results(page):
    typed = set(typed_numbers((ROOT / page).read_text())) - set(CONSTANTS.get(page, ()))
    assert not typed, (
        f"{page}: generate {', '.join(sorted(typed))} in benchmarks/readme.py from a result file, "
        "or list them in CONSTANTS if they are no results"
    )
