"""Other ways to read or describe images, to measure their effect on the accuracy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from ..descriptors.sift import DenseDescriptors
from ..features import Image, SpatialPyramidFeatures
from ..images import read_image

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
    """Features of images that are read or described in another way."""

    variant = ""

    def read(self, image: Image) -> Gray:
        if self.variant not in READERS:
            return super().read(image)
        if isinstance(image, np.ndarray):
            raise TypeError("a variant reads files, not arrays")
        return READERS[self.variant](read_image(image, None))

    def describe(self, gray: Gray) -> DenseDescriptors:
        found = super().describe(gray)
        return found._replace(values=_normalized(found.values)) if self.variant == FLAT else found


def vary(features: SpatialPyramidFeatures, variant: str) -> SpatialPyramidFeatures:
    """Return features with a variant applied; unchanged if it is empty."""
    if not variant:
        return features
    if variant not in VARIANTS:
        raise ValueError(f"no variant {variant!r}; choose from: {', '.join(VARIANTS)}")
    varied = VariedFeatures(**features.get_params(deep=False))
    varied.variant = variant
    if hasattr(features, "encoder_"):
        varied.encoder_ = features.encoder_
    return varied


def _normalized(values: Gray) -> Gray:
    """Scale nonzero descriptors to length 1, clip them at 0.2 and scale them again."""
    clipped = np.minimum(_unit(values), np.float32(0.2))
    return _unit(clipped)


def _unit(values: Gray) -> Gray:
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return np.divide(values, np.where(norms > 0, norms, 1), dtype=np.float32)
