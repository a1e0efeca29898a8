"""Batches: images of several sizes on a device, and canvases on which their patches coincide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..descriptors.base import PatchGrid
from ..pooling import SpatialPyramid

PIXELS = 2**24
"""Most pixels of the canvases of a batch."""

WASTE = 1.25
"""Most pixels of canvases per pixel of their images."""

Shape = tuple[int, int]


class Batch:
    """Images on a device, one after another.

    Parameters
    ----------
    images : sequence of B arrays (h, w) or (h, w, planes), float32 or uint8
    device : str

    Attributes
    ----------
    pixels : tensor of shape (pixels of all images, planes)
    shapes : tuple of (h, w)
    """

    def __init__(self, images: Sequence[NDArray[np.generic]], device: str) -> None:
        self.shapes: tuple[Shape, ...] = tuple((image.shape[0], image.shape[1]) for image in images)
        self._starts: NDArray[np.int64] = np.cumsum([0, *(h * w for h, w in self.shapes)])
        self.pixels: Any = self._send(images, device)

    def _send(self, images: Sequence[NDArray[np.generic]], device: str) -> torch.Tensor:
        """Copy pixels to the device; to a GPU from pinned memory, while the host goes on."""
        whole = all(image.dtype == np.uint8 for image in images)
        planes = 1 if images[0].ndim == 2 else images[0].shape[2]
        flat = torch.empty(
            (int(self._starts[-1]), planes),
            dtype=torch.uint8 if whole else torch.float32,
            pin_memory=device != "cpu",
        )
        target = flat.numpy()
        for image, first, last in zip(images, self._starts[:-1], self._starts[1:], strict=True):
            part = target[first:last].reshape(image.shape)
            if image.dtype == np.uint8 and not whole:
                np.divide(image, 255, out=part, dtype=np.float32)
            else:
                part[...] = image
        return flat.to(device, non_blocking=True)

    def canvas(self, grids: Grids, margin: int) -> torch.Tensor:
        """Return canvases (B, planes, H, W) that begin ``margin`` before the first patch.

        An image is repeated beyond its border. Integers are divided by 255.
        """
        rows, columns = (self._along(axis, grids, margin) for axis in (0, 1))
        widths = self._tensor([w for _, w in self.shapes])[:, None]
        starts = self._tensor(self._starts[:-1])[:, None]
        places = (starts + rows * widths)[:, :, None] + columns[:, None, :]
        found = self.pixels[places].movedim(3, 1)
        return found if found.is_floating_point() else found.float() / 255

    def inside(self, grids: Grids, margin: int) -> torch.Tensor:
        """Return 1 where a canvas (B, 1, H, W) shows its image, which may be padded, else 0."""
        down, across = (self._places(axis, grids, margin) for axis in (0, 1))
        heights, widths = (
            self._tensor([shape[axis] for shape in grids.padded])[:, None] for axis in (0, 1)
        )
        rows = (down >= 0) & (down < heights)
        columns = (across >= 0) & (across < widths)
        return (rows[:, None, :, None] & columns[:, None, None, :]).float()

    def _places(self, axis: int, grids: Grids, margin: int) -> torch.Tensor:
        """Rows or columns (B, length) of the padded images that canvases show."""
        length = grids.sides[axis] + 2 * margin
        steps = torch.arange(length, device=self.pixels.device)
        return self._tensor(grids.corners[axis])[:, None] + steps - margin

    def _along(self, axis: int, grids: Grids, margin: int) -> torch.Tensor:
        """Rows or columns (B, length) of the images: borders repeated."""
        sizes = np.array([shape[axis] for shape in self.shapes])
        added = np.array([shape[axis] for shape in grids.padded]) - sizes
        places = self._places(axis, grids, margin) - self._tensor(added // 2)[:, None]
        return places.clamp_min(0).minimum(self._tensor(sizes - 1)[:, None])

    def _tensor(self, values: Sequence[int] | NDArray[np.int64]) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), device=self.pixels.device)


class Grids:
    """Patches of one size in images of several sizes.

    Images smaller than ``least`` are padded to it first. Canvases of all images
    begin at the first patch and end at the last of the largest image.
    """

    def __init__(self, shapes: Sequence[Shape], least: int, size: int, step: int) -> None:
        self.size: int = size
        self.step: int = step
        self.padded: tuple[Shape, ...] = tuple((max(h, least), max(w, least)) for h, w in shapes)
        self.grids: list[PatchGrid] = [PatchGrid(shape, size, step) for shape in self.padded]
        self.corners: list[list[int]] = [
            [grid.top for grid in self.grids],
            [grid.left for grid in self.grids],
        ]
        self.ny: int = max(grid.ny for grid in self.grids)
        self.nx: int = max(grid.nx for grid in self.grids)
        self.sides: list[int] = [(n - 1) * step + size for n in (self.ny, self.nx)]


class Members(NamedTuple):
    """The patches of each finest cell of each image.

    Attributes
    ----------
    rows : tensor of shape (B, cells, most), int64
        Patches among those of an image's canvases; -1 where there are no more.
    places : tensor of shape (B, cells, most, 2), float32
        Places in the image from -1/2 to 1/2; 0 where there are no more.
    """

    rows: torch.Tensor
    places: torch.Tensor

    def take(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (B, n, m) by cell, (B, cells, most, m): zeros where there are no more."""
        images, n, _ = values.shape
        first = torch.arange(images, device=values.device)[:, None, None] * n
        found = values.flatten(0, 1)[first + self.rows.clamp_min(0)]
        return found * (self.rows >= 0)[..., None]


