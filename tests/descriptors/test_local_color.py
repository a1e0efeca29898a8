"""Local color statistics against a slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import Channel, ImageClassifier, VQEncoder, load_model
from lrrspm.descriptors import LocalColor, OpponentSIFT, RootSIFT
from tests import naive


def image(seed, height=41, width=52):
    return np.random.default_rng(seed).random((height, width, 3), dtype=np.float32)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([((4,), (1,)), ((8, 12), (3, 20)), ((16, 8), (5, 8))]),
)
def test_means_and_deviations(height, width, grids):
    pixels = image(height * 41 + width, height, width)
    pixels[: height // 2] = 0.7  # flat cells
    found = LocalColor(*grids).describe(pixels)
    padded = LocalColor.pad(pixels, max(grids[0])).astype(np.float64)
    assert (found.height, found.width) == padded.shape[:2]
    for i in range(0, len(found.values), 3):
        size = int(found.size[i])
        left = int(found.x[i] - (size - 1) / 2)
        top = int(found.y[i] - (size - 1) / 2)
        expected = naive.color_statistics(padded[top : top + size, left : left + size])
        # Rounding of sums weighs most in the root of a variance of 0.
        np.testing.assert_allclose(found.values[i], expected, atol=1e-6)


def test_patches_lie_where_those_of_root_sift_do():
    pixels = image(0)
    grids = ((16, 24), (5, 8))
    found = LocalColor(*grids).describe(pixels)
    other = RootSIFT(*grids).describe(np.ascontiguousarray(pixels[..., 0]))
    for name in ("x", "y", "size", "width", "height"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


def test_colors_of_gray_are_equal():
    gray = np.repeat(image(1)[..., :1], 3, axis=2)
    values = LocalColor().describe(gray).values.reshape(-1, 16, 2, 3)
    np.testing.assert_array_equal(values[..., 0], values[..., 1])
    np.testing.assert_array_equal(values[..., 0], values[..., 2])
    assert values.any()


@pytest.mark.parametrize("shape", [(1, 1), (1, 90), (20, 70)])
def test_small_images_have_descriptors(shape):
    found = LocalColor().describe(image(2, *shape))
    assert len(found.values) == len(found.x) > 0
    assert found.values.shape[1] == LocalColor().n_values == 96
    assert np.isfinite(found.values).all()


def test_an_image_of_ordinary_size_has_few_descriptors():
    pixels = image(3, 225, 300)
    assert len(LocalColor().describe(pixels).values) == 910 + 540 + 330
    assert len(OpponentSIFT().describe(pixels).values) == 850 + 736


@pytest.mark.parametrize(
    "bad",
    [
        LocalColor((16, 32), (6,)),
        LocalColor((), ()),
        LocalColor((15,), (6,)),
        LocalColor((8,), (0,)),
    ],
    ids=repr,
)
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=r"per patch size|multiple|step must be"):
        bad.check_parameters()


def test_a_model_of_colors_saves_and_loads(tmp_path):
    rng = np.random.default_rng(0)
    tints = {"red": [1, 0.3, 0.3], "blue": [0.3, 0.3, 1]}
    labels = [name for name in tints for _ in range(6)]
    images = [(rng.random((40, 40, 3)) * tints[name]).astype(np.float32) for name in labels]
    channel = Channel(VQEncoder(codebook_size=8), LocalColor((16,), (8,)))
    model = ImageClassifier(channels=[channel], n_samples=500, random_state=0).fit(images, labels)
    assert list(model.predict(images)) == labels
    model.save(tmp_path / "a.safetensors")
    scores = load_model(tmp_path / "a.safetensors").decision_function(images)
    np.testing.assert_array_equal(scores, model.decision_function(images))
