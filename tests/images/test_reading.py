"""Gray and color pixels of files and arrays."""

import io
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lrrspm import read_image
from lrrspm.images import ImageError, TooLargeError, as_gray, decoding, read_pixels
from tests import naive
from tests.conftest import HERE
from tests.images.test_decoding import UNDONE_BY, smooth
from tests.images.test_modes import png16


def read(*arguments: Any, **settings: Any) -> Any:
    """Read pixels of which none that the test asks for is None."""
    return read_pixels(*arguments, **settings)


def noise(height=20, width=30, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def naive_color(rgb, max_side):
    return np.stack([naive.resize(rgb[..., i] / 255, max_side) for i in range(3)], axis=2)


@pytest.mark.parametrize("case", "abcd")
def test_gray_is_what_read_image_gives(case, tmp_path):
    with np.load(HERE / "golden" / "resize.npz") as golden:
        image, expected = golden[f"input_{case}"], golden[f"output_{case}"]
    Image.fromarray(image).save(tmp_path / "a.png")
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), image):
        found = read(source, 300, color=True)
        np.testing.assert_array_equal(found.gray, read_image(tmp_path / "a.png"))
        np.testing.assert_allclose(found.gray, expected, atol=1e-5, rtol=0)
        assert found.shape == image.shape[:2]
        assert found.color.shape == (*found.gray.shape, 3)


@settings(deadline=None, max_examples=25)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    max_side=st.integers(1, 50),
    seed=st.integers(0, 2**32 - 1),
)
def test_color_agrees_with_naive(height, width, max_side, seed):
    rgb = noise(height, width, seed)
    file = io.BytesIO()
    Image.fromarray(rgb).save(file, "PNG")
    expected = naive_color(rgb, max_side)
    gray = naive.resize(naive.gray(rgb.astype(np.float64)) / 255, max_side)
    for source in (file, rgb, np.asfortranarray(rgb)):
        found = read(source, max_side, color=True)
        np.testing.assert_allclose(found.color, expected, atol=1e-5, rtol=0)
        np.testing.assert_allclose(found.gray, gray, atol=1e-5, rtol=0)
        for pixels in (found.gray, found.color):
            assert pixels.dtype == np.float32
            assert pixels.flags.c_contiguous
        assert found.shape == (height, width)


def test_gray_of_float_color_is_not_rounded():
    rgb = np.random.default_rng(0).random((20, 30, 3))
    found = read(rgb, 15, color=True)
    weighted = 0.2989 * rgb[..., 0] + 0.5870 * rgb[..., 1] + 0.1140 * rgb[..., 2]
    np.testing.assert_allclose(found.gray, naive.resize(weighted, 15), atol=1e-6, rtol=0)
    np.testing.assert_allclose(found.color, naive_color(rgb * 255, 15), atol=1e-6, rtol=0)


def test_values_of_8_bits_are_divided_as_numpy_does():
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for pixels in (values, values.T, values[::-1]):
        expected = np.divide(pixels, 255, dtype=np.float32)
        np.testing.assert_array_equal(read_pixels(pixels, None).gray, expected)


