"""RootSIFT, opponent SIFT and local binary patterns against slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import config
from lrrspm.descriptors import LBP, OpponentSIFT, RootSIFT
from lrrspm.descriptors.root_sift import smoothed
from lrrspm.descriptors.shared_bins import shares_bins
from lrrspm.descriptors.sift import FAINT_ROOTED, raw_sift
from lrrspm.images import resize
from tests import naive


def image(seed, height=41, width=52):
    return np.random.default_rng(seed).random((height, width), dtype=np.float32)


@pytest.mark.parametrize("sigma", [0.6, 0.85, 1.2])
def test_smoothing(sigma):
    pixels = image(0, 13, 9)
    np.testing.assert_allclose(smoothed(pixels, sigma), naive.smoothed(pixels, sigma), atol=1e-6)


@pytest.mark.parametrize(
    ("patch_size", "step"),
    # Patches 5 apart share no bins, the others do, in all ways that there are.
    [
        (16, 5),
        (24, 5),
        (16, 4),
        (4, 1),
        (36, 6),
        (24, 6),
        (32, 8),
        (24, 4),
        (48, 8),
        (36, 1),
        (28, 7),
    ],
)
@pytest.mark.parametrize("shape", [(52, 61), (70, 52), (40, 40)])
def test_root_sift_is_normalized_sift_of_the_smoothed_image(patch_size, step, shape):
    pixels = image(1, *shape)
    pixels[:30, :30] = 0.5  # flat patches are normalized too
    found = RootSIFT((patch_size,), (step,)).describe(pixels)
    sigma = 0.6 * (patch_size / 16) ** 0.5
    padded = RootSIFT.pad(pixels, patch_size)
    seen = naive.smoothed(padded, sigma) if patch_size > 16 else padded
    raw = raw_sift(seen.astype(np.float32), step, patch_size, FAINT_ROOTED)
    expected = np.array([naive.root_normalized(one.astype(float)) for one in raw.values])
    strong = np.linalg.norm(raw.values, axis=1) > 1e-3
    # Roots make much of rounding near 0, squares do not.
    np.testing.assert_allclose(found.values[strong] ** 2, expected[strong] ** 2, atol=1e-6)
    np.testing.assert_array_equal(found.x, raw.x)
    assert set(found.size) == {patch_size}


@pytest.mark.parametrize(("patch_size", "step"), [(64, 8), (64, 7)])
def test_rounding_in_flat_areas_is_not_enlarged(patch_size, step):
    pixels = image(5, 160, 200)
    pixels[:, 100:] = 0.7
    found = RootSIFT((patch_size,), (step,)).describe(pixels)
    # Patches whose last bins are flat, with room for smoothing, and the first ones are not.
    half = patch_size / 8
    chosen = (found.x + half > 108) & (found.x - half < 100) & (abs(found.y - 80) < 40)
    values = found.values[chosen].reshape(-1, 4, 4, 8)
    assert len(values) > 5
    assert values[:, 0].max() > 0.1
    assert values[:, 3].max() < 1e-6


def test_presets_share_bins():
    assert all(map(shares_bins, config.STEPS, config.PATCH_SIZES))
    assert all(map(shares_bins, config.OPPONENT_STEPS, config.OPPONENT_PATCH_SIZES))
    assert not shares_bins(5, 16)


def test_sizes_come_one_after_another():
    pixels = image(2)
    both = RootSIFT((16, 32), (6, 8)).describe(pixels)
    parts = [RootSIFT((16,), (6,)).describe(pixels), RootSIFT((32,), (8,)).describe(pixels)]
    for name in ("values", "x", "y", "size"):
        joined = np.concatenate([getattr(one, name) for one in parts])
        np.testing.assert_array_equal(getattr(both, name), joined)


def test_opponent_colors_of_gray_are_nothing():
    gray = np.repeat(image(3)[..., None], 3, axis=2)
    found = OpponentSIFT((16,), (8,)).describe(gray)
    assert found.values.shape[1] == 256
    assert not found.values.any()
    color = np.random.default_rng(4).random((40, 40, 3), dtype=np.float32)
    values = OpponentSIFT((16,), (8,)).describe(color).values
    first = (color[..., 0] - color[..., 1]) * np.float32(0.5**0.5)
    expected = RootSIFT((16,), (8,)).describe(np.ascontiguousarray(first)).values
    np.testing.assert_array_equal(values[:, :128], expected)
    second = (color[..., 0] + color[..., 1] - 2 * color[..., 2]) * np.float32(6**-0.5)
    expected = RootSIFT((16,), (8,)).describe(np.ascontiguousarray(second)).values
    np.testing.assert_array_equal(values[:, 128:], expected)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([(8, 2, 1), (12, 3, 2), (8, 4, 3)]))
def test_binary_patterns(height, width, shape):
    patch_size, step, radius = shape
    pixels = np.round(image(height * 41 + width, height, width) * 8) / 8  # with ties
    found = LBP((patch_size,), (step,), (radius,)).describe(pixels)
    padded = LBP.pad(pixels, patch_size)
    patterns, contrast = naive.binary_patterns(padded, radius)
    for i in range(0, len(found.values), 7):
        left = int(found.x[i] - (patch_size - 1) / 2)
        top = int(found.y[i] - (patch_size - 1) / 2)
        area = np.s_[top : top + patch_size, left : left + patch_size]
        expected = naive.lbp_patch(patterns[area], contrast[area])
        np.testing.assert_allclose(found.values[i], expected, atol=1e-4)


@pytest.mark.parametrize("descriptor", [RootSIFT(), LBP()])
@pytest.mark.parametrize("shape", [(1, 1), (1, 90), (20, 70)])
def test_small_images_have_descriptors(descriptor, shape):
    found = descriptor.describe(image(5, *shape))
    assert len(found.values) == len(found.x) > 0
    assert np.isfinite(found.values).all()
    assert found.values.shape[1] == descriptor.n_values
    assert not descriptor.describe(np.zeros(shape, np.float32)).values.any()


@pytest.mark.parametrize(
    "bad",
    [
        RootSIFT((16, 32), (6,)),
        RootSIFT((), ()),
        RootSIFT((15,), (6,)),
        LBP((16,), (3,), (1,)),
        LBP((16,), (4,), (0,)),
        LBP((16,), (4,), ()),
    ],
    ids=repr,
)
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=r"per patch size|multiple|radii"):
        bad.check_parameters()


@pytest.mark.parametrize("descriptor", [RootSIFT(), LBP()])
@pytest.mark.parametrize("value", [0.3, 0.77, 1.0])
def test_flat_images_stay_flat_when_they_are_shrunk(descriptor, value):
    """Resizing leaves differences in the last digits, which are not texture."""
    flat = resize(np.full((700, 903), value, np.float32), 300)
    assert 0 < np.ptp(flat) < 1e-5
    inside = descriptor.describe(flat)
    edge = inside.size / 2 + 4  # gradients read zeros outside the image
    x, y = inside.x, inside.y
    kept = (x > edge) & (x < inside.width - edge) & (y > edge) & (y < inside.height - edge)
    assert kept.any()
    assert not inside.values[kept].any()
