import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrrspm import dense_sift, read_image
from lrrspm.descriptors.sift import raw_sift
from tests import naive


def test_golden_descriptors(synthetic):
    found = dense_sift(synthetic["image"])
    np.testing.assert_allclose(found.values, synthetic["descriptors"], atol=2e-6, rtol=0)
    np.testing.assert_array_equal(found.x + 1, synthetic["x"])
    np.testing.assert_array_equal(found.y + 1, synthetic["y"])
    assert (found.width, found.height) == (203, 150)
    raw = naive.dense_sift(synthetic["image"] / 255)[0]
    norms = np.linalg.norm(raw, axis=1)
    np.testing.assert_allclose(norms, synthetic["raw_norms"], atol=2e-6)


@pytest.mark.parametrize(
    "name",
    ["LS_kitchen_image_0007", "LS_MITcoast_image_0001", "COIL20_obj3_obj3__17",
     "YaleB_yaleB01_yaleB01_P00Ap000Ep00"],
)  # fmt: skip
def test_golden_descriptors_of_real_images(data_dir, golden_dir, name):
    with np.load(golden_dir / f"{name}.npz") as golden:
        found = dense_sift(read_image(data_dir / str(golden["image"])))
        np.testing.assert_allclose(found.values, golden["descriptors"], atol=2e-6, rtol=0)
        np.testing.assert_array_equal(found.x + 1, golden["x"])
        np.testing.assert_array_equal(found.y + 1, golden["y"])
        assert (found.width, found.height) == (golden["width"], golden["height"])


def test_check_values():
    y, x = np.mgrid[:30, :34]
    found = dense_sift(((7 * x + 13 * y) % 32) / 31)
    assert found.values.shape == (12, 128)
    assert (found.x[0] + 1, found.y[0] + 1) == (8.5, 9.5)
    expected = [0, 0, 0.00029, 0.07389, 0.27683, 0.19264, 0.11126, 0.00317]
    np.testing.assert_allclose(found.values[0, :8], expected, atol=5e-6)
    assert found.values.sum(dtype=np.float64) == pytest.approx(100.96616, abs=2e-5)
    raw = naive.dense_sift(((7 * x + 13 * y) % 32) / 31)[0]
    norms = np.linalg.norm(raw, axis=1).reshape(3, 4)[:, 0]
    np.testing.assert_allclose(norms, [4.92706, 4.98534, 4.71265], atol=5e-6)


@settings(deadline=None, max_examples=30)
@given(
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    step=st.integers(1, 25),
    patch_size=st.sampled_from([4, 8, 12, 16, 20]),
    contrast=st.sampled_from([0.0, 0.02, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_naive(height, width, step, patch_size, contrast, seed):
    image = contrast * np.random.default_rng(seed).random((height, width), dtype=np.float32)
    found = dense_sift(image, step, patch_size)
    raw, values, x, y = naive.dense_sift(image, step, patch_size)
    np.testing.assert_array_equal(found.x, x)
    np.testing.assert_array_equal(found.y, y)
    # A raw norm of 1 is where the normalization jumps; rounding decides there.
    clear = np.abs(np.linalg.norm(raw, axis=1) - 1) > 1e-4
    np.testing.assert_allclose(found.values[clear], values[clear], atol=3e-6, rtol=0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (15, 15), (16, 16), (1, 200)])
def test_small_images_are_padded(shape):
    found = dense_sift(np.full(shape, 0.5, np.float32))
    assert found.width >= 16
    assert found.height >= 16
    assert len(found.values) >= 1
    assert np.isfinite(found.values).all()


def test_black_image_has_zero_descriptors():
    assert not dense_sift(np.zeros((40, 50), np.float32)).values.any()


def test_tiny_contrast_stays_finite():
    image = np.random.default_rng(0).random((40, 40), dtype=np.float32) * np.float32(1e-30)
    assert np.isfinite(dense_sift(image).values).all()


def test_uint8_is_divided_by_255(synthetic):
    image = synthetic["image"]
    as_float = dense_sift(image.astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(dense_sift(image).values, as_float.values)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.full((20, 20), np.nan), "NaN"),
        (np.full((20, 20), np.inf), "infinite"),
        (np.full((20, 20), 200.0), "divide by the largest possible value"),
        (np.zeros((20, 20, 3)), "gray image"),
        (np.zeros((0, 20)), "empty"),
        (np.zeros((20, 20), np.int64), "got int64"),
    ],
)
def test_bad_images(image, message):
    with pytest.raises(ValueError, match=message):
        dense_sift(image)


@pytest.mark.parametrize(("step", "patch_size"), [(0, 16), (6, 0), (6, 10), (-1, 16)])
def test_bad_grid(step, patch_size):
    with pytest.raises(ValueError, match="must be"):
        dense_sift(np.zeros((20, 20)), step, patch_size)


def test_faint_gradients_fade():
    rng = np.random.default_rng(0)
    image = (rng.random((40, 44)) * np.geomspace(1e-4, 1, 44)).astype(np.float32)
    least = np.float32(1e-3)
    found = raw_sift(image, 6, 16, least)
    raw = naive.dense_sift(image, 6, 16, float(least))[0]
    np.testing.assert_allclose(found.values, raw, atol=1e-5)
    assert np.abs(raw - naive.dense_sift(image, 6, 16)[0]).max() > 0.1
