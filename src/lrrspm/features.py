"""The stages composed: many images -> a matrix of vectors, in parallel and streamed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from . import config
from .codebook import Progress, learn_codebook
from .encoders import BLOCK, CodebookEncoder, LRREncoder
from .images import ImageError, read_image, shrink
from .parallel import ordered_map, workers
from .pyramid import SpatialPyramid
from .sift import DenseDescriptors, as_gray, dense_sift
from .stages import Stages

Image = str | os.PathLike[str] | NDArray[Any]


class SpatialPyramidFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Images to vectors: dense SIFT, encoder, spatial pyramid.

    Parameters
    ----------
    encoder : encoder or None
        None is ``LRREncoder()``. It is cloned, never changed.
    levels : tuple of int
        Cells along each side, one number a pyramid level.
    step, patch_size : int
        The grid of :func:`lrrspm.dense_sift`.
    max_side : int or None
        Larger images are shrunk to this, see :func:`lrrspm.read_image`.
    n_samples : int
        Descriptors that the encoder is fitted to: ``n_samples / images``
        (rounded, at least 1) random ones from each training image.
    n_jobs : int or None
        Threads; None is 1, -1 all cores. The result has the same bits for
        any number.
    random_state : int, RandomState instance or None
        Seed of the sample, and of the encoder where that has none.
    pooling, norm
        See :class:`lrrspm.SpatialPyramid`.

    Attributes
    ----------
    encoder_ : the fitted encoder

    Notes
    -----
    An image is a path or an array of shape (h, w), float in [0, 1] or uint8;
    a list may hold both. Images down to 1x1 have a vector: see
    :func:`lrrspm.dense_sift` for how small ones are padded.
    """

    def __init__(
        self,
        encoder: Any = None,
        levels: tuple[int, ...] = config.LEVELS,
        step: int = config.STEP,
        patch_size: int = config.PATCH_SIZE,
        max_side: int | None = config.MAX_SIDE,
        n_samples: int = config.N_SAMPLES,
        n_jobs: int | None = None,
        random_state: Any = None,
        pooling: str = "max",
        norm: str | None = "l2",
    ) -> None:
        self.encoder = encoder
        self.levels = levels
        self.step = step
        self.patch_size = patch_size
        self.max_side = max_side
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.pooling = pooling
        self.norm = norm

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.pyramid().n_cells * len(self.encoder_.codebook_)

    def fit(self, X: Iterable[Image], y: Any = None) -> Self:
        """Sample descriptors from training images and fit the encoder to them.

        Parameters
        ----------
        X : sequence of paths or arrays
        y : ignored

        Returns
        -------
        self
        """
        images = check_images(X)
        fit_all([self], images, [np.arange(len(images))], Stages())
        return self

    def transform(self, X: Iterable[Image]) -> NDArray[np.float32]:
        """Vectors of images.

        Parameters
        ----------
        X : sequence of N paths or arrays

        Returns
        -------
        ndarray of shape (N, n_cells * k), float32
        """
        check_is_fitted(self)
        return transform_all([self], check_images(X), Stages())[0]

    def pyramid(self) -> SpatialPyramid:
        """The pyramid with these parameters."""
        return SpatialPyramid(self.levels, self.pooling, self.norm)

    def new_encoder(self) -> CodebookEncoder:
        """An unfitted encoder of our own."""
        return LRREncoder() if self.encoder is None else clone(self.encoder)

    def read(self, image: Image) -> NDArray[np.float32]:
        """Gray values of one image, shrunk if it is large."""
        if isinstance(image, (str, os.PathLike)):
            return read_image(image, self.max_side)
        return shrink(as_gray(image), self.max_side)

    def describe(self, gray: NDArray[np.float32]) -> DenseDescriptors:
        """Descriptors of one image that was read."""
        return dense_sift(gray, self.step, self.patch_size)

    def vector(self, descriptors: DenseDescriptors) -> NDArray[np.float32]:
        """Vector of one image from its descriptors.

        Codes are made and pooled a block at a time, so that they are read
        back from cache and never all in memory.
        """
        values, x, y, width, height = descriptors
        pyramid = self.pyramid()
        cells = pyramid.cells(x, y, width, height)
        n_atoms = len(self.encoder_.codebook_)
        pooled = pyramid.start(n_atoms)
        codes = np.empty((min(BLOCK, len(values)), n_atoms), np.float32)
        for start in range(0, len(values), BLOCK):
            block = values[start : start + BLOCK]
            self.encoder_.encode(block, codes[: len(block)])
            pyramid.add(pooled, codes[: len(block)], cells[start : start + BLOCK])
        return pyramid.finish(pooled)


