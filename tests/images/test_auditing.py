import json
import os
import shutil
import warnings

import numpy as np
import pytest
from PIL import Image, ImageDraw
from rich.table import Table
from typer.testing import CliRunner

from lrrspm.cli import app
from lrrspm.images import KINDS, audit, find_images, warn_about


def blobs(seed, size=(96, 64)):
    """An image that resembles no other: soft blobs."""
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


def test_no_problems(sound):
    result = audit(sound, n_jobs=2)
    assert result["findings"] == []
    assert result["counts"] == dict.fromkeys(KINDS, 0)
    assert (result["images"], result["classes"]) == (12, {"cat": 6, "dog": 6})


def test_broken_and_too_large(sound, monkeypatch):
    (sound / "cat" / "broken.jpg").write_bytes(b"no image")
    (sound / "dog" / "gone.png").symlink_to("nowhere")
    assert [(kind, paths) for kind, paths, _ in found(sound)] == [
        ("broken", ["cat/broken.jpg"]),
        ("broken", ["dog/gone.png"]),
    ]
    monkeypatch.setattr("lrrspm.images.decoding._MAX_PIXELS", 96 * 64)
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


def test_a_class_of_broken_images_is_empty_or_small(sound):
    for name, count in (("all", 0), ("most", 4)):
        (sound / name).mkdir()
        for i in range(6):
            path = sound / name / f"{i}.png"
            if i < count:
                blobs(80 + i).save(path)
            else:
                path.write_bytes(b"no image")
    kinds = [(kind, detail) for kind, _, detail in found(sound) if kind != "broken"]
    assert kinds == [("empty class", "all"), ("small class", "most: 4")]


def test_files_ignored_because_of_their_suffix(sound):
    (sound / "dog" / "inner").mkdir()
    blobs(90).save(sound / "dog" / "inner" / "photo.jfif", "JPEG")
    blobs(91).save(sound / "dog" / "photo", "PNG")
    (sound / "dog" / ".hidden").write_bytes(b"")
    (sound / "notes.txt").write_text("in no class folder")
    assert found(sound) == [("ignored", ["dog/inner/photo.jfif", "dog/photo"], "dog: 2")]
    (sound / "list.csv").write_text("".join(f"dog/{i}.png,a\n" for i in range(6)))
    assert audit(sound / "list.csv")["findings"] == []


def test_a_csv_file_can_be_audited(sound):
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


def test_command(sound, monkeypatch):
    assert run("audit", sound).endswith("12 images in 2 classes, 6 per class\nno problems found\n")
    assert json.loads(run("audit", sound, "--json"))["findings"] == []
    path = sound / "cat" / "new\nline.jpg"
    path.write_bytes(b"no image")
    tables: list[Table] = []
    monkeypatch.setattr("lrrspm.cli.audit.print_rich", tables.append)
    text = run("audit", sound, code=3)
    assert text.endswith("13 images in 2 classes, 6 to 7 per class\nfound: broken 1\n")
    (kinds, _, paths) = ([str(cell) for cell in column.cells] for column in tables[0].columns)
    assert kinds == ["broken"]
    assert paths == [str(path).replace("\n", "\\n")]
    result = json.loads(run("audit", sound, "--json", code=3))
    assert result["counts"]["broken"] == 1
    (finding,) = result["findings"]
    assert finding["kind"] == "broken"
    assert finding["paths"] == [str(path)]
    assert "not an image" in finding["detail"]
    run("audit", sound / "nowhere", code=1)


def drawing(kind, rng):
    """Dots, lines or a digit, black on white."""
    image = Image.new("L", (200, 150), 255)
    pen = ImageDraw.Draw(image)
    if kind == "dots":
        for x, y in rng.integers(10, 140, (6, 2)).tolist():
            pen.ellipse((x, y, x + 10, y + 10), fill=0)
    elif kind == "lines":
        for ends in rng.integers(5, 145, (4, 4)).tolist():
            pen.line(ends, fill=0, width=4)
    else:
        x, y = rng.integers(10, 60, 2).tolist()
        pen.text((x, y), str(rng.integers(0, 10)), fill=0, font_size=70)
    return image


