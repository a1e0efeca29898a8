"""Names of files and classes that are long, odd, or not valid text."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lrrspm import find_images, read_image
from lrrspm.cli import app

NAMES = [
    b" two  spaces .png",
    b"new\nline.png",
    b"return\r.png",
    b"tab\tand \x1b[31m color.png",
    b'comma, "quotes".png',
    b"-dash.png",
    b"[bold]brackets[red].png",
    b"no text \xff\xfe\x80.png",
    "snow ☃ and 🦊.png".encode(),
    b"x" * 251 + b".png",
    "🦊".encode() * 62 + b"xxx.png",
]


@pytest.fixture
def odd(image_folder, tmp_path):
    """A folder with one image under many names."""
    folder = os.fsencode(tmp_path / "odd")
    os.mkdir(folder)
    for name in NAMES:
        assert len(name) <= 255
        shutil.copy(image_folder / "dots" / "00.png", os.path.join(folder, name))
    return tmp_path / "odd"


def run(*arguments, code=0):
    """Return what a command prints, as bytes."""
    result = CliRunner().invoke(app, [os.fsdecode(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.stdout_bytes


def test_names_go_through_json(odd, model_path):
    found = json.loads(run("predict", model_path, odd, "--json"))
    paths = [entry["path"] for entry in found["predictions"]]
    assert sorted(os.path.basename(os.fsencode(path)) for path in paths) == sorted(NAMES)


def test_names_go_through_csv(odd, model_path):
    # A process of its own, whose output is UTF-8 and strict.
    done = subprocess.run(
        [sys.executable, "-m", "lrrspm", "predict", model_path, odd, "--csv"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
    )
    text = os.fsdecode(done.stdout)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["path", "label", "confidence", "score", "error"]
    assert sorted(os.path.basename(os.fsencode(row[0])) for row in rows[1:]) == sorted(NAMES)
    assert {row[1] for row in rows[1:]} == {"dots"}


def test_names_go_through_tables(odd, model_path):
    text = run("predict", model_path, odd).decode()
    lines = text.splitlines()[1:]
    assert len(lines) == len(NAMES)
    for shown in (
        "new\\nline.png", "no text \\udcff\\udcfe\\udc80.png", "snow ☃ and 🦊.png",
        "[bold]brackets[red].png", "\\x1b[31m color.png", "x" * 251,
    ):  # fmt: skip
        assert sum(shown in line for line in lines) == 1, shown
    assert "\x1b" not in text


def test_a_name_that_starts_with_a_dash(odd, model_path, monkeypatch):
    monkeypatch.chdir(odd)
    assert b"-dash.png" in run("predict", "--csv", os.path.abspath(model_path), "--", "-dash.png")


def test_class_names_that_are_not_valid_text(image_folder, tmp_path):
    names = [b"no text \xff", b"new\nline", "🦊".encode()]
    root = tmp_path / "classes"
    root.mkdir()
    for name, kind in zip(names, ("across", "along", "dots"), strict=True):
        shutil.copytree(image_folder / kind, root / os.fsdecode(name))
    model = os.fsencode(tmp_path) + b"/model \xff.lrrspm"
    fast = ["--codebook-size", "8", "--jobs", "1"]
    assert b"36 images, 3 classes" in run("train", root, "-o", model, *fast)

    text = run("info", model).decode(errors="surrogateescape")
    for shown in ("no text \\udcff: 12", "new\\nline: 12", "🦊: 12"):
        assert shown in text
    found = json.loads(run("info", model, "--json"))
    assert sorted(os.fsencode(name) for name in found["classes"]) == sorted(names)

    image = os.path.join(os.fsencode(root), names[0], b"00.png")
    found = json.loads(run("predict", model, image, "--json"))
    assert os.fsencode(found["predictions"][0]["label"]) == names[0]
    rows = list(csv.reader(io.StringIO(os.fsdecode(run("predict", model, image, "--csv")))))
    assert [os.fsencode(value) for value in rows[1][:2]] == [image, names[0]]
    assert "no text \\udcff" in run("predict", model, image).decode()
    assert "no text \\udcff" in run("score", model, root).decode()
    assert json.loads(run("score", model, root, "--json"))["accuracy"]["mean"] == 100


def test_links_in_circles(image_folder, model_path, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "good.png").symlink_to(image_folder / "dots" / "00.png")
    (tmp_path / "a" / "self.png").symlink_to("self.png")
    (tmp_path / "a" / "nowhere.png").symlink_to("gone.png")
    (tmp_path / "b").symlink_to("c")
    (tmp_path / "c").symlink_to("b")
    assert find_images(tmp_path)[1] == ["a", "a", "a"]
    found = json.loads(run("predict", model_path, tmp_path, "--json", code=3))
    assert [os.path.basename(entry["path"]) for entry in found["predictions"]] == ["good.png"]
    reasons = {os.path.basename(e["path"]): e["reason"] for e in found["skipped"]}
    assert reasons["nowhere.png"] == "no such file"
    assert "symbolic links" in reasons["self.png"]
    for name in reasons:
        with pytest.raises(ValueError, match=name):
            read_image(tmp_path / "a" / name)
