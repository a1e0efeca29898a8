"""Drawings as PNG: predictions, and evidence over an image."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .._support.files import write_atomically
from .._support.text import percent
from ..images import read_image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..evidence import Explanation, Ranked

# Blue and orange differ for color-blind readers too; words say the same.
FOR, AGAINST = "#1f6fb4", "#d1620a"
_TRACK = "#eceeef"  # behind the bars, as on the page
_STRONGEST = 0.85  # opacity: some of the image still shows through
_PALE = 0.6  # opacity of the white over the image; the page of lrrspm serve does the same


def draw_predictions(
    path: str | os.PathLike[str],
    images: Sequence[str],
    truth: Sequence[str],
    predicted: Sequence[str],
    columns: int = 6,
) -> None:
    """Write a PNG of images with their predicted classes, and the true ones if these differ."""
    from matplotlib.figure import Figure

    rows = -(-len(images) // columns)
    figure = Figure(figsize=(1.9 * columns, 2.25 * rows), layout="constrained", dpi=110)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, image, label, guess in zip(axes, images, truth, predicted, strict=False):
        axis.imshow(read_image(image), cmap="gray", vmin=0, vmax=1)
        correct = label == guess
        title = _name(guess) if correct else f"{_name(guess)}\ntrue class: {_name(label)}"
        axis.set_title(title, fontsize=8, color=FOR if correct else AGAINST, parse_math=False)
    _save(figure, path)


def draw_explanation(
    path: str | os.PathLike[str],
    image: NDArray[np.uint8],
    explanation: Explanation,
    ranked: Sequence[Ranked],
    calibrated: bool = True,
) -> None:
    """Write a PNG of an image, the evidence over it, and the probabilities of the best classes.

    Parameters
    ----------
    path : path
    image : array of shape (h, w, 3), uint8
    explanation : Explanation
        With a map of the image's shape.
    ranked : sequence of Ranked
        The classes to show, best first.
    calibrated : bool
        False if the probabilities are not.
    """
    from matplotlib.figure import Figure

    height, width = image.shape[:2]
    # Wide images are stacked, others stand side by side.
    rows, columns = (2, 1) if width > 1.5 * height else (1, 2)
    shown = min(max(width / height, 0.6), 1.5) * 3.6 if rows == 1 else 6.0
    tall = 4.2 if rows == 1 else 2 * 6.0 / min(width / height, 6.0) + 1.1
    tall = max(tall, 0.36 * len(ranked) + 1.2)
    figure = Figure(figsize=(columns * shown + 3.6, tall), layout="constrained", dpi=130)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(columns * shown, 3.6))[0]
    axes = left.subplots(rows, columns).ravel()
    for axis in axes:
        axis.set_axis_off()
    axes[0].imshow(image)
    axes[0].set_title("image\n", fontsize=9)
    limit = evidence_limit(explanation.map)
    axes[1].imshow(lay_over(Image.fromarray(image), explanation.map, limit))
    total = explanation.score - explanation.intercept
    axes[1].set_title(
        f"evidence for {_name(explanation.label)}\n{total:+.2f} in total",
        fontsize=9,
        parse_math=False,
    )
    chances, key = right.subplots(2, 1, height_ratios=(12, 1))
    _draw_probabilities(chances, ranked, _name(explanation.label))
    remark = "" if calibrated else ", not calibrated"
    chances.set_title(f"probabilities{remark}", fontsize=9)
    _draw_key(key, limit)
    _save(figure, path)


def _draw_probabilities(axis: Axes, ranked: Sequence[Ranked], chosen: str) -> None:
    """Draw a bar per class, name and probability above it; the explained class is bold."""
    places = range(len(ranked))
    axis.barh(places, 1, height=0.3, color=_TRACK)
    axis.barh(places, [one.probability for one in ranked], height=0.3, color=FOR)
    for place, one in zip(places, ranked, strict=True):
        name = _name(one.label)
        weight = "bold" if name == chosen else "normal"
        above: dict[str, Any] = {
            "transform": axis.get_yaxis_transform(),
            "fontsize": 8,
            "fontweight": weight,
        }
        axis.text(0, place - 0.22, name, **above, parse_math=False)
        axis.text(1, place - 0.22, percent(one.probability), **above, ha="right")
    axis.set_xlim(0, 1)
    axis.set_ylim(len(ranked) - 0.7, -0.7)
    axis.set_axis_off()


def _draw_key(axis: Axes, limit: float) -> None:
    """Draw the color scale, from against to for."""
    scale = np.linspace(-limit, limit, 201, dtype=np.float32)[None]
    axis.imshow(evidence_colors(scale, limit), aspect="auto", extent=(-1, 1, 0, 1))
    axis.set_xticks([-1, 0, 1], ["against", "no evidence", "for"], fontsize=8)
    axis.set_yticks([])
    axis.spines[["top", "right", "left"]].set_visible(False)


def _name(label: object) -> str:
    """Return a class name that a font can show, shortened to 32 characters."""
    name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(label))
    return name if len(name) <= 32 else f"{name[:31]}\N{HORIZONTAL ELLIPSIS}"


def evidence_limit(*maps: NDArray[np.float32]) -> float:
    """Return the evidence per pixel at which colors are strongest; 0.5 % of pixels have more."""
    values = np.concatenate([np.abs(map).ravel() for map in maps])
    return float(np.quantile(values, 0.995)) or float(values.max()) or 1.0


def evidence_colors(map: NDArray[np.float32], limit: float | None = None) -> NDArray[np.uint8]:
    """Return colors to lay over an image: blue for a class, orange against it, else clear.

    Parameters
    ----------
    map : array of shape (h, w)
        Evidence per pixel, as in :class:`lrrspm.evidence.Explanation`.
    limit : float or None
        Evidence at which colors are strongest; None is :func:`evidence_limit`
        of the map.

    Returns
    -------
    ndarray of shape (h, w, 4), uint8
        Red, green, blue, and opacity in proportion to the evidence.
    """
    strength = map / (evidence_limit(map) if limit is None else limit)
    sides = np.array([_channels(AGAINST), _channels(FOR)], np.uint8)
    colors = np.empty((*map.shape, 4), np.uint8)
    colors[..., :3] = sides[(strength > 0).astype(np.intp)]
    colors[..., 3] = np.round(255 * _STRONGEST * np.minimum(np.abs(strength), 1))
    return colors


def lay_over(image: Image.Image, map: NDArray[np.float32], limit: float) -> Image.Image:
    """Return evidence over a pale gray copy of an image of its size.

    Gray, so that colors have one meaning; pale, so that the evidence stands
    out on dark images too.
    """
    gray = image.convert("L").point(lambda value: 255 - (255 - value) * (1 - _PALE))
    evidence = Image.fromarray(evidence_colors(map, limit))
    return Image.alpha_composite(gray.convert("RGBA"), evidence).convert("RGB")


def _channels(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def _save(figure: Figure, path: str | os.PathLike[str]) -> None:
    content = io.BytesIO()
    with warnings.catch_warnings():
        # The font lacks some scripts, and warns about each character.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        # Without software version and date, the same input gives the same bytes.
        figure.savefig(content, format="png", metadata={"Software": None})
    write_atomically(path, content.getvalue())
