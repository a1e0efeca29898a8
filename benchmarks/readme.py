"""Write the tables of README and docs from the result files: ``python -m benchmarks.readme``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from lrrspm._support.environment import short_commit
from lrrspm.datasets import DATASETS
from lrrspm.paper import agreement
from lrrspm.paper.claims import claims_table
from lrrspm.paper.experiments import OWN_CODEBOOK, TABLES, Options
from lrrspm.paper.results import Results
from lrrspm.paper.significance import say_p
from lrrspm.paper.tables import cells, make_table
from lrrspm.report.page import markdown_table

from . import (
    everyday,
    evidence,
    fusion,
    gpu_parity,
    gpu_tables,
    parity,
    recompute,
    review,
    robustness,
)
from .__main__ import SCRIPTS
from ._measure import RESULTS, ROOT, describe_source
from .beyond_tables import costs_table, folders_table, measured, peers_table, presets_table

# Every page, but for those that building the documents makes.
PAGES = tuple(
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in page.parts
)

# What the package itself says of the presets.
MEASURED = ROOT / "src" / "lrrspm" / "measured.json"

# Accuracies of LrrSPM in docs/paper.md: a table of the paper, a column of it, a data set.
ACCURACY = (
    ("table4", "OT", "OT"),
    ("table4", "FP", "FP"),
    ("table4", "LS", "LS"),
    ("table9", "10 per class", "YaleB"),
    ("table9", "30 per class", "YaleB"),
    ("table7", "10 per class", "COIL20"),
    ("table7", "20 per class", "COIL20"),
    ("table8", "10 per class", "COIL100"),
    ("table5", "Caltech101", "Caltech101"),
    ("table5", "17flowers", "17flowers"),
)
# Claims of the paper in docs/paper.md; docs/results.md has all.
CLAIMS = ("competitive", "ScSPM", "LLC", "scenes", "best", "table 10")
# Words of older result files, and what the tables say instead.
WORDS = {
    "images a second": "images per second",
    "requests a second": "requests per second",
    "MB an image": "MB per image",
    "growth between them": "growth from LS to 10 times LS",
    "two threads, times as fast": "one thread over two, seconds",
    "train on LS: an empty store over none": "train on LS: seconds, empty store over none",
    "train on LS: none over a full store": "train on LS: seconds, no store over a full one",
    "share of the SVMs": "share of training the SVMs",
}


def tables() -> dict[str, str]:
    """Return tables in Markdown, by marker."""
    return {
        "accuracy": accuracy_table(),
        "shortfall": _from_rows(agreement.say_shortfall),
        "variants": _from_rows(agreement.say_variants),
        "readings": _from_rows(agreement.say_readings),
        "claims": claims_block(),
        "recompute": recompute.say(),
        "fusion": fusion.table(),
        "future": future_table(),
        "gains": future_gains(),
        "gpu": gpu_tables.kernels_table(),
        "parity": parity.table(),
        "gpu_parity": gpu_parity.table(),
        "gpu_evaluate": gpu_tables.evaluate_line(),
        "roofline": gpu_tables.roofline_table(),
        "photographs": robustness.say_photographs(),
        "hardening": hardening_table(),
        "methods": methods_table(),
        "coding": coding_table(),
        "stages": stages_table(),
        "speed": speed_table((*(name for name in SCRIPTS if name != "evidence"), "before")),
        "evidence": evidence.tables(),
        "scaling": scaling_table(),
        "plan": plan_table(),
        "near_copies": speed_table(("near_copies",)),
        "beyond_memory": speed_table(("beyond_memory",)),
        "halves": speed_table(("halves",)),
        "presets": presets_table(),
        "folders": folders_table(),
        "everyday": everyday.table(),
        "review": review.table(),
        "costs": costs_table(),
        "peers": peers_table(),
    }


def accuracy_table() -> str:
    """Return accuracies of LrrSPM next to the paper's, for both ways to learn the codebook."""
    results = Results(RESULTS / "paper")
    lines = [
        "| data set | training images per class | codebook from training images | "
        "codebook from all images | paper | difference | in standard errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for table, column, name in ACCURACY:
        found = cells(table, results, Options())
        shared, own = (found[row][column] for row in ("LrrSPM", OWN_CODEBOOK))
        train = next(c.train_per_class for c in TABLES[table] if c.dataset == name)
        if "class" in column:
            train = int(column.split()[0])
        paper = f"{shared.paper:.2f} ± {shared.paper_std:.2f}"
        test = shared.difference
        assert test is not None
        apart = f"{test.points:+.2f} | {test.errors:+.1f} ({say_p(test.p)})"
        numbers = f"{own.ours()} | {shared.ours()} | {paper} | {apart}"
        lines.append(f"| {DATASETS[name].title} | {train} | {numbers} |")
    return "\n".join([*lines, "", _paper_source(results)])


def methods_table() -> str:
    """Return table 4 of the paper: the seven methods on scenes."""
    results = Results(RESULTS / "paper")
    table = make_table("table4", results, Options())
    return "\n".join([markdown_table(table), "", _paper_source(results)])


def _paper_source(results: Results) -> str:
    made = "; ".join(map(describe_source, results.environments.values()))
    return f"From `benchmarks/results/paper/rows.jsonl`: {made}."


def _from_rows(say: Callable[[Results, Options], str | list[str]]) -> str:
    """Return sentences about the paper's rows, several as a list."""
    said = say(Results(RESULTS / "paper"), Options())
    return said if isinstance(said, str) else "\n".join(f"- {one}" for one in said)


def claims_block() -> str:
    """Return the claims of the paper that count most, with our verdicts."""
    table = claims_table(Results(RESULTS / "paper"), Options(), CLAIMS)
    return "\n".join([markdown_table(table), "", *table.notes])


def coding_table() -> str:
    """Return milliseconds per image of each encoder, and their ratios."""
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
    return "\n".join([*lines, "", _source("encoders.json", content["environment"])])


def stages_table() -> str:
    """Return what each stage of balanced costs per image, with its operations and floor."""
    content = _read("floors")
    floors = content["result"]
    kinds = list(floors["rates"])
    lines = [
        "| stage | ms | " + " | ".join(f"{kind}s" for kind in kinds) + " | floor, ms |",
        "|---|---|" + "---|" * (len(kinds) + 1),
    ]
    for row in floors["stages"]:
        work = row.get("work", {})
        cells = [f"{work[kind] / 1e6:.2g}" if kind in work else "" for kind in kinds]
        cells.append(f"{row['floor_ms']:.3f}" if "floor_ms" in row else "")
        lines.append(f"| {row['stage']} | {row['ms']:.3f} | " + " | ".join(cells) + " |")
    rates = [f"{rate / 1e9:.3g}" for rate in floors["rates"].values()]
    lines.append("| bare loop, operations per ns | | " + " | ".join(rates) + " | |")
    return "\n".join([*lines, "", _source("floors.json", content["environment"])])


def future_table() -> str:
    """Return accuracies of LrrSPM and its extensions, and seconds of encoding over LrrSPM's."""
    content = _read("future")
    rows = content["result"]["rows"]
    sets = list(dict.fromkeys(row["set"] for row in rows))
    found = {(row["variant"], row["set"]): row for row in rows}
    lines = [
        "| method | " + " | ".join(sets) + " | encoding |",
        "|---|" + "---|" * (len(sets) + 1),
    ]
    spent = {}
    for variant in dict.fromkeys(row["variant"] for row in rows):
        own = [found[variant, name] for name in sets]
        spent[variant] = sum(row["seconds"]["encode"] for row in own)
        cells = [f"{row['accuracy']:.2f} ± {row['deviation']:.2f}" for row in own]
        cells.append(f"{spent[variant] / next(iter(spent.values())):.2g}")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _source("future.json", content["environment"])])


