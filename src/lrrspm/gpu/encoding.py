"""Encoding: pixels of many images to the vectors of fitted channels, on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..descriptors import LBP, SIFT, LocalColor, OpponentSIFT, Projection, RootSIFT
from ..encoders import LRREncoder, LRRWeightEncoder
from ..pooling import MaxPooling, MomentPooling
from .batches import Batch, Grids, find_members, similar
from .device import fetch, precision_of_products, send
from .lbp import describe_lbp
from .local_color import describe_local_color
from .pooling import pool_maxima, pool_moments
from .sift import describe_root_sift, describe_sift

if TYPE_CHECKING:
    from ..channels import Channel

DESCRIBE: dict[type, Callable[[Any, Batch], tuple[torch.Tensor, list[Grids]]]] = {
    SIFT: describe_sift,
    RootSIFT: describe_root_sift,
    OpponentSIFT: describe_root_sift,
    LBP: describe_lbp,
    LocalColor: describe_local_color,
}
_POOLED: dict[tuple[type, type], Any] = {
    (LRREncoder, MaxPooling): pool_maxima,
    (LRRWeightEncoder, MomentPooling): pool_moments,
}
_PROJECTIONS = (type(None), Projection)


def check_channels(channels: Sequence[Channel]) -> None:
    """Raise ValueError where a device cannot compute a channel."""
    for channel in channels:
        # A subclass may compute something else.
        pooled = type(channel.encoder), type(channel.pooling)
        parts = [channel.descriptor, channel.encoder, channel.pooling, channel.projection]
        if (
            type(channel.descriptor) not in DESCRIBE
            or pooled not in _POOLED
            or type(channel.projection) not in _PROJECTIONS
            or (channel.projection is not None and pooled == (LRREncoder, MaxPooling))
        ):
            names = ", ".join(type(part).__name__ for part in parts if part is not None)
            raise ValueError(
                f"a GPU cannot compute channels of {names}, only those of the methods "
                "fast, balanced, best, LrrSPM and LrrFV; use device='cpu'"
            )


def _precision_of(channel: Channel) -> torch.dtype:
    return torch.float16 if channel.pooling.precision == np.float16 else torch.float32


class DeviceChannels:
    """Fitted channels on a device.

    Parameters
    ----------
    channels : sequence of fitted Channel
    device : str
        Name of a device of torch.
    """

    def __init__(self, channels: Sequence[Channel], device: str) -> None:
        check_channels(channels)
        self._channels = channels
        self._device = device
        self._sent: dict[Any, tuple[Any, Any]] = {}

    def vectors(self, number: int, images: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Compute vectors in one of the channels.

        Parameters
        ----------
        number : int
            The channel.
        images : sequence of N arrays
            Gray (h, w) or color (h, w, 3) pixels, as the channel's descriptor reads them.

        Returns
        -------
        ndarray of shape (N, n_features)
            In the pooling's precision.
        """
        channel = self._channels[number]
        precision = _precision_of(channel)
        out = torch.empty((len(images), channel.n_features), dtype=precision, device=self._device)
        with torch.inference_mode():
            for rows in similar([image.shape[:2] for image in images]):
                batch = Batch([images[i] for i in rows], self._device)
                out[send(np.array(rows), self._device)] = self.encode(channel, batch).to(precision)
            return fetch(out)

    @property
    def most(self) -> int:
        """Images whose joined vectors take up to a 16th of the device's memory: always the same."""
        memory = 2**34
        if self._device != "cpu":
            memory = torch.cuda.get_device_properties(self._device).total_memory
        length = sum(channel.n_features for channel in self._channels)
        return int(max(1, memory // 16 // (4 * length)))

    def joined(
        self, images: Sequence[Mapping[bool, NDArray[Any]]], scales: Sequence[Sequence[float]]
    ) -> torch.Tensor:
        """Compute the vectors of all channels, joined and weighed; they stay on the device.

        Parameters
        ----------
        images : sequence of N mappings
            Gray (h, w) and color (h, w, 3) pixels, by whether they are color.
        scales : sequence of sequence of float
            Of each level of each channel.

        Returns
        -------
        tensor of shape (N, n_features)
            In half precision if all channels are.
        """
        kinds = {bool(channel.descriptor.color) for channel in self._channels}
        precisions = {_precision_of(channel) for channel in self._channels}
        width = sum(channel.n_features for channel in self._channels)
        precision = torch.float32 if torch.float32 in precisions else torch.float16
        out = torch.empty((len(images), width), dtype=precision, device=self._device)
        shapes = [next(iter(image.values())).shape[:2] for image in images]
        with torch.inference_mode():
            for rows in similar(shapes):
                batches = {
                    kind: Batch([images[i][kind] for i in rows], self._device) for kind in kinds
                }
                place = send(np.array(rows), self._device)
                first = 0
                for channel, levels in zip(self._channels, scales, strict=True):
                    vectors = self.encode(channel, batches[bool(channel.descriptor.color)])
                    vectors = vectors.to(_precision_of(channel))
                    for columns, scale in zip(channel.level_columns, levels, strict=True):
                        # Rounded before and after, as on the CPU.
                        part = (vectors[:, columns].float() * float(scale)).to(precision)
                        out[place, first + columns.start : first + columns.stop] = part
                    first += channel.n_features
        return out

    def encode(self, channel: Channel, batch: Batch) -> torch.Tensor:
        """Return the vectors (B, n_features) of a batch in a channel, float32."""
        values, kinds = DESCRIBE[type(channel.descriptor)](channel.descriptor, batch)
        encoder, pooling, pyramid = channel.encoder_, channel.pooling_, channel.pyramid
        members = find_members(batch, kinds, pyramid)
        pool = _POOLED[type(encoder), type(pooling)]
        vectors: torch.Tensor = pool(
            encoder, pooling, pyramid, values, members, self._sent_once, channel.projection_
        )
        return vectors

    def _sent_once(self, array: Any, prepare: Callable[[torch.Tensor], Any] | None = None) -> Any:
        """Return a fitted array on the device, where it stays, or what is made of it there."""
        key = id(array), prepare, precision_of_products()
        if key not in self._sent:
            found: Any = torch.from_numpy(array).to(self._device)
            self._sent[key] = array, found if prepare is None else prepare(found)
        return self._sent[key][1]
