"""Bytes and tiles of the roofline's counts are those that kernels are launched with."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

import torch

from benchmarks import roofline
from benchmarks.gpu_profile import fitted_channels
from lrrspm.gpu import (
    batches,
    cells,
    histograms,
    kernels,
    lbp,
    local_color,
    moments,
    pooling,
    products,
)
from lrrspm.gpu import sift as gpu_sift
from lrrspm.gpu.batches import Batch, Grids
from lrrspm.gpu.encoding import DeviceChannels

from .conftest import color_image


class Recorded:
    """Stands in for a kernel, and keeps what it is launched with."""

    def __init__(self, name, launches):
        self.name, self.launches = name, launches

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.launches.append((self.name, grid, args))


@pytest.fixture
def launches(monkeypatch):
    """Return a list of kernels' names, grids and arguments, which are launched nowhere."""
    found: list[Any] = []
    for module in (batches, gpu_sift, lbp, local_color, pooling):
        monkeypatch.setattr(module, "has_kernels", lambda tensor: True)
    for module in (cells, kernels, histograms, moments, products):
        for name, value in vars(module).copy().items():
            if type(value).__module__.startswith("triton.runtime"):
                monkeypatch.setattr(module, name, Recorded(name, found))
    return found


def bytes_of(launches):
    """Bytes of the arrays of each kernel.

    Values of patches of several sizes are one array, which is written in parts. Pixels are read
    for each size.
    """
    found: dict[str, int] = defaultdict(int)
    seen = set()
    for name, _, args in launches:
        tensors = {one.data_ptr(): one for one in args if isinstance(one, torch.Tensor)}
        for place, one in tensors.items():
            if one.dtype == torch.uint8 or (name, place) not in seen:
                found[name] += one.numel() * one.element_size()
            seen.add((name, place))
    return found


@pytest.fixture(scope="module")
def presets():
    images = [color_image(*roofline.SHAPE, seed) for seed in range(2)]
    return {name: fitted_channels(name, images) for name in ("fast", "balanced")}


@pytest.mark.parametrize("channel", roofline.channel_steps())
def test_bytes_are_those_of_the_kernels_arguments(presets, launches, channel):
    preset, name = channel
    (fitted,) = (one for one in presets[preset] if type(one.descriptor).__name__ == name)
    computed = DeviceChannels([fitted], "cpu")
    shape = roofline.SHAPE + (3,) * fitted.descriptor.color
    sizes = []
    for count in (1, 2):
        computed.encode(fitted, Batch([np.zeros(shape, np.uint8)] * count, "cpu"))
        sizes.append(bytes_of(launches))
        launches.clear()
    # What images share is as large for two of them.
    expected = {kernel: sizes[1][kernel] - sizes[0][kernel] for kernel in sizes[0]}
    steps = {step.kernel: step.nbytes for step in roofline.channel_steps()[channel]}
    assert set(steps) - {"projection", "other"} == set(expected)
    for kernel, nbytes in expected.items():
        assert steps[kernel] == pytest.approx(nbytes, rel=0.02), kernel


def test_tiles_are_those_of_the_kernels():
    for mine, theirs in (
        (roofline.CODE_TILES, products._CODE_TILES),
        (roofline.MANY_CODE_TILES, products._MANY_CODE_TILES),
    ):
        assert mine == {parts: tiles[:2] for parts, tiles in theirs.items()}
    assert roofline.MANY_CODES == products._MANY_CODES
    assert {
        "_smooth_columns": kernels._SUMS, "_smooth_rows": kernels._SUMS,
        "_orientations": kernels._PIXELS, "_sum_rows": kernels._SUMS,
        "_sum_columns": kernels._PATCHES, "_add_members": cells._NUMBERS,
        "_patterns": histograms._PIXELS, "_block_histograms": histograms._BLOCKS,
        "_sum_cells": histograms._PATCHES, "_statistics": histograms._VALUES,
        "_sort_halves": products._SORTED, "_sum_moments": moments._TILES[0],
    } == roofline.TILES  # fmt: skip


def test_slots_are_those_of_the_kernel(presets, launches):
    (channel,) = presets["fast"]
    batch = Batch([np.zeros(roofline.SHAPE, np.uint8)], "cpu")
    for key, word in (("single", "highest"), ("half", "high")):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(word)
        try:
            DeviceChannels([channel], "cpu").encode(channel, batch)
        finally:
            torch.set_float32_matmul_precision(before)
        ((_, _, args),) = (one for one in launches if one[0] == "_sort_halves")
        assert args[3].shape == (1, roofline.slots(key), 128)
        launches.clear()


def test_sides_are_those_of_canvases():
    for grid in roofline.grids((16, 24, 48), (6, 8, 12)):
        canvases = Grids([roofline.SHAPE], 16, grid.size, grid.step)
        assert roofline.sides(grid) == canvases.sides
        assert grid.n_patches == canvases.n
