"""Features: an image -> a vector, through one or several channels."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from . import config
from ._support.estimators import BaseEstimator, FeatureNamesMixin, Tags, TransformerMixin
from ._support.halves import in_precision, widen_columns, widened
from ._support.stages import Stages
from .channels import Channel, ChannelParameters, mean_weight, scales_of
from .images import AnyImage, Pixels, check_images, list_images, read_pixels, scale_to
from .pipeline import encode_images, fit_features, open_engine

Image = AnyImage


class SpatialPyramidFeatures(FeatureNamesMixin, TransformerMixin, ChannelParameters, BaseEstimator):
    r"""Images to vectors: local descriptors, coded and pooled in the cells of a pyramid.

    The vectors :math:`v_i` of the channels, with weights :math:`w_i`, stand one
    after another:

    .. math:: v = (\sqrt{w_1 / \textstyle\sum w}\; v_1, \sqrt{w_2 / \sum w}\; v_2, \dots)

    so the product of two vectors is the weighted mean of the channels' products. Where a
    channel's levels have weights of their own, :math:`w_i` is their mean, and each level
    is multiplied by the root of its own.

    Parameters
    ----------
    channels : list of Channel or None
        None is ``[Channel()]``, which is LrrSPM. They are cloned, never changed.
    max_side : int or None
        Larger images are shrunk to this, see :func:`lrrspm.read_image`.
    min_side : int or None
        Smaller images are enlarged to this, likewise; None enlarges none.
    n_samples : int
        About how many descriptors each channel is fitted to: the same number of random ones
        from each training image, rounded, so up to a third more; with a projection at most
        150, or 50,000 in all. With more images than that, one from each of ``n_samples``
        random images.
    n_jobs : int or None
        Threads; None is 1, -1 all cores. The result has the same bits for
        any number.
    random_state : int, RandomState instance or None
        Seed of the sample, and of encoders that have none of their own.
    cache : path or None
        A folder that keeps codebooks and vectors for the next run, see
        :class:`lrrspm.cache.FeatureStore`. The result has the same bits with
        and without.

    Attributes
    ----------
    channels_ : list of fitted Channel
        Those that the training images call for, see ``when`` of :class:`Channel`.
    left_out_ : dict of int to str
        Places of the others among the given channels, and why they were left out.

    Notes
    -----
    An image is a path, an image of Pillow, or an array of shape (h, w) or
    (h, w, 3), float in [0, 1] or uint8; a list may hold all of these. Images down
    to 1x1 have a vector.
    """

    def __init__(
        self,
        channels: Sequence[Channel] | None = None,
        max_side: int | None = config.MAX_SIDE,
        n_samples: int = config.N_SAMPLES,
        n_jobs: int | None = None,
        random_state: Any = None,
        cache: str | os.PathLike[str] | None = None,
        min_side: int | None = None,
    ) -> None:
        self.channels = channels
        self.max_side = max_side
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.cache = cache
        self.min_side = min_side

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return sum(channel.n_features for channel in self.channels_)

    def fit(self, X: Iterable[Image], y: Any = None) -> Self:
        """Sample descriptors from training images and fit the channels to them.

        Parameters
        ----------
        X : sequence of images
        y : labels (N,) for encoders that use them, or None

        Returns
        -------
        self
        """
        images = check_images(X)
        with open_engine(self.n_jobs) as engine:
            fit_features([self], images, [np.arange(len(images))], engine, Stages(), labels=y)
        return self

    def transform(self, X: Iterable[Image] | Image) -> NDArray[np.float32]:
        """Compute the vectors of images.

        Parameters
        ----------
        X : sequence of N images, or one image

        Returns
        -------
        ndarray of shape (N, n_features), float32
            Rounded to :attr:`precision`.
        """
        check_is_fitted(self)
        with open_engine(self.n_jobs) as engine:
            found = encode_images([self], list_images(X), engine, Stages()).matrices[0]
        return found if found.dtype == np.float32 else widen_columns(found, 0, found.shape[1])

    def new_channels(self) -> list[Channel]:
        """Return unfitted channels of our own, every part named."""
        given = [Channel()] if self.channels is None else list(self.channels)
        if not given or not all(isinstance(channel, Channel) for channel in given):
            raise ValueError(f"channels must be a list of one or more Channel objects, got {given}")
        return [channel.complete() for channel in given]

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range, before the work."""
        if self.n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {self.n_samples}")
        scale_to((1, 1), self.max_side, self.min_side)  # refuses what is out of range
        channels = self.new_channels()
        for channel in channels:
            channel.check_parameters()
        if not math.isfinite(sum(mean_weight(channel.weight or 1.0) for channel in channels)):
            raise ValueError("the sum of the channels' weights is too large")
        if all(channel.when == "color" for channel in channels):
            raise ValueError("all channels are left out without color; set when=None in one")

    def read(self, image: Image) -> Pixels:
        """Read one image as the descriptors take it, of a size within the limits."""
        # Not those fitted: another fit may call for color.
        colors = {bool(channel.descriptor.color) for channel in self.new_channels()}
        gray, color = False in colors, True in colors
        return read_pixels(image, self.max_side, gray, color, min_side=self.min_side)

    @property
    def reads_plainly(self) -> bool:
        """True for this exact class: only its way of reading images is known."""
        return type(self) is SpatialPyramidFeatures

    @property
    def reader(self) -> Hashable:
        """Key of how images are read: features that share it share the pixels."""
        return ("plain", self.max_side, self.min_side) if self.reads_plainly else id(self)

    def weigh(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Join the weighted vectors (n_features,) of the channels, each in its precision."""
        if not self.weighs:
            return parts[0]
        weighed = []
        for channel, part, scales in zip(self.channels_, parts, self.scales, strict=True):
            wide = widened(part)
            levels = zip(channel.level_columns, scales, strict=True)
            weighed += [wide[columns] * scale for columns, scale in levels]
        return in_precision(np.concatenate(weighed), self.precision)

    @property
    def weighs(self) -> bool:
        """True unless there is one channel, whose levels all count the same."""
        return len(self.channels_) > 1 or isinstance(self.channels_[0].weight, tuple)

    @property
    def precision(self) -> np.dtype[Any]:
        """Type of the vectors: float16 where all channels have it, else float32."""
        return np.result_type(*(channel.pooling.precision for channel in self.channels_))

    @property
    def scales(self) -> list[list[np.float32]]:
        """What each level of each channel's vector is multiplied by."""
        return scales_of([channel.weight for channel in self.channels_], self.channels_)
