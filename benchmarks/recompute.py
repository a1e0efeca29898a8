"""Do the committed rows of the paper's tables come out again?

Compares rows that were computed anew with the committed ones of the same settings, split by
split. Bits are equal where the kernels of BLAS are: other kernels round in another way, k-means
ends in another codebook, and accuracies change by some tenths.

    lrrspm paper table5 --methods LrrSPM,LinearSPM --splits 2 --results FOLDER
    python -m benchmarks.recompute FOLDER...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from lrrspm._support.environment import short_commit
from lrrspm.paper.results import Results

from ._measure import RESULTS, figure, save, show


def compare(folder: Path) -> list[dict[str, Any]]:
    """Return the accuracies of the settings that a folder shares with the committed rows."""
    committed, again = Results(RESULTS / "paper"), Results(folder)
    rows = []
    for key, record in again.records.items():
        known = committed.records.get(key)
        if known is None or "accuracy" not in record:
            continue
        before, after = (
            results.environments[each["environment"]]
            for results, each in ((committed, known), (again, record))
        )
        setting = record["setting"]
        rows.append(
            {
                **{name: setting[name] for name in ("dataset", "method", "split")},
                **{name: setting[name] for name in ("codebook", "normalize_codes")},
                "commits": [short_commit(before), short_commit(after)],
                "kernels": [before["blas"][0], after["blas"][0]],
                "accuracies": [known["accuracy"], record["accuracy"]],
                "equal": known["per_class"] == record["per_class"],
            }
        )
    return rows


def run(*folders: str) -> dict[str, Any]:
    """Compare the results in folders with the committed ones."""
    rows = [row for folder in folders for row in compare(Path(folder))]
    if not rows:
        sys.exit("no committed row has these settings")
    same = [row for row in rows if row["kernels"][0] == row["kernels"][1]]
    other = [row for row in rows if row not in same]
    figures = [
        figure(
            "rows that come out again, of those with the same kernels of BLAS",
            sum(row["equal"] for row in same),
            f">= {len(same)}",
        )
    ]
    if other:
        changes = [abs(row["accuracies"][1] - row["accuracies"][0]) for row in other]
        figures += [
            figure("other kernels of BLAS: mean change of an accuracy, points", fmean(changes)),
            figure("other kernels of BLAS: largest change of an accuracy, points", max(changes)),
        ]
    return {"rows": rows, "figures": figures}


def say() -> str:
    """Say how many of the committed rows came out again, and with which kernels of BLAS."""
    content = json.loads((RESULTS / "recompute.json").read_text())
    rows = content["result"]["rows"]
    same = [row for row in rows if row["kernels"][0] == row["kernels"][1]]
    other = [row for row in rows if row not in same]
    changes = [row["accuracies"][1] - row["accuracies"][0] for row in other]
    names = ", ".join(dict.fromkeys(row["dataset"] for row in rows))
    before, after = rows[0]["commits"]
    return (
        f"Rows of {names} by commit {before} were computed again by commit {after}: "
        f"{sum(row['equal'] for row in same)} of {len(same)} are the same, class by class, with "
        f"the same kernels of BLAS ({same[0]['kernels'][1]}). With others "
        f"({other[0]['kernels'][1]}) the accuracies of the same splits change by "
        f"{min(changes):+.2f} to {max(changes):+.2f} points ({fmean(map(abs, changes)):.2f} on "
        "average), because k-means ends in another codebook. From "
        "`benchmarks/results/recompute.json`."
    )


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m benchmarks.recompute FOLDER...")
    result = run(*sys.argv[1:])
    save("recompute", result)
    show("recompute", result)


if __name__ == "__main__":
    main()
