"""The audit and training agree about which files are near copies."""

import numpy as np
import pytest
from PIL import Image

from lrrspm import config
from lrrspm.evaluation import find_groups
from lrrspm.images import audit
from lrrspm.images.auditing import _check, _Image
from lrrspm.images.decoding import opened, upright
from lrrspm.images.near_copies import brightness_pattern, group_near, read_pattern


def faint(seed, size, contrast):
    """Soft blobs whose gray values are within a few of each other."""
    low, high = 120 - contrast // 2, 120 + contrast - contrast // 2
    small = np.random.default_rng(seed).integers(low, high, (9, 12), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def audited(path):
    """The pattern that the audit has of a file."""
    found = _check(str(path))
    assert isinstance(found, _Image)
    return found.pattern


def same(one, other):
    if one is None or other is None:
        return one is other
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("size", [(60, 60), (103, 104), (300, 200), (203, 523), (832, 52), (10, 9)])
@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        ("jpg", {"quality": 40}),
        ("jpg", {"quality": 95, "progressive": True}),
        ("png", {}),
        ("webp", {}),
        ("bmp", {}),
        ("tif", {}),
    ],
)
def test_the_audit_has_the_pattern_of_training(tmp_path, size, suffix, options):
    for mode in ("L", "RGB"):
        for contrast in (20, 200):
            path = tmp_path / f"{mode}{contrast}.{suffix}"
            faint(1, size, contrast).convert(mode).save(path, **options)
            assert same(audited(path), read_pattern(str(path)))


def test_the_audit_has_the_pattern_of_a_turned_image(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "turned.jpg"
    faint(1, (300, 200), 200).save(path, exif=exif)
    found = audited(path)
    assert found is not None
    assert same(found, read_pattern(str(path)))


@pytest.mark.parametrize(
    ("seed", "size", "contrast", "quality", "alike"),
    [
        (3, (203, 223), 29, 46, False),
        (68, (200, 264), 26, 41, True),
        (1, (832, 52), 200, 50, False),  # reduced, it has too few rows for a pattern
    ],
)
def test_pairs_that_depend_on_how_a_jpeg_is_decoded(tmp_path, seed, size, contrast, quality, alike):
    """Decoded as large as for training, these pairs are the reverse of ``alike``."""
    image = faint(seed, size, contrast)
    for name in "ab":
        (tmp_path / name).mkdir()
    paths = [str(tmp_path / name / "1.jpg") for name in "ab"]
    image.save(paths[0], quality=quality)
    (image.resize((60, 60)) if size[1] > 60 else image).save(paths[1], quality=quality - 1)
    large = []
    for path in paths:
        with opened(path, config.MAX_SIDE) as found:
            large.append(brightness_pattern(upright(found).pixels))
    assert bool(group_near([one for one in large if one is not None])) is not alike
    groups = find_groups(paths, ["a", "b"])
    assert (groups.numbers[0] == groups.numbers[1]) == alike
    assert audit(tmp_path)["counts"]["near copy across classes"] == alike
