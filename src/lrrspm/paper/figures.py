"""Figures 1, 3 and 4: their numbers and drawings; the drawings of 1 (b) and 2."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.files import write_atomically
from .._support.stages import Stages
from ..datasets import load, locate
from ..encoders import LRREncoder, SparseEncoder
from ..images import read_image
from ..pipeline import fit_features, open_engine
from .experiments import SCHEMATICS, Options, curves
from .published import read_published
from .results import Results
from .schematics import draw_comparison, draw_flow
from .tables import accuracy_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's figure 1 is of Caltech101; any set with enough descriptors can replace it.
_CODEBOOK_SETS = ("Caltech101", "LS", "YaleB", "COIL20")
_ATOMS, _QUICK_ATOMS = 5120, 512
_SAMPLES = 6
"""Dictionary images, and as many test images, per subject in figure 3."""

# Distinct in print and for color-blind readers.
_COLORS = ("#0072b2", "#d55e00", "#009e73")
_MARKS = ("o", "s", "^")


def compute(
    name: str,
    results: Results,
    root: Path,
    options: Options,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> None:
    """Compute the numbers of figure 1 or 3, unless they exist or the data do not."""
    parameters = _parameters(name, root, options)
    if parameters is None or parameters in [r["setting"] for r in _done(name, results)]:
        return
    start = time.perf_counter()
    try:
        if name == "figure1":
            values = _singular_values(parameters, root, options, n_jobs, stages or Stages())
        else:
            values = _face_codes(root, options)
    except (ValueError, OSError, MemoryError) as error:
        results.add_figure(parameters, error=str(error) or type(error).__name__)
    else:
        results.add_figure(parameters, values=values, wall=round(time.perf_counter() - start, 3))


def _parameters(name: str, root: Path, options: Options) -> dict[str, Any] | None:
    """Return everything that determines a figure's numbers; None without its data set."""
    names = _CODEBOOK_SETS if name == "figure1" else ("YaleB",)
    found = [n for n in names if locate(n, root) is not None]
    if not found:
        return None
    common = {"figure": name, "dataset": found[0], "seed": options.seed}
    if name == "figure1":
        size = _QUICK_ATOMS if options.quick else _ATOMS
        return {**common, "codebook_size": size, "quick": options.quick}
    return {**common, "samples": _SAMPLES}


def find(name: str, results: Results, options: Options) -> dict[str, Any] | None:
    """Return the numbers of figure 1 or 3, from the data set closest to the paper's."""
    found = [
        record
        for record in _done(name, results)
        if record["setting"]["seed"] == options.seed
        and record["setting"].get("quick", options.quick) == options.quick
    ]
    return min(found, key=lambda r: _CODEBOOK_SETS.index(r["setting"]["dataset"]), default=None)


def _done(name: str, results: Results) -> list[dict[str, Any]]:
    return [record for record in results.figures(name) if "error" not in record]


def has_numbers(name: str, results: Results, options: Options) -> bool:
    """Return True if there is something to draw."""
    if name == "figure4":
        return any(curve_points(results, options).values())
    return find(name, results, options) is not None


def _singular_values(
    parameters: dict[str, Any], root: Path, options: Options, n_jobs: int | None, stages: Stages
) -> dict[str, Any]:
    """Return the singular values of a codebook from all images of a set."""
    size = parameters["codebook_size"]
    setting = replace(options.setting(parameters["dataset"], 1), codebook_size=size)
    features = setting.codebook_features(n_jobs)
    paths, _ = load(parameters["dataset"], root)
    with open_engine(n_jobs) as engine:
        fit_features([features], paths, [np.arange(len(paths))], engine, stages)
    codebook = features.channels_[0].encoder_.codebook_.astype(np.float64)
    values = np.linalg.svd(codebook, compute_uv=False)
    return {"images": len(paths), "singular_values": values.round(6).tolist()}


def energy_share(values: list[float], top: int, power: int) -> float:
    """Return the share of the first singular values in the sum of all, raised to a power."""
    powers = np.asarray(values) ** power
    return float(powers[:top].sum() / powers.sum())


def _face_codes(root: Path, options: Options) -> dict[str, Any]:
    """Return codes of two subjects' faces over a dictionary of other faces of theirs."""
    paths, labels = load("YaleB", root)
    rng = np.random.default_rng(options.seed)
    dictionary, tested = [], []
    subjects = sorted(set(labels))[:2]
    for subject in subjects:
        members = [path for path, label in zip(paths, labels, strict=True) if label == subject]
        if len(members) < 2 * _SAMPLES:
            raise ValueError(f"{subject} has {len(members)} images; {2 * _SAMPLES} are needed")
        chosen = rng.choice(members, 2 * _SAMPLES, replace=False).tolist()
        dictionary += chosen[:_SAMPLES]
        tested += chosen[_SAMPLES:]
    atoms, faces = _faces(dictionary), _faces(tested)
    encoders = {
        "sparse": SparseEncoder(codebook=atoms),
        "ridge": LRREncoder(codebook=atoms, threshold=0),
        "truncated": LRREncoder(codebook=atoms),
    }
    codes = {name: encoder.fit(atoms).transform(faces) for name, encoder in encoders.items()}
    return {
        "subjects": subjects,
        "dictionary": [Path(path).name for path in dictionary],
        "tested": [Path(path).name for path in tested],
        "codes": {name: matrix[0].round(6).tolist() for name, matrix in codes.items()},
        "singular_values": {
            name: np.linalg.svd(matrix, compute_uv=False).round(6).tolist()
            for name, matrix in codes.items()
        },
    }


