"""Static pictures: predictions, and evidence laid over a picture."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .files import write_atomically
from .images import read_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Blue and orange keep apart for colour-blind readers too; a word says it as well.
FOR, AGAINST = "#1f6fb4", "#d1620a"
_STRONGEST = 0.85  # of the picture below something is left to see


def draw_predictions(
    path: str | os.PathLike[str],
    images: Sequence[str],
    truth: Sequence[str],
    predicted: Sequence[str],
    columns: int = 6,
) -> None:
    """Write a PNG of pictures with what they were taken for, and what they are if that is wrong."""
    from matplotlib.figure import Figure

    rows = -(-len(images) // columns)
    figure = Figure(figsize=(1.9 * columns, 2.25 * rows), layout="constrained", dpi=110)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, image, label, guess in zip(axes, images, truth, predicted, strict=False):
        axis.imshow(read_image(image), cmap="gray", vmin=0, vmax=1)
        right = label == guess
        title = guess if right else f"{guess}\nwrong, is {label}"
        axis.set_title(title, fontsize=8, color=FOR if right else AGAINST)
    _save(figure, path)


def evidence_limit(*maps: NDArray[np.float32]) -> float:
    """The evidence a pixel that colours are strongest from: few pixels of the maps have more."""
    values = np.concatenate([np.abs(map).ravel() for map in maps])
    return float(np.quantile(values, 0.995)) or float(values.max()) or 1.0


def evidence_colours(map: NDArray[np.float32], limit: float | None = None) -> NDArray[np.uint8]:
    """Colours to lay over a picture: blue for a class, orange against it, clear where nothing is.

    Parameters
    ----------
    map : array of shape (h, w)
        Evidence a pixel, as in :class:`lrrspm.evidence.Explanation`.
    limit : float or None
        The evidence from which colours are strongest; None is
        :func:`evidence_limit` of the map.

    Returns
    -------
    ndarray of shape (h, w, 4), uint8
        Red, green, blue, and opacity in proportion to the evidence.
    """
    strength = map / (evidence_limit(map) if limit is None else limit)
    sides = np.array([_channels(AGAINST), _channels(FOR)], np.uint8)
    colours = np.empty((*map.shape, 4), np.uint8)
    colours[..., :3] = sides[(strength > 0).astype(np.intp)]
    colours[..., 3] = np.round(255 * _STRONGEST * np.minimum(np.abs(strength), 1))
    return colours


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def _save(figure: Figure, path: str | os.PathLike[str]) -> None:
    content = io.BytesIO()
    # No software version or date inside, so that the same input gives the same bytes.
    figure.savefig(content, format="png", metadata={"Software": None})
    write_atomically(path, content.getvalue())
