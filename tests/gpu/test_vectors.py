"""Descriptors and vectors of a device agree with those of the loops."""

import numpy as np
import pytest

from lrrspm import Channel, LRREncoder, MaxPooling, SpatialPyramidFeatures
from lrrspm.descriptors import LBP, SIFT, LocalColor, OpponentSIFT, Projection, RootSIFT
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
