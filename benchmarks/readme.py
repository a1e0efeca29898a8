"""Write the tables of README and docs from the result files: ``python -m benchmarks.readme``."""

from __future__ import annotations

import json
import re
from statistics import fmean
from typing import Any

from lrrspm.methods import METHODS

from .__main__ import SCRIPTS
from ._measure import RESULTS, ROOT
from .methods import SETS

PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")

# LrrSPM in tables 4, 7 and 9 of the paper, percent.
PAPER = {
    "OT@100": "85.63 ± 0.56",
    "LS@100": "76.34 ± 0.58",
    "YaleB@30": "98.28 ± 0.55",
    "YaleB@10": "87.08 ± 0.41",
    "COIL20@20": "99.52 ± 0.87",
}
NAMES = {
    "OT": "Oliva-Torralba scenes",
    "LS": "15-Scene",
    "YaleB": "Extended Yale B",
    "COIL20": "COIL-20",
}


def tables() -> dict[str, str]:
    """Markdown by marker name."""
    return {
        "accuracy": accuracy_table(),
        "methods": methods_table(),
        "scaling": scaling_table(),
        "coding": coding_table(),
        "speed": speed_table(),
    }


def accuracy_table() -> str:
    """Ours beside the paper's."""
    content = _read("accuracy")
    lines = [
        "| data set | training images a class | codebook from training images | "
        "codebook from all images | paper |",
        "|---|---|---|---|---|",
    ]
    for name, paper in PAPER.items():
        data, train = name.split("@")
        own, shared = (
            _spread(content["result"]["evaluations"][f"{name}, {way}"]["accuracy"])
            for way in ("own codebooks", "shared codebook")
        )
        lines.append(f"| {NAMES[data]} | {train} | {own} | {shared} | {paper} |")
    return "\n".join([*lines, "", _source("accuracy", content)])


def methods_table() -> str:
    """The seven methods on three sets; a star: over two deviations from the paper."""
    content = _read("methods")
    sets = {name: content["result"]["sets"][name] for name in SETS}
    lines = [
        "| method | " + " | ".join(f"{_title(name)} | paper" for name in sets) + " |",
        "|---|" + "---|" * (2 * len(sets)),
    ]
    for method in METHODS:
        cells = []
        for found in sets.values():
            row = found[method]
            star = " *" if abs(row["deviations"]) > 2 else ""
            cells += [_spread(row["accuracy"]) + star, f"{row['paper']['mean']:.2f}"]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _source("methods", content)])


def scaling_table() -> str:
    """Histograms scaled in different ways."""
    content = _read("scaling")
    found, paper = content["result"]["accuracy"], content["result"]["paper"]
    lines = ["| | BOF | SPM |", "|---|---|---|"]
    ways = dict.fromkeys(name.split(", ", 1)[1] for name in found)
    for way in ways:
        means = (fmean(found[f"{kind}, {way}"]) for kind in ("BOF", "SPM"))
        lines.append(f"| {way} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    for machine in ("Linear", "Kernel"):
        cells = " | ".join(f"{paper[machine + kind]:.2f}" for kind in ("BOF", "SPM"))
        lines.append(f"| paper, {machine.lower()} | {cells} |")
    return "\n".join([*lines, "", _source("scaling", content)])


def coding_table() -> str:
    """Encoders side by side."""
    content = _read("encoders")
    result = content["result"]
    kinds = ("VQ", "LRR", "LLC", "SC", "SPAMS")
    lines = [
        "| | " + " | ".join(f"{kind}, ms" for kind in kinds) + " | LLC / LRR | SC / LRR |",
        "|---|" + "---|" * (len(kinds) + 2),
    ]
    for size, case in result["sizes"].items():
        spent = (case["ms_an_image"].get(kind) for kind in kinds)
        cells = ["missing" if ms is None else f"{ms:.2f}" for ms in spent]
        cells += [f"{case['ratios'][f'{kind} over LRR']:.1f}" for kind in ("LLC", "SC")]
        lines.append(f"| k = {size} | " + " | ".join(cells) + " |")
    for name, ratios in result["elsewhere"].items():
        spans = (sorted(set(ratios[f"{kind} over LRR"])) for kind in ("LLC", "SC"))
        cells = [*[""] * len(kinds), *(" to ".join(map(str, span)) for span in spans)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _source("encoders", content)])


def _title(name: str) -> str:
    data, train = name.split("@")
    return f"{NAMES[data]}, {train} a class"


def speed_table() -> str:
    """Every figure of the speed benchmarks, met or not."""
    lines = ["| measured | figure | target |", "|---|---|---|"]
    contents = {name: _read(name) for name in SCRIPTS}
    for content in contents.values():
        for line in content["result"]["figures"]:
            value = "missing" if line["value"] is None else f"{line['value']:.3g}"
            target = (line["target"] or "").replace(">=", "≥").replace("<=", "≤")
            if line["met"] is False:
                target += " (missed)"
            lines.append(f"| {line['what']} | {value} | {target} |")
    return "\n".join([*lines, "", _source("*", contents["sift"])])


def insert(text: str, marker: str, table: str) -> str:
    """Replace what stands between ``<!-- marker -->`` and ``<!-- /marker -->``, where it does."""
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- /{marker} -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def _spread(accuracy: dict[str, Any]) -> str:
    return f"{accuracy['mean']:.2f} ± {accuracy['std']:.2f}"


def _source(name: str, content: dict[str, Any]) -> str:
    environment = content["environment"]
    return (
        f"From `benchmarks/results/{name}.json`: commit {environment['commit'][:10]}, "
        f"{environment['cores']} cores of an {environment['cpu']}, "
        f"Python {environment['python']}, NumPy {environment['packages']['numpy']}."
    )


def main() -> None:
    made = tables()
    for page in PAGES:
        text = page.read_text()
        for marker, table in made.items():
            text = insert(text, marker, table)
        page.write_text(text)


if __name__ == "__main__":
    main()