# Groups of the rows of future.json: what they are, and how their names begin.
_EXTENSIONS = {
    "A kernel in the objective": "NonlinearLrrSPM",
    "The intersection kernel": "KernelLrrSPM",
    "Atoms per class": "SupervisedLrrSPM",
}


def future_gains() -> str:
    """Return the points that each kind of extension gains over LrrSPM, by data set."""
    rows = _read("future")["result"]["rows"]
    base = {row["set"]: row["accuracy"] for row in rows if row["variant"] == "LrrSPM"}
    lines = []
    for what, start in _EXTENSIONS.items():
        spans = []
        for name, plain in base.items():
            gains = [
                row["accuracy"] - plain
                for row in rows
                if row["set"] == name and row["variant"].startswith(start)
            ]
            low, high = f"{min(gains):+.1f}", f"{max(gains):+.1f}"
            spans.append(f"{low if low == high else f'{low} to {high}'} points on {name}")
        lines.append(f"- {what}: {', '.join(spans)}.")
    return "\n".join(lines)


def speed_table(scripts: tuple[str, ...]) -> str:
    """Return figures of benchmarks with their targets."""
    lines = ["| measured | figure | target |", "|---|---|---|"]
    contents = {name: _read(name) for name in scripts if (RESULTS / f"{name}.json").exists()}
    shown: dict[str, None] = {}
    for name, content in contents.items():
        for line in content["result"]["figures"]:
            what = _reword(line["what"])
            shown[name] = None
            value = _three_digits(line["value"])
            target = (line["target"] or "").replace(">=", "≥").replace("<=", "≤")
            if line["met"] is False:
                target += " (missed)"
            lines.append(f"| {what} | {value} | {target} |")
    sources: dict[str, list[str]] = {}
    for name in shown:
        sources.setdefault(_source("", contents[name]["environment"]), []).append(name)
    notes = [f"{', '.join(names)}{source}" for source, names in sources.items()]
    return "\n".join([*lines, "", "From `benchmarks/results`: " + " ".join(notes)])


