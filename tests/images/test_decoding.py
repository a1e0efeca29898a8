import math
import os
import struct
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile
from typer.testing import CliRunner

from lrrspm import load_model, read_image
from lrrspm.cli import app
from lrrspm.images import decoding
from lrrspm.images.decoding import ImageError, TooLargeError, weigh_colors
from tests import naive
from tests.conftest import draw


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_gray_agrees_with_naive(height, width, seed):
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    np.testing.assert_array_equal(weigh_colors(rgb), naive.gray(rgb.astype(np.float64)))


def png16(path, values):
    """A PNG of 16-bit colours, which Pillow reads but does not write."""
    height, width, bands = values.shape
    rows = values.astype(">u2").reshape(height, -1).view(np.uint8)
    packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    kind = {2: 4, 3: 2, 4: 6}[bands]
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(name + data))
        content += struct.pack(">I", len(data)) + name + data + check
    path.write_bytes(content)


def test_colour_modes_agree(tmp_path):
    """The same picture in colours and in gray, in every mode that we know of."""
    rgb = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    gray = naive.gray(rgb.astype(np.float64))
    colour, plain = Image.fromarray(rgb), Image.fromarray(gray)
    opaque = np.full((20, 30, 1), 65535)
    for ending in ("png", "bmp", "tif", "ppm"):
        colour.save(tmp_path / f"rgb.{ending}")
        plain.save(tmp_path / f"gray.{ending}")
    colour.save(tmp_path / "rgb.webp", lossless=True)
    for ending in ("png", "tif"):
        colour.convert("RGBA").save(tmp_path / f"rgba.{ending}")
        plain.convert("LA").save(tmp_path / f"la.{ending}")
        Image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / f"gray16.{ending}")
    Image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / "gray16.pgm")
    Image.fromarray(gray.astype(np.int32) * 257).save(tmp_path / "int32.tif")
    Image.fromarray(gray.astype(np.float32) / 255).save(tmp_path / "float.tif")
    png16(tmp_path / "rgb16.png", rgb.astype(int) * 257)
    png16(tmp_path / "rgba16.png", np.concatenate([rgb.astype(int) * 257, opaque], 2))
    png16(tmp_path / "la16.png", np.concatenate([gray[..., None].astype(int) * 257, opaque], 2))
    colour.convert("CMYK").save(tmp_path / "cmyk.tif")
    colour.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=100, subsampling=0)
    plain.convert("P").save(tmp_path / "palette.gif")
    plain.convert("P").save(tmp_path / "palette.png")
    plain.convert("P").save(tmp_path / "palette-alpha.png", transparency=b"\xff" * 256)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 26
    for path in paths:
        np.testing.assert_allclose(read_image(path) * 255, gray, atol=2, err_msg=path.name)
    np.testing.assert_array_equal(
        read_image(tmp_path / "rgb.png"), gray.astype(np.float32) / np.float32(255)
    )


def test_one_bit(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (20, 30)).astype(bool)
    for name in ("a.png", "a.tif", "a.bmp", "a.pbm"):
        Image.fromarray(bits).save(tmp_path / name)
        np.testing.assert_array_equal(read_image(tmp_path / name), bits.astype(np.float32))


def test_transparent_is_white(tmp_path):
    Image.new("RGBA", (5, 5), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png") == 1).all()


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
    # 301 wide: shrinking a turned picture and turning a shrunk one would differ.
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
def test_orientations_that_mean_nothing(tmp_path, value):
    picture = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    exif = Image.Exif()
    exif[0x0112] = value
    picture.save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png").shape == (3, 4)


def test_damaged_exif_data_count_as_none(tmp_path):
    picture = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    picture.save(tmp_path / "a.png", exif=b"Exif\0\0no TIFF header at all")
    assert read_image(tmp_path / "a.png").shape == (3, 4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (2, 3), (15, 15), (40, 40)])
