"""Commands on folders as people have them."""

import importlib
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.cli.test_cli import FAST, run
from tests.cli.test_predictions import read
from tests.conftest import draw
from tests.images.test_auditing import blobs


@pytest.fixture
def parts(image_folder, tmp_path):
    """The made images, four of each class in test/, the others in train/."""
    for path in sorted(image_folder.glob("*/*.png")):
        part = "test" if path.stem < "04" else "train"
        target = tmp_path / "set" / part / path.parent.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return tmp_path / "set"


def as_json(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


def test_train_and_test_folders(parts, tmp_path):
    """They were two classes."""
    model = tmp_path / "m.lrrspm"
    found = as_json("train", parts, "-o", model, *FAST)
    assert (found["images"], found["classes"]) == (24, 3)
    assert found["test"]["images"] == 12
    alone = tmp_path / "alone.lrrspm"
    as_json("train", parts / "train", "-o", alone, *FAST)
    for other in (parts, parts / "test"):
        scored = as_json("score", alone, other)
        assert scored["confusion"] == found["test"]["confusion"]
    text = run("train", parts, "-o", model, *FAST).stdout
    assert f"accuracy {found['test']['accuracy']['mean']:.1f} % on 12 test images" in text


def test_evaluate_takes_the_split_of_the_folders(parts):
    found = as_json("evaluate", parts, *FAST)
    assert np.sum(found["confusion"]) == 12
    assert found["images"] == 36
    assert found["parameters"]["split"] == "given"
    assert "splits" not in found["parameters"]


def test_evaluate_measures_the_model_of_train(parts, tmp_path):
    """Same folder, same seed: the same model, so the same scores."""
    model, tables = tmp_path / "m.lrrspm", (tmp_path / "one.csv", tmp_path / "other.csv")
    run("evaluate", parts, "--seed", 5, *FAST, "--predictions", tables[0])
    run("train", parts, "-o", model, "--seed", 5, *FAST)
    run("score", model, parts, "--predictions", tables[1])
    scores = [
        [(row["path"], row["predicted"], row["score"]) for row in read(table)] for table in tables
    ]
    assert scores[0] == scores[1]
    assert len(scores[0]) == 12


def test_test_images_of_an_unknown_class(parts, tmp_path):
    shutil.move(parts / "train" / "dots", tmp_path / "dots")
    for arguments in (("evaluate", parts), ("train", parts, "-o", tmp_path / "m.lrrspm")):
        found = as_json(*arguments, *FAST)
        assert found.get("test", found)["unknown_classes"] == {"dots": 4}
        assert "these classes: dots (4)" in run(*arguments, *FAST).stdout


def test_train_needs_training_images(parts, tmp_path):
    shutil.rmtree(parts / "train")
    found = as_json("train", parts, "-o", tmp_path / "m.lrrspm", code=1)
    assert "none to train on in a folder train" in found["error"]


def test_leaks_between_train_and_test(parts, tmp_path):
    for part, size in (("train", (96, 64)), ("test", (48, 32))):
        blobs(0, (96, 64)).resize(size).save(parts / part / "dots" / "leak.png")
    result = run("evaluate", parts, *FAST)
    leak = parts / "test" / "dots" / "leak.png"
    assert f"1 of 13 test images are near copies of training images, such as {leak}" in (
        result.stderr
    )
    assert "near copies" not in run("evaluate", parts, "--no-near-copies", *FAST).stderr
    assert as_json("audit", parts, "--jobs", 1, code=3)["counts"]["leak"] == 1
    assert "train 25, test 13" in run("audit", parts, "--jobs", 1, code=3).stdout


def test_score_lists_classes_that_the_model_does_not_know(image_folder, model_path, tmp_path):
    """The whole folder was refused."""
    shutil.copytree(image_folder, tmp_path / "set")
    shutil.copytree(image_folder / "dots", tmp_path / "set" / "s10")
    found = as_json("score", model_path, tmp_path / "set", code=3)
    assert found["unknown_classes"] == {"s10": 12}
    assert found["images"] == 36
    expected = as_json("score", model_path, image_folder)
    assert found["confusion"] == expected["confusion"]
    assert "s10 (12)" in run("score", model_path, tmp_path / "set", code=3).stdout
    shutil.rmtree(tmp_path / "set" / "across")
    shutil.rmtree(tmp_path / "set" / "along")
    shutil.rmtree(tmp_path / "set" / "dots")
    found = as_json("score", model_path, tmp_path / "set", code=1)
    assert "does not know these classes: s10" in found["error"]


def test_classes_are_shown_in_natural_order(tmp_path):
    rng = np.random.default_rng(0)
    for kind, name in (("across", "s10"), ("along", "s2"), ("dots", "s1")):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(draw(kind, rng)).save(tmp_path / "set" / name / f"{i}.png")
    model = tmp_path / "m.lrrspm"
    run("train", tmp_path / "set", "-o", model, *FAST)
    for arguments in (("info", model), ("score", model, tmp_path / "set")):
        lines = run(*arguments).stdout.split("\n")
        shown = [line.split()[0].rstrip(":") for line in lines if line.strip().startswith("s")]
        found = [name for name in shown if name in ("s1", "s2", "s10")]
        assert found[:3] == ["s1", "s2", "s10"]
    # Not in the file: the order of classes is part of a model's numbers.
    assert as_json("info", model)["classes"] == ["s1", "s10", "s2"]


def test_predictions_are_in_natural_order(image_folder, model_path, tmp_path):
    for name in ("10.png", "9.png"):
        shutil.copy(image_folder / "dots" / "00.png", tmp_path / name)
    found = as_json("predict", model_path, tmp_path)["predictions"]
    assert [row["path"] for row in found] == [str(tmp_path / name) for name in ("9.png", "10.png")]


def test_groups_and_near_copies(image_folder, tmp_path):
    shutil.copytree(image_folder, tmp_path / "set")
    for i in range(6):
        (tmp_path / "set" / "dots" / f"{i:02}.png").rename(tmp_path / f"set/dots/a_{i}.png")
    blobs(0, (96, 64)).save(tmp_path / "set" / "dots" / "one.png")
    blobs(0, (96, 64)).resize((48, 32)).save(tmp_path / "set" / "dots" / "two.png")
    model = tmp_path / "m.lrrspm"
    split = ("--train-per-class", 3, "--splits", 2)
    for arguments in (
        ("evaluate", tmp_path / "set", *split),
        ("train", tmp_path / "set", "-o", model),
    ):
        found = as_json(*arguments, *FAST)
        assert found["kept_together"] == {"by": "near copy", "images": 2, "groups": 1}
        assert "2 near copies kept together" in run(*arguments, *FAST).stdout
        assert "kept_together" not in as_json(*arguments, "--no-near-copies", *FAST)
        found = as_json(*arguments, "--group", "(dots/a)_", *FAST)
        assert found["kept_together"] == {"by": "group", "images": 6, "groups": 1}
    assert (
        "neither a column" in as_json("evaluate", tmp_path / "set", "--group", "x", code=1)["error"]
    )


def test_frames_on_both_sides_flatter_and_groups_do_not(tmp_path):
    """Noise has no classes, so only a memory of its frames can tell them."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for track in range(8):
            base = rng.integers(60, 196, (48, 48))
            for frame in range(5):
                pixels = np.clip(base + rng.normal(0, 4, base.shape), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / name / f"{track}_{frame}.png")
    arguments = ("evaluate", tmp_path, "--train-per-class", 20, "--splits", 3, *FAST)
    naive = as_json(*arguments, "--no-near-copies")["accuracy"]["mean"]
    honest = as_json(*arguments, "--group", "(.*)_")["accuracy"]["mean"]
    assert naive > 90
    assert honest < 75


def test_tables_with_other_columns(image_folder, model_path, tmp_path):
    rows = [(path, path.parent.name) for path in sorted(image_folder.glob("*/*.png"))]
    table = tmp_path / "list.csv"
    table.write_text("Nr;Bild;Art;Person\n" + "".join(
        f"{i};{path};{kind};{i // 4}\n" for i, (path, kind) in enumerate(rows)
    ))  # fmt: skip
    columns = ("--path-column", "Bild", "--label-column", "Art")
    assert as_json("score", model_path, table, *columns)["images"] == 36
    assert as_json("audit", table, *columns, "--jobs", 1)["images"] == 36
    assert len(as_json("predict", model_path, table, *columns[:2])["predictions"]) == 36
    arguments = ("evaluate", table, *columns, "--train-per-class", 4, "--splits", 1, *FAST)
    found = as_json(*arguments, "--group", "Person")
    assert found["kept_together"]["groups"] == 9
    page = tmp_path / "r.html"
    run("train", table, "-o", tmp_path / "m", *columns, "--report", page, *FAST)
    assert page.exists()
    failed = as_json("score", model_path, table, code=1)
    assert "among: Nr, Bild, Art, Person" in failed["error"]


def test_formats_that_are_not_supported_are_named(image_folder, model_path, tmp_path, monkeypatch):
    """They vanished: their suffixes were no suffixes of images."""
    shutil.copytree(image_folder, tmp_path / "set")
    heic = tmp_path / "set" / "dots" / "IMG_1.HEIC"
    heic.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99))
    whole = importlib.import_module

    def without(name, *rest):
        if name == "pillow_heif":
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    for arguments in (
        ("train", tmp_path / "set", "-o", tmp_path / "m.lrrspm", *FAST),
        ("predict", model_path, tmp_path / "set"),
    ):
        (skipped,) = as_json(*arguments, code=3)["skipped"]
        assert skipped["path"] == str(heic)
        assert "pip install 'lrrspm[heif]'" in skipped["reason"]


def test_a_class_of_one_image_is_named(image_folder, tmp_path):
    shutil.copytree(image_folder, tmp_path / "set")
    (tmp_path / "set" / "rare").mkdir()
    blobs(0, (60, 60)).save(tmp_path / "set" / "rare" / "1.png")
    model = tmp_path / "m.lrrspm"
    result = run("train", tmp_path / "set", "-o", model, "--json", *FAST)
    assert "classes with 1 image (1): rare; trained on, but not tested" in result.stderr
    assert "rare" not in json.loads(result.stdout)["estimate"]["per_class"]
    found = as_json("evaluate", tmp_path / "set", "--train-per-class", 4, "--splits", 1, *FAST)
    assert list(found["per_class"]) == ["across", "along", "dots"]
