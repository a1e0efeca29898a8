"""What does fusing descriptors gain, and learning their weights?

The two channels of ``balanced`` alone, together with equal weights, and together with
the weights that it learns, on the same splits. Everything else is that of ``balanced``.
No target.

    LRRSPM_DATA=... python -m benchmarks.fusion
"""

from __future__ import annotations

import json
from typing import Any

from lrrspm import ImageClassifier, config, find_images
from lrrspm.evaluation import evaluate_all
from lrrspm.methods import PRESETS

from ._measure import RESULTS, data_folder, describe_source, measure

SETS = {"LS": (100, 3), "YaleB": (10, 5), "COIL20": (10, 5)}
"""Training images per class, and splits."""

LEARNED = "both, learned weights (`balanced`)"


def variants() -> dict[str, ImageClassifier]:
    """Return the classifiers to compare, by name."""

    def classifier(places: slice, weight: float | None) -> ImageClassifier:
        channels = PRESETS["balanced"].build()[places]
        for channel in channels:
            channel.weight = weight
        return ImageClassifier(channels=channels, min_side=config.MIN_SIDE, n_jobs=-1)

    return {
        "RootSIFT": classifier(slice(0, 1), 1.0),
        "LBP": classifier(slice(1, 2), 1.0),
        "both, equal weights": classifier(slice(0, 2), 1.0),
        LEARNED: classifier(slice(0, 2), None),
    }


def run() -> dict[str, Any]:
    """Measure accuracies in percent."""
    folders = {name: data_folder(name) for name in SETS}
    rows = []
    for name, (train_per_class, splits) in SETS.items():
        made = variants()
        paths, labels = find_images(folders[name])
        found = evaluate_all(paths, labels, list(made.values()), train_per_class, splits)
        for variant, result in zip(made, found, strict=True):
            print(f"{name} {variant}: {result.mean:.2f} +- {result.std:.2f}", flush=True)
            rows.append(
                {
                    "set": name,
                    "variant": variant,
                    "train_per_class": train_per_class,
                    "splits": splits,
                    "accuracies": result.accuracies,
                    "mean": result.mean,
                    "deviation": result.std,
                }
            )
    return {"rows": rows}


def table() -> str:
    """Return the accuracies, one row per variant."""
    content = json.loads((RESULTS / "fusion.json").read_text())
    rows = content["result"]["rows"]
    sets = {row["set"]: row["train_per_class"] for row in rows}
    heads = [f"{name} ({count})" for name, count in sets.items()]
    lines = [f"| channels | {' | '.join(heads)} |", "|---|" + "---|" * len(sets)]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        cells = [
            f"{row['mean']:.1f} ± {row['deviation']:.1f}"
            for name in sets
            for row in rows
            if (row["set"], row["variant"]) == (name, variant)
        ]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    source = describe_source(content["environment"])
    return "\n".join([*lines, "", f"From `benchmarks/results/fusion.json`: {source}."])


if __name__ == "__main__":
    measure("fusion", run)
