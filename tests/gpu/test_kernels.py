"""Kernels agree with plain operations, also where Triton only interprets them."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton, which also interprets kernels, is not installed")

SCRIPT = """
import sys
import numpy as np
import torch
from lrrspm.gpu import histograms, kernels, products
from lrrspm.gpu.batches import Batch, Grids, find_members
from lrrspm.gpu.lbp import describe_plainly
from lrrspm.gpu.pooling import truncated
from lrrspm.gpu.sift import bin_maps, normalize, normalize_root, orientations
from lrrspm.pooling import SpatialPyramid

device = torch.device(sys.argv[1])
words = {"medium": (1, torch.bfloat16), "high": (1, torch.half), "highest": (3, torch.half)}
for word, expected in words.items():
    torch.set_float32_matmul_precision(word)
    assert products.products_of_halves() == expected
torch.manual_seed(0)
plane = torch.rand(2, 44, 50, device=device)
plane[1, :, :30] = 0.5
for size, step, root in ((16, 6, False), (32, 8, True)):
    values = bin_maps(orientations(plane, root), size, step)
    expected = (normalize_root if root else normalize)(values)
    power = 2 if root else 1  # a root of rounding is large
    found = torch.full((2, expected.shape[1] + 5, 128), -1.0, device=device)
    kernels.sift(plane[:, None], size, step, root, found, 3)
    assert (found[:, :3] == -1).all() and (found[:, -2:] == -1).all()
    torch.testing.assert_close(found[:, 3:-2]**power, expected**power, rtol=0, atol=2e-6)
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
    found = torch.empty_like(expected)
    histograms.lbp(canvas, radius, step, size, found)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
grids = Grids([(40, 46), (40, 40)], 16, 16, 6)
batch = Batch([np.zeros(shape, np.uint8) for shape in ((40, 46), (40, 40))], sys.argv[1])
members = find_members(batch, [grids], SpatialPyramid((1, 2, 4)))
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
centers = torch.rand(70, 30, device=device)
rows = torch.rand(300, 30, device=device)
scores = rows.double() @ centers.double().T - centers.double().square().sum(1) / 2
# Matrix units cut off what is below 2^-23 of a sum: 24 times for 128 values.
nears = {"highest": 24 * 2**-23 * expected.max().item(), "high": 2e-3, "medium": 2e-2}
if device.type == "cpu":
    del nears["medium"]  # Triton's interpreter cannot multiply bfloat16
for word, near in nears.items():
    torch.set_float32_matmul_precision(word)
    atoms = products.split_atoms(projection)
    found = products.pool_codes(values, members, atoms, total, share)
    # A code close to its threshold may be kept or not: then the largest one is another.
    far = (found - expected).abs() > near
    assert far.sum() <= (0 if word == "highest" else 0.02 * far.numel()), word
    place, score = products.nearest(rows, centers)
    best = scores.gather(1, place.long()[:, None])[:, 0]
    away = near * (scores.abs().max() / expected.max()).item()
    assert (scores.amax(1) - best).max() < away
    torch.testing.assert_close(score.double(), best, rtol=0, atol=away)
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


def test_vectors_by_interpreted_kernels():
    """The whole way from pixels to vectors, which plain operations go otherwise on a CPU."""
    file = os.path.join(os.path.dirname(__file__), "test_vectors.py")
    command = [sys.executable, "-m", "pytest", "-q", file, "-k", "torch or negative"]
    # NumPy, which stands in for the GPU, warns where the GPU would not.
    command += ["-W", "ignore::RuntimeWarning", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