def test_only_what_is_asked_for_is_computed(tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError

    Image.fromarray(noise()).save(tmp_path / "a.png")
    gray = read(tmp_path / "a.png", 300)
    assert gray.color is None
    monkeypatch.setattr("lrrspm.images.decoding.weigh_colors", fail)
    monkeypatch.setattr("lrrspm.images.reading.weigh_colors", fail)
    color = read(tmp_path / "a.png", 300, gray=False, color=True)
    assert color.gray is None
    np.testing.assert_array_equal(color.color, noise() / np.float32(255))


def test_a_file_is_decoded_once(tmp_path, monkeypatch):
    Image.fromarray(noise()).save(tmp_path / "a.png")
    opened, calls = Image.open, []

    def count(*arguments, **settings):
        calls.append(arguments)
        return opened(*arguments, **settings)

    monkeypatch.setattr(Image, "open", count)
    read(tmp_path / "a.png", 300, gray=True, color=True)
    assert len(calls) == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_color_is_turned_upright(tmp_path, orientation):
    rgb = noise(50, 81)
    stored, turn = Image.fromarray(rgb), UNDONE_BY[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    (stored if turn is None else stored.transpose(turn)).save(tmp_path / "a.png", exif=exif)
    found, expected = (read(i, 40, color=True) for i in (tmp_path / "a.png", rgb))
    np.testing.assert_array_equal(found.color, expected.color)
    np.testing.assert_array_equal(found.gray, expected.gray)
    assert found.shape == (50, 81)


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_color_of_a_reduced_jpeg_lies_where_gray_does(tmp_path, monkeypatch, orientation):
    image = Image.merge("RGB", [smooth(641, 1999, seed) for seed in range(3)])
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.jpg", quality=95, subsampling=0, exif=exif)
    reduced = read(tmp_path / "a.jpg", 300, color=True)
    weighted = reduced.color @ np.array([0.2989, 0.5870, 0.1140], np.float32)
    assert np.abs(weighted - reduced.gray).max() < 1 / 255
    np.testing.assert_array_equal(reduced.gray, read_image(tmp_path / "a.jpg"))
    monkeypatch.setattr(decoding, "_MARGIN", 10**6)
    full = read(tmp_path / "a.jpg", 300, color=True)
    assert reduced.shape == full.shape
    assert np.abs(reduced.color - full.color).max() < 4 / 255


def test_color_modes_agree(tmp_path):
    rgb = noise()
    image = Image.fromarray(rgb)
    opaque = np.full((20, 30, 1), 65535)
    image.save(tmp_path / "rgb.ppm")
    image.save(tmp_path / "rgb.webp", lossless=True)
    image.convert("RGBA").save(tmp_path / "rgba.png")
    png16(tmp_path / "rgb16.png", rgb.astype(int) * 257)
    png16(tmp_path / "rgba16.png", np.concatenate([rgb.astype(int) * 257, opaque], 2))
    image.convert("CMYK").save(tmp_path / "cmyk.tif")
    image.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=100, subsampling=0)
    for path in sorted(tmp_path.iterdir()):
        found = read(path, None, gray=False, color=True).color
        np.testing.assert_allclose(found * 255, rgb, atol=3, err_msg=path.name)


def test_color_of_a_palette(tmp_path):
    palette = Image.fromarray(noise()).quantize(200)
    expected = np.asarray(palette.convert("RGB")) / np.float32(255)
    for name in ("a.png", "a.gif"):
        palette.save(tmp_path / name)
        found = read(tmp_path / name, None, color=True)
        np.testing.assert_array_equal(found.color, expected)


def test_transparent_color_is_laid_over_white(tmp_path):
    half = np.dstack([noise(), np.full((20, 30), 128, np.uint8)])
    half[0, :, 3] = 0
    Image.fromarray(half).save(tmp_path / "a.png")
    found = read(tmp_path / "a.png", None, color=True)
    share = half[..., 3:] / 255
    expected = share * half[..., :3] / 255 + 1 - share
    np.testing.assert_allclose(found.color, expected, atol=1.5 / 255, rtol=0)
    assert (found.color[0] == 1).all()
    assert (found.gray[0] == 1).all()


def test_gray_images_have_three_equal_planes(tmp_path):
    gray = noise()[..., 0]
    Image.fromarray(gray).save(tmp_path / "8.png")
    Image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / "16.png")
    Image.fromarray(gray > 99).save(tmp_path / "1.png")
    sources = [*tmp_path.iterdir(), gray, gray / 255]
    for source in sources:
        found = read(source, 17, color=True)
        assert found.color.shape == (12, 17, 3)
        for plane in range(3):
            np.testing.assert_array_equal(found.color[..., plane], found.gray)
        only = read(source, 17, gray=False, color=True)
        assert only.gray is None
        np.testing.assert_array_equal(only.color, found.color)


def test_one_pixel(tmp_path):
    Image.new("RGB", (1, 1), (10, 20, 250)).save(tmp_path / "a.png")
    found = read(tmp_path / "a.png", 300, color=True)
    np.testing.assert_array_equal(found.color, np.divide([[[10, 20, 250]]], 255, dtype=np.float32))
    np.testing.assert_array_equal(found.gray, np.divide([[43]], 255, dtype=np.float32))
    assert found.shape == (1, 1)


def test_color_of_a_large_image_is_read_in_strips(tmp_path, monkeypatch):
    Image.fromarray(noise()).save(tmp_path / "a.png")
    whole = read(tmp_path / "a.png", 25, color=True)
    monkeypatch.setattr(decoding, "_STRIP", 100)
    for found, expected in zip(read(tmp_path / "a.png", 25, color=True), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), r"shape \(h, w\) or \(h, w, 3\), got an array of shape \(5,\)"),
        (np.zeros((5, 5, 4)), r"or \(h, w, 3\), got an array of shape \(5, 5, 4\)"),
        (np.zeros((2, 5, 5, 3)), r"got an array of shape \(2, 5, 5, 3\)"),
        (np.zeros((0, 5, 3)), r"the image is empty: its shape is \(0, 5, 3\)"),
        (np.zeros((5, 5), np.int64), "expected a float image in .* or a uint8 image, got int64"),
        (np.full((5, 5, 3), np.nan), "NaN or infinite"),
        (np.full((5, 5, 3), 255.0), "divide by the largest possible value"),
    ],
)
def test_arrays_that_are_not_images(array, message):
    with pytest.raises(ValueError, match=message):
        read(array, 300)


def test_gray_is_expected_where_color_is_of_no_use():
    with pytest.raises(ValueError, match=r"expected a gray image of shape \(h, w\)"):
        as_gray(np.zeros((5, 5, 3)))


def test_what_is_no_image():
    with pytest.raises(TypeError, match=r"expected one image: a path, an array .* got list"):
        read([[0.5]], 300)


@pytest.mark.parametrize("kind", [ImageError, TooLargeError])
def test_errors_can_be_pickled(kind):
    for source, name in (("a.png", "a.png"), (io.BytesIO(), "the image")):
        copy = pickle.loads(pickle.dumps(kind(source, "is empty")))
        assert type(copy) is kind
        assert (copy.path, copy.reason, str(copy)) == (name, "is empty", f"{name}: is empty")
