"""Batches: images of several sizes on a device, and canvases on which their patches coincide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..descriptors.base import PatchGrid
from ..pooling import SpatialPyramid
from .device import has_kernels, send

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
        self._sides: NDArray[np.int64] = np.array(self.shapes, np.int64)
        self._starts: NDArray[np.int64] = np.append(0, self._sides.prod(1).cumsum())
        self.pixels: Any = self._send(images, device)

    def _send(self, images: Sequence[NDArray[np.generic]], device: str) -> torch.Tensor:
        """Copy pixels to the device; to a GPU from pinned memory, beside what it computes."""
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
        if device == "cpu":
            return flat
        computing, copying = torch.cuda.current_stream(device), _copying(device)
        with torch.cuda.stream(copying):
            sent = flat.to(device, non_blocking=True)
        computing.wait_stream(copying)
        sent.record_stream(computing)
        return sent

    def table(self, grids: Grids, margin: int) -> torch.Tensor:
        """Where canvases lie, (B, 9), int64, for kernels.

        Columns: the image's first pixel, its sides, the place in it of a canvas's first pixel,
        the same place in the padded image, and the sides of that.
        """
        corners = grids.corners - margin
        added = (grids.padded - self._sides) // 2
        parts = (self._starts[:-1, None], self._sides, corners - added, corners, grids.padded)
        return self._tensor(np.concatenate(parts, 1))

    def canvas(self, grids: Grids, margin: int) -> torch.Tensor:
        """Return canvases (B, planes, H, W) that begin ``margin`` before the first patch.

        An image is repeated beyond its border. Integers are divided by 255.
        """
        rows, columns = (self._along(axis, grids, margin) for axis in (0, 1))
        widths = self._tensor(self._sides[:, 1:])
        starts = self._tensor(self._starts[:-1, None])
        places = (starts + rows * widths)[:, :, None] + columns[:, None, :]
        found = self.pixels[places].movedim(3, 1)
        return found if found.is_floating_point() else found.float() / 255

    def inside(self, grids: Grids, margin: int) -> torch.Tensor:
        """Return 1 where a canvas (B, 1, H, W) shows its image, which may be padded, else 0."""
        down, across = (self._places(axis, grids, margin) for axis in (0, 1))
        heights, widths = (self._tensor(grids.padded[:, axis, None]) for axis in (0, 1))
        rows = (down >= 0) & (down < heights)
        columns = (across >= 0) & (across < widths)
        return (rows[:, None, :, None] & columns[:, None, None, :]).float()

    def _places(self, axis: int, grids: Grids, margin: int) -> torch.Tensor:
        """Rows or columns (B, length) of the padded images that canvases show."""
        length = grids.sides[axis] + 2 * margin
        steps = torch.arange(length, device=self.pixels.device)
        return self._tensor(grids.corners[:, axis, None]) + steps - margin

    def _along(self, axis: int, grids: Grids, margin: int) -> torch.Tensor:
        """Rows or columns (B, length) of the images: borders repeated."""
        sizes = self._sides[:, axis, None]
        added = (grids.padded[:, axis, None] - sizes) // 2
        places = self._places(axis, grids, margin) - self._tensor(added)
        return places.clamp_min(0).minimum(self._tensor(sizes - 1))

    def _tensor(self, values: NDArray[np.int64]) -> torch.Tensor:
        return send(values, self.pixels.device)


@lru_cache(maxsize=16)
def _copying(device: str) -> Any:
    """Return the stream of copies to a GPU."""
    return torch.cuda.Stream(device)


class Grids:
    """Patches of one size in images of several sizes.

    Images smaller than ``least`` are padded to it first. Canvases of all images
    begin at the first patch and end at the last of the largest image.

    Attributes
    ----------
    padded, corners, counts : ndarray of shape (B, 2)
        Sides of the padded images, first patches, and patches, down and across.
    ny, nx : int
        Patches of a canvas.
    sides : tuple of int
        Sides of a canvas.
    """

    def __init__(self, shapes: Sequence[Shape], least: int, size: int, step: int) -> None:
        self.size: int = size
        self.step: int = step
        self.padded: NDArray[np.int64] = np.maximum(np.array(shapes, np.int64), least)
        sides: Any = tuple(self.padded.T)
        grid = PatchGrid(sides, size, step)  # of all images at once
        self.corners: NDArray[np.int64] = np.stack([grid.top, grid.left], 1)
        self.counts: NDArray[np.int64] = np.stack([grid.ny, grid.nx], 1)
        self.ny, self.nx = (int(n) for n in self.counts.max(0))
        self.sides: tuple[int, int] = (self.ny - 1) * step + size, (self.nx - 1) * step + size

    @property
    def n(self) -> int:
        """Patches of a canvas."""
        return self.ny * self.nx

    def starts(self, axis: int, n_cells: int) -> NDArray[np.int64]:
        """Return the first patch of each cell along an axis, and their number, (B, n_cells + 1).

        Cells are those of :meth:`lrrspm.pooling.SpatialPyramid.cells`, with the same bits.
        """
        lengths, which = np.unique(self.padded[:, axis], return_inverse=True)
        _, first = np.unique(which, return_index=True)
        corners, counts = self.corners[first, axis, None], self.counts[first, axis, None]
        number = np.arange(counts.max())
        centers = corners + number * self.step + (self.size - 1) / 2
        cells = np.ceil((centers + 1) * n_cells / lengths[:, None]).astype(np.int64) - 1
        cells = np.where(number < counts, cells.clip(0, n_cells - 1), n_cells)
        found: NDArray[np.int64] = (cells[:, :, None] < np.arange(n_cells + 1)).sum(1)
        return found[which.reshape(-1)]


class Members(NamedTuple):
    """The patches of each finest cell of each image.

    Attributes
    ----------
    rows : tensor of shape (B, cells, most), int32
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

    Places are computed as by :func:`lrrspm.descriptors.places`, with the same bits.
    """
    table, most = member_table(kinds, pyramid)
    sent = send(table, device)
    if has_kernels(sent):
        from .kernels import list_members

        return Members(*list_members(sent, *pyramid.shape, most))
    n_rows, n_columns = pyramid.shape
    number = torch.arange(most)
    full = (len(table), n_rows, n_columns, most)
    rows = torch.full(full, -1)
    places = torch.zeros((*full, 2))
    before = torch.zeros((*full[:3], 1), dtype=torch.int64)
    for part in sent.long().unbind(1):
        down, across, about = part.split((n_rows + 1, n_columns + 1, 8), 1)
        heights, widths = down.diff()[:, :, None, None], across.diff()[:, None, :, None]
        corner, side, (step, size, nx, first) = about[:, :2], about[:, 2:4], about[0, 4:]
        own, count = number - before, heights * widths
        y = down[:, :-1, None, None] + own // widths.clamp_min(1)
        x = across[:, None, :-1, None] + own % widths.clamp_min(1)
        inside = (own >= 0) & (own < count)
        rows = torch.where(inside, first + y * nx + x, rows)
        for place, (i, axis) in enumerate(((x, 1), (y, 0))):
            at = (corner[:, axis, None, None, None] + i * step).float() + size / 2
            spot = at / side[:, axis, None, None, None].float() - 0.5
            places[..., place] = torch.where(inside, spot, places[..., place])
        before = before + count
    return Members(rows.int().flatten(1, 2), places.flatten(1, 2))


def member_table(kinds: Sequence[Grids], pyramid: SpatialPyramid) -> tuple[NDArray[np.int32], int]:
    """Where the patches of cells lie, (B, grids, rows + columns + 10), and most of a cell.

    The patches of a cell are a rectangle of each grid. Columns: the first patch of each row of
    cells, and their number; the same of each column of cells; the first patch, the padded
    image's sides, step, size, patches across a canvas, and patches of canvases before.
    """
    parts, first = [], 0
    counts: NDArray[np.int64] = np.zeros((len(kinds[0].padded), *pyramid.shape), np.int64)
    for grids in kinds:
        down, across = (grids.starts(axis, n) for axis, n in enumerate(pyramid.shape))
        about = np.array([grids.step, grids.size, grids.nx, first])
        alike = np.broadcast_to(about, (len(down), 4))
        parts.append(np.concatenate([down, across, grids.corners, grids.padded, alike], 1))
        counts += np.diff(down)[:, :, None] * np.diff(across)[:, None, :]
        first += grids.n
    return np.stack(parts, 1).astype(np.int32), int(counts.max())


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
