"""What do the extensions that the paper leaves as future work gain?

LrrSPM, nonlinear LrrSPM (a kernel in the objective, an intersection kernel on the
vectors, and both) and supervised LrrSPM (a codebook learned per class), on the same
splits. Codebooks come from the training images of each split; k = 256, lambda = 0.7,
epsilon = 0.98 and C = 10 for all. No target.

    LRRSPM_DATA=... python -m benchmarks.future
"""

from __future__ import annotations

from typing import Any

from lrrspm import ImageClassifier, find_images
from lrrspm.encoders import KernelLRREncoder
from lrrspm.evaluation import evaluate_all

from ._measure import data_folder, figure, measure, show

SETS = {"LS": (100, 3), "YaleB": (10, 5), "COIL20": (10, 5)}
"""Training images per class, and splits."""

BASE = "LrrSPM"


def variants() -> dict[str, ImageClassifier]:
    """Return the classifiers to compare, by name; the first is the paper's."""
    chi2, crossing, rbf = (
        KernelLRREncoder(kernel=name) for name in ("chi2", "intersection", "rbf")
    )
    both = KernelLRREncoder()
    return {
        BASE: ImageClassifier(method=BASE),
        "NonlinearLrrSPM (hellinger)": ImageClassifier(method="NonlinearLrrSPM"),
        "NonlinearLrrSPM (chi2)": ImageClassifier(chi2, method="NonlinearLrrSPM"),
        "NonlinearLrrSPM (intersection)": ImageClassifier(crossing, method="NonlinearLrrSPM"),
        "NonlinearLrrSPM (rbf)": ImageClassifier(rbf, method="NonlinearLrrSPM"),
        "KernelLrrSPM": ImageClassifier(method="KernelLrrSPM"),
        "KernelLrrSPM over hellinger codes": ImageClassifier(both, method="KernelLrrSPM"),
        "SupervisedLrrSPM": ImageClassifier(method="SupervisedLrrSPM"),
    }


def run() -> dict[str, Any]:
    """Measure accuracies in percent and seconds."""
    folders = {name: data_folder(name) for name in SETS}
    rows, figures = [], []
    for name, (train_per_class, splits) in SETS.items():
        made = variants()
        paths, labels = find_images(folders[name])
        found = evaluate_all(paths, labels, list(made.values()), train_per_class, splits)
        for variant, result in zip(made, found, strict=True):
            own = {stage: result.seconds[stage] for stage in ("encode", "train", "test")}
            rows.append(
                {
                    "set": name,
                    "variant": variant,
                    "train_per_class": train_per_class,
                    "splits": splits,
                    "accuracy": result.mean,
                    "deviation": result.std,
                    "accuracies": result.accuracies,
                    "seconds": own,
                }
            )
            if variant != BASE:
                gain = result.mean - found[0].mean
                figures.append(figure(f"{name}: {variant}, points over LrrSPM", gain))
    return {"figures": figures, "rows": rows}


def main() -> None:
    show("future", measure("future", run))


if __name__ == "__main__":
    main()