def _three_digits(value: float | None) -> str:
    """Return three significant digits, large numbers without an exponent."""
    if value is None:
        return "missing"
    short = f"{value:.3g}"
    return f"{float(short):,.0f}" if "e+" in short else short


def scaling_table() -> str:
    """Return the figures of a cluster; each part was measured at a commit and load of its own."""
    parts = _read("scaling")["result"]["found"]
    named = [
        f"{name} {short_commit(one)} (load {one['load']:.1f})"
        for name, one in parts.items()
        if isinstance(one, dict)
    ]
    return f"{speed_table(('scaling',))} Parts by commit: {', '.join(named)}."


def plan_table() -> str:
    """Return what a billion images would take, from measured rates and the scheduler's time."""
    rates = _read("presets")["result"]["images_per_second"]
    figures = {one["what"]: one["value"] for one in _read("scaling")["result"]["figures"]}
    scheduler = figures["scheduler CPU per chunk, us"] / 1e6
    hours, tasks = {}, {}
    for name in ("fast", "balanced"):
        per_core = rates[name] / 2
        hours[name] = f"{1e9 / per_core / 1000 / 3600:.1f} hours"
        tasks[name] = 1e9 / (2 * per_core)
    scheduling = [f"{tasks[name] * scheduler / 3600:.1f}" for name in ("fast", "balanced")]
    counts = [f"{tasks[name] / 1e6:.1f}" for name in ("fast", "balanced")]
    rows = (
        ("stage", "bytes", "time on 1000 cores", "breaks first"),
        ("---",) * 4,
        ("listing the images", "a million requests of 1000 names; paths of 200 GB",
         "28 hours on the driver, at 0.1 seconds per request",
         "time, then the driver's memory; list ten million at a time, on several machines"),
        ("digests, with `--cache`", "100 TB, read before the images are; names of 150 bytes in "
         "each worker", "as for reading",
         "the workers' memory, at 150 GB each; predict without `--cache`"),
        ("near copies (`train`, `evaluate`, `audit`)", "0.9 kB per image: 900 GB",
         "on the driver; grows faster than the number of images, more slowly than its square",
         "the driver's memory, before ten million; use `--no-near-copies`"),
        ("reading the files", "100 TB", "2.2 hours at 12.5 GB/s (100 Gbit/s)",
         "the network of one store; use several"),
        ("codebook: a sample", "200,000 descriptors",
         "seconds; at most 200,000 images are read", "nothing"),
        ("vectors, `fast`", "21.5 TB", hours["fast"],
         "the driver, if they come back: 21.5 TB"),
        ("vectors, `balanced`", "278 TB", hours["balanced"], "likewise"),
        ("scores instead of vectors (`predict`)", "60 GB for 15 classes, 60 bytes per row",
         "as for the vectors",
         "the driver's list of paths: 200 GB; split it into files of ten million paths"),
        ("tasks", f"2 seconds each: {counts[0]} million (`fast`) to {counts[1]} million",
         f"{1e3 * scheduler:.1f} ms of scheduler per task: {' to '.join(scheduling)} hours",
         "the scheduler, at about 1000 cores; raise `SECONDS` in `pipeline/cluster.py` to 20, "
         "or use one scheduler per ten million images"),
        ("training on all, with 15 classes", "each pass reads 21.5 TB; 60 GB of scores go through "
         "the driver, whose disk takes 72 bytes per image and class: 1.1 TB",
         "as for reading, per pass of the solver: tens to hundreds",
         "the driver's memory, at 200 GB of paths; then its disk; then time. Train on a sample of "
         "a million, and predict the rest"),
    )  # fmt: skip
    constants = (
        f"Constants: {rates['fast']:.0f} and {rates['balanced']:.0f} images per second for `fast` "
        "and `balanced` on two threads (`benchmarks/results/presets.json`), vectors of 21.5 and "
        "278.5 kB, a JPEG of 0.1 MB, and the overheads above."
    )
    return "\n".join([constants, "", *(f"| {' | '.join(row)} |" for row in rows)])


