"""Small files that took gigabytes or minutes, and files replaced while they are opened."""

import io
import json
import os
import struct
import subprocess
import sys
import warnings
import zlib
from functools import partial

import numpy as np
import pytest
from PIL import Image

from benchmarks.attacks.images import (
    Make,
    damaged_tiff,
    exif_blocks,
    giant_tile,
    gray_tags,
    jpeg,
    many_values,
    plain_comments,
    sparse_jpeg,
    tiff,
    warned_tiff,
)
from lrrspm import read_image
from lrrspm._support import files
from lrrspm.images import ImageError, TooLargeError, audit, decoding, headers
from tests.conftest import run_alone

READ_ALL = """
import json, resource, sys, time
from lrrspm import read_image
from lrrspm.images import ImageError
found = {}
for path in json.load(sys.stdin):
    start = time.process_time()
    try:
        read_image(path)
        reason = "was read"
    except ImageError as error:
        reason = error.reason
    found[path] = (reason, time.process_time() - start)
print(json.dumps([found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""

ATTACKS: dict[str, tuple[Make, str]] = {
    "tile": (giant_tile, "tiles far larger"),
    "offsets": (partial(many_values, 273, 4, 7_900_000), "too many values"),
    "fractions": (partial(many_values, 282, 5, 3_900_000), "too many values"),
    "sparse": (sparse_jpeg, "was read"),
    "exif": (exif_blocks, "too much EXIF"),
    "comments": (plain_comments, "was read"),
}


def test_attacks_take_little_time_and_memory(tmp_path):
    for name, (make, _) in ATTACKS.items():
        make(tmp_path / name)
    done = run_alone(READ_ALL, json.dumps([str(tmp_path / name) for name in ATTACKS]))
    assert done.returncode == 0, done.stderr
    found, peak = json.loads(done.stdout)
    for name, (_, expected) in ATTACKS.items():
        reason, seconds = found[str(tmp_path / name)]
        assert expected in reason, name
        assert seconds < 5, name
    assert peak * (1 if sys.platform == "darwin" else 1024) < 300e6


def test_fractions_in_the_exif_directory_of_a_tiff_count(tmp_path):
    count = 5000
    inner = struct.pack("<HHHLLL", 1, 282, 5, count, 1100, 0) + bytes(1024 + 8 * count)
    strip = [(273, 4, 1, 1200), (278, 4, 1, 16), (279, 4, 1, 256), (34665, 4, 1, 1024)]
    (tmp_path / "a.tif").write_bytes(tiff([*gray_tags(16, 16, 1), *strip], inner))
    with pytest.raises(TooLargeError, match="too many values"):
        read_image(tmp_path / "a.tif")


def test_a_damaged_exif_directory_of_a_tiff_counts_as_none(tmp_path):
    strip = [(273, 4, 1, 1200), (278, 4, 1, 16), (279, 4, 1, 256)]
    for place in (1024, 1455, 10**9):
        entries = [*gray_tags(16, 16, 1), *strip, (34665, 4, 1, place)]
        (tmp_path / "a.tif").write_bytes(tiff(entries, b"\x30\x20" + bytes(430)))
        assert read_image(tmp_path / "a.tif").shape == (16, 16)


@pytest.mark.parametrize("compression", [1, 8])
def test_a_tile_may_be_larger_than_the_image(tmp_path, compression):
    """Writers use one size of tiles, 256 x 256 say."""
    pixels = np.random.default_rng(0).integers(0, 256, (256, 256), dtype=np.uint8)
    content = pixels.tobytes() if compression == 1 else zlib.compress(pixels.tobytes())
    tile = [(322, 4, 1, 256), (323, 4, 1, 256), (324, 4, 1, 1024), (325, 4, 1, len(content))]
    (tmp_path / "a.tif").write_bytes(tiff([*gray_tags(40, 30, compression), *tile], content))
    found = decoding.decode(tmp_path / "a.tif", None).pixels
    np.testing.assert_array_equal(found, pixels[:30, :40])


def test_tile_sizes_of_odd_types_and_duplicates_are_seen(tmp_path):
    for width in [(322, 17, 1, 1024), (322, 13, 1, 46_000), (322, 9, 1, 46_000)]:
        tile = [width, (322, 4, 1, 16), (323, 4, 1, 46_000), (324, 4, 1, 1100), (325, 4, 1, 9)]
        entries = [*gray_tags(16, 16, 8), (256, 4, 1, 46_000), (257, 4, 1, 46_000), *tile]
        (tmp_path / "a.tif").write_bytes(tiff(entries, struct.pack("<Q", 46_000) + bytes(400)))
        with pytest.raises(TooLargeError, match="tiles far larger"):
            read_image(tmp_path / "a.tif")


def test_a_big_endian_bigtiff_is_refused(tmp_path):
    (tmp_path / "a.tif").write_bytes(b"MM\0+" + bytes(600))
    with pytest.raises(ImageError, match="BigTIFF"):
        read_image(tmp_path / "a.tif")


def test_windows_make_no_difference_to_the_count_of_scans(tmp_path, monkeypatch):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90), dtype=np.uint8))
    out = io.BytesIO()
    image.save(out, "JPEG", progressive=True)
    content = out.getvalue()
    scans = content.count(b"\xff\xda")
    path = tmp_path / "a.jpg"
    path.write_bytes(content + b"\xff\xda\0\2" * 100)  # behind the end
    monkeypatch.setattr(headers, "_SMALL_JPEG", 0)
    for window in (16, 17, 100, 1000, 10**6):
        monkeypatch.setattr(headers, "_WINDOW", window)
        monkeypatch.setattr(headers, "_MAX_SCANS", scans)
        read_image(path)
        monkeypatch.setattr(headers, "_MAX_SCANS", scans - 1)
        with pytest.raises(TooLargeError, match="scans"):
            read_image(path)


def test_exif_data_of_a_png_are_bounded(tmp_path):
    Image.new("L", (4, 4)).save(tmp_path / "a.png", exif=b"Exif\0\0" + bytes(600_000))
    with pytest.raises(TooLargeError, match="EXIF"):
        read_image(tmp_path / "a.png")


def test_libtiff_writes_nothing_to_stderr(tmp_path):
    damaged_tiff(tmp_path / "a.tif")
    code = (
        "import sys, lrrspm, lrrspm.images\n"
        "try: lrrspm.read_image(sys.argv[1])\n"
        "except lrrspm.images.ImageError as error: print(error.reason)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.tif"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "cannot be read" in done.stdout
    assert done.stderr == ""


def test_warnings_about_a_tiff_are_neither_shown_nor_errors(tmp_path):
    warned_tiff(tmp_path / "a.tif")
    with pytest.warns(UserWarning, match="too many"), Image.open(tmp_path / "a.tif") as image:
        image.load()
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert read_image(tmp_path / "a.tif").size == 256
    assert shown == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(tmp_path / "a.tif").size == 256
    assert list(warnings.filters) == before


@pytest.mark.parametrize("read", [read_image, files.file_digest])
def test_a_file_replaced_by_a_pipe_is_not_waited_for(tmp_path, monkeypatch, read):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    check, looks = files._check_regular, []

    def swap(name, state):
        check(name, state)
        looks.append(name)
        path.unlink()
        os.mkfifo(path)

    monkeypatch.setattr(files, "_check_regular", lambda *a: (swap if not looks else check)(*a))
    if read is read_image:
        with pytest.raises(ImageError, match="not a regular file"):
            read(path)
    else:
        assert read(path) is None


def test_an_image_replaced_during_an_audit_is_a_finding(tmp_path, monkeypatch):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").write_bytes(jpeg())
    monkeypatch.setattr("lrrspm.images.digests.file_digest", lambda _: None)
    assert audit(tmp_path)["counts"]["broken"] == 1
