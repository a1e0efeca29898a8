"""The stages composed: an image -> a vector, as an estimator."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from . import config
from ._support.parallel import single_blas_thread
from ._support.stages import Stages
from .descriptors.sift import DenseDescriptors, dense_sift
from .encoders.base import BLOCK, CodebookEncoder, LRREncoder
from .images import as_gray, read_image, shrink
from .pipeline.batch import fit_all, transform_all
from .pooling.pyramid import SpatialPyramid

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
    cache : path or None
        A folder that keeps codebooks and vectors for the next time, see
        :class:`lrrspm.store.FeatureStore`. The result has the same bits with
        and without.

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
        cache: str | os.PathLike[str] | None = None,
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
        self.cache = cache

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

    def codes(self, descriptors: DenseDescriptors) -> NDArray[np.float32]:
        """All codes of one image, (n, k), that :meth:`vector` pools."""
        values = descriptors.values
        codes = np.empty((len(values), len(self.encoder_.codebook_)), np.float32)
        with single_blas_thread():
            for start in range(0, len(values), BLOCK):
                rows = slice(start, start + BLOCK)
                self.encoder_.encode(values[rows], codes[rows])
        return codes


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