def test_drawings_on_white_are_not_near_copies(tmp_path):
    """A plain ground that two images share says nothing."""
    rng = np.random.default_rng(0)
    for kind in ("dots", "lines", "digits"):
        (tmp_path / kind).mkdir()
        for i in range(30):
            drawing(kind, rng).save(tmp_path / kind / f"{i}.png")
    assert found(tmp_path) == []
    # A crowded drawing is recognized all the same.
    crowded = drawing("lines", rng)
    for _ in range(6):
        crowded = Image.fromarray(np.minimum(crowded, drawing("lines", rng)))
    crowded.save(tmp_path / "lines" / "large.png")
    crowded.resize((160, 120), Image.Resampling.BICUBIC).save(tmp_path / "dots" / "small.jpg")
    assert found(tmp_path) == [
        ("near copy across classes", ["dots/small.jpg", "lines/large.png"], "dots, lines")
    ]


def test_near_copies_of_15_scene(data_dir):
    """The figures that ALIKE and CORRELATION are documented with."""
    counts = audit(data_dir / "LS", n_jobs=-1)["counts"]
    assert counts["near copy"] == 14
    assert counts["copy"] + counts["copy across classes"] == 18
    assert sum(counts.values()) == 32


def test_near_copies_of_coil20(data_dir):
    """Views of a turntable are near copies, but never views of two objects."""
    result = audit(data_dir / "COIL20", n_jobs=-1)
    assert {kind: count for kind, count in result["counts"].items() if count} == {"near copy": 107}
    assert sum(len(finding.paths) for finding in result["findings"]) == 1155


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
    shutil.copy(sound / "cat" / "2.png", sound / "cat" / "again.png")
    messages = warned(*find_images(sound))
    assert len(messages) == 3
    assert messages[0] == "classes with 1 image (1): few; trained on, but not tested"
    assert "the same image in several classes (2)" in messages[1]
    assert "copies of other files (1)" in messages[2]  # those across classes are said already
    assert "again.png" in messages[2]


def test_warning_of_small_classes():
    names = [f"{i}.png" for i in range(12)]
    (message,) = warned(names, ["a"] * 6 + ["s10"] * 2 + ["s2"] * 4)
    assert message == "classes with fewer than 5 images (2): s2, s10"


def test_train_and_test_are_parts_and_leaks_are_found(tmp_path):
    """Two folders train and test were two classes, and nothing was wrong."""
    for i in range(12):
        name = f"{'test' if i % 2 else 'train'}/{'cat' if i < 6 else 'dog'}"
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        blobs(i, (96, 64)).save(tmp_path / name / f"{i}.png")
    result = audit(tmp_path)
    assert result["classes"] == {"cat": 6, "dog": 6}
    assert result["parts"] == {"train": 6, "test": 6}
    assert result["counts"]["leak"] == 0
    shutil.copy(tmp_path / "train/cat/0.png", tmp_path / "test/cat/copy.png")
    blobs(1, (96, 64)).resize((48, 32)).save(tmp_path / "train/dog/near.png")
    blobs(6, (96, 64)).resize((48, 32)).save(tmp_path / "train/dog/same-side.png")
    (tmp_path / "test" / "dog" / "notes.txt").touch()
    result = audit(tmp_path)
    leaks = [set(finding.paths) for finding in result["findings"] if finding.kind == "leak"]
    assert leaks == [
        {str(tmp_path / "train/cat/0.png"), str(tmp_path / "test/cat/copy.png")},
        {str(tmp_path / "test/cat/1.png"), str(tmp_path / "train/dog/near.png")},
    ]
    assert result["counts"]["near copy"] == result["counts"]["ignored"] == 1


def test_warning_of_imbalance():
    names = [f"{i}.png" for i in range(65)]
    assert warned(names, ["a"] * 59 + ["b"] * 6) == []
    (message,) = warned(names, ["a"] * 60 + ["b"] * 5)
    assert "over 10 times the images of the smallest (a: 60, b: 5)" in message
