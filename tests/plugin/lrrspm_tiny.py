"""Parts of another package: none of them is known to lrrspm but by its entry points."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from lrrspm import Channel
from lrrspm.descriptors import Descriptor, LocalDescriptors
from lrrspm.encoders import Encoder
from lrrspm.methods import Method
from lrrspm.pooling import Pooling


class ColorGrid(Descriptor):
    """64 values per patch: means of red, green, blue and their mean in 4 x 4 cells."""

    color: ClassVar = True

    def __init__(self, step: int = 8, patch_size: int = 12) -> None:
        self.step = step
        self.patch_size = patch_size

    @property
    def n_values(self) -> int:
        return 64

    def describe(self, pixels: Any) -> LocalDescriptors:
        pixels = self.pad(pixels, self.patch_size)
        height, width = pixels.shape[:2]
        planes = np.concatenate([pixels, pixels.mean(axis=2, keepdims=True)], axis=2)
        side = self.patch_size
        tops = range(0, height - side + 1, self.step)
        lefts = range(0, width - side + 1, self.step)
        patches = np.stack([planes[t : t + side, x : x + side] for t in tops for x in lefts])
        cells = patches.reshape(-1, 4, side // 4, 4, side // 4, 4).mean(axis=(2, 4))
        center = (side - 1) / 2
        return LocalDescriptors(
            np.ascontiguousarray(cells.reshape(len(patches), 64), np.float32),
            np.tile(np.array(lefts) + center, len(tops)).astype(np.float32),
            np.repeat(np.array(tops) + center, len(lefts)).astype(np.float32),
            np.full(len(patches), side, np.float32),
            width,
            height,
        )


class SoftEncoder(Encoder):
    """Shares of a few random descriptors, by their distances."""

    derived: ClassVar = {"atoms_": "km"}
    pooled_by: ClassVar = "OuterPooling"

    def __init__(self, size: int = 4, sharpness: float = 2.0, random_state: Any = None) -> None:
        self.size = size
        self.sharpness = sharpness
        self.random_state = random_state

    @property
    def n_atoms(self) -> int:
        return len(self.atoms_)

    def learn_from(self, X: Any, executor: Any, progress: Any) -> None:
        rng = check_random_state(self.random_state)
        self.atoms_ = X[rng.permutation(len(X))[: self.size]].copy()

    def encode(self, X: Any, codes: Any) -> None:
        distances = ((X[:, None] - self.atoms_[None]) ** 2).sum(axis=2)
        nearness = np.exp(-self.sharpness * (distances - distances.min(axis=1, keepdims=True)))
        codes[:] = nearness / nearness.sum(axis=1, keepdims=True)


class OuterPooling(Pooling):
    """Sums of codes times descriptors, k x m numbers per cell."""

    def width(self, n_atoms: int, n_values: int) -> int:
        return n_atoms * n_values

    def start(self, pyramid: Any, n_atoms: int, n_values: int) -> Any:
        return np.zeros((pyramid.n_finest, n_atoms * n_values), np.float32)

    def add(self, state: Any, values: Any, codes: Any, cells: Any) -> None:
        outer = np.einsum("nk,nm->nkm", codes, values).reshape(len(codes), -1)
        np.add.at(state, cells, outer)

    def merge(self, state: Any, pyramid: Any) -> Any:
        merged = np.zeros((pyramid.n_cells, state.shape[1]), np.float32)
        for _, rows, parents in pyramid.grids():
            np.add.at(merged[rows], parents, state)
        return merged

    def attribute(self, values: Any, codes: Any, cells: Any, weights: Any, pyramid: Any) -> Any:
        state = self.start(pyramid, codes.shape[1], values.shape[1])
        self.add(state, values, codes, cells)
        merged = self.merge(state, pyramid)
        slopes = weights.astype(float).reshape(merged.shape) / (self.length(merged.ravel()) or 1)
        fine = sum(slopes[rows][parents] for _, rows, parents in pyramid.grids())
        outer = np.einsum("nk,nm->nkm", codes, values).reshape(len(codes), -1)
        return (outer * fine[cells]).sum(axis=1)


TINY = Method(
    "TinySPM",
    "soft shares of color grids, second moments, linear SVM",
    lambda: [Channel(SoftEncoder(), ColorGrid(), OuterPooling(), levels=(1, 2))],
)
