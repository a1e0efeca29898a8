"""Figures 1 (b) and 2: what the methods have in common, and the steps of LrrSPM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import config
from ..descriptors import SIFT
from .experiments import Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILLS = {"shared": "#e8e8e8", "own": "#cfe3f1"}
# Steps of each method in the paper's figure: coding and pooling differ.
_METHODS = {
    "SPM": (
        "vector quantization:\nthe nearest atom",
        "average\n(histogram)",
        "kernel or\nlinear SVM",
    ),
    "ScSPM": ("sparse code:\n||x - Dc||² + λ||c||₁", "maximum\nof |c|", "linear SVM"),
    "LrrSPM": ("low-rank code:\nc = (DᵀD + λI)⁻¹Dᵀx, truncated", "maximum\nof |c|", "linear SVM"),
}


def draw_comparison(options: Options) -> Figure:
    """Draw figure 1 (b): SPM, ScSPM and LrrSPM side by side."""
    figure, axis = _canvas(9, 3.4)
    shared = {
        "images": (0.0, "images"),
        "sift": (1.35, "dense SIFT"),
        "codebook": (2.9, "codebook\nby k-means"),
    }
    for x, text in shared.values():
        _box(axis, x, 1.5, 1.15 if x < 2.9 else 1.3, text, "shared")
    _arrow(axis, (1.15, 1.85), (1.35, 1.85))
    _arrow(axis, (2.5, 1.85), (2.9, 1.85))
    for row, (name, (coding, pooling, machine)) in enumerate(_METHODS.items()):
        y = 2.9 - 1.4 * row
        _arrow(axis, (4.2, 1.85), (4.6, y + 0.35))
        _box(axis, 4.6, y, 3.2, coding, "own", name)
        _arrow(axis, (7.8, y + 0.35), (8.1, y + 0.35))
        _box(axis, 8.1, y, 1.5, f"{pooling}", "own")
        _arrow(axis, (9.6, y + 0.35), (9.9, y + 0.35))
        _box(axis, 9.9, y, 1.5, machine, "own")
    return figure


def draw_flow(options: Options) -> Figure:
    """Draw figure 2: the steps of LrrSPM, with the numbers that we use."""
    setting = options.setting("OT", 100)
    cells = sum(level**2 for level in config.LEVELS)
    grids = ", ".join(f"{level} x {level}" for level in config.LEVELS)
    side, k, m = setting.patch_size, setting.codebook_size, SIFT().n_values
    steps = (
        ("image", f"gray, longer side\nat most {setting.max_side} pixels"),
        (
            "descriptors",
            f"SIFT of {side} x {side} patches\nevery {setting.step} pixels:\nX, {m} x n",
        ),
        ("codes", f"C = (DᵀD + λI)⁻¹DᵀX\nλ = {config.REGULARIZATION}"),
        ("truncation", f"entries below {config.THRESHOLD}\ntimes the mean\nbecome 0"),
        ("pooling", f"maximum of |c|\nin the cells of\n{grids}"),
        ("vector", f"{cells} x {k} numbers\nof length 1"),
        ("SVM", f"linear, one class\nagainst the rest, C = {config.C:g}"),
    )
    figure, axis = _canvas(12, 2.4)
    width, gap = 2.2, 0.3
    for place, (title, text) in enumerate(steps):
        x = place * (width + gap)
        _box(
            axis,
            x,
            0.0,
            width,
            text,
            "own" if title in ("codes", "truncation") else "shared",
            title,
        )
        if place:
            _arrow(axis, (x - gap, 0.35), (x, 0.35))
    _box(
        axis,
        2 * (width + gap),
        1.5,
        width,
        f"codebook D by k-means\n{k} atoms, once",
        "shared",
    )
    _arrow(axis, (2 * (width + gap) + width / 2, 1.5), (2 * (width + gap) + width / 2, 0.95))
    return figure


def _canvas(width: float, height: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    axis.axis("off")
    return figure, axis


def _box(
    axis: Any, x: float, y: float, width: float, text: str, kind: str, title: str = ""
) -> None:
    from matplotlib.patches import FancyBboxPatch

    axis.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            0.7,
            facecolor=_FILLS[kind],
            edgecolor="0.3",
            linewidth=0.8,
            boxstyle="round,pad=0,rounding_size=0.06",
        )
    )
    axis.text(x + width / 2, y + 0.35, text, ha="center", va="center", fontsize=7)
    if title:
        axis.text(x, y + 0.76, title, ha="left", va="bottom", fontsize=8, fontweight="bold")


def _arrow(axis: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "linewidth": 0.8, "color": "0.3"})
    axis.update_datalim([start, end])
    axis.autoscale_view()
