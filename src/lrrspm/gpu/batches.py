"""Batches: images of several sizes on a device, and canvases on which their patches coincide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..descriptors import places
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
    """Return the patches of cells, for grids of several patch sizes one after another."""
    firsts = np.cumsum([0, *(grids.ny * grids.nx for grids in kinds)]).tolist()
    sizes = tuple((grids.size, grids.step, grids.nx) for grids in kinds)
    # Images of one folder have few sizes, and tables are longer than pixels are many.
    shapes = sorted(set(kinds[0].padded))
    tables = [_table(shape, sizes, tuple(firsts), pyramid) for shape in shapes]
    most = max(rows.shape[1] for rows, _ in tables)
    all_rows = np.full((len(shapes), pyramid.n_finest, most), -1)
    all_places = np.zeros((*all_rows.shape, 2), np.float32)
    for i, (rows, spots) in enumerate(tables):
        all_rows[i, :, : rows.shape[1]] = rows
        all_places[i, :, : rows.shape[1]] = spots
    number = {shape: i for i, shape in enumerate(shapes)}
    which = torch.tensor([number[shape] for shape in kinds[0].padded], device=device)
    found = (torch.from_numpy(array).to(device) for array in (all_rows, all_places))
    return Members(*(array[which] for array in found))


@lru_cache(maxsize=256)  # images of one folder have few sizes
def _table(
    shape: Shape,
    sizes: tuple[tuple[int, int, int], ...],
    firsts: tuple[int, ...],
    pyramid: SpatialPyramid,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows (cells, most) and places (cells, most, 2) of one image."""
    rows, cells, where = [], [], []
    for (size, step, width), first in zip(sizes, firsts, strict=False):
        grid = PatchGrid(shape, size, step)
        found = grid.place(np.empty((grid.ny * grid.nx, 0), np.float32))
        rows.append(first + np.add.outer(np.arange(grid.ny) * width, np.arange(grid.nx)).ravel())
        cells.append(pyramid.cells(found.x, found.y, found.width, found.height))
        where.append(places(found))
    row, cell, place = np.concatenate(rows), np.concatenate(cells), np.concatenate(where)
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=pyramid.n_finest)
    table = np.full((pyramid.n_finest, counts.max()), -1)
    spots = np.zeros((*table.shape, 2), np.float32)
    filled = np.arange(counts.max()) < counts[:, None]
    table[filled], spots[filled] = row[order], place[order]
    return table, spots


def similar(shapes: Sequence[Shape]) -> Iterator[list[int]]:
    """Yield indices of images, smallest first, whose canvases fit into a batch."""
    order = sorted(range(len(shapes)), key=lambda i: shapes[i])
    batch: list[int] = []
    for index in order:
        sides = np.array([shapes[i] for i in (*batch, index)])
        canvases = len(sides) * int(sides.max(axis=0).prod())
        if batch and (canvases > PIXELS or canvases > WASTE * sides.prod(axis=1).sum()):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