def measured_text() -> str:
    """Return the content of the package's own file of accuracies and rates."""
    return json.dumps(measured(), indent=2) + "\n"


def insert(text: str, marker: str, table: str) -> str:
    """Replace the text between ``<!-- marker -->`` and ``<!-- /marker -->``, if there are any."""
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- /{marker} -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)


def _reword(label: str) -> str:
    for old, new in WORDS.items():
        label = label.replace(old, new)
    return label


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def _source(name: str, environment: dict[str, Any]) -> str:
    """Return where numbers come from; without a name only commit, machine and versions."""
    made = f": {describe_source(environment)}."
    return f"From `benchmarks/results/{name}`{made}" if name else made


def hardening_table() -> str:
    """Return attacks with what they cost before and after."""
    content = json.loads((RESULTS / "hardening.json").read_text())
    lines = ["| attack | before | after |", "|---|---|---|"]
    for row in content["result"]["rows"]:
        before, after = (_cost(row[when]) for when in ("before", "after"))
        lines.append(f"| {row['attack']} | {before} | {after} |")
    commit = short_commit(content["environment"])
    base = content["result"]["base"]
    return "\n".join([*lines, "", f"Before is commit {base}, after is {commit}; one run each."])


def _cost(found: dict[str, Any]) -> str:
    """Describe what an attack cost in a few words."""
    parts = []
    if found.get("seconds") is not None:
        parts.append(f"{found['seconds']:.1f} s")
    if found.get("mb") is not None:
        parts.append(f"{found['mb']:.0f} MB")
    for key in ("exit", "result"):
        if found.get(key) is not None:
            text = " ".join(str(found[key]).split())[:90].replace("|", "/").replace("`", "'")
            parts.append(f"exit {text}" if key == "exit" else text)
    return ", ".join(parts) or "nothing"


def main() -> None:
    made = tables()
    for page in PAGES:
        text = page.read_text()
        for marker, table in made.items():
            text = insert(text, marker, table)
        page.write_text(text)
    MEASURED.write_text(measured_text())


if __name__ == "__main__":
    main()
