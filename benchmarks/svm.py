"""Is LinearSVM faster than LinearSVC, and does it find the same solution?

Real vectors, k = 256: LS, YaleB and COIL20 together, 40 images per class to
train (2920 x 5376, 73 classes) and up to 20 more to test; C = 10, one thread.
Targets: 8 times as fast as scikit-learn's ``LinearSVC`` at tol 0.1; the sum of
the objectives within 0.1 % of the converged one (``LinearSVC`` at tol 1e-6);
the predictions of the converged one on 99.5 % of the test images.

Then more samples than dimensions: the same images with a 1x1 and a 2x2 grid
alone, 2920 x 1280. The memory that ``fit`` takes there is compared with the
size of the Gram matrix, which it must not build.
"""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from lrrspm import LinearSVM, SpatialPyramidFeatures, find_images

from ._measure import best_of, data_folder, figure, measure, seconds, show

SETS = ("LS", "YaleB", "COIL20")
TRAIN, TEST = 40, 20
C = 10.0
COARSE = 5 * 256  # columns of the 1x1 and the 2x2 grid


class Problem(NamedTuple):
    """Vectors and labels of the training and of the test images."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    X_test: NDArray[np.float32]
    y_test: NDArray[Any]


def run() -> dict[str, Any]:
    """Measure seconds, objectives and agreement for both shapes."""
    problem = _vectors()
    with threadpool_limits(1):
        wide = _compare(problem)
        tall = _compare(_coarse(problem))
        tall["fit_peak_mb"] = _peak(_coarse(problem))
    tall["gram_matrix_mb"] = 4 * len(problem.X) ** 2 / 1e6
    return {
        "figures": [
            figure("SVM, n < d: LinearSVC (tol 0.1) seconds over ours", wide["ratio"], ">= 8"),
            figure("SVM, n < d: objective above converged, %", wide["excess_percent"], "<= 0.1"),
            figure("SVM, n < d: same test predictions, %", wide["agreement_percent"], ">= 99.5"),
            figure("SVM, n > d: LinearSVC (tol 0.1) seconds over ours", tall["ratio"]),
            figure("SVM, n > d: objective above converged, %", tall["excess_percent"]),
            figure("SVM, n > d: same test predictions, %", tall["agreement_percent"]),
            figure(
                "SVM, n > d: peak memory of fit over the Gram matrix's size",
                tall["fit_peak_mb"] / tall["gram_matrix_mb"],
                "< 1",
            ),
        ],
        "n_below_d": wide,
        "n_above_d": tall,
    }


def _vectors() -> Problem:
    rng = np.random.default_rng(0)
    train: list[tuple[str, str]] = []
    test: list[tuple[str, str]] = []
    for name in SETS:
        paths, labels = (np.array(part) for part in find_images(data_folder(name)))
        for label in np.unique(labels):
            chosen = rng.permutation(paths[labels == label])
            train += [(path, f"{name}/{label}") for path in chosen[:TRAIN].tolist()]
            test += [(path, f"{name}/{label}") for path in chosen[TRAIN : TRAIN + TEST].tolist()]
    features = SpatialPyramidFeatures(n_jobs=-1, random_state=0).fit([path for path, _ in train])
    X, X_test = (features.transform([path for path, _ in part]) for part in (train, test))
    y, y_test = (np.array([label for _, label in part]) for part in (train, test))
    return Problem(X, y, X_test, y_test)


def _coarse(problem: Problem) -> Problem:
    def cut(X: NDArray[np.float32]) -> NDArray[np.float32]:
        part = X[:, :COARSE]
        return np.ascontiguousarray(part / np.linalg.norm(part, axis=1, keepdims=True))

    return Problem(cut(problem.X), problem.y, cut(problem.X_test), problem.y_test)


def _compare(problem: Problem) -> dict[str, Any]:
    X, y, X_test, y_test = problem
    double = X.astype(np.float64)  # LinearSVC works in float64: it need not convert
    ours = LinearSVM(C=C, random_state=0)
    loose = LinearSVC(C=C, dual=True, tol=0.1, fit_intercept=False, random_state=0)
    converged = LinearSVC(
        C=C, dual=True, tol=1e-6, fit_intercept=False, random_state=0, max_iter=1_000_000
    )
    ours.fit(X[: 2 * TRAIN], y[: 2 * TRAIN])  # compile
    best = best_of(
        2, {"lrrspm": lambda: ours.fit(X, y), "linearsvc": lambda: loose.fit(double, y)}, False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        best["linearsvc_converged"] = seconds(lambda: converged.fit(double, y))

    models = {"lrrspm": ours, "linearsvc": loose, "linearsvc_converged": converged}
    objectives = {name: _objectives(double, y, model) for name, model in models.items()}
    limit = objectives["linearsvc_converged"]
    predictions = {name: model.predict(X_test) for name, model in models.items()}
    same = predictions["lrrspm"] == predictions["linearsvc_converged"]
    return {
        "shape": list(X.shape),
        "classes": len(ours.classes_),
        "test_images": len(y_test),
        "seconds": best,
        "ratio": best["linearsvc"] / best["lrrspm"],
        "passes": ours.n_iter_,
        "objective": {name: float(values.sum()) for name, values in objectives.items()},
        "excess_percent": _percent(objectives["lrrspm"].sum() / limit.sum() - 1),
        "excess_percent_linearsvc": _percent(objectives["linearsvc"].sum() / limit.sum() - 1),
        "excess_percent_worst_class": _percent((objectives["lrrspm"] / limit).max() - 1),
        "agreement_percent": _percent(same.mean()),
        "accuracy_percent": {
            name: _percent(np.mean(predicted == y_test)) for name, predicted in predictions.items()
        },
    }


def _objectives(X: NDArray[np.float64], y: NDArray[Any], model: Any) -> NDArray[np.float64]:
    """1/2 |w|^2 + C sum max(0, 1 - y w'x)^2 of each class, in float64."""
    weights = model.coef_.astype(np.float64)
    signs = np.where(y[:, None] == model.classes_, 1, -1)
    slack = np.maximum(0, 1 - signs * (X @ weights.T))
    return 0.5 * (weights**2).sum(axis=1) + C * (slack**2).sum(axis=0)


def _peak(problem: Problem) -> float:
    """Measure the megabytes that fit takes on top of its input."""
    tracemalloc.start()
    LinearSVM(C=C, random_state=0).fit(problem.X, problem.y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _percent(share: Any) -> float:
    return 100 * float(share)


def main() -> None:
    show("svm", measure("svm", run))


if __name__ == "__main__":
    main()
