"""Features: an image -> a vector, through one or several channels."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from . import config
from ._support import registry
from ._support.halves import in_precision, widen_columns, widened
from ._support.stages import Stages
from .cache import same_key
from .descriptors import SIFT, LocalDescriptors, places
from .encoders import BLOCK, LRREncoder, Progress
from .images import AnyImage, Pixels, check_images, list_images, read_pixels
from .pipeline import encode_images, fit_features, open_engine
from .pooling import Level, SpatialPyramid
from .pooling.pyramid import known_pyramid

Image = AnyImage


class Channel(BaseEstimator):
    """One way from pixels to a vector: descriptor, projection, encoder, pooling.

    Parameters
    ----------
    encoder : encoder or None
        None is ``LRREncoder()``.
    descriptor : descriptor or None
        None is ``SIFT()``.
    pooling : pooling or None
        None is the encoder's own: the one that its method uses.
    levels : tuple of int
        Cells along each side, one number per pyramid level.
    weight : float or None
        Share of this channel in the product of two images' vectors, where there are
        several. None learns it from the labels of an :class:`ImageClassifier`, else 1.
    projection : transformer or None
        Fitted to the sampled descriptors, and applied before the encoder; see
        :mod:`lrrspm.descriptors`.
    when : {None, "color"}
        "color", for descriptors of color, leaves the channel out unless half of
        the training images or more have color, see
        :func:`lrrspm.images.has_color`. It is fitted to those alone.

    Attributes
    ----------
    encoder_ : fitted encoder
    projection_ : fitted projection, or None
    """

    def __init__(
        self,
        encoder: Any = None,
        descriptor: Any = None,
        pooling: Any = None,
        levels: tuple[Level, ...] = config.LEVELS,
        weight: float | None = 1.0,
        projection: Any = None,
        when: str | None = None,
    ) -> None:
        self.encoder = encoder
        self.descriptor = descriptor
        self.pooling = pooling
        self.levels = levels
        self.weight = weight
        self.projection = projection
        self.when = when

    def complete(self) -> Channel:
        """Return an unfitted copy in which every part is named."""
        channel = clone(self)
        if channel.descriptor is None:
            channel.descriptor = SIFT()
        if channel.encoder is None:
            channel.encoder = LRREncoder()
        if channel.pooling is None:
            channel.pooling = channel.own_pooling()
        if channel.pooling is None:
            raise ValueError(
                f"{type(channel.encoder).__name__} does not say how its codes are pooled; "
                "give the channel a pooling"
            )
        return channel

    def set_params(self, **params: Any) -> Self:
        """Set parameters; one of a part that is None names the default part first."""
        nested = {name: params.pop(name) for name in list(params) if "__" in name}
        super().set_params(**params)
        roles = {name.partition("__")[0] for name in nested}
        for role in roles & {"descriptor", "encoder", "pooling"}:
            if getattr(self, role) is None:
                setattr(self, role, getattr(self.complete(), role))
        return super().set_params(**nested)

    def own_pooling(self) -> Any:
        """Return a new pooling of the kind that the encoder names, or None."""
        name = self.encoder.pooled_by
        return None if name is None else registry.find("poolings", name)()

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter of the channel or a part is out of range."""
        for part in (self.descriptor, self.encoder, self.pooling, self.projection):
            if part is not None:
                part.check_parameters()
        if self.weight is not None and not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"weight must be positive, got {self.weight}")
        if self.when not in (None, "color"):
            raise ValueError(f"when must be None or 'color', got {self.when!r}")
        if self.when == "color" and not self.descriptor.color:
            name = type(self.descriptor).__name__
            raise ValueError(f"{name} reads no color, so when must be None")
        SpatialPyramid(self.levels)

    def fit_on(
        self,
        values: NDArray[np.float32],
        executor: Executor | None = None,
        progress: Progress | None = None,
        labels: NDArray[Any] | None = None,
    ) -> Self:
        """Fit projection, encoder and pooling to sampled descriptors (n, m).

        With a projection, two more columns are the places of the patches. Labels are (n,).
        """
        self.projection_ = None
        if self.projection is not None:
            described, where = values[:, :-2], values[:, -2:]
            self.projection_ = clone(self.projection).fit(described)
            values = self.projection_.transform(described, where)
        known = {"y": labels} if self.encoder.uses_labels else {}
        self.encoder_ = clone(self.encoder).fit_on(values, executor, progress, **known)
        self.pooling_ = clone(self.pooling).fit(values, self.encoder_)
        return self

    def project(self, found: LocalDescriptors) -> NDArray[np.float32]:
        """Return descriptors as the encoder takes them: projected if there is a projection."""
        if self.projection_ is None:
            return found.values
        return self.projection_.transform(found.values, places(found))

    @property
    def pyramid(self) -> SpatialPyramid:
        """The grids that this channel pools in."""
        return known_pyramid(self.levels)

    @property
    def n_features(self) -> int:
        """Length of the vector."""
        n_values = self.encoder_.n_features_in_
        return self.pyramid.n_cells * self.pooling_.width(self.encoder_.n_atoms, n_values)

    @property
    def expected_features(self) -> int:
        """Length of the vector before anything is fitted, if every atom is learned."""
        n_values = self.descriptor.n_values
        if self.projection is not None:
            n_values = self.projection.n_values(n_values)
        n_atoms = getattr(self.encoder, "codebook_size", config.CODEBOOK_SIZE)
        return self.pyramid.n_cells * self.pooling.width(n_atoms, n_values)

    def vector(self, found: LocalDescriptors) -> NDArray[Any]:
        """Return the vector of one image from its descriptors, in the pooling's precision.

        Codes are made and pooled a block at a time, so that they are read back
        from cache and are never all in memory.
        """
        encoder, pooling, pyramid = self.encoder_, self.pooling_, self.pyramid
        cells = pyramid.cells(found.x, found.y, found.width, found.height)
        values = self.project(found)
        state = pooling.start(pyramid, encoder.n_atoms, values.shape[1])
        codes = np.empty((min(BLOCK, len(values)), encoder.n_atoms), np.float32)
        for start in range(0, len(values), BLOCK):
            block = values[start : start + BLOCK]
            encoder.encode(block, codes[: len(block)])
            pooling.add(state, block, codes[: len(block)], cells[start : start + BLOCK])
        return in_precision(pooling.finish(state, pyramid), pooling.precision)


