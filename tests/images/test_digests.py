import hashlib

import numpy as np
import pytest
from PIL import Image

from lrrspm.images import digest_images, group_copies

GRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)


def test_digest_of_a_lossless_file_is_that_of_its_pixels(tmp_path):
    color = np.stack([GRAY, GRAY + 1, GRAY + 2], axis=2)
    for name, pixels in {"gray": GRAY, "color": color}.items():
        files = [str(tmp_path / f"{name}{ending}") for ending in (".png", ".bmp", ".ppm")]
        for file in files:
            Image.fromarray(pixels).save(file)
        expected = hashlib.sha256(b"4x3:" + pixels.tobytes()).hexdigest()
        assert digest_images(files, n_jobs=2) == [expected] * 3


def test_digest_of_a_jpeg_is_that_of_its_file(tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(GRAY).save(path)
    assert digest_images([str(path)]) == [hashlib.sha256(path.read_bytes()).hexdigest()]


def digest(path, image, **settings):
    image.save(path, **settings)
    (found,) = digest_images([str(path)])
    return found


def test_modes_without_transparency_are_compared_as_gray_or_rgb(tmp_path):
    bits = Image.fromarray(GRAY > 5)
    palette = Image.fromarray(GRAY).convert("P")
    for name, image in {"a.png": bits, "b.png": palette, "c.gif": palette}.items():
        found = digest(tmp_path / name, image)
        with Image.open(tmp_path / name) as kept:
            expected = kept if kept.mode == "L" else kept.convert("RGB")
            content = b"4x3:" + expected.tobytes()
        assert found == hashlib.sha256(content).hexdigest()


def pair(mode):
    """Two images that 8-bit RGB cannot tell apart, and how they are saved."""
    alpha = np.dstack([GRAY, GRAY, GRAY, GRAY])
    if mode == "I;16":
        return [(Image.fromarray(GRAY.astype(np.uint16) + add), {}) for add in (300, 400)]
    if mode == "I":
        return [(Image.fromarray(GRAY.astype(np.int32) + add), {}) for add in (300, 400)]
    if mode == "F":
        return [(Image.fromarray(GRAY.astype(np.float32) / by), {}) for by in (20, 30)]
    if mode == "LA":
        return [
            (Image.fromarray(alpha[..., 2:] // np.array([1, by], np.uint8)), {}) for by in (1, 2)
        ]
    if mode == "RGBA":
        return [(Image.fromarray(alpha // np.array([1, 1, 1, by], np.uint8)), {}) for by in (1, 2)]
    if mode == "CMYK":
        return [(Image.new(mode, (4, 3), (cyan, 0, 0, 255)), {}) for cyan in (1, 2)]
    if mode == "P":
        image = Image.fromarray(GRAY).convert("P")
        return [(image, {"transparency": bytes([1, 2, last])}) for last in (3, 4)]
    return [(Image.fromarray(GRAY).convert(mode), {"transparency": t}) for t in TRANSPARENT[mode]]


TRANSPARENT = {"L": (3, 4), "RGB": ((3, 3, 3), (4, 4, 4))}


@pytest.mark.parametrize(
    ("mode", "ending"),
    [
        ("I;16", "png"), ("I;16", "tif"), ("I", "tif"), ("F", "tif"), ("LA", "png"),
        ("RGBA", "png"), ("CMYK", "tif"), ("P", "png"), ("L", "png"), ("RGB", "png"),
    ],
)  # fmt: skip
def test_images_that_rgb_cannot_tell_apart_are_not_copies(tmp_path, mode, ending):
    one, two = pair(mode)
    path = tmp_path / f"a.{ending}"
    assert digest(path, one[0], **one[1]) == digest(path, one[0], **one[1])
    assert digest(path, one[0], **one[1]) != digest(path, two[0], **two[1])


def test_deep_gray_is_compared_by_its_values(tmp_path):
    """Neither the packing nor the order of bytes matters; what is white does."""
    deep = Image.fromarray(GRAY.astype(np.uint16) * 300)
    png, tif = digest(tmp_path / "a.png", deep), digest(tmp_path / "a.tif", deep)
    swapped = Image.fromarray((GRAY.astype(np.uint16) * 300).astype(">u2"))
    assert png == tif == digest(tmp_path / "b.tif", swapped)
    assert png != digest(tmp_path / "c.tif", deep, tiffinfo={262: 0})


def test_copies_are_grouped():
    assert group_copies(["b", "a", "c", "a", "b", "a"]) == [[0, 4], [1, 3, 5]]
    assert group_copies(["b", "a"]) == []
