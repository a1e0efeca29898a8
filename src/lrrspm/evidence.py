"""Evidence: what each patch of an image adds to a class's score, and where it lies."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._support.parallel import single_blas_thread
from .features import Image, SpatialPyramidFeatures
from .images import Source, read_with_shape
from .svm.machines import KernelSVM, LinearSVM, score_columns


class Explanation(NamedTuple):
    """A score taken apart: ``score == intercept + contributions.sum()``, up to rounding.

    Attributes
    ----------
    label
        The class that the evidence is for.
    score : float
        Its score, as in ``decision_function``. With two classes that is the
        second class's; the first one's is its negative.
    intercept : float
        What the score would be without any patch.
    contributions : ndarray of shape (n,), float64
        What each patch adds; negative ones speak against the class.
    x, y : ndarray of shape (n,), float64
        Patch centres in pixels of the image as it was given, before it was
        shrunk; the centre of the top left pixel is (0, 0).
    map : ndarray of shape (h, w), float32
        The contributions, each spread over its patch (a tent, highest in the
        middle), in pixels of the image as it was given, upright. Sums to
        ``score - intercept``.
    """

    label: Any
    score: float
    intercept: float
    contributions: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    map: NDArray[np.float32]


class Examination:
    """One image, read and coded once, whose scores can be explained.

    Parameters
    ----------
    features : SpatialPyramidFeatures, fitted
    svm : LinearSVM or KernelSVM, fitted
    image : path, array of shape (h, w) or binary file

    Attributes
    ----------
    shape : tuple of int
        Height and width of the image as it was given, upright.
    scores : ndarray of shape (n_classes,), float64
        Scores in the order of the classes, also for two: the negative, then
        the positive.
    """

    def __init__(
        self,
        features: SpatialPyramidFeatures,
        svm: LinearSVM | KernelSVM,
        image: Image | Source,
    ) -> None:
        self._features, self._svm = features, svm
        if isinstance(image, np.ndarray):
            gray = features.read(image)
            self.shape = (image.shape[0], image.shape[1])
        elif not (isinstance(image, (str, os.PathLike)) or hasattr(image, "seek")):
            raise TypeError(
                "expected one image: a path, an array of shape (h, w) or a binary file, "
                f"got {type(image).__name__}"
            )
        else:
            gray, self.shape = read_with_shape(image, features.max_side)
        self._seen = gray.shape
        grid = features.describe(gray)
        pyramid = features.pyramid()
        self._x, self._y = grid.x, grid.y
        self._padding = (grid.height - gray.shape[0], grid.width - gray.shape[1])
        self._cells = pyramid.cells(grid.x, grid.y, grid.width, grid.height)
        self._codes = features.codes(grid)
        self._vector = pyramid.pool(self._codes, grid.x, grid.y, grid.width, grid.height)
        self.scores = score_columns(svm.decision_function(self._vector[None]))[0].astype(float)

    def ranked(self) -> list[tuple[str, float]]:
        """The names of all classes with their scores, best first."""
        order = np.argsort(-self.scores, kind="stable")
        names = self._svm.classes_.tolist()
        return [(str(names[i]), float(self.scores[i])) for i in order]

    def explain(self, label: Any = None, shape: tuple[int, int] | None = None) -> Explanation:
        """Take the score of a class apart.

        Parameters
        ----------
        label
            One of the classes; None is the one with the largest score, the
            first of several.
        shape : tuple of int or None
            Height and width of the map, where it is not to be the image's own.
        """
        classes = self._svm.classes_.tolist()
        if label is None:
            label = classes[int(self.scores.argmax())]
        if label not in classes:
            few = ", ".join(str(name) for name in classes[:20])
            more = f" and {len(classes) - 20} more" if len(classes) > 20 else ""
            raise ValueError(f"no class {label!r}; there are: {few}{more}")
        index = classes.index(label)
        # Two classes share one row of weights, which is the second one's.
        row, sign = (0, 2 * index - 1) if len(classes) == 2 else (index, 1)
        weights, intercept = self._svm.weights_at(self._vector, row)
        shares = self._features.pyramid().attribute(self._codes, self._cells, sign * weights)
        ys, xs = (self._extent(axis) for axis in (0, 1))
        return Explanation(
            label=classes[index],
            score=float(self.scores[index]),
            intercept=sign * intercept + 0.0,  # no negative zero
            contributions=shares,
            x=np.tile(xs.mean(axis=1) - 0.5, len(ys)),
            y=np.repeat(ys.mean(axis=1) - 0.5, len(xs)),
            map=self._spread(shares, ys, xs, shape or self.shape),
        )

    def _extent(self, axis: int) -> NDArray[np.float64]:
        """Where patches begin and end along an axis of the given image, (n, 2), pixels' edges.

        Shrinking lays pixels' edges e at e / s, with s the same on both axes.
        """
        centres = np.unique((self._y, self._x)[axis]).astype(np.float64) + 0.5
        centres -= self._padding[axis] // 2
        half = self._features.patch_size / 2
        scale = max(self._seen) / max(self.shape)
        return np.stack([centres - half, centres + half], axis=1) / scale

    def _spread(
        self,
        shares: NDArray[np.float64],
        ys: NDArray[np.float64],
        xs: NDArray[np.float64],
        shape: tuple[int, int],
    ) -> NDArray[np.float32]:
        """The map: every share spread over the part of its patch that is in the image.

        Patches lie on a grid, so it is two products, h ny nx + h nx w.
        """
        rows, columns = (
            _cover(extent * (wanted / given), wanted)
            for extent, wanted, given in zip((ys, xs), shape, self.shape, strict=True)
        )
        grid = shares.reshape(len(ys), len(xs))
        with single_blas_thread():
            return (rows @ grid).astype(np.float32) @ columns.astype(np.float32).T


def _cover(extent: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The share of each patch's tent in each pixel, (size, n); columns sum to 1.

    The tent rises from the patch's first edge to its centre and falls to its
    last; u is how far along the patch a pixel's edge lies.
    """
    first, last = extent.T
    u = np.clip((np.arange(size + 1)[:, None] - first) / (last - first), 0, 1)
    below = np.where(u < 0.5, 2 * u**2, 1 - 2 * (1 - u) ** 2)
    shares = np.diff(below, axis=0)
    return shares / shares.sum(axis=0)
