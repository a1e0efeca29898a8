"""How accurate are the seven methods of the paper's tables?

``lrrspm evaluate --method all --shared-codebook``: one codebook of 256 atoms
from all images, five splits, OT and LS at 100 training images a class, YaleB
at 30. The paper's numbers (tables 4 and 9) stand beside ours, with the
difference in standard deviations of both together.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ._measure import data_folder, figure, measure, show
from .accuracy import scenes

SETS = ("OT@100", "LS@100", "YaleB@30")
PAPER = {
    "OT@100": {
        "LrrSPM": (85.63, 0.56),
        "LinearBOF": (78.95, 0.12),
        "KernelBOF": (76.28, 0.16),
        "LinearSPM": (76.09, 0.55),
        "KernelSPM": (73.52, 0.64),
        "ScSPM": (84.44, 0.24),
        "LLC": (85.55, 0.34),
    },
    "LS@100": {
        "LrrSPM": (76.34, 0.58),
        "LinearBOF": (66.38, 0.88),
        "KernelBOF": (62.67, 0.78),
        "LinearSPM": (66.91, 0.78),
        "KernelSPM": (60.83, 0.39),
        "ScSPM": (74.40, 0.45),
        "LLC": (76.99, 1.21),
    },
    "YaleB@30": {
        "LrrSPM": (98.28, 0.55),
        "LinearBOF": (70.66, 1.28),
        "KernelBOF": (71.35, 1.40),
        "LinearSPM": (80.82, 1.95),
        "KernelSPM": (85.54, 3.53),
        "ScSPM": (98.05, 0.44),
        "LLC": (98.05, 0.41),
    },
}


def run() -> dict[str, Any]:
    """Accuracy and seconds of each method on each set, the paper's beside them."""
    figures, sets = [], {}
    for name in SETS:
        found = _evaluate(name)
        sets[name] = {
            method: {
                "accuracy": result["accuracy"],
                "seconds": result["seconds"],
                "parameters": result["parameters"],
                "paper": dict(zip(("mean", "std"), PAPER[name][method], strict=True)),
                "deviations": _deviations(result["accuracy"], *PAPER[name][method]),
            }
            for method, result in found.items()
        }
        figures += [
            figure(f"{name}, {method}: %", result["accuracy"]["mean"])
            for method, result in found.items()
        ]
    return {"figures": figures, "sets": sets}


def _deviations(ours: dict[str, Any], mean: float, std: float) -> float:
    spread: float = (ours["std"] ** 2 + std**2) ** 0.5
    difference: float = ours["mean"] - mean
    return difference / spread


def _evaluate(name: str) -> dict[str, Any]:
    data, train = name.split("@")
    with tempfile.TemporaryDirectory() as links:
        folder = scenes(Path(links)) if data == "OT" else data_folder(data)
        command = [sys.executable, "-m", "lrrspm", "evaluate", str(folder), "--json"]
        command += ["--method", "all", "--shared-codebook", "--train-per-class", train]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output)["methods"]
    return found


def main() -> None:
    show("methods", measure("methods", run))


if __name__ == "__main__":
    main()
