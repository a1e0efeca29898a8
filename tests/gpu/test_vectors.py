"""Descriptors and vectors of a device agree with those of the loops."""

from typing import Any

import numpy as np
import pytest
from llvmlite import binding

from lrrspm import Channel, LRREncoder, MaxPooling, SpatialPyramidFeatures
from lrrspm.descriptors import LBP, SIFT, LocalColor, OpponentSIFT, Projection, RootSIFT
from lrrspm.descriptors.root_sift import gaussian_taps, smoothed
from lrrspm.descriptors.sift import FAINT, TAPS, orientation_row
from lrrspm.encoders import LRRWeightEncoder
from lrrspm.images import read_pixels
from lrrspm.methods import find_method
from lrrspm.pooling import MomentPooling

from .conftest import FEW, SMALL, color_image

DESCRIPTORS = [
    SIFT(), SIFT(5, 20), RootSIFT(), RootSIFT((16, 24), (6, 6)), LBP(), OpponentSIFT(),
    LocalColor(),
]  # fmt: skip
CHANNELS = [
    Channel(),
    Channel(levels=(1, (3, 1), 2)),
    Channel(LRREncoder(threshold=0.0), pooling=MaxPooling("l1")),
    Channel(LRREncoder(normalize_codes=True), pooling=MaxPooling(None)),
    Channel(LRREncoder(300, 0.01, 3.0), RootSIFT((16,), (8,))),
    Channel(LRRWeightEncoder(8), SIFT(), MomentPooling(order=1)),
    Channel(LRRWeightEncoder(150), RootSIFT((16,), (8,)), MomentPooling(), projection=Projection()),
    Channel(
        LRRWeightEncoder(8, 0.01, 0.2, 1.5), LBP(), MomentPooling(), projection=Projection(20, 0.0)
    ),
]


def pixels_of(descriptor, images):
    return [descriptor.pick(read_pixels(image, None, True, True)) for image in images]


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_descriptors(descriptor, on_torch, images):
    from lrrspm.gpu.batches import Batch
    from lrrspm.gpu.encoding import DESCRIBE

    given = pixels_of(descriptor, [*images[:FEW], *(color_image(*s, 9) for s in SMALL[:FEW])])
    values, kinds = DESCRIBE[type(descriptor)](descriptor, Batch(given, on_torch))
    for i, pixels in enumerate(given):
        expected = descriptor.describe(pixels).values
        rows, first = [], 0
        for grids in kinds:
            ny, nx = grids.counts[i]
            rows.append(first + np.add.outer(np.arange(ny) * grids.nx, np.arange(nx)))
            first += grids.n
        found = values[i].cpu().numpy()[np.concatenate([part.ravel() for part in rows])]
        power = 2 if isinstance(descriptor, RootSIFT) else 1  # a root of rounding is large
        np.testing.assert_allclose(found**power, expected**power, rtol=0, atol=2e-6)


@pytest.mark.parametrize("size", [16, 24, 32, 48, 64])
@pytest.mark.parametrize("opponent", [False, True])
def test_planes_have_the_bits_of_the_loops(size, opponent, on_torch, images):
    """Roots enlarge what another order of the same operations would round otherwise."""
    from lrrspm.gpu import kernels
    from lrrspm.gpu.batches import Batch, Grids
    from lrrspm.gpu.device import INTERPRETED
    from lrrspm.gpu.sift import smooth_plainly

    if INTERPRETED or not binding.get_host_cpu_features().get("fma", True):
        pytest.skip("multiply-adds are not fused here")
    descriptor = OpponentSIFT() if opponent else RootSIFT()
    batch = Batch([one if opponent else one[..., 1] for one in images], on_torch)
    grids = Grids(batch.shapes, 64, size, 8)
    taps = gaussian_taps(0.6 * (size / 16) ** 0.5) if size > 16 else np.ones(1, np.float32)
    if on_torch == "cpu":
        found = smooth_plainly(batch, grids, 2, taps, opponent)
    else:
        found = kernels.planes(batch.pixels, batch.about, grids, 2, taps, opponent)
    for i, image in enumerate(images):
        pixels = (image if opponent else image[..., 1]) / np.float32(255)
        for j, plane in enumerate(descriptor._planes(np.ascontiguousarray(pixels))):
            padded = descriptor.pad(plane, 64)
            expected = smoothed(padded, 0.6 * (size / 16) ** 0.5) if size > 16 else padded
            y, x = grids.corners[i]
            shown = expected[y : y + grids.sides[0], x : x + grids.sides[1]]
            np.testing.assert_array_equal(
                found[i, j, 2 : 2 + len(shown), 2 : 2 + shown.shape[1]].cpu(), shown
            )


