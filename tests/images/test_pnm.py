"""PGM, PPM and PBM files of every kind, against a naive reader."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from lrrspm import read_image
from lrrspm.images import ImageError, decoding, pnm
from tests import naive


def write(path, magic, values, most, separator=b" "):
    """A PNM file; plain ones have a comment now and then."""
    height, width, _ = values.shape
    header = b"%s\n%d %d\n" % (magic, width, height) + (b"" if magic == b"P1" else b"%d\n" % most)
    if magic in (b"P5", b"P6"):
        content = values.astype(np.uint8 if most < 256 else ">u2").tobytes()
    else:
        content = separator.join(b"%d" % value for value in values.ravel())
    path.write_bytes(header + content)


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from([b"P2", b"P3", b"P5", b"P6"]),
    st.sampled_from([1, 2, 100, 254, 255, 256, 1000, 4095, 65534, 65535]),
    st.integers(0, 2**32 - 1),
)
def test_values_are_scaled_by_the_largest(tmp_path, magic, most, seed):
    rng = np.random.default_rng(seed)
    bands = 3 if magic in (b"P3", b"P6") else 1
    values = rng.integers(0, most + 1, (*rng.integers(1, 9, 2), bands))
    write(tmp_path / "a.pnm", magic, values, most, b" # a comment\n")
    found = decoding.decode(tmp_path / "a.pnm", None).pixels
    expected = naive.pnm_gray(values, most)
    np.testing.assert_array_equal(found, expected)
    with Image.open(tmp_path / "a.pnm") as image:  # the same values as Pillow's
        image.load()
        theirs = decoding._convert(image, False)
    np.testing.assert_array_equal(found, theirs)


def test_plain_bits(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (20, 30, 1))
    for separator in (b"", b" ", b"\n#0 1\n"):
        write(tmp_path / "a.pbm", b"P1", bits, 1, separator)
        np.testing.assert_array_equal(read_image(tmp_path / "a.pbm"), 1 - bits[..., 0])


@pytest.mark.parametrize("magic", [b"P1", b"P2", b"P5"])
def test_windows_make_no_difference(tmp_path, monkeypatch, magic):
    most = 1 if magic == b"P1" else 4000
    values = np.random.default_rng(0).integers(0, most + 1, (9, 9, 1))
    write(tmp_path / "a.pgm", magic, values, most, b" #comment\r ")
    whole = read_image(tmp_path / "a.pgm")
    for window in (1, 2, 3, 7, 50):
        monkeypatch.setattr(pnm, "_WINDOW", window)
        np.testing.assert_array_equal(read_image(tmp_path / "a.pgm"), whole)


@pytest.mark.parametrize("magic", [b"P5", b"P6"])
def test_images_of_many_pixels_are_read(tmp_path, magic):
    """More pixels than reads are allowed."""
    bands = 3 if magic == b"P6" else 1
    values = np.random.default_rng(0).integers(0, 4096, (1, 1500, bands)).repeat(1400, 0)
    write(tmp_path / "a.pnm", magic, values, 4095)
    found = decoding.decode(tmp_path / "a.pnm", None).pixels
    np.testing.assert_array_equal(found[[0, -1]], naive.pnm_gray(values[:2], 4095))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"P2 2 2 9 1 2 3", "not enough image data"),
        (b"P5 2 2 999 1234567", "not enough image data"),
        (b"P2 2 2 9 1 2 3 10", "more than the largest value, 9"),
        (b"P2 2 2 9 1 2 3 -1", "not whole numbers"),
        (b"P2 2 2 9 1 2 3 " + b"1" * 99, "not whole numbers"),
        (b"P1 2 2 0 1 2 0", "neither 0 nor 1"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "a.pgm").write_bytes(content)
    with pytest.raises(ImageError, match=message):
        read_image(tmp_path / "a.pgm")
