"""Devices to test on: torch's CPU device, and a GPU where there is one."""

import os

import numpy as np
import pytest

from benchmarks._measure import made_image

SHAPES = [(70, 80), (71, 83), (90, 70), (100, 101), (70, 80), (66, 120)]
SMALL = [(1, 1), (10, 7), (3, 90)]
FEW = 2 if os.environ.get("TRITON_INTERPRET") == "1" else None
"""Images to compare: interpreted kernels take minutes for those that take seconds otherwise."""
KINDS = np.float16, np.float32


@pytest.fixture(params=["torch", "cuda"])
def device(request):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return request.param


@pytest.fixture
def on_torch(device):
    """Return torch's own name of the device."""
    from lrrspm.gpu import check_device

    return check_device(device)


def color_image(height, width, seed):
    planes = [made_image(max(height, 2), max(width, 2), 3 * seed + c) for c in range(3)]
    pixels = np.stack(planes, axis=2)[:height, :width]
    return np.ascontiguousarray((255 * pixels).astype(np.uint8))


@pytest.fixture(scope="session")
def images():
    return [color_image(*shape, seed) for seed, shape in enumerate(SHAPES)]


@pytest.fixture
def accelerator(on_torch):
    from lrrspm.gpu.executor import DeviceThreads

    return DeviceThreads(None, on_torch)


def vectors(n, d, seed=0, classes=5, kind=np.float32):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    X = 0.4 * rng.standard_normal((classes, d))[labels] + rng.standard_normal((n, d))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(kind), labels