def test_gradients_have_the_bits_of_the_loops(images):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from lrrspm.gpu.sift import gradients

    if not binding.get_host_cpu_features().get("fma", True):
        pytest.skip("multiply-adds are not fused here")
    image = images[0][..., 1] / np.float32(255)
    height, width = image.shape
    found = gradients(torch.from_numpy(np.pad(image, 2))[None])
    work = np.zeros((6, width + 4), np.float32)
    for y in range(height):
        orientation_row(image, y, *TAPS, FAINT, work, np.empty((8, width), np.float32))
        for ours, row in zip(found, work[2:], strict=False):
            np.testing.assert_array_equal(ours[0, y].numpy(), row[:width])


def test_numbers_of_numpy_are_numbers(on_torch, images):
    from lrrspm.gpu.encoding import DeviceChannels

    root = RootSIFT(tuple(np.array([16, 24])), tuple(np.array([8, 8])))
    patterns = LBP(tuple(np.array([24])), tuple(np.array([6])), tuple(np.array([1])))
    float32: Any = np.float32
    half, two, threshold = (float32(value) for value in (0.5, 2, 0.98))
    encoder = LRRWeightEncoder(8, survivors=half, power=two)
    channels = [
        Channel(encoder, one, MomentPooling(), projection=Projection(20))
        for one in (root, patterns)
    ]
    channels.append(Channel(LRREncoder(20, threshold=threshold)))
    features = SpatialPyramidFeatures(channels, n_samples=3000, random_state=0).fit(images)
    computed = DeviceChannels(features.channels_, on_torch)
    for number, channel in enumerate(features.channels_):
        vectors = computed.vectors(number, pixels_of(channel.descriptor, images[:1]))
        assert np.isfinite(vectors).all()


def assert_vectors_agree(features, images, device):
    from lrrspm.gpu.encoding import DeviceChannels

    channels, images = DeviceChannels(features.channels_, device), images[:FEW]
    for number, channel in enumerate(features.channels_):
        given = pixels_of(channel.descriptor, images)
        expected = np.stack([channel.vector(channel.descriptor.describe(one)) for one in given])
        found = channels.vectors(number, given)
        assert found.dtype == expected.dtype
        away = found.astype(np.float64) - expected
        lengths = np.linalg.norm(expected.astype(np.float64), axis=1)
        assert (np.linalg.norm(away, axis=1) <= 1e-4 * lengths).all()
        np.testing.assert_array_equal(channels.vectors(number, given), found)


@pytest.mark.parametrize("name", ["fast", "balanced", "best"])
def test_presets(name, on_torch, images):
    features = SpatialPyramidFeatures(
        find_method(name).channels(), n_samples=3000, random_state=0
    ).fit(images)
    assert_vectors_agree(features, images, on_torch)


@pytest.mark.parametrize("channel", CHANNELS, ids=range(len(CHANNELS)))
def test_channels(channel, on_torch, images):
    features = SpatialPyramidFeatures([channel], n_samples=3000, random_state=0).fit(images)
    assert_vectors_agree(features, images, on_torch)


def test_codes_with_a_negative_sum(on_torch, images):
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((40, 128)).astype(np.float32)
    encoder = LRREncoder(codebook=atoms)
    features = SpatialPyramidFeatures([Channel(encoder)], random_state=0).fit(images)
    values = SIFT().describe(pixels_of(SIFT(), images)[0]).values
    sums = values @ features.channels_[0].encoder_.total_
    assert (sums < 0).any()
    assert (sums > 0).any()
    assert_vectors_agree(features, images, on_torch)
