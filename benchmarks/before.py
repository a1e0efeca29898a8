"""Is it as fast as an earlier commit?

Requests per second of a server with 8 clients, and images per second from file to
vector, of the earlier commit and of this one in turns, with the same LrrSPM model and
the same files of LS. Best of each; target: at least 0.9 of before. And the seconds of
``evaluate`` with LrrSPM on one split of Caltech101, where reading takes longest: target
at least 1.6 times faster, since images are read once and colors weighed in one pass.

    LRRSPM_DATA=... python -m benchmarks.before [COMMIT]
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lrrspm import find_images

from ._measure import ROOT, data_folder, figure, measure, show
from .serve import PER_CLASS, make_requests, send, serving

BASE = "df8a6ff"
TURNS = 2
SECONDS = 8.0
_VECTORS = """
import sys, time
from lrrspm import load_model
model = load_model(sys.argv[1]).set_params(n_jobs=2)
paths = sys.argv[2:]
features = model.features_.set_params(n_jobs=2)
features.transform(paths[:20])
best = 0
for _ in range(4):
    start = time.perf_counter()
    features.transform(paths)
    best = max(best, len(paths) / (time.perf_counter() - start))
print(best)
"""


def run(base: str = BASE) -> dict[str, Any]:
    """Measure both in turns."""
    paths, labels = find_images(data_folder("LS"))
    rows = zip(labels, paths, strict=True)
    chosen = [
        path
        for _, group in itertools.groupby(rows, lambda row: row[0])
        for _, path in itertools.islice(group, PER_CLASS)
    ]
    requests = make_requests([Path(path).read_bytes() for path in chosen])
    found: dict[str, dict[str, list[float]]] = {
        name: {"requests": [], "vectors": [], "splits": []} for name in ("before", "after")
    }
    stages: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", "-f", str(before), base], check=True)
        try:
            model = Path(folder) / "LS.lrrspm"
            _train_with(before, model, chosen)
            for _ in range(TURNS):
                for name, checkout in (("before", before), ("after", ROOT)):
                    environment = _environment(checkout)
                    command = [sys.executable, "-c", _VECTORS, str(model), *chosen]
                    done = subprocess.run(
                        command, env=environment, check=True, capture_output=True, text=True
                    )
                    found[name]["vectors"].append(float(done.stdout))
                    with serving(model, environment) as (_, port):
                        send(8, port, requests, 3.0)
                        each = send(8, port, requests, SECONDS)["per_second"]
                    found[name]["requests"].append(each)
                    seconds, own = _evaluate_with(environment, checkout == ROOT)
                    found[name]["splits"].append(1 / seconds)
                    if 1 / seconds == max(found[name]["splits"]):
                        stages[name] = own
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=False)
    best = {name: {key: max(each) for key, each in own.items()} for name, own in found.items()}
    return {
        "base": base,
        "turns": found,
        "stages": stages,
        "figures": [
            figure(
                f"{what}: this commit over {base}",
                best["after"][key] / best["before"][key],
                target,
            )
            for key, what, target in (
                ("requests", "serve, 8 clients, requests per second", ">= 0.9"),
                ("vectors", "file to vector, images per second, two threads", ">= 0.9"),
                ("splits", "evaluate on Caltech101, splits per second", ">= 1.6"))
        ] + [
            figure(
                f"evaluate on Caltech101: share of reading, {commit}, %",
                100 * stages[name]["read"] / sum(stages[name].values()),
            )
            for name, commit in (("before", base), ("after", "this commit"))
        ],
    }  # fmt: skip


def _evaluate_with(environment: dict[str, str], now: bool) -> tuple[float, dict[str, float]]:
    """Return the wall-clock seconds of the command on one split of Caltech101, also by stage.

    Without the search for near copies, which the earlier commit did not have.
    """
    command = [sys.executable, "-m", "lrrspm", "evaluate", str(data_folder("Caltech101"))]
    options = ["--method", "LrrSPM", "--train-per-class", "30", "--splits", "1", "--json"]
    options += ["--no-near-copies"] if now else []
    start = time.perf_counter()
    done = subprocess.run([*command, *options], env=environment, check=True, capture_output=True)
    return time.perf_counter() - start, json.loads(done.stdout)["seconds"]


def _environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}"}


def _train_with(checkout: Path, model: Path, paths: list[str]) -> None:
    """Train with the earlier commit: both can read its model."""
    listed = model.with_suffix(".csv")
    listed.write_text("\n".join(f"{path},{Path(path).parent.name}" for path in paths))
    command = [sys.executable, "-m", "lrrspm", "train", str(listed), "-o", str(model)]
    subprocess.run(
        [*command, "--no-estimate"],
        env=_environment(checkout),
        check=True,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    show("before", measure("before", lambda: run(*sys.argv[1:])))