def _faces(paths: list[str]) -> NDArray[np.float32]:
    """Return faces as unit vectors, (n, pixels)."""
    rows = np.stack([read_image(path, None).ravel() for path in paths])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def draw(name: str, results: Results, options: Options) -> Figure | None:
    """Draw a figure; None if it has no numbers yet."""
    if name in SCHEMATICS:
        with _style():
            return draw_comparison(options) if name == "figure1b" else draw_flow(options)
    if not has_numbers(name, results, options):
        return None
    with _style():
        if name == "figure4":
            return _draw_curves(results, options)
        record = find(name, results, options)
        assert record is not None
        return _draw_spectrum(record) if name == "figure1" else _draw_codes(record["values"])


def to_bytes(figure: Figure, kind: str) -> bytes:
    """Render a figure; the same numbers give the same bytes."""
    content = io.BytesIO()
    nothing = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with _style():
        figure.savefig(content, format=kind, metadata=nothing, dpi=150)
    return content.getvalue()


def save(name: str, figure: Figure, folder: Path) -> list[Path]:
    """Write a figure as SVG and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        write_atomically(path, to_bytes(figure, path.suffix[1:]))
    return paths


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    settings: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "svg.hashsalt": "lrrspm",
        "svg.fonttype": "none",
    }
    with matplotlib.rc_context(settings):
        yield


def _new_figure(rows: int, columns: int) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * columns, 2.7 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _draw_spectrum(record: dict[str, Any]) -> Figure:
    values = np.asarray(record["values"]["singular_values"])
    setting = record["setting"]
    index = np.arange(1, len(values) + 1)
    figure, ((left, right),) = _new_figure(1, 2)
    left.plot(index, values, color=_COLORS[0])
    title = f"codebook of {setting['codebook_size']} atoms ({setting['dataset']})"
    left.set(title=title, xlabel="index", ylabel="singular value", ylim=(0, None))
    for powers, color, line, label in (
        (values, _COLORS[1], "--", "of the singular values"),
        (values**2, _COLORS[2], "-", "of their squares"),
    ):
        right.plot(index, 100 * powers.cumsum() / powers.sum(), line, color=color, label=label)
    right.set(title="energy", xlabel="largest values", ylabel="share of the sum, %", ylim=(0, 101))
    right.legend(frameon=False, loc="lower right")
    return figure


_CODES = {
    "sparse": "sparse code (eq. 2.3)",
    "ridge": "ridge, not truncated (eq. 3.3)",
    "truncated": "truncated LRR (eq. 3.4)",
}


def _draw_codes(values: dict[str, Any]) -> Figure:
    figure, axes = _new_figure(2, 2)
    index = np.arange(1, 2 * _SAMPLES + 1)
    for axis, (name, title) in zip(axes.ravel(), _CODES.items(), strict=False):
        code = np.asarray(values["codes"][name])
        for subject, part in enumerate((slice(0, _SAMPLES), slice(_SAMPLES, None))):
            axis.bar(
                index[part],
                code[part],
                color=_COLORS[subject],
                hatch=("", "///")[subject],
                edgecolor="white",
                label=f"subject {subject + 1}",
            )
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(title=title, xlabel="atom", ylabel="coefficient", xticks=index)
    axes[0, 0].legend(frameon=False)
    last = axes[1, 1]
    for (name, title), color, mark in zip(_CODES.items(), _COLORS, _MARKS, strict=True):
        label = title.partition(" (")[0]
        last.plot(index, values["singular_values"][name], color=color, marker=mark, label=label)
    last.set(title="singular values of the codes", xlabel="index", ylabel="singular value")
    last.set_xticks(index)
    last.legend(frameon=False)
    return figure


def _draw_curves(results: Results, options: Options) -> Figure:
    claims = read_published()["figure4"]["claim"]
    figure, (axes,) = _new_figure(1, 2)
    labels = {
        "lambda": ("lambda", f"epsilon {config.THRESHOLD:.0%}"),
        "epsilon": ("epsilon, %", f"lambda {config.REGULARIZATION}"),
    }
    points = curve_points(results, options).items()
    for axis, (name, curve), color, mark in zip(axes, points, _COLORS, _MARKS, strict=False):
        label, fixed = labels[name]
        x = [100 * value if name == "epsilon" else value for value in curve]
        means, stds = (np.array([cell[i] for cell in curve.values()]) for i in (0, 1))
        if not options.quick:
            axis.axhspan(*claims[name], color="0.9", label="range of the paper's means")
        axis.errorbar(
            x, means, stds, color=color, marker=mark, markersize=3, linewidth=1, capsize=2,
            label="ours, mean ± sd",
        )  # fmt: skip
        axis.set(title=f"{name} ({fixed})", xlabel=label, ylabel="accuracy, %")
        # Room for the legend below the curve.
        bottom, top = axis.get_ylim()
        axis.set_ylim(bottom - 0.35 * (top - bottom), top)
        axis.legend(frameon=False, loc="lower left")
    return figure


def curve_points(results: Results, options: Options) -> dict[str, dict[float, tuple[float, float]]]:
    """Return mean and standard deviation of figure 4 at each value that was run."""
    found: dict[str, dict[float, tuple[float, float]]] = {}
    for name, curve in curves(options).items():
        cells = {value: accuracy_cell(results, splits) for value, splits in curve.items()}
        found[name] = {v: (c.mean, c.std or 0.0) for v, c in cells.items() if c.mean is not None}
    return found
