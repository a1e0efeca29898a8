"""Dense SIFT of kornia on a GPU, a peer of ours.

kornia describes the same 48 x 31 patches of 16 pixels of a 300x200 image.
Its descriptors are others:

- derivatives are differences of neighboring pixels, ours those of a Gaussian
- a direction counts in the two of eight that are next to it, ours by a power of the cosine
- a pixel counts in a bin that is at most 2 pixels away, ours at most 4
- short descriptors are lengthened to 1, ours stay short

Its first patch begins half a bin before the image, so the images that it gets are cut on two
sides to begin its grid where ours begins. Patches there lack their outermost two pixels.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from lrrspm import config

from ._measure import made_image, seconds_on_gpu
from .roofline import SHAPE, grids

BATCHES = (16, 64, 256)
BINS = 4
"""Along each side of a patch."""


def kornia_sift(images: int, device: str = "cuda") -> dict[str, Any] | None:
    """Return images per second of kornia's dense SIFT; None where it is not installed.

    Images are float32 on the device, in batches of the size that is fastest. That size is
    tried as compiled by torch too; the faster form is the one that counts.
    """
    try:
        import torch

        kornia = importlib.import_module("kornia")
        feature = importlib.import_module("kornia.feature")
    except ImportError:
        return None
    size = config.PATCH_SIZE // BINS
    plain = feature.DenseSIFTDescriptor(
        num_spatial_bins=BINS, spatial_bin_size=size, stride=config.STEP, padding=0, rootsift=False
    ).to(device)
    pixels = _images(images, size // 2).to(device)

    def rate(describe: Any, batch: int) -> float:
        parts = pixels.split(batch)
        with torch.inference_mode():
            return images / seconds_on_gpu(lambda: [describe(part) for part in parts])

    rates = {}
    for batch in BATCHES:
        try:
            rates[batch] = rate(plain, batch)
        except torch.OutOfMemoryError:
            break
    batch = max(rates, key=lambda size: rates[size])
    forms: dict[str, float | None] = {"plain": rates[batch], "compiled": None}
    try:
        forms["compiled"] = rate(torch.compile(plain), batch)
    except Exception as error:  # no C compiler, say
        print(f"torch.compile of kornia failed: {type(error).__name__}: {error}", flush=True)
    with torch.inference_mode():
        shape = list(plain(pixels[:1]).shape[1:])
    return {
        "version": kornia.__version__,
        "images_per_second": max(found for found in forms.values() if found is not None),
        "compiled": (forms["compiled"] or 0) > rates[batch],
        "batch": batch,
        "shape": shape,
        "by_batch": {str(size): found for size, found in rates.items()},
        "by_form": forms,
    }


def _images(count: int, margin: int) -> Any:
    """Return images (n, 1, h, w) cut to begin ``margin`` after the first patch of our grid."""
    import torch

    (grid,) = grids([config.PATCH_SIZE], [config.STEP])
    made = np.stack([made_image(*SHAPE, seed) for seed in range(16)])
    cut = made[:, None, grid.top + margin :, grid.left + margin :]
    return torch.from_numpy(cut[np.arange(count) % len(cut)])
