import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from lrrspm import ImageClassifier, LRREncoder, __version__, config, find_images, load_model
from lrrspm._support.stages import Stages
from lrrspm.cli import app
from lrrspm.cli.terminal import progress
from lrrspm.cli.tunables import TUNABLES
from lrrspm.evaluation import train_with_estimate

FAST = ["--codebook-size", "8", "--jobs", "1"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def commands():
    """Return the commands by name, as Typer builds them."""
    return typer.main.get_command(app).commands  # type: ignore[attr-defined]


def test_version_and_help():
    assert run("--version").stdout == f"lrrspm {__version__}\n"
    for name in ("train", "evaluate", "predict", "score", "info", "demo"):
        assert "Example: lrrspm" in commands()[name].help or name == "demo"
        assert run(name, "--help").stdout
    assert run("--help").stdout


@pytest.mark.parametrize("name", ["train", "evaluate"])
def test_defaults_are_the_librarys(name):
    options = {flag: option for option in commands()[name].params for flag in option.opts}
    for flag, default in {
        "--codebook-size": config.CODEBOOK_SIZE,
        "--lambda": config.REGULARIZATION,
        "--threshold": config.THRESHOLD,
        "--step": config.STEP,
        "--patch-size": config.PATCH_SIZE,
        "--levels": ",".join(map(str, config.LEVELS)),
        "--normalize-codes": "off",
    }.items():
        assert re.search(rf" {re.escape(str(default))} in LrrSPM[.;]", options[flag].help)
        # None, so that a value that equals the default is told from none.
        assert options[flag].default is (False if flag == "--normalize-codes" else None)
    assert options["--C"].default == config.C
    assert options["--method"].default == config.METHOD
    assert options["--seed"].default == config.SEED


def test_help_names_the_default_methods_values():
    """What options say of balanced is so."""
    (first, *_) = ImageClassifier().new_channels()
    for one in TUNABLES:
        part, _, name = one.parameter.rpartition("__")
        found = getattr(getattr(first, part) if part else first, name, None)
        if one.only is not None or found is None:
            assert one.balanced is None
        else:
            shown = ",".join(map(str, found)) if isinstance(found, tuple) else str(found)
            assert f"Default: {shown} in balanced, " in one.text


def test_from_folder_to_predictions(image_folder, tmp_path):
    model = tmp_path / "m.lrrspm"
    text = run("train", image_folder, "-o", model, *FAST).stdout
    assert "36 images, 3 classes" in text
    assert "estimated accuracy 100.0 % (95 %: 87.8 to 100.0)" in text
    assert "cross-validation of 36 images in 10 folds" in text
    assert os.listdir(tmp_path) == ["m.lrrspm"]

    text = run("predict", model, image_folder / "dots" / "00.png", image_folder / "along").stdout
    assert [line.split()[1] for line in text.splitlines()[1:]] == ["dots"] + ["along"] * 12

    text = run("score", model, image_folder).stdout
    assert text.startswith("accuracy 100.00 %")

    text = run("info", model).stdout
    assert "trained on 36 images of 3 classes" in text
    assert "  method: balanced" in text.splitlines()
    assert "  channels.0.encoder.codebook_size: 8" in text.splitlines()


def test_train_json(image_folder, tmp_path):
    result = run(
        "train", image_folder, "-o", tmp_path / "m", "--json", "--no-estimate",
        "--method", "LrrSPM", "--lambda", "0.2",
        "--threshold", "0.5", "--C", "3", "--step", "8", "--patch-size", "12", "--levels", "1,3",
        "--seed", "4", *FAST,
    )  # fmt: skip
    found = json.loads(result.stdout)
    assert found["estimate"] is None
    assert found["images_per_class"] == {"across": 12, "along": 12, "dots": 12}
    assert found["bytes"] == os.path.getsize(tmp_path / "m")
    assert found["parameters"] == {
        "method": "LrrSPM", "C": 3.0, "max_side": 300, "min_side": None,
        "n_samples": 200000, "seed": 4,
        "channels": [
            {
                "descriptor": {"name": "SIFT", "step": 8, "patch_size": 12},
                "encoder": {
                    "name": "LRREncoder", "codebook_size": 8, "regularization": 0.2,
                    "threshold": 0.5, "normalize_codes": False, "atoms": 8,
                },
                "pooling": {"name": "MaxPooling", "norm": "l2"},
                "levels": [1, 3],
                "weight": 1.0,
            }
        ],
    }  # fmt: skip
    model = load_model(tmp_path / "m")
    (channel,) = model.features_.channels_
    assert channel.levels == (1, 3)
    assert channel.encoder_.regularization == 0.2
    shown = json.loads(run("info", tmp_path / "m", "--json").stdout)
    assert shown["parameters"] == found["parameters"]


def test_evaluate(image_folder):
    arguments = ["evaluate", image_folder, "--train-per-class", "4", "--splits", "2", *FAST]
    found = json.loads(run(*arguments, "--json").stdout)
    assert set(found["accuracy"]) == {"mean", "std", "splits"}
    stages = {"compare", "read", "describe", "codebook", "encode", "train", "test"}
    assert set(found["seconds"]) == stages
    assert (found["images"], found["classes"]) == (36, 3)
    assert found["parameters"]["shared_codebook"] is False
    shared = json.loads(run(*arguments, "--json", "--shared-codebook").stdout)
    assert shared["parameters"]["shared_codebook"] is True
    text = run(*arguments).stdout
    assert f"accuracy {found['accuracy']['mean']:.2f}" in text
    assert "2 splits, 36 images, 24 tested, 3 classes" in text


def test_a_csv_file_instead_of_a_folder(image_folder, model_path, tmp_path):
    table = tmp_path / "list.csv"
    rows = [(image_folder / kind / "00.png", kind) for kind in ("across", "along", "dots")]
    table.write_text("path,label\n" + "".join(f"{path},{label}\n" for path, label in rows))
    found = json.loads(run("score", model_path, table, "--json").stdout)
    assert found["images"] == 3


def test_predict_formats(image_folder, model_path):
    image = image_folder / "dots" / "00.png"
    found = json.loads(run("predict", model_path, image, "--top", "2", "--json").stdout)
    (prediction,) = found["predictions"]
    assert prediction["label"] == "dots"
    assert prediction["top"][0]["label"] == "dots"
    assert len(prediction["top"]) == 2
    assert prediction["score"] == prediction["top"][0]["score"] >= prediction["top"][1]["score"]
    assert found["skipped"] == []
    rows = list(csv.reader(run("predict", model_path, image, "--csv").stdout.splitlines()))
    assert rows[0] == ["path", "label", "confidence", "score", "error"]
    assert rows[1][:2] == [str(image), "dots"]
    rows = list(
        csv.reader(run("predict", model_path, image, "--csv", "--top", "9").stdout.splitlines())
    )
    more = [f"{name}_{place}" for place in (2, 3) for name in ("label", "confidence", "score")]
    assert rows[0] == ["path", "label", "confidence", "score", "error", *more]


def test_tables_in_a_pipe_are_as_wide_as_asked_for(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    methods = json.loads(run("methods", "--json").stdout)["methods"]
    lines = run("methods").stdout.splitlines()
    for name, summary in methods.items():
        assert any(line.split() == [name, *summary.split()] for line in lines)
    monkeypatch.setenv("COLUMNS", "50")
    lines = run("methods").stdout.splitlines()
    assert max(map(len, lines[5:])) <= 50


def test_names_with_brackets_are_shown_as_they_are(image_folder, model_path, tmp_path):
    path = tmp_path / "[bold]odd[red] name.png"
    shutil.copy(image_folder / "dots" / "00.png", path)
    assert str(path) in run("predict", model_path, path).stdout


def test_control_characters_in_names_are_escaped(image_folder, model_path, tmp_path):
    path = tmp_path / "red\x1b[31m\nline.png"
    shutil.copy(image_folder / "dots" / "00.png", path)
    text = run("predict", model_path, path).stdout
    assert "red\\x1b[31m\\nline.png" in text
    assert "\x1b" not in text
    found = json.loads(run("predict", model_path, path, "--json").stdout)
    assert found["predictions"][0]["path"] == str(path)


def test_reader_that_stops_early(image_folder, model_path):
    command = f"{sys.executable} -m lrrspm predict {model_path} {image_folder} --csv | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "path,label,confidence,score,error"
    assert "Traceback" not in done.stderr


def test_unreadable_files_are_skipped(image_folder, model_path, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_text("not an image")
    good = image_folder / "dots" / "00.png"
    result = run("predict", model_path, bad, good, tmp_path / "missing.png", code=3)
    assert f"skipped {bad}: not an image" in result.stderr
    assert "missing.png: no such file" in result.stderr
    assert "skipped 2 of 3 files" in result.stderr
    assert "dots" in result.stdout
    found = json.loads(run("predict", model_path, bad, good, "--json", code=3).stdout)
    assert [entry["path"] for entry in found["skipped"]] == [str(bad)]
    assert [entry["path"] for entry in found["predictions"]] == [str(good)]
    # Nothing was read at all: that is a failure.
    assert json.loads(run("predict", model_path, bad, "--json", code=1).stdout)["predictions"] == []
    run("predict", model_path, bad, "--csv", code=1)
    run("predict", model_path, bad, code=1)


def test_score_on_some_of_the_classes(image_folder, model_path, tmp_path):
    (tmp_path / "dots").symlink_to(image_folder / "dots")
    text = run("score", model_path, tmp_path).stdout
    assert "accuracy 100.00 %" in text
    assert "not tested" in text


def test_progress_bars(image_folder, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress() as listener:
        assert listener is not None
        train_with_estimate(
            *find_images(image_folder),
            ImageClassifier(LRREncoder(codebook_size=8), random_state=0),
            stages=Stages(listener),
        )
    for stage in ("reading images", "learning codebook", "encoding images", "training"):
        assert stage in terminal.getvalue()


def one_class(root):
    (root / "only").mkdir()
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(root / "only" / "1.png")


def few(root):
    for name, count in (("a", 3), ("b", 5)):
        (root / name).mkdir()
        for i in range(count):
            Image.fromarray(np.zeros((20, 20), np.uint8)).save(root / name / f"{i}.png")


def text_file(root):
    few(root)
    (root / "a" / "text.jpg").write_text("not an image")


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (None, ["train", "{}/nowhere", "-o", "{}/m"], "nowhere: no such file or folder"),
        (None, ["train", "{}", "-o", "{}/m"], "no class folders"),
        (one_class, ["train", "{}", "-o", "{}/m"], "at least two classes, got one class: only"),
        (few, ["evaluate", "{}", "--train-per-class", "3"], "class 'a' has 3 images"),
        (text_file, ["train", "{}", "-o", "{}/m"], "text.jpg: not an image of a known format"),
        (few, ["train", "{}", "-o", "{}/no/m"], "its folder does not exist"),
        (few, ["predict", "{}/a/0.png", "{}/a/0.png"], "not an lrrspm model"),
        (None, ["info", "{}/none"], "no such model file"),
    ],
)
def test_failures(tmp_path, make, arguments, message):
    if make:
        make(tmp_path)
    arguments = [a.format(tmp_path) for a in arguments]
    result = run(*arguments, code=1)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert message in result.stderr
    assert result.stdout == ""
    result = run(*arguments, "--json", code=1)
    assert message in json.loads(result.stdout)["error"]
    assert not (tmp_path / "m").exists()


def test_warnings_are_one_line(tmp_path):
    few(tmp_path)
    (tmp_path / "empty").mkdir()
    result = run("train", tmp_path, "-o", tmp_path / "m", "--jobs", "1", "--method", "LrrSPM")
    assert "warning: " in result.stderr
    assert "ignored class folders without images: empty" in result.stderr
    assert "a codebook of 256 atoms was requested" in result.stderr


def test_remarks_of_pillow_are_not_ours(image_folder, tmp_path):
    """It warns of images that we refuse ourselves, by their names."""
    shutil.copytree(image_folder, tmp_path / "images")
    Image.new("1", (9500, 9500)).save(tmp_path / "images" / "dots" / "large.png")
    result = run("train", tmp_path / "images", "-o", tmp_path / "m", *FAST, code=3)
    assert "large.png: 9500 x 9500 pixels" in result.stderr
    assert "DOS attack" not in result.stderr


def test_same_model_for_any_number_of_jobs(image_folder, tmp_path):
    for jobs in ("1", "3"):
        run("train", image_folder, "-o", tmp_path / jobs, "--codebook-size", "8", "--jobs", jobs)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()


def test_as_a_module(model_path, image_folder):
    done = subprocess.run(
        [sys.executable, "-m", "lrrspm", "predict", model_path, image_folder / "dots", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(json.loads(done.stdout)["predictions"]) == 12
    assert done.stderr == ""


def test_demo_without_its_images(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("demo", "-o", tmp_path / "demo", code=1)
    assert "pip install 'lrrspm[demo]'" in result.stderr


def test_demo(monkeypatch, image_folder, tmp_path):
    """The tour on made images, laid out as those of the package."""
    data = tmp_path / "elpv_dataset" / "data"
    (data / "images").mkdir(parents=True)
    (data.parent / "__init__.py").touch()
    lines = []
    kinds = [("across", 0.0, "mono"), ("along", 1.0, "mono"), ("dots", 0.0, "poly")]
    for kind, probability, module in [*kinds, ("along", 1.0, "poly"), ("dots", 1 / 3, "poly")]:
        for i in range(12):
            name = f"images/{kind}{module}{i}.png"
            shutil.copy(image_folder / kind / f"{i:02}.png", data / name)
            lines.append(f"{name}  {probability}  {module}")
    (data / "labels.csv").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("lrrspm.cli.demo.TRAIN_PER_CLASS", 4)
    result = run("demo", "-o", tmp_path / "demo", "--jobs", "1")
    assert "mono defective" in result.stdout
    assert "CC BY-NC-SA 4.0" in result.stdout
    assert "lrrspm train my-images" in result.stdout
    drawn = ["evidence.png", "predictions.png"]
    assert sorted(os.listdir(tmp_path / "demo")) == [*drawn, "solar-cells.lrrspm"]
    for name in drawn:
        with Image.open(tmp_path / "demo" / name) as drawing:
            assert min(drawing.size) > 300
    assert load_model(tmp_path / "demo" / "solar-cells.lrrspm").summary_["images"] == 16


def test_codes_can_be_normalized(image_folder, tmp_path):
    models = []
    quick = ["--method", "LrrSPM", "--codebook-size", 8, "--no-estimate"]
    for options in ([], ["--normalize-codes"]):
        model = tmp_path / f"m{len(options)}"
        run("train", image_folder, "-o", model, *quick, *options)
        found = json.loads(run("info", model, "--json").stdout)
        (channel,) = found["parameters"]["channels"]
        assert channel["encoder"]["normalize_codes"] is bool(options)
        models.append(model.read_bytes())
    assert models[0] != models[1]
