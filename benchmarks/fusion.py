"""What does fusing descriptors gain, and learning their weights?

The channels of ``balanced`` alone, together with equal weights, and together with the
weights that it learns, on the same splits; color where images have some. Everything else
is that of ``balanced``. No target.

    LRRSPM_DATA=... python -m benchmarks.fusion
"""

from __future__ import annotations

import json
from typing import Any

from lrrspm import ImageClassifier, config, find_images
from lrrspm.evaluation import evaluate_all
from lrrspm.methods import PRESETS

from ._measure import RESULTS, data_folder, describe_source, measure

SETS = {"LS": (100, 3), "YaleB": (10, 5), "COIL20": (10, 5), "Caltech101": (30, 2)}
"""Training images per class, and splits."""

COLORED = ("Caltech101",)


def variants(colored: bool) -> dict[str, ImageClassifier]:
    """Return the classifiers to compare, by name."""

    def classifier(*places: int, weight: float | None = 1.0) -> ImageClassifier:
        built = PRESETS["balanced"].build()
        channels = [built[place] for place in places]
        for channel in channels:
            channel.weight, channel.when = weight, None
        return ImageClassifier(channels=channels, min_side=config.MIN_SIDE, n_jobs=-1)

    gray, everything = (0, 1), (0, 1, 2) if colored else (0, 1)
    found = {"RootSIFT": classifier(0), "LBP": classifier(1)}
    if colored:
        found["LocalColor"] = classifier(2)
        found["all but color, learned weights"] = classifier(*gray, weight=None)
    found["all, equal weights"] = classifier(*everything)
    found["all, learned weights (`balanced`)"] = classifier(*everything, weight=None)
    return found


def run() -> dict[str, Any]:
    """Measure accuracies in percent."""
    folders = {name: data_folder(name) for name in SETS}
    rows = []
    for name, (train_per_class, splits) in SETS.items():
        made = variants(name in COLORED)
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
    found = {
        (row["variant"], row["set"]): f"{row['mean']:.1f} ± {row['deviation']:.1f}" for row in rows
    }
    # The data set with the most variants says the order.
    longest = max(sets, key=lambda name: sum(row["set"] == name for row in rows))
    for variant in (row["variant"] for row in rows if row["set"] == longest):
        cells = [found.get((variant, name), "") for name in sets]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    source = describe_source(content["environment"])
    return "\n".join([*lines, "", f"From `benchmarks/results/fusion.json`: {source}."])


if __name__ == "__main__":
    measure("fusion", run)
