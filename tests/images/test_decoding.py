import math
import os
import struct
import warnings

import numpy as np
import pytest
from PIL import Image, ImageFile
from typer.testing import CliRunner

from lrrspm import load_model, read_image
from lrrspm.cli import app
from lrrspm.images import ImageError, TooLargeError, decoding
from lrrspm.images.strict import Strict
from tests.conftest import draw

UNDONE_BY = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp"])
def test_orientations_give_the_same_vector(tmp_path, model_path, name):
    features = load_model(model_path).features_
    # 301 wide: shrinking a turned image and turning a shrunk one would differ.
    upright = Image.fromarray(draw("dots", np.random.default_rng(0), 301)[:200])
    upright.save(tmp_path / "upright.png")
    expected = features.transform([tmp_path / "upright.png"])
    for orientation, turn in UNDONE_BY.items():
        stored = upright if turn is None else upright.transpose(turn)
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored.save(tmp_path / name, exif=exif, lossless=True)
        found = features.transform([tmp_path / name])
        np.testing.assert_array_equal(found, expected, err_msg=f"orientation {orientation}")


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_invalid_orientations_are_ignored(tmp_path, value):
    image = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    exif = Image.Exif()
    exif[0x0112] = value
    image.save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png").shape == (3, 4)


def test_damaged_exif_data_count_as_none(tmp_path):
    image = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    image.save(tmp_path / "a.png", exif=b"Exif\0\0no TIFF header at all")
    assert read_image(tmp_path / "a.png").shape == (3, 4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (2, 3), (15, 15), (40, 40)])
@pytest.mark.parametrize("level", [0, 1, 128, 255])
def test_tiny_thin_and_constant_images_have_a_vector(tmp_path, model_path, shape, level):
    Image.fromarray(np.full(shape, level, np.uint8)).save(tmp_path / "a.png")
    vector = load_model(model_path).features_.transform([tmp_path / "a.png"])[0]
    assert np.isfinite(vector).all()
    # An all-black image has no edge, not even at its border.
    np.testing.assert_allclose(np.linalg.norm(vector), float(level > 0), atol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no image at all", "not an image of a known format"), (b"", "the file is empty")],
)
def test_text_named_jpg(tmp_path, content, message):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=message) as caught:
        read_image(path)
    assert str(path) in str(caught.value)


def test_truncated_jpeg(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (80, 80), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.jpg")
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageError, match=r"a\.jpg: cannot be read: .*truncated"):
        read_image(tmp_path / "a.jpg")


def test_missing_file(tmp_path):
    with pytest.raises(ImageError, match="no such file"):
        read_image(tmp_path / "a.jpg")


def test_too_many_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr("lrrspm.images.decoding._MAX_PIXELS", 99)
    Image.new("L", (10, 10)).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match="10 x 10 pixels are more than 99"):
        read_image(tmp_path / "a.png")


def smooth(height, width, seed=0):
    """An image of soft blobs, about 24 along its longer side."""
    shape = [math.ceil(24 * side / max(height, width)) for side in (height, width)]
    small = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("size", [(1200, 800), (641, 1999), (2405, 1203), (4803, 77)])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_large_jpegs_are_reduced_while_decoding(tmp_path, monkeypatch, size, orientation):
    image = smooth(size[1], size[0])
    exif = image.getexif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.jpg", quality=95, exif=exif)
    reduced = read_image(tmp_path / "a.jpg")
    times = decoding.decode(tmp_path / "a.jpg", 300).reduction
    assert times == {1200: 2, 1999: 2, 2405: 4, 4803: 8}[max(size)]
    monkeypatch.setattr(decoding, "_MARGIN", 10**6)
    full = read_image(tmp_path / "a.jpg")
    assert reduced.shape == full.shape
    assert np.abs(reduced - full).max() < 3 / 255
    assert decoding.decode(tmp_path / "a.jpg", 300).reduction == 1


def test_only_large_jpegs_to_be_shrunk_are_reduced(tmp_path):
    smooth(800, 1199).save(tmp_path / "a.jpg")
    smooth(800, 1600).save(tmp_path / "b.jpg")
    smooth(800, 1600).save(tmp_path / "b.png")
    assert decoding.decode(tmp_path / "a.jpg", 300).reduction == 1
    assert decoding.decode(tmp_path / "b.jpg", None).reduction == 1
    assert decoding.decode(tmp_path / "b.png", 300).reduction == 1
    # Thinner than the reduction: there would be nothing left of it.
    Image.new("L", (3, 5000)).save(tmp_path / "thin.jpg")
    assert decoding.decode(tmp_path / "thin.jpg", 300).reduction == 2
    assert read_image(tmp_path / "thin.jpg").shape == (300, 1)


