"""Bytes of the roofline's counts are those that torch's operations read and write."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import roofline
from lrrspm import config
from lrrspm.descriptors import LocalColor
from lrrspm.encoders import LRRWeightEncoder
from lrrspm.gpu.batches import Batch, Grids, find_members
from lrrspm.gpu.local_color import describe_local_color
from lrrspm.gpu.pooling import _weights
from lrrspm.pooling import SpatialPyramid


class Counted(TorchDispatchMode):
    """Adds up what operations read and write; views and indices of a few rows are free."""

    def __init__(self):
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view and "empty" not in str(func):
            self.nbytes += sum(self._size(one) for one in (*args, out))
        return out

    def _size(self, one):
        if isinstance(one, (list, tuple)):
            return sum(map(self._size, one))
        return one.numel() * one.element_size() if isinstance(one, torch.Tensor) else 0


def test_slots_are_those_of_the_kernel():
    grids = Grids([roofline.SHAPE], 16, config.PATCH_SIZE, config.STEP)
    members = find_members([grids], SpatialPyramid(), torch.device("cpu"))
    per_cell = -(-members.rows.shape[2] // roofline.TILE) * roofline.TILE
    assert roofline.tiled() == (int((members.rows >= 0).sum()), 16 * per_cell) == (1488, 2048)


def test_bytes_of_canvases():
    (grid,) = roofline.grids([config.PATCH_SIZE], [config.STEP])
    grids = Grids([roofline.SHAPE], 16, grid.size, grid.step)
    batch = Batch([np.zeros(roofline.SHAPE, np.uint8)], "cpu")
    with Counted() as counted:
        _ = batch.canvas(grids, 2) * batch.inside(grids, 2)
    counts = roofline._canvas_bytes(roofline.canvas(grid, 2))
    assert counts == pytest.approx(counted.nbytes, rel=0.05)


def test_bytes_of_weights():
    z = torch.rand(1, 16, 50, 32) - 0.3
    with Counted() as counted:
        _weights(z, LRRWeightEncoder(32))
    # Offset and mask are the caller's, as is the product's writing.
    assert 4 * z.numel() * (roofline.CHOICES - 5) == pytest.approx(counted.nbytes, rel=0.1)


def test_bytes_of_colors():
    batch = Batch([np.zeros((*roofline.SHAPE, 3), np.uint8)], "cpu")
    with Counted() as counted:
        describe_local_color(LocalColor(), batch)
    assert roofline.color_step().nbytes == pytest.approx(counted.nbytes, rel=0.1)
