"""Tables 1, 2 and 6 of the paper, which need no run, and contradictions between its numbers."""

from __future__ import annotations

from typing import Any

from .. import config
from ..datasets import DATASETS
from ..datasets.catalogue import published as published_classes
from ..descriptors import SIFT
from ..report.page import Table
from .experiments import TABLES, Options
from .published import published, read_published
from .results import Results
from .tables import cells, spread

_UNKNOWN = "not known"
_HERE = {
    "n": "patches of an image: rows of the descriptors, (n, m)",
    "l": "levels of the pyramid: grids of {levels} cells per side",
    "m": "{m}, the length of a descriptor",
    "s": "classes",
    "k": "`codebook_size`, {k}",
    "r": "not needed: the closed form has no rank",
    "y": "pixels, (h, w)",
    "X": "`LocalDescriptors.values`, (n, m): its transpose",
    "D": "`codebook_`, (k, m): its transpose",
    "C": "codes, (n, k): its transpose",
}


def notation_table(results: Results, options: Options) -> Table:
    """Return table 1: the paper's symbols, and what they are here."""
    known = {
        "levels": ", ".join(map(str, config.LEVELS)),
        "m": SIFT().n_values,
        "k": config.CODEBOOK_SIZE,
    }
    rows = tuple(
        ((cell["symbol"],), (cell["definition"],), (_HERE[cell["symbol"]].format(**known),))
        for cell in read_published()["table1"]["cells"]
    )
    note = (
        "The paper departs from it: section 1 calls the size of the codebook n, and section 3 has "
        "C of n x k, where eq. 3.2 makes it k x n."
    )
    return Table(_title("table1"), ("symbol", "in the paper", "here"), rows, (note,))


def datasets_table(results: Results, options: Options) -> Table:
    """Return table 2: the paper's counts, and those of the published data sets."""
    rows = []
    for cell in read_published()["table2"]["cells"]:
        data = DATASETS[cell["dataset"]]
        counts = [known.images for known in published_classes(data).values()]
        pixels = " x ".join(map(str, data.pixels)) if data.pixels else "various"
        line = (
            _beside(str(cell["images"]), str(data.images)),
            _beside(cell["size"] or "not stated", pixels),
            _beside(cell["per_class"], _range(min(counts), max(counts)) if counts else _UNKNOWN),
            _beside(str(cell["classes"]), str(data.classes)),
        )
        rows.append(((cell["dataset"],), (cell["type"],), *line))
    note = (
        "Of the published data sets; in parentheses: the paper's, where it differs. Pixels are "
        "width x height."
    )
    header = ("data set", "type", "images", "pixels", "images per class", "classes")
    return Table(_title("table2"), header, tuple(rows), (note,))


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _beside(theirs: str, ours: str) -> tuple[str, ...]:
    return (ours,) if theirs == ours else (ours, f"({theirs})")


def literature_table(results: Results, options: Options) -> Table:
    """Return table 6: accuracies that the paper quotes, and ours of the same methods."""
    content = read_published()["table6"]["cells"]
    names = list(dict.fromkeys(cell["row"] for cell in content))
    found = cells("table5", results, options)
    rows = []
    for dataset in dict.fromkeys(cell["dataset"] for cell in content):
        line = []
        for name in names:
            quoted = published("table6", row=name, dataset=dataset)
            ours = found.get(name, {}).get(dataset)
            own = [] if ours is None or ours.mean is None else [ours.ours()]
            theirs = [] if quoted is None else [f"({spread(quoted['accuracy'], quoted['std'])})"]
            line.append((*own, *theirs) or ("",))
        rows.append(((dataset,), *line))
    note = (
        f"In parentheses: as the paper quotes it from other work, with other codebooks, which we "
        f"did not check. Ours have {config.CODEBOOK_SIZE} atoms, as in table 5."
    )
    return Table(_title("table6"), ("data set", *names), tuple(rows), (note,))


def _title(table: str) -> str:
    return f"Table {table.removeprefix('table')}. {read_published()[table]['title']}"


REFERENCE = {
    "table1": notation_table,
    "table2": datasets_table,
    "table6": literature_table,
}
"""Tables that need no run."""


def contradictions() -> tuple[str, ...]:
    """Return contradictions between numbers of the paper, besides those in its claims."""
    times = {(cell["row"], cell["dataset"]): cell for cell in read_published()["table10"]["cells"]}
    said = []
    for (row, dataset), cell in times.items():
        if cell["coding"] == cell["classification"]:
            said.append(
                f"In table 10, {row}'s classification time on {dataset}, "
                f"{cell['classification']:.2f} s, is its coding time."
            )
    small, large = (DATASETS[name].images for name in ("COIL20", "COIL100"))
    few, many = (times["LinearBOF", name]["coding"] for name in ("COIL20", "COIL100"))
    if many <= few:
        said.append(
            f"In table 10, BOF codes the {large} images of COIL100 in {many:.2f} s and the {small} "
            f"of COIL20 in {few:.2f} s; SPM, which codes the same way, takes "
            f"{times['LinearSPM', 'COIL100']['coding']:.2f} s for COIL100."
        )
    for table in TABLES:
        for dataset, train, best in _not_the_best(table):
            said.append(
                f"Table {table.removeprefix('table')} prints LrrSPM in bold on {dataset} with "
                f"{train} training images per class, where {best} is more accurate."
            )
    return tuple(said)


# Cells of LrrSPM that the paper prints in bold, by table; tables 5 and 10 have no bold.
_BOLD = ("table4", "table7", "table8", "table9")


def _not_the_best(table: str) -> list[tuple[str, int, str]]:
    """Return cells in bold, as LrrSPM's are, that are not the highest: where, and which is."""
    lines: dict[tuple[str, int], dict[str, float]] = {}
    for cell in read_published()[table]["cells"] if table in _BOLD else ():
        if "train_per_class" in cell:
            place = (cell["dataset"], cell["train_per_class"])
            lines.setdefault(place, {})[cell["row"]] = cell["accuracy"]
    found = []
    for (dataset, train), line in lines.items():
        best = max(line, key=line.__getitem__)
        if line[best] > line[config.PAPER_METHOD]:
            found.append((dataset, train, best))
    return found


def describe(part: str, results: Results, options: Options) -> list[dict[str, Any]]:
    """Return a table as JSON: a list of its rows by the names of its columns."""
    table = REFERENCE[part](results, options)
    return [
        dict(zip(table.header, (" ".join(cell) for cell in row), strict=True)) for row in table.rows
    ]
