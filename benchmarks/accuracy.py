"""How accurate is it on the data sets of the paper?

``lrrspm evaluate`` with its defaults, 5 splits, mean of per-class accuracies.
Targets, with a codebook from each split's training images: OT (the eight MIT
classes of LS) at 100 a class 84.0, LS at 100 74.5, YaleB at 30 97.5 and at 10
85.5, COIL20 at 20 98.0. Figures with one codebook from all images, the
paper's way, stand beside them.

``python -m benchmarks.accuracy --only COIL20@20`` runs one and keeps no result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ._measure import MissingError, data_folder, figure, measure, show

TARGETS = {"OT@100": 84.0, "LS@100": 74.5, "YaleB@30": 97.5, "YaleB@10": 85.5, "COIL20@20": 98.0}
WAYS = {"own codebooks": (), "shared codebook": ("--shared-codebook",)}
LARGE = 20


def run(names: tuple[str, ...] = tuple(TARGETS)) -> dict[str, Any]:
    """What evaluate says for each data set, both ways."""
    figures, evaluations = [], {}
    for name in names:
        for way, options in WAYS.items():
            result = _evaluate(name, *options)
            evaluations[f"{name}, {way}"] = result
            target = None if options else f">= {TARGETS[name]}"
            figures.append(figure(f"{name}, {way}: %", result["accuracy"]["mean"], target))
    return {"figures": figures, "evaluations": evaluations}


def _evaluate(name: str, *options: str) -> dict[str, Any]:
    data, train = name.split("@")
    with tempfile.TemporaryDirectory() as links:
        folder = scenes(Path(links)) if data == "OT" else data_folder(data)
        command = [sys.executable, "-m", "lrrspm", "evaluate", str(folder), "--json"]
        command += ["--train-per-class", train, *options]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(output)
    if result["classes"] > LARGE:
        del result["confusion"]
    return result


def scenes(links: Path) -> Path:
    """A folder of links to the classes of LS that make up OT."""
    for folder in data_folder("LS").glob("MIT*"):
        (links / folder.name).symlink_to(folder)
    return links


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=TARGETS, help="run this one and keep no result")
    only = parser.parse_args().only
    if only is None:
        show("accuracy", measure("accuracy", run))
        return
    try:
        show("accuracy", run((only,)))
    except MissingError as error:
        show("accuracy", {"missing": str(error)})


if __name__ == "__main__":
    main()