def check_images(X: Iterable[Image]) -> list[Image]:
    """A list of images; a single path or picture is most likely a slip."""
    if isinstance(X, (str, os.PathLike)):
        raise ValueError(f"expected a list of images, got one path: {os.fspath(X)}")
    if getattr(X, "ndim", 1) == 2:  # one picture, or a data frame
        raise ValueError("expected a list of images, got one array; put it in a list")
    images = list(X)
    if not images:
        raise ValueError("no images were given")
    for image in images:
        if not isinstance(image, (str, os.PathLike, np.ndarray)):
            raise TypeError(
                f"an image is a path or an array of shape (h, w), got {type(image).__name__}"
            )
    return images


def fit_all(
    features: Sequence[SpatialPyramidFeatures],
    images: Sequence[Image],
    members: Sequence[NDArray[np.int64]],
    stages: Stages,
) -> None:
    """Fit several features, each to its own members of images, reading each image once.

    All have the same grid and number of jobs. Features with the same seed,
    members and number of samples share their sample, and k-means codebooks of
    one size learnt from it. ``features[i].fit`` on the members alone gives
    the same bits.
    """
    first = _common_grid(features)
    plans: dict[Any, _Plan] = {}
    keys = []
    for feature, indices in zip(features, members, strict=True):
        if feature.n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {feature.n_samples}")
        # What is out of range should fail before the work, not after it.
        feature.pyramid()
        feature.new_encoder().check_parameters()
        rng = check_random_state(feature.random_state)
        seed, encoder_seed = (int(n) for n in rng.randint(2**31, size=2))
        key = (seed, feature.n_samples, np.asarray(indices).tobytes())
        keys.append(key)
        if key not in plans:
            place = {int(index): place for place, index in enumerate(indices)}
            quota = max(1, round(feature.n_samples / len(indices)))
            plans[key] = _Plan(seed, encoder_seed, quota, place, _Rows())
    wanted = sorted(set().union(*(plan.place for plan in plans.values())))

    def sample(index: int) -> tuple[list[NDArray[np.float32] | None], list[float]]:
        clock = _Clock()
        values = _describe(first, images, index, clock).values
        drawn = [
            _draw(values, plan.quota, plan.seed, plan.place[index]) if index in plan.place else None
            for plan in plans.values()
        ]
        return drawn, clock.laps

    with workers(first.n_jobs) as executor, _divided(stages, ["read", "sift"]) as spent:
        results = ordered_map(sample, wanted, executor)
        for drawn, laps in stages.track("reading images", results, len(wanted)):
            spent += laps
            for plan, part in zip(plans.values(), drawn, strict=True):
                if part is not None:
                    plan.rows.append(part)

    with stages.timed("codebook"):
        for number, (key, plan) in enumerate(plans.items(), start=1):
            name = "learning codebook" + (f" {number}" if len(plans) > 1 else "")
            same = [feature for feature, k in zip(features, keys, strict=True) if k == key]
            _fit_encoders(same, plan, partial(stages.tell, name))
            plan.rows.clear()


def _common_grid(features: Sequence[SpatialPyramidFeatures]) -> SpatialPyramidFeatures:
    """The first of several features, whose descriptors serve all of them."""
    grids = {(f.step, f.patch_size, f.max_side) for f in features}
    if len(grids) > 1:
        raise ValueError(f"step, patch_size and max_side must be the same for all, got {grids}")
    return features[0]


class _Plan(NamedTuple):
    """A sample that is to be drawn: seeds, descriptors an image, each image's place, the rows."""

    seed: int
    encoder_seed: int
    quota: int
    place: dict[int, int]
    rows: _Rows


def _fit_encoders(
    features: Sequence[SpatialPyramidFeatures], plan: _Plan, progress: Progress
) -> None:
    """Fit the encoders of features that share a sample; k-means runs once for each size."""
    learnt: dict[Any, NDArray[Any]] = {}
    for feature in features:
        encoder = feature.new_encoder()
        if encoder.random_state is None:
            encoder.set_params(random_state=plan.encoder_seed)
        # Scaled to unit norm or not, k-means centres come from the same run.
        key = (encoder.codebook_size, encoder.random_state)
        if encoder.learns_by_kmeans and len(features) > 1 and isinstance(key[1], Integral):
            if key not in learnt:
                learnt[key] = learn_codebook(
                    plan.rows.values(),
                    encoder.codebook_size,
                    encoder.random_state,
                    feature.n_jobs,
                    progress,
                )
            encoder.set_params(codebook=learnt[key])
        feature.encoder_ = encoder.fit_parallel(plan.rows.values(), feature.n_jobs, progress)


