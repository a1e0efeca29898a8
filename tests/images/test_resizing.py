import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lrrspm import read_image
from lrrspm.images import resizing, shrink
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
    max_side=st.integers(1, 50),
    seed=st.integers(0, 2**32 - 1),
)
def test_shrink_agrees_with_naive(height, width, max_side, seed):
    image = np.random.default_rng(seed).random((height, width), dtype=np.float32)
    np.testing.assert_allclose(
        shrink(image, max_side), naive.shrink(image, max_side), atol=1e-5, rtol=0
    )


def test_nothing_is_enlarged():
    image = np.random.default_rng(0).random((20, 30), dtype=np.float32)
    assert shrink(image, 30) is image
    assert shrink(image, None) is image


def test_weights_of_long_sides_are_not_kept():
    """260 images of 65535 x 1 kept 428 MB."""
    resizing._kept_taps.cache_clear()
    for width in range(65_500, 65_510):
        shrink(np.zeros((1, width), np.float32), 300)
    assert resizing._kept_taps.cache_info().currsize <= 10  # of the short sides
    assert 12 * resizing._KEPT_TAPS * (resizing._kept_taps.cache_info().maxsize or 0) < 80e6