def jpegs():
    """Small JPEGs of every kind: baseline, progressive, with restarts, gray, subsampled, CMYK."""
    color = Image.merge("RGB", [smooth(48, 64, seed) for seed in range(3)])
    for progressive in (False, True):
        for restart in (0, 2):
            settings = {"progressive": progressive, "restart_marker_blocks": restart}
            for mode in ("L", "RGB", "CMYK"):
                yield color.convert(mode), settings
            yield color, {**settings, "subsampling": 2, "quality": 30}


def test_a_truncated_jpeg_is_refused_or_complete(tmp_path, monkeypatch):
    # Whatever another library has told Pillow.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    path = tmp_path / "a.jpg"
    for image, settings_ in jpegs():
        image.save(path, **settings_)
        content, whole = path.read_bytes(), read_image(path)
        # Every place near the end, and a sample of the others.
        lost = [*range(1, 40), *range(40, len(content), 29)]
        for count in lost:
            path.write_bytes(content[:-count])
            try:
                found = read_image(path)
            except ImageError:
                continue
            assert count <= 2
            np.testing.assert_array_equal(found, whole)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


def test_the_last_thread_restores_pillows_switch():
    strict = Strict()
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    with strict:
        ImageFile.LOAD_TRUNCATED_IMAGES = True  # another library, meanwhile
        with strict:
            assert ImageFile.LOAD_TRUNCATED_IMAGES is False
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    ImageFile.LOAD_TRUNCATED_IMAGES = False


def test_bytes_after_a_jpeg_are_ignored(tmp_path):
    image = smooth(48, 64)
    image.save(tmp_path / "a.jpg")
    whole = read_image(tmp_path / "a.jpg")
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(content + b"\xff\xda\x00\x02" * 200 + bytes(1000))
    np.testing.assert_array_equal(read_image(tmp_path / "a.jpg"), whole)


def test_a_jpeg_of_very_many_scans_is_refused(tmp_path):
    path = tmp_path / "a.jpg"
    smooth(48, 64).save(path, progressive=True)
    content = path.read_bytes()
    assert content.count(b"\xff\xda") > 3
    last = content.rindex(b"\xff\xda")
    # A comment that looks like the end hides nothing.
    path.write_bytes(
        content[:last] + b"\xff\xfe\x00\x04\xff\xd9" + content[last:-2] * 60 + b"\xff\xd9"
    )
    with pytest.raises(ImageError, match="more than 50 scans"):
        read_image(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path / "a.jpg")


def test_giant_files_and_sides_are_refused(tmp_path, monkeypatch):
    with (tmp_path / "a.webp").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(ImageError, match="2,147,483,648 bytes, at most"):
        read_image(tmp_path / "a.webp")
    Image.new("L", (70_000, 1)).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match="a side is over 65,535"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["ICO", "TGA", "PCX", "SGI", "JPEG2000"])
def test_other_formats_are_refused(tmp_path, kind):
    path = tmp_path / "a.png"
    Image.new("RGB", (16, 16), "red").save(path, kind)
    with Image.open(path) as image:  # Pillow would
        assert image.format == kind
    with pytest.raises(ImageError, match="not an image of a known format"):
        read_image(path)


def test_a_photoshop_file_is_not_read(tmp_path):
    path = tmp_path / "a.png"
    header = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, 4, 4, 8, 3)
    path.write_bytes(header + bytes(12) + bytes(2) + bytes(48))
    with Image.open(path) as image:
        assert image.format == "PSD"
    with pytest.raises(ImageError, match="not an image of a known format"):
        read_image(path)


def test_lack_of_memory_is_not_blamed_on_the_image(tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr(decoding, "_convert", fail)
    with pytest.raises(MemoryError):
        read_image(tmp_path / "a.png")


def test_warnings_of_pillow_are_not_shown(tmp_path, model_path):
    """They name no file. A cut EXIF block, whose orientation comes first."""
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    # Two entries are promised, the orientation and one that is not there.
    exif = b"Exif\0\0II*\0\x08\0\0\0\x02\0" + struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path, exif=exif)
    with Image.open(path) as image, pytest.warns(UserWarning, match="Corrupt EXIF"):
        image.getexif()
    result = CliRunner().invoke(app, ["predict", str(model_path), str(path)])
    assert result.exit_code == 0
    assert result.stderr == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(path).size == 12  # read all the same


def test_a_bomb_is_too_large_where_warnings_are_errors(tmp_path, monkeypatch):
    Image.new("L", (10, 10)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 99)
    with pytest.raises(TooLargeError):
        read_image(tmp_path / "a.png")
