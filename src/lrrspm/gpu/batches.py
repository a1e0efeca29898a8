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
    about : tensor of shape (B, 3), int64
        First pixel, height and width of each image.
    shapes : tuple of (h, w)
    """

    def __init__(self, images: Sequence[NDArray[np.generic]], device: str) -> None:
        self.shapes: tuple[Shape, ...] = tuple((image.shape[0], image.shape[1]) for image in images)
        self._sides: NDArray[np.int64] = np.array(self.shapes, np.int64)
        self._starts: NDArray[np.int64] = np.append(0, self._sides.prod(1).cumsum())
        self.pixels: Any = self._send(images, device)
        self.about: Any = send(np.column_stack([self._starts[:-1], self._sides]), device)

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
        number = torch.device(device).index
        number = torch.cuda.current_device() if number is None else number
        computing, copying = torch.cuda.current_stream(number), _copying(number)
        with torch.cuda.stream(copying):
            sent = flat.to(device, non_blocking=True)
        computing.wait_stream(copying)
        sent.record_stream(computing)
        return sent

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
def _copying(number: int) -> Any:
    """Return the stream of copies to a GPU."""
    return torch.cuda.Stream(number)


class Grids:
    """Patches of one size in images of several sizes.

    Images smaller than ``least`` are padded to it first. Canvases of all images
    begin at the first patch and end at the last of the largest image.

    Attributes
    ----------
    padded, corners, counts : ndarray of shape (B, 2)
        Sides of the padded images, first patches, and patches, down and across.
    largest : tuple of int
        The largest of these sides.
    ny, nx : int
        Patches of a canvas.
    sides : tuple of int
        Sides of a canvas.
    """

    def __init__(self, shapes: Sequence[Shape], least: int, size: int, step: int) -> None:
        self.least: int = int(least)
        self.size: int = size
        self.step: int = step
        self.padded: NDArray[np.int64] = np.maximum(np.array(shapes, np.int64), least)
        sides: Any = tuple(self.padded.T)
        grid = PatchGrid(sides, size, step)  # of all images at once
        self.corners: NDArray[np.int64] = np.stack([grid.top, grid.left], 1)
        self.counts: NDArray[np.int64] = np.stack([grid.ny, grid.nx], 1)
        self.largest: tuple[int, int] = tuple(self.padded.max(0).tolist())
        self.ny: int = int(self.counts[:, 0].max())
        self.nx: int = int(self.counts[:, 1].max())
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
    counts : tensor of shape (B, cells), int32
    """

    rows: torch.Tensor
    places: torch.Tensor
    counts: torch.Tensor

    def take(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (B, n, m) by cell, (B, cells, most, m): zeros where there are no more."""
        images, n, _ = values.shape
        first = torch.arange(images, device=values.device)[:, None, None] * n
        found = values.flatten(0, 1)[first + self.rows.clamp_min(0)]
        return found * (self.rows >= 0)[..., None]


def find_members(batch: Batch, kinds: Sequence[Grids], pyramid: SpatialPyramid) -> Members:
    """Return the patches of cells, for grids of several patch sizes one after another.

    The patches of a cell are a rectangle of each grid. Places are computed as by
    :func:`lrrspm.descriptors.places`, with the same bits.
    """
    if has_kernels(batch.pixels):
        from .cells import list_members

        return Members(*list_members(batch.about, kinds, pyramid.shape))
    n_rows, n_columns = pyramid.shape
    bounds = [
        [torch.from_numpy(one.starts(i, n)) for i, n in enumerate(pyramid.shape)] for one in kinds
    ]
    spans = [(down.diff()[:, :, None], across.diff()[:, None]) for down, across in bounds]
    counts = [heights * widths for heights, widths in spans]
    number = torch.arange(int(sum(counts).amax()))
    full = (len(batch.shapes), n_rows, n_columns, len(number))
    rows = torch.full(full, -1)
    places = torch.zeros((*full, 2))
    before, first = torch.zeros((*full[:3], 1), dtype=torch.int64), 0
    for grids, (down, across), (_, widths), count in zip(kinds, bounds, spans, counts, strict=True):
        own, width = number - before, widths[..., None].clamp_min(1)
        y = down[:, :-1, None, None] + own // width
        x = across[:, None, :-1, None] + own % width
        inside = (own >= 0) & (own < count[..., None])
        rows = torch.where(inside, first + y * grids.nx + x, rows)
        for place, (i, axis) in enumerate(((x, 1), (y, 0))):
            corner, side = (
                torch.from_numpy(part[:, axis])[:, None, None, None]
                for part in (grids.corners, grids.padded)
            )
            spot = ((corner + i * grids.step).float() + grids.size / 2) / side.float() - 0.5
            places[..., place] = torch.where(inside, spot, places[..., place])
        before, first = before + count[..., None], first + grids.n
    return Members(rows.int().flatten(1, 2), places.flatten(1, 2), before.int().flatten(1, 3))


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
