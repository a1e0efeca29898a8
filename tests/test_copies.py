import hashlib

import numpy as np
from PIL import Image

from lrrspm.copies import digest_images, group_copies

GRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)


def test_digest_of_a_lossless_file_is_that_of_its_pixels(tmp_path):
    colour = np.stack([GRAY, GRAY + 1, GRAY + 2], axis=2)
    for name, pixels in {"gray": GRAY, "colour": colour}.items():
        files = [str(tmp_path / f"{name}{ending}") for ending in (".png", ".bmp", ".ppm")]
        for file in files:
            Image.fromarray(pixels).save(file)
        expected = hashlib.sha256(b"4x3:" + pixels.tobytes()).hexdigest()
        assert digest_images(files, n_jobs=2) == [expected] * 3


def test_digest_of_a_jpeg_is_that_of_its_file(tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(GRAY).save(path)
    assert digest_images([str(path)]) == [hashlib.sha256(path.read_bytes()).hexdigest()]


def test_copies_are_grouped():
    assert group_copies(["b", "a", "c", "a", "b", "a"]) == [[0, 4], [1, 3, 5]]
    assert group_copies(["b", "a"]) == []