@pytest.mark.parametrize("level", [0, 1, 128, 255])
def test_tiny_thin_and_constant_pictures_have_a_vector(tmp_path, model_path, shape, level):
    Image.fromarray(np.full(shape, level, np.uint8)).save(tmp_path / "a.png")
    vector = load_model(model_path).features_.transform([tmp_path / "a.png"])[0]
    assert np.isfinite(vector).all()
    # An all-black picture has no edge, not even at its border.
    np.testing.assert_allclose(np.linalg.norm(vector), float(level > 0), atol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no picture at all", "not an image of a known format"), (b"", "the file is empty")],
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
    """A picture of soft blobs, about 24 along its longer side."""
    shape = [math.ceil(24 * side / max(height, width)) for side in (height, width)]
    small = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("size", [(1200, 800), (641, 1999), (2405, 1203), (4803, 77)])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_large_jpegs_are_reduced_while_decoding(tmp_path, monkeypatch, size, orientation):
    picture = smooth(size[1], size[0])
    exif = picture.getexif()
    exif[0x0112] = orientation
    picture.save(tmp_path / "a.jpg", quality=95, exif=exif)
    reduced = read_image(tmp_path / "a.jpg")
    times = decoding.decode(tmp_path / "a.jpg", 300).reduction
    assert times == {1200: 2, 1999: 2, 2405: 4, 4803: 8}[max(size)]
    monkeypatch.setattr(decoding, "_MARGIN", 10**6)
    full = read_image(tmp_path / "a.jpg")
    assert reduced.shape == full.shape
    assert np.abs(reduced - full).max() < 3 / 255
    assert decoding.decode(tmp_path / "a.jpg", 300).reduction == 1


def test_only_large_jpegs_that_are_to_be_shrunk_are_reduced(tmp_path):
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


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "F"])
def test_strips_make_no_difference(tmp_path, monkeypatch, mode):
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (20, 30, 4), dtype=np.uint8))
    if mode == "F":
        picture = Image.fromarray(rng.random((20, 30), dtype=np.float32))
    name, settings_ = "a.tif", {}
    if mode == "P":
        name, settings_ = "a.png", {"transparency": rng.bytes(200)}
    picture.convert(mode).save(tmp_path / name, None, **settings_)
    whole = read_image(tmp_path / name)
    monkeypatch.setattr(decoding, "_STRIP", 100)
    np.testing.assert_array_equal(read_image(tmp_path / name), whole)
    assert whole.std() > 0.001


def jpegs():
    """Small JPEGs of every kind: baseline, progressive, with restarts, gray, subsampled, CMYK."""
    colour = Image.merge("RGB", [smooth(48, 64, seed) for seed in range(3)])
    for progressive in (False, True):
        for restart in (0, 2):
            settings = {"progressive": progressive, "restart_marker_blocks": restart}
            for mode in ("L", "RGB", "CMYK"):
                yield colour.convert(mode), settings
            yield colour, {**settings, "subsampling": 2, "quality": 30}


def test_a_jpeg_that_lost_its_end_is_refused_or_whole(tmp_path, monkeypatch):
    # Whatever another library has told Pillow.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    path = tmp_path / "a.jpg"
    for picture, settings_ in jpegs():
        picture.save(path, **settings_)
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


def test_pillows_switch_is_put_back_by_the_last_to_leave():
    strict = decoding._Strict()
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    with strict:
        ImageFile.LOAD_TRUNCATED_IMAGES = True  # another library, meanwhile
        with strict:
            assert ImageFile.LOAD_TRUNCATED_IMAGES is False
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    ImageFile.LOAD_TRUNCATED_IMAGES = False


def test_bytes_behind_a_jpeg_do_no_harm(tmp_path):
    picture = smooth(48, 64)
    picture.save(tmp_path / "a.jpg")
    whole = read_image(tmp_path / "a.jpg")
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(content + b"\xff\xda\x00\x02" * 200 + bytes(1000))
    np.testing.assert_array_equal(read_image(tmp_path / "a.jpg"), whole)


def test_a_jpeg_of_very_many_scans_is_refused(tmp_path):
    path = tmp_path / "a.jpg"
    smooth(48, 64).save(path, progressive=True)
    content = path.read_bytes()
    assert decoding._count_scans(content) == content.count(b"\xff\xda") > 3
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
    with pytest.raises(ImageError, match="2,147,483,648 bytes are more than"):
        read_image(tmp_path / "a.webp")
    Image.new("L", (70_000, 1)).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match="a side is over 65,535"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("scale", [255, -1, np.nan])
