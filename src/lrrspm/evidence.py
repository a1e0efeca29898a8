"""Evidence: what each patch of an image adds to a class's score, and where it lies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import config
from ._support.halves import in_precision, widened
from ._support.loops import compiled
from ._support.parallel import single_blas_thread
from .cache import same_key
from .descriptors import LocalDescriptors
from .descriptors.checking import describe_checked
from .features import Image, SpatialPyramidFeatures
from .pipeline.chunks import compile_reading
from .svm import SVM, probabilities, score_columns


class Explanation(NamedTuple):
    """A score broken down by patch: ``score == intercept + contributions.sum()``, up to rounding.

    Attributes
    ----------
    label
        The class that the evidence is for.
    score : float
        Its score, as in ``decision_function``. With two classes that is the
        second class's; the first one's is its negative.
    intercept : float
        The score without any patch.
    contributions : ndarray of shape (n,), float64
        What each patch adds; negative ones are evidence against the class.
        Patches of several channels come one channel after another.
    x, y : ndarray of shape (n,), float64
        Patch centers in pixels of the image as given, before any resizing; the
        center of the top left pixel is (0, 0).
    size : ndarray of shape (n,), float64
        Sides of the patches, in the same pixels.
    map : ndarray of shape (h, w), float32
        The contributions, each spread over its patch (a tent, highest in the
        middle), in pixels of the image as given, upright. Sums to
        ``score - intercept``.
    """

    label: Any
    score: float
    intercept: float
    contributions: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    size: NDArray[np.float64]
    map: NDArray[np.float32]


class Ranked(NamedTuple):
    """A class of an examined image, its score and its probability."""

    label: str
    score: float
    probability: float


class _Part(NamedTuple):
    """One channel of an examined image: what attribution needs."""

    values: NDArray[np.float32]
    codes: NDArray[np.float32]
    cells: NDArray[np.int64]
    vector: NDArray[np.float32]
    """Of the channel alone, before it is rounded."""


class Examination:
    """One image, read and coded once, whose scores can be explained.

    Parameters
    ----------
    features : SpatialPyramidFeatures, fitted
    svm : LinearSVM or KernelSVM, fitted
    image : path, array of shape (h, w) or (h, w, 3), or binary file
    temperature : float or None
        Of the probabilities; None if they are not calibrated.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the image as given, upright.
    scores : ndarray of shape (n_classes,), float64
        One score per class, in the order of the classes; two classes have the
        negative score, then the positive one.
    probabilities : ndarray of shape (n_classes,), float64
        They sum to 1.
    """

    def __init__(
        self,
        features: SpatialPyramidFeatures,
        svm: SVM,
        image: Image,
        temperature: float | None = None,
    ) -> None:
        self._features, self._svm = features, svm
        compile_reading()
        pixels = features.read(image)
        self.shape: tuple[int, int] = pixels.shape
        self._parts, vectors, places = [], [], []
        described: dict[Any, LocalDescriptors] = {}
        with single_blas_thread():  # as in training: BLAS may round otherwise on several
            for channel in features.channels_:
                seen = channel.descriptor.pick(pixels)
                key = same_key(channel.descriptor)
                if key not in described:
                    described[key] = describe_checked(channel.descriptor, seen)
                local = described[key]
                values = channel.project(local)
                cells = channel.pyramid.cells(local.x, local.y, local.width, local.height)
                codes = channel.encoder_.encode_all(values)
                state = channel.pooling_.start(channel.pyramid, *codes.shape[1:], values.shape[1])
                channel.pooling_.add(state, values, codes, cells)
                exact = channel.pooling_.finish(state, channel.pyramid)
                vectors.append(in_precision(exact, channel.pooling_.precision))
                self._parts.append(_Part(values, codes, cells, exact))
                # Padding is even on both sides; shrinking puts pixels' edges e at e / scale,
                # the same on both axes.
                scale = max(seen.shape[:2]) / max(self.shape)
                x = local.x + 0.5 - (local.width - seen.shape[1]) // 2
                y = local.y + 0.5 - (local.height - seen.shape[0]) // 2
                places.append(np.stack([x, y, local.size]).astype(np.float64) / scale)
        self._x, self._y, self._size = np.concatenate(places, axis=1)
        self._vector = features.weigh(vectors)
        scores = score_columns(svm.scores(self._vector[None]))[0]
        self.scores: NDArray[np.float64] = scores.astype(float)
        chances = probabilities(self.scores[None], temperature or config.TEMPERATURE)
        self.probabilities: NDArray[np.float64] = chances[0]

    def ranked(self) -> list[Ranked]:
        """Return all classes with their scores and probabilities, best first."""
        order = np.argsort(-self.scores, kind="stable")
        names = self._svm.classes_.tolist()
        scores, chances = self.scores.tolist(), self.probabilities.tolist()
        return [Ranked(str(names[i]), scores[i], chances[i]) for i in order]

    def explain(self, label: Any = None, shape: tuple[int, int] | None = None) -> Explanation:
        """Take the score of a class apart.

        Parameters
        ----------
        label
            One of the classes; None is the one with the largest score, the
            first of several.
        shape : tuple of int or None
            Height and width of the map; None is the image's own.
        """
        classes = self._svm.classes_.tolist()
        if label is None:
            label = classes[int(self.scores.argmax())]
        if label not in classes:
            few = ", ".join(str(name) for name in classes[:20])
            more = f" and {len(classes) - 20} more" if len(classes) > 20 else ""
            raise ValueError(f"no class {label!r}; choose from: {few}{more}")
        index = classes.index(label)
        # Two classes share one row of weights, which is the second one's.
        row, sign = (0, 2 * index - 1) if len(classes) == 2 else (index, 1)
        weights, intercept = self._svm.weights_at(self._vector, row)
        shares = self._attribute(sign * weights)
        return Explanation(
            label=classes[index],
            score=float(self.scores[index]),
            intercept=sign * intercept + 0.0,  # no negative zero
            contributions=shares,
            x=self._x - 0.5,
            y=self._y - 0.5,
            size=self._size,
            map=self._spread(shares, shape or self.shape),
        )

    def _attribute(self, weights: NDArray[Any]) -> NDArray[np.float64]:
        """What each patch adds to the product of weights and the vector, channel by channel."""
        shares, first = [], 0
        channels = self._features.channels_
        scales = self._features.scales
        vector = widened(self._vector)
        for channel, part, own_scales in zip(channels, self._parts, scales, strict=True):
            here = slice(first, first + channel.n_features)
            own = weights[here].copy()
            if self._features.weighs:
                for columns, scale in zip(channel.level_columns, own_scales, strict=True):
                    own[columns] *= scale
            if channel.pooling_.precision == np.float16:
                # The score is of the rounded vector; patches share what rounding did, too.
                rounded = weights[here] * vector[here]
                own = np.zeros_like(part.vector)
                np.divide(rounded, part.vector, out=own, where=part.vector != 0)
            shares.append(
                channel.pooling_.attribute(
                    part.values, part.codes, part.cells, own, channel.pyramid
                )
            )
            first = here.stop
        return np.concatenate(shares)

    def _spread(self, shares: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float32]:
        """The map: every share spread over the part of its patch that is in the image."""
        out = np.zeros(shape)
        scale_y, scale_x = shape[0] / self.shape[0], shape[1] / self.shape[1]
        _spread(
            shares, self._y * scale_y, self._x * scale_x,
            self._size * scale_y, self._size * scale_x, out,
        )  # fmt: skip
        return out.astype(np.float32)


@compiled(inline=True)
def _tent(u: float) -> float:
    """Share of a tent over [0, 1] that lies below u."""
    u = min(max(u, 0.0), 1.0)
    return 2 * u * u if u < 0.5 else 1 - 2 * (1 - u) * (1 - u)


@compiled()
def _cover(center: float, side: float, length: int, shares: NDArray[np.float64]) -> tuple[int, int]:
    """Write the share of a patch's tent in each pixel; returns the first pixel and the last.

    The tent rises from the patch's first edge to its center and falls to its
    last edge. What reaches beyond the image counts inside: shares sum to 1.
    """
    first = center - side / 2
    begin = min(max(int(np.floor(first)), 0), length - 1)
    end = max(min(int(np.ceil(first + side)), length), begin + 1)
    total = 0.0
    below = _tent((begin - first) / side)
    for pixel in range(begin, end):
        above = _tent((pixel + 1 - first) / side)
        shares[pixel] = above - below
        total += shares[pixel]
        below = above
    for pixel in range(begin, end):
        shares[pixel] = shares[pixel] / total if total > 0 else 1.0 / (end - begin)
    return begin, end


@compiled()
def _spread(
    shares: NDArray[np.float64],
    y: NDArray[np.float64],
    x: NDArray[np.float64],
    height: NDArray[np.float64],
    width: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add each patch's share to the pixels it covers.

    Patches of one row of a grid follow each other. Their shares are added along one
    line, which is then spread down the row: one multiply-add per pixel of each row,
    not of each patch.
    """
    rows, columns, line = np.empty(out.shape[0]), np.empty(out.shape[1]), np.zeros(out.shape[1])
    first, last = out.shape[1], 0
    for i in range(shares.size):
        left, right = _cover(x[i], width[i], out.shape[1], columns)
        first, last = min(first, left), max(last, right)
        for c in range(left, right):
            line[c] += shares[i] * columns[c]
        if i + 1 < shares.size and y[i + 1] == y[i] and height[i + 1] == height[i]:
            continue
        top, bottom = _cover(y[i], height[i], out.shape[0], rows)
        for r in range(top, bottom):
            target = out[r]
            for c in range(first, last):
                target[c] += rows[r] * line[c]
        line[first:last] = 0
        first, last = out.shape[1], 0
