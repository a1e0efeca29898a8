"""Tables of docs/beyond.md and ``lrrspm methods``, from results/beyond.jsonl and the paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from lrrspm.paper.published import read_published

from ._measure import RESULTS, describe_source
from .beyond import PEERS, PRESETS, SETS, rows

# Accuracies that others published without pretrained weights, and where.
ELSEWHERE = {
    "LS (100)": (
        "88.2 (spatial Fisher vectors [1]), 91.1 (learned regions and Fisher vectors [2])"
    ),
    "Caltech101 (30)": "78.7 (VLAD with positions [3]), 82.5 (M-HMP [4]), 84.3 (many kernels [5])",
}

# Linear SVM on the frozen features of EfficientNet-Lite0, pretrained on ImageNet.
PRETRAINED = {
    "LS (100)": 92.2,
    "Caltech101 (30)": 92.2,
    "Yale B (10)": 85.5,
    "Yale B (30)": 93.9,
    "COIL20 (10)": 99.6,
    "COIL20 (20)": 99.9,
    "elpv (100)": 83.1,
}


def presets_table() -> str:
    """Return accuracies of the presets beside the paper's, others' and a pretrained network's."""
    found = _found()
    lines = [
        "| data set (training images per class) | `fast` | `balanced` | `best` | "
        "the paper's best | elsewhere, without pretrained weights | pretrained network |",
        "|---|" + "---|" * 6,
    ]
    for title in _titles(found):
        network = PRETRAINED.get(title)
        others = [_papers_best(title), ELSEWHERE.get(title, ""), "" if network is None else network]
        cells = [_accuracy(found.get((title, method))) for method in PRESETS]
        lines.append(f"| {title} | " + " | ".join(map(str, [*cells, *others])) + " |")
    return "\n".join([*lines, "", _sources(PRESETS)])


FOLDERS = {
    "COIL20 (10)": "COIL20, objects",
    "Yale B (10)": "Yale B, faces",
    "elpv (100)": "elpv, solar cells",
    "OT (100)": "OT, outdoor scenes",
    "LS (100)": "LS, scenes",
    "Caltech101 (30)": "Caltech101, objects",
}
"""Data sets in the README."""


def folders_table() -> str:
    """Return accuracy and seconds on six folders, for the README."""
    found = _found()
    lines = [
        "| folder | classes | trained on | `fast` | `balanced` | training time | `best` | "
        "pretrained network |",
        "|---|" + "---|" * 7,
    ]
    for title, name in FOLDERS.items():
        own = found.get((title, "balanced"))
        if own is None:
            continue
        trained = f"{own['images'] - own['tested']:,} images"
        cells = [_accuracy(found.get((title, method)), spread=False) for method in PRESETS]
        cells.insert(2, f"{own['fit_seconds']:.0f} s")
        network = str(PRETRAINED.get(title, ""))
        lines.append(f"| {name} | {own['classes']} | {trained} | {' | '.join(cells)} | {network} |")
    return "\n".join([*lines, "", _sources(PRESETS)])


def costs_table() -> str:
    """Return seconds, memory and model size of the presets."""
    found = _found()
    lines = [
        "| data set (training images per class) | preset | training, s | test images per second | "
        "peak memory, GB | model, MB |",
        "|---|---|---|---|---|---|",
    ]
    for title in SETS:
        for method in PRESETS:
            row = found.get((title, method))
            if row is None:
                continue
            rate = row["tested"] / row["predict_seconds"]
            lines.append(
                f"| {title} | {method} | {row['fit_seconds']:.1f} | {rate:.0f} | "
                f"{row['peak_bytes'] / 1e9:.2f} | {row['model_bytes'] / 1e6:.1f} |"
            )
    return "\n".join([*lines, "", _sources(PRESETS)])


def peers_table() -> str:
    """Return LrrFV beside Fisher vectors and VLAD: accuracy, and CPU seconds over LrrFV's."""
    found, content = _found(), json.loads((RESULTS / "peers.json").read_text())
    spent = content["result"]["seconds"]
    lines = ["| data set | " + " | ".join(PEERS) + " |", "|---|" + "---|" * len(PEERS)]
    for title, (_, _, methods) in SETS.items():
        if PEERS[0] not in methods:
            continue
        cells = []
        for method in PEERS:
            pairs = zip(spent[title][method], spent[title][PEERS[0]], strict=True)
            ratios = ", ".join(f"{theirs / own:.2f}" for theirs, own in pairs)
            cells.append(f"{_accuracy(found.get((title, method)))} ({ratios})")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    source = f"CPU seconds: `peers.json`, {describe_source(content['environment'])}."
    return "\n".join([*lines, "", _sources(PEERS), source])


def measured() -> dict[str, dict[str, Any]]:
    """Return what ``lrrspm methods`` says of the presets: accuracies, and images per second."""
    found = _found()
    rates = json.loads((RESULTS / "presets.json").read_text())["result"]["images_per_second"]
    return {
        method: {
            "accuracy": {
                SETS[title][0]: _rounded_mean(found.get((title, method)))
                for title in ("LS (100)", "Caltech101 (30)")
            },
            "images_per_second": round(rates[method]),
        }
        for method in PRESETS
    }


def _rounded_mean(row: dict[str, Any] | None) -> float | None:
    return None if row is None else round(float(np.mean(row["accuracies"])), 1)


def _titles(found: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """Return the data sets that a preset was measured on."""
    return [title for title in SETS if any((title, method) in found for method in PRESETS)]


def _found() -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["set"], row["method"]): row for row in rows()}


def _accuracy(row: dict[str, Any] | None, spread: bool = True) -> str:
    if row is None:
        return "not run"
    deviation = f" ± {np.std(row['accuracies'], ddof=1):.1f}" if spread else ""
    return f"{np.mean(row['accuracies']):.1f}{deviation}"


def _papers_best(title: str) -> str:
    name, per_class, _ = SETS[title]
    cells = [
        cell
        for table in read_published().values()
        for cell in table.get("cells", [])
        if cell.get("dataset") == name and cell.get("train_per_class") == per_class
        and cell.get("codebook_size") == 256 and cell.get("accuracy") is not None
    ]  # fmt: skip
    if not cells:
        return ""
    best = max(cells, key=lambda cell: cell["accuracy"])
    return f"{best['accuracy']:.1f} ({best['row']})"


def _sources(methods: Sequence[str]) -> str:
    kept = [row for row in rows() if row["method"] in methods]
    commits: dict[str, list[str]] = {}
    for row in kept:
        commit, _, machine = describe_source(row["environment"]).partition(", ")
        known = commits.setdefault(machine, [])
        if commit.split()[1] not in known:
            known.append(commit.split()[1])
    found = "; ".join(
        f"{'commit' if len(names) == 1 else 'commits'} {', '.join(names)}; {machine}"
        for machine, names in commits.items()
    )
    return f"From `benchmarks/results/beyond.jsonl`: {found or 'no rows'}."
