"""HEIC and AVIF files, and JPEGs that are large until they are decoded."""

import importlib
import json

import numpy as np
import pytest
from PIL import Image, features

from lrrspm import config, read_image
from lrrspm.images import ImageError, TooLargeError, audit, decoding, read_pixels
from lrrspm.images.bounded import open_bounded
from lrrspm.images.headers import is_one_scan
from tests.conftest import run_alone
from tests.images.test_bombs import READ_ALL
from tests.images.test_decoding import smooth

HAS_AVIF = "avif" in features.modules and features.check("avif")
needs_avif = pytest.mark.skipif(not HAS_AVIF, reason="this Pillow has no AVIF")


def color_image():
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (6, 9, 3), np.uint8))
    return small.resize((180, 120), Image.Resampling.BICUBIC)


def save_heif(image, path, **options):
    heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed")
    heif.from_pillow(image).save(path, quality=95, **options)


def save_avif(image, path):
    image.save(path, quality=95)


KINDS = [
    pytest.param(save_heif, "heic", id="heic"),
    pytest.param(save_avif, "avif", marks=needs_avif, id="avif"),
]


@pytest.mark.parametrize(("save", "suffix"), KINDS)
def test_pixels_are_those_of_the_image(tmp_path, save, suffix):
    image = color_image()
    path = tmp_path / f"a.{suffix}"
    save(image, path)
    found = read_pixels(path, None, color=True)
    assert found.shape == (120, 180)
    assert found.color is not None
    assert np.abs(found.color - np.asarray(image) / 255).mean() < 0.02
    assert path.suffix in config.IMAGE_SUFFIXES
    # The content decides.
    path.rename(tmp_path / "a.jpg")
    np.testing.assert_array_equal(read_image(tmp_path / "a.jpg", None), found.gray)


@pytest.mark.parametrize(("save", "suffix"), KINDS)
def test_sizes_are_checked_before_decoding(tmp_path, monkeypatch, save, suffix):
    path = tmp_path / f"a.{suffix}"
    save(color_image(), path)
    monkeypatch.setitem(decoding._MOST_PIXELS, suffix.upper().replace("HEIC", "HEIF"), 100 * 100)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("decoded"))
    with pytest.raises(TooLargeError, match="180 x 120 pixels are more than 10,000"):
        read_image(path)


@pytest.mark.parametrize(("save", "suffix"), KINDS)
def test_damaged_files_are_refused(tmp_path, save, suffix):
    path = tmp_path / f"a.{suffix}"
    save(color_image(), path)
    content = path.read_bytes()
    for end in range(16, len(content) - 200, len(content) // 12):
        path.write_bytes(content[:end])
        with pytest.raises(ImageError, match="cannot be read"):
            read_image(path)


@pytest.mark.parametrize(("save", "suffix"), KINDS)
def test_they_are_audited(tmp_path, save, suffix):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(5):
            save(smooth(90 + i, 120, seed=i + 9 * (name == "a")), tmp_path / name / f"{i}.{suffix}")
    assert audit(tmp_path)["findings"] == []


def test_turned_photographs(tmp_path):
    """Phones save pixels as the sensor has them, and how to turn them."""
    image = color_image()
    exif = image.getexif()
    exif[0x0112] = 6
    turned = Image.fromarray(np.rot90(np.asarray(image)))
    save_heif(turned, tmp_path / "a.heic", exif=exif.tobytes())
    found = read_pixels(tmp_path / "a.heic", None, color=True)
    assert found.color is not None
    assert np.abs(found.color - np.asarray(image) / 255).mean() < 0.02


HEIC = b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic" + bytes(100)
AVIF = b"\0\0\0\x1cftypavif\0\0\0\0mif1avifmiaf" + bytes(100)


@pytest.mark.parametrize(
    ("content", "module", "remedy"),
    [
        (HEIC, "pillow_heif", r"a HEIC image.*pip install 'lrrspm\[heif\]'"),
        (AVIF, "PIL.AvifImagePlugin", "an AVIF image.*pip install --upgrade pillow"),
    ],
)
def test_the_remedy_is_named_where_a_format_is_not_supported(
    tmp_path, monkeypatch, content, module, remedy
):
    whole = importlib.import_module

    def without(name, *rest):
        if name == module:
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    (tmp_path / "a.heic").write_bytes(content)
    with pytest.raises(ImageError, match=remedy):
        read_image(tmp_path / "a.heic")


def large_jpeg(path, **options):
    """A JPEG of 96 million pixels that is a few hundred kilobytes."""
    Image.new("L", (12_000, 8_000), 77).save(path, quality=30, **options)


def test_large_jpegs_that_are_reduced_are_read(tmp_path):
    """They were refused from 89 million pixels on."""
    large_jpeg(tmp_path / "a.jpg")
    done = run_alone(READ_ALL, json.dumps([str(tmp_path / "a.jpg")]))
    found, peak = json.loads(done.stdout)
    assert found[str(tmp_path / "a.jpg")][0] is None
    assert peak < 400_000
    with pytest.raises(TooLargeError, match="12000 x 8000 pixels are more than"):
        read_image(tmp_path / "a.jpg", None)


def test_large_jpegs_whose_coefficients_would_fill_memory_are_refused(tmp_path):
    large_jpeg(tmp_path / "a.jpg", progressive=True)
    with pytest.raises(TooLargeError, match="12000 x 8000 pixels are more than 89,478,485"):
        read_image(tmp_path / "a.jpg")


def test_limit_of_reduced_jpegs(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "_MAX_PIXELS", 300 * 200)
    monkeypatch.setattr(decoding, "_MAX_REDUCED", 2000 * 1600)
    smooth(1600, 2000).save(tmp_path / "fits.jpg")
    smooth(1601, 2000).save(tmp_path / "large.jpg")
    assert read_image(tmp_path / "fits.jpg", 60).shape == (48, 60)
    with pytest.raises(TooLargeError, match="more than 3,200,000"):
        read_image(tmp_path / "large.jpg", 60)
    # Reduced by 2 only: more than may be decoded.
    with pytest.raises(TooLargeError, match="more than 240,000"):
        read_image(tmp_path / "fits.jpg", 500)


def test_a_scan_per_color_is_not_one_scan(tmp_path):
    """Patched headers: a JPEG that begins with a scan of its first color."""
    path = tmp_path / "a.jpg"
    color_image().save(path)
    content = path.read_bytes()
    place = content.index(b"\xff\xda") + 4
    assert content[place] == 3
    for colors, expected in ((3, True), (1, False)):
        path.write_bytes(content[:place] + bytes([colors]) + content[place + 1 :])
        with open_bounded(path) as file:
            assert is_one_scan(file) is expected