def find_members(kinds: Sequence[Grids], pyramid: SpatialPyramid, device: torch.device) -> Members:
    """Return the patches of cells, for grids of several patch sizes one after another.

    Places and cells are computed as by :func:`lrrspm.descriptors.places` and
    :meth:`lrrspm.pooling.SpatialPyramid.cells`, with the same bits.
    """
    n_rows, n_columns = pyramid.shape
    keys, spots = [], []
    for grids in kinds:
        down, across = (_Axis(grids, axis, n, device) for axis, n in enumerate((n_rows, n_columns)))
        cells = down.cells[:, :, None] * n_columns + across.cells[:, None, :]
        known = down.inside[:, :, None] & across.inside[:, None, :]
        keys.append(torch.where(known, cells, pyramid.n_finest).flatten(1))
        both = torch.broadcast_tensors(across.places[:, None, :], down.places[:, :, None])
        spots.append(torch.stack(both, 3).flatten(1, 2))
    key, spot = torch.cat(keys, 1), torch.cat(spots, 1)
    counts = torch.zeros((len(key), pyramid.n_finest + 1), dtype=torch.int64, device=device)
    counts.scatter_add_(1, key, torch.ones_like(key))
    order = torch.argsort(key, dim=1, stable=True)
    starts, counts = (counts.cumsum(1) - counts)[:, :-1, None], counts[:, :-1, None]
    number = torch.arange(int(counts.amax()), device=device)
    filled = number < counts
    found = order.gather(1, (starts + number).clamp_max(key.shape[1] - 1).flatten(1))
    places = spot.gather(1, found[..., None].expand(-1, -1, 2)).view(*filled.shape, 2)
    rows = found.view(filled.shape).masked_fill(~filled, -1)
    return Members(rows, places * filled[..., None])


class _Axis:
    """Along one axis of a grid: cells, places and whether there is a patch, each (B, patches)."""

    def __init__(self, grids: Grids, axis: int, n_cells: int, device: torch.device) -> None:
        own = [grid.nx if axis else grid.ny for grid in grids.grids]
        sizes = torch.tensor([shape[axis] for shape in grids.padded], device=device)[:, None]
        corners = torch.tensor(grids.corners[axis], device=device)[:, None]
        number = torch.arange(max(own), device=device)
        centers = corners + number * grids.step + (grids.size - 1) / 2.0
        at = torch.ceil((centers.double() + 1) * n_cells / sizes).long() - 1
        self.cells: torch.Tensor = at.clamp(0, n_cells - 1)
        self.inside: torch.Tensor = number < torch.tensor(own, device=device)[:, None]
        self.places: torch.Tensor = (centers.float() + 0.5) / sizes.float() - 0.5


def similar(shapes: Sequence[Shape]) -> Iterator[list[int]]:
    """Yield indices of images, smallest first, whose canvases fit into a batch."""
    batch: list[int] = []
    height = width = pixels = 0  # largest sides of the batch, and pixels of its images
    for index in sorted(range(len(shapes)), key=lambda i: shapes[i]):
        h, w = shapes[index]
        height, width, pixels = max(height, h), max(width, w), pixels + h * w
        canvases = (len(batch) + 1) * height * width
        if batch and (canvases > PIXELS or canvases > WASTE * pixels):
            yield batch
            batch = []
            height, width, pixels = h, w, h * w
        batch.append(index)
    if batch:
        yield batch
