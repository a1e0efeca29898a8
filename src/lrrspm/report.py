"""What a person looks at."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

from .files import write_atomically
from .images import read_image

# Blue and orange keep apart for colour-blind readers too; a word says it as well.
_RIGHT, _WRONG = "#1f6fb4", "#d1620a"


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
        axis.set_title(title, fontsize=8, color=_RIGHT if right else _WRONG)
    content = io.BytesIO()
    # No software version or date inside, so that the same input gives the same bytes.
    figure.savefig(content, format="png", metadata={"Software": None})
    write_atomically(path, content.getvalue())
