"""Both ends of a file tell most damaged ones from whole ones."""

import io

import numpy as np
import pytest
from PIL import Image

from lrrspm.images import looks_damaged


def content(kind, **options):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("more", [b"", b"\0" * 3])
def test_whole_files_are_no_suspects(kind, more, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(content(kind) + more)
    assert not looks_damaged(path)


def test_a_jpeg_with_a_trailer(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(content("JPEG") + b"x" * 9000)
    assert not looks_damaged(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.98])
def test_files_cut_short_are_suspects(kind, share, tmp_path):
    path, whole = tmp_path / "a", content(kind)
    path.write_bytes(whole[: int(share * len(whole))])
    assert looks_damaged(path)


@pytest.mark.parametrize("junk", [b"", b"<html>", b"\0" * 99])
def test_other_files_are_suspects(junk, tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(junk)
    assert looks_damaged(path)
    assert looks_damaged(tmp_path)
    assert looks_damaged(tmp_path / "none")