class _Rows:
    """A growing matrix: few large arrays, where a list of parts would leave holes in memory."""

    def __init__(self) -> None:
        self._rows = np.empty((0, 0), np.float32)
        self._used = 0

    def append(self, part: NDArray[np.float32]) -> None:
        if self._used + len(part) > len(self._rows):
            grown = np.empty((2 * (self._used + len(part)), part.shape[1]), np.float32)
            grown[: self._used] = self._rows[: self._used] if self._used else 0
            self._rows = grown
        self._rows[self._used : self._used + len(part)] = part
        self._used += len(part)

    def values(self) -> NDArray[np.float32]:
        return self._rows[: self._used]

    def clear(self) -> None:
        self._rows = self._rows[:0].copy()
        self._used = 0


class _Clock:
    """Seconds from one lap to the next."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        self._last = time.perf_counter()

    def lap(self) -> None:
        now = time.perf_counter()
        self.laps.append(now - self._last)
        self._last = now


@contextmanager
def _divided(stages: Stages, names: Sequence[str]) -> Iterator[NDArray[np.float64]]:
    """Add the wall-clock time spent inside to several stages.

    Threads run all at once, so their own seconds, to be added to what this
    yields, say how the wall-clock time is to be divided. They are scaled to
    it in place.
    """
    spent = np.zeros(len(names))
    start = time.perf_counter()
    yield spent
    if spent.any():
        spent *= (time.perf_counter() - start) / spent.sum()
    for name, seconds in zip(names, spent.tolist(), strict=True):
        stages.add(name, seconds)


def _describe(
    feature: SpatialPyramidFeatures, images: Sequence[Image], index: int, clock: _Clock
) -> DenseDescriptors:
    """Descriptors of one image of many; what is wrong with an array is said with its index.

    Reading and describing are a lap of the clock each.
    """
    try:
        gray = feature.read(images[index])
        clock.lap()
        descriptors = feature.describe(gray)
    except ImageError:
        raise
    except ValueError as error:
        if isinstance(images[index], np.ndarray):
            raise ValueError(f"image {index}: {error}") from error
        raise
    clock.lap()
    return descriptors


def _draw(values: NDArray[np.float32], quota: int, seed: int, place: int) -> NDArray[np.float32]:
    """Random rows of one image; its place among the images is part of the seed."""
    if quota >= len(values):
        return values
    rng = np.random.default_rng((seed, place))
    return values[np.sort(rng.choice(len(values), quota, replace=False))]


def transform_all(
    features: Sequence[SpatialPyramidFeatures],
    images: Sequence[Image],
    stages: Stages,
    skipped: dict[int, str] | None = None,
    encode_seconds: list[float] | None = None,
) -> list[NDArray[np.float32]]:
    """Vectors of images for several features with one grid, reading each image once.

    ``encode_seconds`` is filled with each one's part of the seconds of the
    stage "encode". With ``skipped`` given, an image that cannot be read has no row in the
    matrices, and its index and the reason are added there; without, it raises.
    """
    first = _common_grid(features)
    matrices = [np.empty((len(images), f._n_features_out), np.float32) for f in features]

    def work(index: int) -> tuple[list[NDArray[np.float32]] | ImageError, list[float]]:
        clock = _Clock()
        try:
            descriptors = _describe(first, images, index, clock)
        except ImageError as error:
            return error, [0.0] * (2 + len(features))
        vectors = []
        for feature in features:
            vectors.append(feature.vector(descriptors))
            clock.lap()
        return vectors, clock.laps

    names = ["read", "sift", *("encode" for _ in features)]
    with workers(first.n_jobs) as executor, _divided(stages, names) as spent:
        results = ordered_map(work, range(len(images)), executor)
        tracked = stages.track("encoding images", results, len(images))
        for index, (vectors, laps) in enumerate(tracked):
            spent += laps
            if not isinstance(vectors, ImageError):
                for matrix, vector in zip(matrices, vectors, strict=True):
                    matrix[index] = vector
            elif skipped is None:
                raise vectors
            else:
                skipped[index] = vectors.reason
    if encode_seconds is not None:
        encode_seconds[:] = spent[2:].tolist()
    if skipped:
        matrices = [np.delete(matrix, sorted(skipped), axis=0) for matrix in matrices]
    return matrices
