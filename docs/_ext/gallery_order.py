"""The order of the gallery: the whole way first, then its steps, then special tasks."""

from __future__ import annotations

FIRST = (
    "train", "evidence", "unknown", "growing", "groups", "bag_of_words", "own_descriptor",
    "evaluation", "probabilities", "store", "images", "descriptors", "codes", "lambda",
    "weights", "pyramid", "channels",
)  # fmt: skip


class GalleryOrder:
    """Sort key of examples by file name; those that are not named come last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        short = name.removeprefix("plot_").removesuffix(".py")
        return FIRST.index(short) if short in FIRST else len(FIRST), name

    def __repr__(self) -> str:
        return "GalleryOrder"
