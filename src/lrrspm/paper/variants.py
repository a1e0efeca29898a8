"""Other ways to read or describe images, to measure their effect on the accuracy."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from ..descriptors import SIFT, LocalDescriptors
from ..features import Image, SpatialPyramidFeatures
from ..images import Pixels, read_image

Gray = NDArray[np.float32]


def _resized(gray: Gray, width: int, height: int, way: Pillow.Resampling) -> Gray:
    image = Pillow.fromarray(np.clip(np.round(gray * 255), 0, 255).astype(np.uint8))
    return np.asarray(image.resize((width, height), way), np.float32) / np.float32(255)


def _scaled(gray: Gray, side: int, way: Pillow.Resampling, enlarge: bool = False) -> Gray:
    height, width = gray.shape
    scale = side / max(height, width)
    if scale >= 1 and not enlarge:
        return gray
    return _resized(gray, round(scale * width), round(scale * height), way)


# Names of variants are part of the keys of stored rows: never change them, spelling included.
READERS: dict[str, Callable[[Gray], Gray]] = {
    "resized to 300 by Pillow's bicubic": lambda gray: _scaled(
        gray, 300, Pillow.Resampling.BICUBIC
    ),
    "resized to 300 by the nearest pixel": lambda gray: _scaled(
        gray, 300, Pillow.Resampling.NEAREST
    ),
    "enlarged to 300": lambda gray: _scaled(gray, 300, Pillow.Resampling.BICUBIC, enlarge=True),
    "resized to 200 x 200": lambda gray: _resized(gray, 200, 200, Pillow.Resampling.BICUBIC),
}
FLAT = "flat patches normalised too"
VARIANTS = (*READERS, FLAT)


class VariedFeatures(SpatialPyramidFeatures):
    """Features of images that are read in another way."""

    variant = ""

    @property
    def reader(self) -> Hashable:
        """Key of the variant: features of one variant share the pixels."""
        return self.variant

    def read(self, image: Image) -> Pixels:
        """Read an image file as the variant does."""
        if not isinstance(image, (str, os.PathLike)):
            raise TypeError("a variant reads files, not arrays")
        gray = read_image(image, None)
        return Pixels(READERS[self.variant](gray), None, gray.shape)


class FlatSIFT(SIFT):
    """SIFT in which flat patches are normalized too."""

    def describe(self, pixels: Gray) -> LocalDescriptors:
        found = super().describe(pixels)
        return found._replace(values=_normalized(found.values))


def vary(features: SpatialPyramidFeatures, variant: str) -> SpatialPyramidFeatures:
    """Return unfitted features with a variant applied; unchanged if it is empty."""
    if not variant:
        return features
    if variant not in VARIANTS:
        raise ValueError(f"no variant {variant!r}; choose from: {', '.join(VARIANTS)}")
    parameters = features.get_params(deep=False)
    if variant == FLAT:
        (channel,) = features.new_channels()
        channel.descriptor = FlatSIFT(**channel.descriptor.get_params())
        return SpatialPyramidFeatures(**{**parameters, "channels": [channel]})
    varied = VariedFeatures(**parameters)
    varied.variant = variant
    return varied


def _normalized(values: Gray) -> Gray:
    """Scale nonzero descriptors to length 1, clip them at 0.2 and scale them again."""
    clipped = np.minimum(_unit(values), np.float32(0.2))
    return _unit(clipped)


def _unit(values: Gray) -> Gray:
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return np.divide(values, np.where(norms > 0, norms, 1), dtype=np.float32)