def test_float_values_outside_0_to_1(tmp_path, scale):
    Image.fromarray(np.full((4, 4), scale, np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(ImageError, match="expected 0 to 1"):
        read_image(tmp_path / "a.tiff")


def twelve_bits(path, values):
    """A TIFF of 12 bits a pixel, two in three bytes, which Pillow reads but does not write."""
    height, width = values.shape
    left, right = values[:, ::2], values[:, 1::2]
    packed = np.stack([left >> 4, (left & 15) << 4 | right >> 8, right & 255], axis=2)
    tags = {
        256: width, 257: height, 258: 12, 259: 1, 262: 1, 273: 200, 277: 1, 278: height,
        279: packed.size,
    }  # fmt: skip
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    content = (b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + table).ljust(200, b"\0")
    path.write_bytes(content + packed.astype(np.uint8).tobytes())


def test_deep_gray(tmp_path):
    """Every 8-bit level, from 12 and 16 bits and floats, also where 0 is white."""
    gray = np.arange(256, dtype=np.uint8).reshape(8, 32)
    deep = gray.astype(np.uint16) * 257
    single = gray.astype(np.float32) / 255
    Image.fromarray(deep).save(tmp_path / "16.png")
    Image.fromarray(deep).save(tmp_path / "16.tif")
    Image.fromarray(65535 - deep).save(tmp_path / "16-negative.tif", tiffinfo={262: 0})
    Image.fromarray(single).save(tmp_path / "float.tif")
    Image.fromarray(1 - single).save(tmp_path / "float-negative.tif", tiffinfo={262: 0})
    twelve_bits(tmp_path / "12.tif", np.round(gray / 255 * 4095).astype(int))
    for path in tmp_path.iterdir():
        found = decoding.decode(path, None).pixels
        np.testing.assert_array_equal(found, gray, err_msg=path.name)


def test_deep_gray_is_rounded(tmp_path):
    """Half a level of 255 is 128.5 of 65535; where 256 stands for 257 others come out."""
    values = np.array([[128, 129, 257 * 100 + 128, 257 * 100 + 129, 257 * 254 + 128]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert decoding.decode(tmp_path / "a.png", None).pixels.tolist() == [[0, 1, 100, 101, 254]]


def test_a_transparent_level_of_deep_gray_is_white(tmp_path):
    values = np.array([[0, 1, 2, 30_000]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png", transparency=1)
    assert decoding.decode(tmp_path / "a.png", None).pixels.tolist() == [[0, 255, 0, 117]]


@pytest.mark.parametrize("kind", ["ICO", "TGA", "PCX", "SGI", "JPEG2000"])
def test_no_other_decoder_is_asked(tmp_path, kind):
    path = tmp_path / "a.png"
    Image.new("RGB", (16, 16), "red").save(path, kind)
    with Image.open(path) as picture:  # Pillow would
        assert picture.format == kind
    with pytest.raises(ImageError, match="not an image of a known format"):
        read_image(path)


def test_a_photoshop_file_is_not_read(tmp_path):
    path = tmp_path / "a.png"
    header = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, 4, 4, 8, 3)
    path.write_bytes(header + bytes(12) + bytes(2) + bytes(48))
    with Image.open(path) as picture:
        assert picture.format == "PSD"
    with pytest.raises(ImageError, match="not an image of a known format"):
        read_image(path)


def test_colours_are_made_gray_in_strips(tmp_path, monkeypatch):
    """No more pixels at a time than a strip has: colours take four times the memory."""
    shapes = []

    def weigh(rgb):
        shapes.append(rgb.shape[:2])
        return weigh_colors(rgb)

    monkeypatch.setattr(decoding, "weigh_colors", weigh)
    monkeypatch.setattr(decoding, "_STRIP", 100)
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    read_image(tmp_path / "a.png")
    assert shapes == [(3, 30)] * 6 + [(2, 30)]


def test_lack_of_memory_is_not_the_picture_s_fault(tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr(decoding, "_convert", fail)
    with pytest.raises(MemoryError):
        read_image(tmp_path / "a.png")


def test_remarks_of_pillow_are_not_shown(tmp_path, model_path):
    """They name no file. A cut EXIF block, whose orientation comes first."""
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    # Two entries are promised, the orientation and one that is not there.
    exif = b"Exif\0\0II*\0\x08\0\0\0\x02\0" + struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path, exif=exif)
    with Image.open(path) as picture, pytest.warns(UserWarning, match="Corrupt EXIF"):
        picture.getexif()
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
