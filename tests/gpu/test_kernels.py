"""Kernels agree with plain operations, also where Triton only interprets them."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton, which also interprets kernels, is not installed")

SCRIPT = """
import sys
import torch
from lrrspm.gpu import kernels, products
from lrrspm.gpu.batches import Grids, find_members
from lrrspm.gpu.lbp import describe_plainly
from lrrspm.gpu.pooling import truncated
from lrrspm.gpu.sift import bin_maps, normalize, normalize_root, orientations
from lrrspm.pooling import SpatialPyramid

device = torch.device(sys.argv[1])
for word, parts in (("medium", 1), ("high", 1), ("highest", 3)):
    torch.set_float32_matmul_precision(word)
    assert products.products_of_halves() == parts
torch.manual_seed(0)
plane = torch.rand(2, 44, 50, device=device)
plane[1, :, :30] = 0.5
for size, step, root in ((16, 6, False), (32, 8, True)):
    values = bin_maps(orientations(plane, root), size, step)
    expected = (normalize_root if root else normalize)(values)
    power = 2 if root else 1  # a root of rounding is large
    found = kernels.sift(plane, size, step, root)
    torch.testing.assert_close(found**power, expected**power, rtol=0, atol=2e-6)
# Nearly flat pixels, whose descriptors are 0 with a root: their maps are compared.
for amplitude, root in ((1e-7, True), (1e-7, False), (1e-15, False)):
    faint = amplitude * torch.rand(2, 44, 50, device=device)
    expected = orientations(faint, root)
    found = kernels.orientation_maps(faint, root).movedim(3, 1)
    largest = expected.max().item()
    assert 0 < largest < amplitude
    torch.testing.assert_close(found / largest, expected / largest, rtol=0, atol=1e-4)
for radius, step, size in ((1, 6, 24), (2, 8, 32)):
    height, width = size + 2 * step + 2 * radius, size + 3 * step + 2 * radius
    canvas = torch.rand(2, height, width, device=device)
    canvas[0, :15] = 0.3
    expected = describe_plainly(canvas, radius, step, size)
    found = kernels.lbp(canvas, radius, step, size)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
grids = Grids([(40, 46), (40, 40)], 16, 16, 6)
members = find_members([grids], SpatialPyramid((1, 2, 4)), device)
values = torch.rand(2, grids.ny * grids.nx, 128, device=device)
values /= values.norm(dim=2, keepdim=True)
projection = 0.1 * torch.randn(128, 200, device=device)
total, share = projection.sum(1), 0.98 / 200
projection[:, 0] -= total.mean()
total -= total.mean()
assert (values @ total).min() < 0 < (values @ total).max()
cells = members.take(values).unbind(1)
expected = torch.stack(
    [truncated(cell, projection, total, share, False).abs().amax(1) for cell in cells], 1
)
found = products.pool_codes(values, members, projection.T.contiguous(), total, share)
torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels_agree_with_plain_operations(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    # Triton reads this when it is imported, so it needs a process of its own.
    interpreted = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    subprocess.run(
        [sys.executable, "-c", SCRIPT, device], env={**os.environ, **interpreted}, check=True
    )
