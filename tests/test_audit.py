import io
import json
import os
import shutil
import warnings

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lrrspm.audit import KINDS, NEAR, audit, brightness_bits, group_near, warn_about
from lrrspm.cli import app
from lrrspm.images import find_images


def blobs(seed, size=(96, 64)):
    """A picture that resembles no other: soft blobs."""
    small = np.random.default_rng(seed).integers(0, 256, (9, 12), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def sound(tmp_path):
    """A folder in which nothing is wrong."""
    for name, first in (("cat", 0), ("dog", 10)):
        (tmp_path / name).mkdir()
        for i in range(6):
            blobs(first + i).save(tmp_path / name / f"{i}.png")
    return tmp_path


def found(root):
    """Kinds, names of the files and details of the findings."""
    return [
        (finding.kind, [os.path.relpath(path, root) for path in finding.paths], finding.detail)
        for finding in audit(root)["findings"]
    ]


def test_nothing_wrong(sound):
    result = audit(sound, n_jobs=2)
    assert result["findings"] == []
    assert result["counts"] == dict.fromkeys(KINDS, 0)
    assert (result["images"], result["classes"]) == (12, {"cat": 6, "dog": 6})


def test_broken_and_too_large(sound, monkeypatch):
    (sound / "cat" / "broken.jpg").write_bytes(b"no picture")
    (sound / "dog" / "gone.png").symlink_to("nowhere")
    assert [(kind, paths) for kind, paths, _ in found(sound)] == [
        ("broken", ["cat/broken.jpg"]),
        ("broken", ["dog/gone.png"]),
    ]
    monkeypatch.setattr("lrrspm.decoding._MAX_PIXELS", 96 * 64)
    blobs(99, (100, 100)).save(sound / "dog" / "large.png")
    assert ("too large", ["dog/large.png"]) in [(kind, paths) for kind, paths, _ in found(sound)]


def test_misnamed_and_tiny(sound):
    blobs(50).save(sound / "cat" / "really.jpg", "PNG")
    blobs(51, (40, 15)).save(sound / "dog" / "flat.png")
    blobs(52).save(sound / "dog" / "fine.JPG", "JPEG")
    assert found(sound) == [
        ("misnamed", ["cat/really.jpg"], "PNG"),
        ("tiny", ["dog/flat.png"], "40 x 15"),
    ]


def test_copies_in_one_class_and_in_several(sound):
    # The same pixels packed in another way are a copy too.
    blobs(0).save(sound / "cat" / "again.bmp")
    shutil.copy(sound / "dog" / "1.png", sound / "dog" / "other.png")
    shutil.copy(sound / "cat" / "2.png", sound / "dog" / "no-cat.png")
    assert found(sound) == [
        ("copy", ["cat/0.png", "cat/again.bmp"], "cat"),
        ("copy across classes", ["cat/2.png", "dog/no-cat.png"], "cat, dog"),
        ("copy", ["dog/1.png", "dog/other.png"], "dog"),
    ]


def test_near_copies(sound):
    blobs(0).resize((60, 40), Image.Resampling.BICUBIC).save(sound / "cat" / "small.jpg")
    blobs(1).save(sound / "dog" / "cat.jpg", quality=50)
    assert found(sound) == [
        ("near copy", ["cat/0.png", "cat/small.jpg"], "cat"),
        ("near copy across classes", ["cat/1.png", "dog/cat.jpg"], "cat, dog"),
    ]


def test_classes(sound):
    (sound / "empty").mkdir()
    (sound / "few").mkdir()
    blobs(60).save(sound / "few" / "0.png")
    blobs(61).save(sound / "stray.png")
    for i in range(5):
        blobs(70 + i).save(sound / "cat" / f"more{i}.png")
    assert found(sound) == [
        ("no class", ["stray.png"], ""),
        ("empty class", [], "empty"),
        ("small class", [], "few: 1"),
        ("imbalance", [], "cat: 11, few: 1"),
    ]


def test_a_table_of_paths_is_taken_too(sound):
    rows = [f"cat/{i}.png,a" for i in range(6)] + [f"dog/{i}.png,b" for i in range(6)]
    (sound / "list.csv").write_text("\n".join([*rows, "cat/0.png,b", "dog/0.png,b"]))
    result = audit(sound / "list.csv")
    assert (result["images"], result["classes"]) == (14, {"a": 6, "b": 8})
    # What is listed twice is in the list twice.
    assert [(finding.kind, finding.detail) for finding in result["findings"]] == [
        ("copy across classes", "a, b"),
        ("copy", "b"),
    ]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def test_command(sound):
    assert "nothing wrong was found" in run("audit", sound)
    assert json.loads(run("audit", sound, "--json"))["findings"] == []
    (sound / "cat" / "new\nline.jpg").write_bytes(b"no picture")
    text = run("audit", sound, code=3)
    assert "new\\nline.jpg" in text
    assert "13 pictures, 2 classes of 6 to 7" in text
    assert text.endswith("found: broken 1\n")
    result = json.loads(run("audit", sound, "--json", code=3))
    assert result["counts"]["broken"] == 1
    (finding,) = result["findings"]
    assert finding["kind"] == "broken"
    assert finding["paths"] == [str(sound / "cat" / "new\nline.jpg")]
    assert "not a picture" in finding["detail"]
    run("audit", sound / "nowhere", code=1)


def saved_anew(gray, rng):
    """The changes that a picture should be recognised after."""
    picture = Image.fromarray(gray)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=50)
    with Image.open(file) as packed:
        yield np.asarray(packed)
    half = (picture.width // 2, picture.height // 2)
    yield np.asarray(picture.resize(half, Image.Resampling.BICUBIC))
    yield np.asarray(picture.resize((picture.width * 2, picture.height * 2)))
    yield (255 * (gray / 255) ** 1.3).astype(np.uint8)
    yield np.clip(gray + rng.normal(0, 5, gray.shape), 0, 255).astype(np.uint8)


def test_bits_stay_when_a_picture_is_saved_anew():
    rng = np.random.default_rng(0)
    for seed in range(10):
        gray = np.asarray(blobs(seed, (240, 160)))
        bits = brightness_bits(gray)
        assert bits is not None
        for changed in saved_anew(gray, rng):
            assert np.sum(brightness_bits(changed) != bits) <= NEAR
        assert np.sum(brightness_bits(gray[::-1]) != bits) > 3 * NEAR


def test_bits_of_pictures_that_have_none():
    assert brightness_bits(np.full((40, 40), 7, np.uint8)) is None
    assert brightness_bits(np.zeros((12, 40), np.uint8)) is None


def test_bits_by_hand():
    """A ramp from left to right, and from top to bottom."""
    ramp = np.tile(np.arange(156, dtype=np.uint8), (156, 1))
    across = np.r_[np.ones(144, bool), np.zeros(144, bool)]
    np.testing.assert_array_equal(brightness_bits(ramp), across)
    np.testing.assert_array_equal(brightness_bits(ramp.T), ~across)


def test_near_patterns_are_grouped():
    rng = np.random.default_rng(0)
    one, two, three = (rng.integers(0, 2, 288).astype(bool) for _ in range(3))
    near, far = one.copy(), two.copy()
    near[:NEAR] ^= True
    far[: NEAR + 1] ^= True
    assert group_near([one, two, near, three, far]) == [[0, 2]]
    assert group_near([two, far], limit=NEAR + 1) == [[0, 1]]
    assert group_near([]) == []
    # More of them than are compared at a time.
    many = [*rng.integers(0, 2, (1500, 288)).astype(bool), near, one]
    assert group_near(many) == [[1500, 1501]]


def test_near_copies_of_15_scene(data_dir):
    """The figures that NEAR is documented with."""
    counts = audit(data_dir / "LS", n_jobs=-1)["counts"]
    assert counts["near copy"] == 14
    assert counts["copy"] + counts["copy across classes"] == 18
    assert sum(counts.values()) == 32


def warned(paths, labels):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about(paths, labels)
    return [str(warning.message) for warning in caught]


def test_warnings(sound):
    assert warned(*find_images(sound)) == []
    shutil.copy(sound / "cat" / "0.png", sound / "dog" / "copy.png")
    (sound / "dog" / "gone.png").symlink_to("nowhere")
    (sound / "few").mkdir()
    shutil.copy(sound / "cat" / "1.png", sound / "few" / "0.png")
    messages = warned(*find_images(sound))
    assert len(messages) == 3
    assert messages[0] == "classes of fewer than 5 pictures (1): few"
    assert "pictures in several classes (2)" in messages[1]
    assert "copies of other files (2)" in messages[2]


def test_warning_of_imbalance():
    names = [f"{i}.png" for i in range(65)]
    assert warned(names, ["a"] * 59 + ["b"] * 6) == []
    (message,) = warned(names, ["a"] * 60 + ["b"] * 5)
    assert "over 10 times the pictures of the smallest (a: 60, b: 5)" in message