class ChannelParameters(BaseEstimator):
    """Nested parameters of channels in a list, such as ``channels__0__encoder__threshold``.

    Setting one names the default channels first, where ``channels`` is None.
    """

    channels: Sequence[Channel] | None

    def new_channels(self) -> list[Channel]:
        """Return unfitted channels of our own, every part named."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; with ``deep`` those of channels and their parts too."""
        params = super().get_params(deep)
        if deep and "channels" in params:
            for i, channel in enumerate(self.channels or self.new_channels()):
                params[f"channels__{i}"] = channel
                nested = channel.get_params()
                params.update({f"channels__{i}__{name}": value for name, value in nested.items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones too."""
        nested = {name: params.pop(name) for name in list(params) if name.startswith("channels__")}
        super().set_params(**params)
        if nested:
            self._name_channels()
        for name, value in sorted(nested.items()):
            _, place, *rest = name.split("__", 2)
            channels = self.channels
            if not (
                isinstance(channels, list) and place.isdecimal() and int(place) < len(channels)
            ):
                raise ValueError(f"there is no channel {place!r} to set {name!r} of")
            if rest:
                channels[int(place)].set_params(**{rest[0]: value})
            else:
                channels[int(place)] = value
        return self

    def _name_channels(self) -> None:
        if self.channels is not None:
            self.channels = list(self.channels)
            return
        self.channels = self.new_channels()
        for channel in self.channels:
            # An encoder that comes later brings its own pooling.
            if same_key(channel.pooling) == same_key(channel.own_pooling()):
                channel.pooling = None


class SpatialPyramidFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ChannelParameters, BaseEstimator
):
    r"""Images to vectors: local descriptors, coded and pooled in the cells of a pyramid.

    The vectors :math:`v_i` of the channels, with weights :math:`w_i`, stand one
    after another:

    .. math:: v = (\sqrt{w_1 / \textstyle\sum w}\; v_1, \sqrt{w_2 / \sum w}\; v_2, \dots)

    so the product of two vectors is the weighted mean of the channels' products.

    Parameters
    ----------
    channels : list of Channel or None
        None is ``[Channel()]``, which is LrrSPM. They are cloned, never changed.
    max_side : int or None
        Larger images are shrunk to this, see :func:`lrrspm.read_image`.
    n_samples : int
        Descriptors that each channel is fitted to: ``n_samples / images``
        (rounded) random ones from each training image; with more images than
        that, one from each of ``n_samples`` random images.
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
    ) -> None:
        self.channels = channels
        self.max_side = max_side
        self.n_samples = n_samples
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.cache = cache

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
            raise ValueError(f"channels must be a list of one or more Channel, got {given}")
        return [channel.complete() for channel in given]

    def check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of range, before the work."""
        if self.n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {self.n_samples}")
        channels = self.new_channels()
        for channel in channels:
            channel.check_parameters()
        if not math.isfinite(sum(channel.weight or 1.0 for channel in channels)):
            raise ValueError("the sum of the channels' weights is too large")
        if all(channel.when == "color" for channel in channels):
            raise ValueError("all channels are left out without color; set when=None in one")

    def read(self, image: Image) -> Pixels:
        """Read one image as the descriptors take it, shrunk if it is large."""
        # Not those fitted: another fit may call for color.
        colors = {bool(channel.descriptor.color) for channel in self.new_channels()}
        return read_pixels(image, self.max_side, gray=False in colors, color=True in colors)

    @property
    def reads_plainly(self) -> bool:
        """True for this very class: only then is known how images are read."""
        return type(self) is SpatialPyramidFeatures

    @property
    def reader(self) -> Hashable:
        """Key of how images are read: features that share it share the pixels."""
        return ("plain", self.max_side) if self.reads_plainly else id(self)

    def weigh(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Join the channels' vectors (n_features,), each in its precision, by their weights."""
        if len(parts) == 1:
            return parts[0]
        weighed = [widened(part) * scale for part, scale in zip(parts, self.scales, strict=True)]
        return in_precision(np.concatenate(weighed), self.precision)

    @property
    def precision(self) -> np.dtype[Any]:
        """Type of the vectors: float16 where all channels have it, else float32."""
        return np.result_type(*(channel.pooling.precision for channel in self.channels_))

    @property
    def scales(self) -> list[np.float32]:
        """What each channel's vector is multiplied by."""
        total = math.fsum(channel.weight for channel in self.channels_)
        return [np.float32(math.sqrt(channel.weight / total)) for channel in self.channels_]
