import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lrrspm import read_image
from lrrspm.images import resize, resizing
from tests import naive
from tests.conftest import HERE


@pytest.mark.parametrize("case", "abcd")
def test_golden_resize(case, tmp_path):
    with np.load(HERE / "golden" / "resize.npz") as golden:
        image, expected = golden[f"input_{case}"], golden[f"output_{case}"]
    Image.fromarray(image).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=25)
@given(
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    min_side=st.integers(1, 50),
    more=st.integers(0, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_resize_agrees_with_naive(height, width, min_side, more, seed):
    image = np.random.default_rng(seed).random((height, width), dtype=np.float32)
    sides = min_side + more, min_side
    found = resize(image, *sides)
    np.testing.assert_allclose(found, naive.resize(image, *sides), atol=1e-5, rtol=0)
    assert min_side <= max(found.shape) <= min_side + more


def test_images_within_the_limits_stay():
    image = np.random.default_rng(0).random((20, 30), dtype=np.float32)
    assert resize(image, 30) is image
    assert resize(image, None) is image
    assert resize(image, 40, 30) is image
    assert resize(image, None, 30) is image


def test_an_enlarged_ramp_is_a_ramp():
    """Keys' cubic repeats straight lines, away from the mirrored border."""
    ramp = np.tile(np.arange(20, dtype=np.float32), (3, 1))
    found = resize(ramp, None, 80)
    assert found.shape == (12, 80)
    np.testing.assert_allclose(np.diff(found[:, 12:-12]), 0.25, atol=1e-5)


@pytest.mark.parametrize("sides", [(0, None), (30, 40), (None, 0)])
def test_wrong_limits(sides):
    with pytest.raises(ValueError, match="_side must be"):
        resize(np.zeros((2, 2), np.float32), *sides)


def test_weights_of_long_sides_are_not_kept():
    """260 images of 65535 x 1 kept 428 MB."""
    resizing._kept_taps.cache_clear()
    for width in range(65_500, 65_510):
        resize(np.zeros((1, width), np.float32), 300)
    assert resizing._kept_taps.cache_info().currsize <= 10  # of the short sides
    assert 12 * resizing._KEPT_TAPS * (resizing._kept_taps.cache_info().maxsize or 0) < 80e6
