"""Reports that the commands write: they say what the commands say, and replace nothing else."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm.evaluation.protocol import evaluate_all
from lrrspm.methods import METHODS
from tests.conftest import draw, mixed_up
from tests.report.reports import FAST, parse, run, typed


@pytest.fixture(scope="module")
def mixed(image_folder, tmp_path_factory):
    return mixed_up(image_folder, tmp_path_factory.mktemp("mixed") / "set")


@pytest.fixture(scope="module")
def evaluated(mixed, tmp_path_factory):
    """Run evaluate; return its JSON, its parsed report and the report's path."""
    report = tmp_path_factory.mktemp("report") / "report.html"
    arguments = ["evaluate", mixed, "--train-per-class", 4, "--splits", 3, "--seed", 5, *FAST]
    done = run(*arguments, "--report", report, "--json")
    return json.loads(done.stdout), parse(report), report


def test_commands_say_where_the_report_is(evaluated, mixed, tmp_path):
    found, _, report = evaluated
    assert found["report"] == str(report)
    arguments = ["evaluate", mixed, "--train-per-class", 4, "--splits", 1, *FAST]
    assert "report" not in json.loads(run(*arguments, "--json").stdout)
    done = run(*arguments, "--report", tmp_path / "r.html")
    assert done.stdout.endswith(f"wrote {tmp_path / 'r.html'}\n")
    assert os.listdir(tmp_path) == ["r.html"]


def test_accuracy_is_that_of_the_json(evaluated):
    found, page, _ = evaluated
    accuracy = found["accuracy"]
    assert f"{accuracy['mean']:.2f} ± {accuracy['std']:.2f} %" in page.text
    assert ", ".join(f"{value:.2f}" for value in accuracy["splits"]) in page.text
    counts = np.array(found["confusion"])
    assert f"{np.trace(counts)} of {counts.sum()}" in page.text


def test_classes_are_those_of_the_json(evaluated):
    found, page, _ = evaluated
    rows = page.table("class", "recall %", "", "precision %", "F1 %", "test images per split")
    shown = {row[0]: float(row[1]) for row in rows}
    assert shown == {name: pytest.approx(v, abs=0.05) for name, v in found["per_class"].items()}
    assert list(shown.values()) == sorted(shown.values())
    for name, row in zip(found["class_names"], found["confusion"], strict=True):
        (line,) = [line for line in rows if line[0] == name]
        assert int(line[5]) == sum(row) / 3
        others = {n: c for n, c in zip(found["class_names"], row, strict=True) if n != name}
        if not any(others.values()):
            assert line[6] == ""
            continue
        share = 100 * max(others.values()) / sum(row)
        assert re.fullmatch(rf"(\w+) \({share:.1f} %\)", line[6])
        assert others[line[6].split()[0]] == max(others.values())


def test_confusions_are_those_of_the_json(evaluated):
    found, page, _ = evaluated
    counts = np.array(found["confusion"])
    shares = 100 * counts / counts.sum(axis=1, keepdims=True)
    rows = page.table("", *found["class_names"])
    for i, row in enumerate(rows):
        assert row[0] == found["class_names"][i]
        for j, cell in enumerate(row[1:]):
            assert cell == (f"{shares[i, j]:.1f}{counts[i, j]}" if counts[i, j] else "")
    pairs = page.table("class", "confused with")
    wrong = [(i, j) for i in range(3) for j in range(3) if i != j and counts[i, j]]
    assert len(pairs) == len(wrong)
    for label, predicted, share, predictions in pairs:
        i, j = (found["class_names"].index(name) for name in (label, predicted))
        assert (share, int(predictions)) == (f"{shares[i, j]:.1f}", counts[i, j])


