"""Channels: one way from pixels to a vector each, and their nested parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from numbers import Real
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from . import config
from ._support import registry
from ._support.estimators import BaseEstimator
from ._support.halves import in_precision
from .cache import same_key
from .descriptors import SIFT, LocalDescriptors, places
from .encoders import BLOCK, Encoder, LRREncoder, Progress
from .pooling import Level, Pooling, SpatialPyramid
from .pooling.pyramid import known_pyramid

Weight = float | tuple[float, ...]


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
    weight : float, tuple of float or None
        Share of this channel in the product of two images' vectors, where there are
        several; or one number per level, and their mean is the channel's share. None
        learns these from the labels of an :class:`ImageClassifier`, else 1.
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
        weight: Weight | None = 1.0,
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
        """Set parameters; setting one of a part that is None creates the default part first."""
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
        weights = self.weight if isinstance(self.weight, tuple) else (self.weight or 1.0,)
        if not all(isinstance(one, Real) for one in weights):
            raise ValueError(f"weight must be a number or a tuple of numbers, got {self.weight!r}")
        if self.weight == 0 or not all(math.isfinite(one) and one > 0 for one in weights):
            raise ValueError(f"weight must be positive, got {self.weight}")
        if isinstance(self.weight, tuple) and len(weights) != len(self.levels):
            raise ValueError(f"weight has {len(weights)} numbers for {len(self.levels)} levels")
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
        self.projection_: Any = None
        if self.projection is not None:
            described, where = values[:, :-2], values[:, -2:]
            self.projection_ = clone(self.projection).fit(described)
            values = self.projection_.transform(described, where)
        known = {"y": labels} if self.encoder.uses_labels else {}
        self.encoder_: Encoder = clone(self.encoder).fit_on(values, executor, progress, **known)
        self.pooling_: Pooling = clone(self.pooling).fit(values, self.encoder_)
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
    def level_columns(self) -> list[slice]:
        """The part of the vector that each level takes."""
        width = self.n_features // self.pyramid.n_cells
        rows = (grid.rows for grid in self.pyramid.grids())
        return [slice(one.start * width, one.stop * width) for one in rows]

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
    engine: Any

    def new_channels(self) -> list[Channel]:
        """Return unfitted channels of our own, every part named."""
        raise NotImplementedError

    def __sklearn_clone__(self) -> Self:
        # Executors and clients cannot be copied, and need not be.
        engine = getattr(self, "engine", None)
        if engine is None or isinstance(engine, str):
            return super().__sklearn_clone__()
        self.engine = config.ENGINE
        try:
            return super().__sklearn_clone__().set_params(engine=engine)
        finally:
            self.engine = engine

    def __getstate__(self) -> dict[str, Any]:
        # Executors and clients stay with their process.
        state = cast("dict[str, Any]", super().__getstate__())
        if not isinstance(state.get("engine", config.ENGINE), str):
            state = {**state, "engine": config.ENGINE}
        return state

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


def scales_of(weights: Sequence[Weight], channels: Sequence[Channel]) -> list[list[np.float32]]:
    """Return the root of each level's share, of channels with these weights."""
    total = math.fsum(map(mean_weight, weights))
    return [
        [np.float32(math.sqrt(one / total)) for one in weight]
        if isinstance(weight, tuple)
        else [np.float32(math.sqrt(weight / total))] * len(channel.levels)
        for weight, channel in zip(weights, channels, strict=True)
    ]


def mean_weight(weight: Weight) -> float:
    """Return the weight of a channel, also where its levels have one each."""
    return math.fsum(weight) / len(weight) if isinstance(weight, tuple) else weight
