"""Color modes, bit depths and transparency of files."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lrrspm import read_image
from lrrspm.images import ImageError, decoding, read_pixels
from lrrspm.images.decoding import weigh_colors
from tests import naive


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_gray_agrees_with_naive(height, width, seed):
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    np.testing.assert_array_equal(weigh_colors(rgb), naive.gray(rgb.astype(np.float64)))


def test_gray_of_every_color_agrees_with_naive():
    """Rounding decides about ties, so no other order of the sum would do."""
    rest = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=2).astype(np.uint8)
    for red in range(256):
        rgb = np.concatenate([np.full((256, 256, 1), red, np.uint8), rest], axis=2)
        np.testing.assert_array_equal(weigh_colors(rgb), naive.gray(rgb.astype(np.float64)))


def png16(path, values):
    """A PNG of 16-bit colors, which Pillow reads but does not write."""
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


def test_color_modes_agree(tmp_path):
    """The same image in colors and in gray, in every mode that we know of."""
    rgb = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    gray = naive.gray(rgb.astype(np.float64))
    color, plain = Image.fromarray(rgb), Image.fromarray(gray)
    opaque = np.full((20, 30, 1), 65535)
    for ending in ("png", "bmp", "tif", "ppm"):
        color.save(tmp_path / f"rgb.{ending}")
        plain.save(tmp_path / f"gray.{ending}")
    color.save(tmp_path / "rgb.webp", lossless=True)
    for ending in ("png", "tif"):
        color.convert("RGBA").save(tmp_path / f"rgba.{ending}")
        plain.convert("LA").save(tmp_path / f"la.{ending}")
        Image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / f"gray16.{ending}")
    Image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / "gray16.pgm")
    Image.fromarray(gray.astype(np.int32) * 257).save(tmp_path / "int32.tif")
    Image.fromarray(gray.astype(np.float32) / 255).save(tmp_path / "float.tif")
    png16(tmp_path / "rgb16.png", rgb.astype(int) * 257)
    png16(tmp_path / "rgba16.png", np.concatenate([rgb.astype(int) * 257, opaque], 2))
    png16(tmp_path / "la16.png", np.concatenate([gray[..., None].astype(int) * 257, opaque], 2))
    color.convert("CMYK").save(tmp_path / "cmyk.tif")
    color.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=100, subsampling=0)
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


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "F"])
def test_strips_make_no_difference(tmp_path, monkeypatch, mode):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (20, 30, 4), dtype=np.uint8))
    if mode == "F":
        image = Image.fromarray(rng.random((20, 30), dtype=np.float32))
    name, settings_ = "a.tif", {}
    if mode == "P":
        name, settings_ = "a.png", {"transparency": rng.bytes(200)}
    image.convert(mode).save(tmp_path / name, None, **settings_)
    whole = read_image(tmp_path / name)
    monkeypatch.setattr(decoding, "_STRIP", 100)
    np.testing.assert_array_equal(read_image(tmp_path / name), whole)
    assert whole.std() > 0.001


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


def test_color_is_converted_to_gray_in_strips(tmp_path, monkeypatch):
    """No more pixels at a time than a strip has: colors take four times the memory."""
    shapes = []

    def weigh(rgb):
        shapes.append(rgb.shape[:2])
        return weigh_colors(rgb)

    monkeypatch.setattr(decoding, "weigh_colors", weigh)
    monkeypatch.setattr(decoding, "_STRIP", 100)
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    read_image(tmp_path / "a.png")
    assert shapes == [(3, 30)] * 6 + [(2, 30)]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
@pytest.mark.parametrize("turn", [1, 6])
def test_an_image_of_pillow_is_read_as_its_file(tmp_path, mode, turn):
    """Those modes that PNG lacks as TIFF, which Pillow itself turns, if it does not map it."""
    rng = np.random.default_rng(0)
    if mode in ("I;16", "I", "F"):
        most = 1 if mode == "F" else 65535
        image = Image.fromarray((most * rng.random((9, 7))).astype(np.float32)).convert("F")
        image = image if mode == "F" else Image.fromarray(np.asarray(image).astype(np.uint16))
        image = image.convert("I") if mode == "I" else image
    else:
        image = Image.fromarray(rng.integers(0, 256, (9, 7, 4), np.uint8)).convert(mode)
    path = tmp_path / ("a.tif" if mode in ("CMYK", "F", "I") else "a.png")
    turn = 1 if path.suffix == ".tif" else turn
    exif = Image.Exif()
    exif[0x0112] = turn
    image.save(path, exif=exif)
    expected = read_pixels(path, None, color=True)
    found = read_pixels(Image.open(path), None, color=True)
    assert found.shape == expected.shape == ((7, 9) if turn == 6 else (9, 7))
    np.testing.assert_array_equal(found.gray, expected.gray)
    np.testing.assert_array_equal(found.color, expected.color)