def test_mistakes_are_those_of_the_evaluation(evaluated, mixed):
    _, page, _ = evaluated
    images = page.named("img")
    assert images
    shown = re.findall(rf"({re.escape(str(mixed))}\S+); split ([123])", page.text)
    assert len(shown) == len({path for path, _ in shown}) == len(images) / 3
    classifier = ImageClassifier(LRREncoder(codebook_size=8))
    (evaluation,) = evaluate_all(*find_images(mixed), [classifier], 4, 3, seed=5)
    assert shown == [(mistake.path, str(mistake.split)) for mistake in evaluation.mistakes]
    leads = [mistake.lead for mistake in evaluation.mistakes]
    assert leads == sorted(leads, reverse=True)
    assert leads[0] > leads[-1]


def flattened(value, name):
    """Yield the dotted names of nested parameters."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        yield name.removeprefix(".")
        return
    for key, inner in value.items():
        yield from flattened(inner, f"{name}.{key}")


def test_costs_and_how_to_reproduce(evaluated, mixed):
    found, page, report = evaluated
    rows = page.table("stage", "what", "seconds")
    names = [row[0] for row in rows]
    assert names[-3:] == ["all", "audit", "explain"]
    assert sorted(names[:-3]) == sorted(found["seconds"])
    assert all(row[1] for row in rows if row[0] != "all")
    said = {**found["seconds"], "all": sum(found["seconds"].values())}
    for row in rows:
        assert row[2] == f"{said[row[0]]:.1f}" if row[0] in said else float(row[2]) >= 0
        assert row[5] == "unknown" or float(row[5].replace(",", "")) > 1
    given = ["evaluate", mixed, "--train-per-class", 4, "--splits", 3, "--seed", 5, *FAST]
    assert typed(*given, "--report", report, "--json") in page.parts
    assert "(seed 5)" in page.text
    shown = {row[0]: row[1] for row in page.table("parameter", "LrrSPM")}
    assert shown.keys() == set(flattened(found["parameters"], "")) - {"method"}
    assert shown["seed"] == "5"
    (levels,) = [value for name, value in shown.items() if name.split(".")[-1] == "levels"]
    assert levels == "1, 2, 4"


def test_skipped_images_and_findings_are_listed(mixed, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(mixed, root)
    (root / "dots" / "bad.png").write_bytes(b"no image")
    shutil.copy(root / "dots" / "05.png", root / "dots" / "twin.png")
    arguments = ["evaluate", root, "--train-per-class", 4, "--splits", 1, *FAST]
    run(*arguments, "--report", tmp_path / "r.html", code=3)
    page = parse(tmp_path / "r.html")
    ((path, reason),) = page.table("image", "reason")
    assert path == str(root / "dots" / "bad.png")
    assert reason
    shown = {row[0]: row[2] for row in page.table("what", "meaning")}
    assert shown["broken"] == shown["copy"] == "1"
    assert ["copy", "dots", f"{root / 'dots/05.png'}{root / 'dots/twin.png'}"] in page.table(
        "what", "where", "images"
    )
    assert "37 images in 3 classes, 12 to 13 each, median 12." in page.text
    assert "Skipped: 1 image" in page.text
    assert [row[0] for row in page.table("stage")[:2]] == ["compare", "restart"]
    # One split has no spread.
    assert "±" not in page.text
    assert "from 25 test images, so a rough estimate" in page.text


def test_train(mixed, tmp_path):
    arguments = ["train", mixed, "-o", tmp_path / "m", *FAST, "--seed", 1]
    done = run(*arguments, "--report", tmp_path / "r.html", "--json")
    found = json.loads(done.stdout)
    assert found["report"] == str(tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    assert "each of 36 images was tested" in page.text
    estimate = found["estimate"]
    assert f"{estimate['accuracy']:.2f} %" in page.text
    assert f"95 % interval {estimate['low']:.1f} to {estimate['high']:.1f}" in page.text
    assert page.table("minimum confidence", "images answered %", "of these right %") == [
        [f"{row['confidence']:g}", f"{row['answered']:.1f}",
         "" if row["right"] is None else f"{row['right']:.1f}"]
        for row in estimate["coverage"]
    ]  # fmt: skip
    assert "not calibrated" not in page.text
    right = sum(float(row[1]) / 100 * 12 for row in page.table("class", "recall %"))
    assert len(page.named("img")) == 3 * min(12, round(36 - right))
    done = run(*arguments, "--no-estimate", "--report", tmp_path / "r.html")
    assert f"wrote {tmp_path / 'r.html'}\n" in done.stdout
    page = parse(tmp_path / "r.html")
    assert typed(*arguments, "--no-estimate", "--report", tmp_path / "r.html") in page.parts
    assert "no estimate" in page.text
    assert not page.named("img")
    assert "36 in 3 classes, 12 each" in page.text


def test_score(model_path, image_folder, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(image_folder, root)
    (root / "dots" / "00.png").rename(root / "across" / "dotty.png")
    arguments = ["score", model_path, root, "--jobs", 1, "--report", tmp_path / "it's <b>.html"]
    run(*arguments)
    page = parse(arguments[-1])
    assert typed(*arguments) in page.parts
    rows = page.table("class", "recall %", "", "precision %", "F1 %", "test images")
    assert [(row[0], row[1], *row[5:]) for row in rows] == [
        ("across", "92.3", "13", "dots (7.7 %)"),
        ("along", "100.0", "12", ""),
        ("dots", "100.0", "11", ""),
    ]
    assert page.table("class", "confused with") == [["across", "dots", "7.7", "1"]]
    assert len(page.named("img")) == 3
    assert str(root / "across" / "dotty.png") in page.text
    assert "; split" not in page.text
    assert "weakest class 92.3 % across" in page.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "No image was used for testing while a copy of it was used for training."),
        (["--no-near-copies"], "An image with a copy may have been used for both"),
    ],
)
def test_what_is_said_of_copies(image_folder, tmp_path, options, said):
    shutil.copytree(image_folder, tmp_path / "set")
    shutil.copy(sorted((tmp_path / "set" / "dots").iterdir())[0], tmp_path / "set/dots/copy.png")
    target = tmp_path / "r.html"
    arguments = ["--train-per-class", 4, "--splits", 1, *FAST, *options, "--report", target]
    run("evaluate", tmp_path / "set", *arguments)
    assert said in parse(target).text


def test_score_without_mistakes(model_path, image_folder, tmp_path):
    run("score", model_path, image_folder, "--jobs", 1, "--report", tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    assert "None: every test image was classified correctly." in page.text
    assert "36 images in 3 classes, 12 each." in page.text
    # Images that the model was trained on make it look better than it is.
    assert "trained on" in page.text


@pytest.mark.parametrize("kinds", [["dots"], ["along", "dots"]])
def test_score_on_some_of_the_classes(model_path, image_folder, tmp_path, kinds):
    for kind in kinds:
        shutil.copytree(image_folder / kind, tmp_path / "set" / kind)
    run("score", model_path, tmp_path / "set", "--jobs", 1, "--report", tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    rows = page.table("class", "recall %")
    untested = sorted({"across", "along", "dots"} - set(kinds))
    last = [(row[0], row[1], row[5]) for row in rows[len(kinds) :]]
    assert last == [(name, "not tested", "0") for name in untested]
    assert "weakest class" not in page.text


def test_all_methods(mixed, tmp_path):
    arguments = [
        "evaluate", mixed, *FAST, "--method", "all", "--train-per-class", 4, "--splits", 2,
        "--report", tmp_path / "r.html",
    ]  # fmt: skip
    run(*arguments)
    page = parse(tmp_path / "r.html")
    assert typed(*arguments) in page.parts
    rows = page.table("method", "accuracy %")
    assert {row[0] for row in rows} == set(METHODS)
    means = [float(row[1].split()[0]) for row in rows]
    assert means == sorted(means, reverse=True)
    assert f"Best method: {rows[0][0]}" in page.text
    summaries = re.findall(r"(\w+): ([\d.]+ ± [\d.]+) %", page.text)
    assert summaries == [(row[0], row[1]) for row in rows[1:]]
    assert page.table("parameter", *METHODS)
    assert (tmp_path / "r.html").stat().st_size < 5e6


NAMES = [
    "<script>alert(1)</script>".replace("/", "\u2215"),
    "a`b` **c** *d* [e](f) | \" '",
    "x" * 200,
    os.fsdecode(b"no text \xff\x80 \xe2\x80\xae"),
]


def test_names_of_files_and_folders_never_become_markup(tmp_path):
    root, rng = tmp_path / "set", np.random.default_rng(0)
    for place, name in enumerate(NAMES):
        (root / name).mkdir(parents=True)
        for i in range(6):
            kind = ("across", "along", "dots", "slant")[place if i else place - 1]
            Image.fromarray(draw(kind, rng)).save(
                root / name / f"<img src=x> {i} & {name[:40]}.png"
            )
    (root / NAMES[0] / "<b>bad.png").write_bytes(b"")
    run(
        "evaluate", root, "--train-per-class", 3, "--splits", 2, *FAST, "--on-error", "skip",
        "--report", tmp_path / "r.html", code=3,
    )  # fmt: skip
    page = parse(tmp_path / "r.html")
    assert not {"em", "strong"} & {tag for tag, _ in page.tags}
    shown = {row[0] for row in page.table("class", "recall %")}
    assert shown == {NAMES[0], NAMES[1], NAMES[2], "no text \\udcff\\udc80 \\u202e"}
    assert "<img src=x>" in page.text
    assert all(image["src"].startswith("data:image/jpeg") for image in page.named("img"))
    assert page.named("img")


COMMANDS = {
    "evaluate": lambda images, model, folder: [images],
    "train": lambda images, model, folder: [images, "-o", folder / "m"],
    "score": lambda images, model, folder: [model, images],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_target_that_cannot_be_written_fails_before_the_work(
    command, image_folder, model_path, tmp_path, reads
):
    target = tmp_path / "none" / "r.html"
    given = COMMANDS[command](image_folder, model_path, tmp_path)
    done = run(command, *given, "--report", target, code=1)
    assert f"error: {target}" in done.stderr
    assert reads == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_report_replaces_no_other_kind_of_file(
    command, image_folder, model_path, tmp_path, reads
):
    other = tmp_path / "m2.lrrspm"
    other.write_bytes(b"kept")
    given = COMMANDS[command](image_folder, model_path, tmp_path)
    for name in ("m2.lrrspm", "html", "report.html.png"):
        run(command, *given, "--report", tmp_path / name, code=2)
    assert reads == []
    assert os.listdir(tmp_path) == ["m2.lrrspm"]
    assert other.read_bytes() == b"kept"


def test_a_report_never_replaces_the_model(image_folder, model_path, tmp_path):
    model = shutil.copy(model_path, tmp_path / "m.HTM")
    run("score", model, image_folder, "--report", model, code=2)
    assert model.read_bytes() == model_path.read_bytes()
    named = tmp_path / "n.html"
    run("train", image_folder, "-o", named, "--report", tmp_path / "." / "n.html", code=2)
    assert os.listdir(tmp_path) == ["m.HTM"]


def test_real_scenes(data_dir, tmp_path):
    """A report stays under 5 MB, whatever the images."""
    quick = ["--method", "LrrSPM", "--codebook-size", 16, "--splits", 2]
    arguments = ["evaluate", data_dir / "LS", *quick]
    run(*arguments, "--report", tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 5e6
    page = parse(tmp_path / "r.html")
    assert len(page.named("img")) == 36
    shown = {row[0]: row[2] for row in page.table("what", "meaning")}
    assert shown["copy"] == "17"
