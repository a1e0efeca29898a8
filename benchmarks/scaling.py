"""Why are our BOF and SPM baselines above the paper's?

The same histograms on OT, 100 training images a class, one codebook from all
images, five splits, scaled in different ways: to length 1 (ours), to sum 1, or
plain counts for the linear SVM; and with smaller C for the intersection kernel.
The squared hinge's C is measured against the scale of the vectors, so the scale
decides how strongly the machine is regularised.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrrspm import KernelSVM, LinearSVM, SpatialPyramidFeatures, VQEncoder, find_images
from lrrspm.evaluation import class_accuracies, count_confusions, split_by_class
from lrrspm.kernels import kernel_matrix

from ._measure import figure, measure, show
from .accuracy import scenes
from .methods import PAPER

TRAIN, SPLITS, ATOMS, DESCRIPTORS = 100, 5, 256, 1500
PENALTIES = (0.01, 0.1, 1.0, 10.0)


def run() -> dict[str, Any]:
    """Mean accuracy of each way to scale."""
    with tempfile.TemporaryDirectory() as links:
        paths, labels = find_images(scenes(Path(links)))
        features = SpatialPyramidFeatures(
            VQEncoder(ATOMS), n_jobs=-1, random_state=0, pooling="histogram", norm="l1"
        )
        pyramid = features.fit(paths).transform(paths)
    y = np.array(labels)
    kinds = {"BOF": 4 * pyramid[:, :ATOMS], "SPM": pyramid}
    found: dict[str, list[float]] = {}
    for seed in range(SPLITS):
        train = split_by_class(y, TRAIN, seed)
        test = np.setdiff1d(np.arange(len(y)), train)
        for kind, X in kinds.items():
            for name, accuracy in _one_split(X, y, train, test).items():
                found.setdefault(f"{kind}, {name}", []).append(accuracy)
    means = {name: float(np.mean(values)) for name, values in found.items()}
    return {
        "figures": [figure(f"OT@100, {name}: %", value) for name, value in means.items()],
        "accuracy": found,
        "paper": {name: PAPER["OT@100"][name][0] for name in PAPER["OT@100"] if name[-3:] in kinds},
    }


def _one_split(
    X: NDArray[np.float32],
    y: NDArray[Any],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
) -> dict[str, float]:
    names = np.unique(y)

    def accuracy(predicted: NDArray[Any]) -> float:
        return float(class_accuracies(count_confusions(names, y[test], predicted)).mean())

    scaled = {
        "linear, length 1": X / np.linalg.norm(X, axis=1, keepdims=True),
        "linear, sum 1": X,
        "linear, counts": X * np.float32(DESCRIPTORS),
    }
    result = {}
    for name, vectors in scaled.items():
        machine = LinearSVM(tol=1e-3, random_state=0).fit(vectors[train], y[train])
        result[name] = accuracy(machine.predict(vectors[test]))
    gram = kernel_matrix("intersection", X[train], X[train], None)
    rows = kernel_matrix("intersection", X[test], X[train], None)
    for C in PENALTIES:
        kernel = KernelSVM("precomputed", C=C, random_state=0).fit(gram, y[train])
        result[f"kernel, C = {C:g}"] = accuracy(kernel.predict(rows))
    return result


def main() -> None:
    show("scaling", measure("scaling", run))


if __name__ == "__main__":
    main()
