"""Reports: what they hold, that they are whole, and that names in them stay names."""

import base64
import io
import json
import os
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from lrrspm import ImageClassifier, LRREncoder, config, find_images
from lrrspm.evaluation.mistakes import Measured
from lrrspm.evaluation.protocol import evaluate_all
from lrrspm.images import audit, colours
from lrrspm.methods import METHODS
from lrrspm.report import make_report, write_report
from lrrspm.report.draw import AGAINST, FOR
from lrrspm.report.matrix import NUMBERED, ROOMY
from lrrspm.report.page import to_html
from lrrspm.report.pictures import SIDE, show_mistakes
from tests.conftest import draw, mixed_up
from tests.report.reports import (
    FAST,
    Parsed,
    check_alone,
    made_result,
    made_run,
    matrix_cells,
    parse,
    run,
    typed,
)

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def mixed(pictures, tmp_path_factory):
    return mixed_up(pictures, tmp_path_factory.mktemp("mixed") / "set")


@pytest.fixture(scope="module")
def evaluated(mixed, tmp_path_factory):
    """What evaluate says as JSON, and the report of the same run."""
    report = tmp_path_factory.mktemp("report") / "report.html"
    arguments = ["evaluate", mixed, "--train-per-class", 4, "--splits", 3, "--seed", 5, *FAST]
    done = run(*arguments, "--report", report, "--json")
    return json.loads(done.stdout), parse(report), report


def test_report_path_is_told(evaluated, mixed, tmp_path):
    found, _, report = evaluated
    assert found["report"] == str(report)
    arguments = ["evaluate", mixed, "--train-per-class", 4, "--splits", 1, *FAST]
    assert "report" not in json.loads(run(*arguments, "--json").stdout)
    done = run(*arguments, "--report", tmp_path / "r.html")
    assert done.stdout.endswith(f"wrote {tmp_path / 'r.html'}\n")
    assert os.listdir(tmp_path) == ["r.html"]


def test_headline(evaluated):
    found, page, _ = evaluated
    accuracy = found["accuracy"]
    assert f"{accuracy['mean']:.2f} ± {accuracy['std']:.2f} %" in page.text
    assert "mean and standard deviation of 3 splits" in page.text
    assert ", ".join(f"{value:.2f}" for value in accuracy["splits"]) in page.text
    counts = np.array(found["confusion"])
    assert f"{np.trace(counts)} of {counts.sum()}" in page.text


def test_classes(evaluated):
    found, page, _ = evaluated
    rows = page.table("class", "accuracy %", "", "test pictures a split")
    shown = {row[0]: float(row[1]) for row in rows}
    assert shown == {name: pytest.approx(v, abs=0.05) for name, v in found["per_class"].items()}
    assert list(shown.values()) == sorted(shown.values())
    for name, row in zip(found["class_names"], found["confusion"], strict=True):
        (line,) = [line for line in rows if line[0] == name]
        assert int(line[3]) == sum(row) / 3
        others = {n: c for n, c in zip(found["class_names"], row, strict=True) if n != name}
        if not any(others.values()):
            assert line[4] == ""
            continue
        share = 100 * max(others.values()) / sum(row)
        assert re.fullmatch(rf"(\w+) \({share:.1f} %\)", line[4])
        assert others[line[4].split()[0]] == max(others.values())


def test_confusions(evaluated):
    found, page, _ = evaluated
    counts = np.array(found["confusion"])
    shares = 100 * counts / counts.sum(axis=1, keepdims=True)
    rows = page.table("", *found["class_names"])
    for i, row in enumerate(rows):
        assert row[0] == found["class_names"][i]
        for j, cell in enumerate(row[1:]):
            assert cell == (f"{shares[i, j]:.1f}{counts[i, j]}" if counts[i, j] else "")
    pairs = page.table("class", "taken for")
    wrong = [(i, j) for i in range(3) for j in range(3) if i != j and counts[i, j]]
    assert len(pairs) == len(wrong)
    assert [float(p[2]) for p in pairs] == sorted((float(p[2]) for p in pairs), reverse=True)
    for label, predicted, share, answers in pairs:
        i, j = (found["class_names"].index(name) for name in (label, predicted))
        assert (share, int(answers)) == (f"{shares[i, j]:.1f}", counts[i, j])


def test_mistakes_are_pictures_with_evidence(evaluated, mixed):
    _, page, _ = evaluated
    pictures = page.named("img")
    assert pictures
    assert len(pictures) % 3 == 0
    assert all(p["src"].startswith("data:image/jpeg;base64,") for p in pictures)
    assert all(p["alt"] for p in pictures)
    shown = re.findall(rf"({re.escape(str(mixed))}\S+); split [123]", page.text)
    assert len(shown) == len(set(shown)) == len(pictures) // 3
    classifier = ImageClassifier(LRREncoder(codebook_size=8))
    measured: list[Measured] = []
    evaluate_all(*find_images(mixed), [classifier], 4, 3, seed=5, measured=measured)
    mistakes = measured[0].mistakes
    assert shown == [m.path for m in mistakes]
    for m in mistakes:
        scores = [f"{score:+.2f}".replace("-", MINUS) for score in (m.score, m.true_score)]
        assert f"{m.label} taken for {m.predicted}" in page.text
        assert f"for {m.predicted} {scores[0]}" in page.text
        assert f"for {m.label} {scores[1]}" in page.text
    said = re.findall(rf"for \w+ ([+{MINUS}][\d.]+)", page.text)
    shown_scores = np.array([float(score.replace(MINUS, "-")) for score in said])
    leads = shown_scores[::2] - shown_scores[1::2]
    assert leads[0] > leads[-1] + 0.02
    assert leads.tolist() == pytest.approx(sorted(leads, reverse=True), abs=0.02)  # of rounding


def test_maps_are_those_of_the_predicted_and_the_true_class(mixed):
    classifier = ImageClassifier(LRREncoder(codebook_size=8))
    measured: list[Measured] = []
    evaluate_all(*find_images(mixed), [classifier], 4, 1, measured=measured)
    mistake = measured[0].mistakes[0]
    shown = Parsed(show_mistakes([mistake], False)).named("img")
    contents = [base64.b64decode(image["src"].split(",")[1]) for image in shown]
    plain, wrong, right = (np.asarray(Image.open(io.BytesIO(c)), float) for c in contents)
    assert np.abs(plain - np.asarray(colours(mistake.path, SIDE), float)).mean() < 8
    examined = mistake.model.examine(mistake.path)
    maps = [examined.explain(name).map for name in (mistake.predicted, mistake.label)]
    for picture, map, other in ((wrong, *maps), (right, *maps[::-1])):
        # Blue is what speaks for a class, orange what speaks against it.
        tint = (picture[..., 2] - picture[..., 0]).ravel()
        like = np.corrcoef(tint, map.ravel())[0, 1]
        assert like > 0.8
        assert like > np.corrcoef(tint, other.ravel())[0, 1] + 0.3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_two_classes_have_one_map_in_two_colours(mixed, tmp_path, n_classes):
    for kind in ("across", "along", "dots")[:n_classes]:
        shutil.copytree(mixed / kind, tmp_path / "set" / kind)
    arguments = ["evaluate", tmp_path / "set", "--train-per-class", 4, "--splits", 1, *FAST]
    run(*arguments, "--report", tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    assert page.named("img")
    said = "the second map is the first with its colours exchanged" in page.text
    assert said == (n_classes == 2)


def test_costs_and_how_to_repeat(evaluated, mixed):
    found, page, report = evaluated
    rows = page.table("stage", "what", "seconds")
    names = [row[0] for row in rows]
    assert names[-3:] == ["all", "audit", "explain"]
    assert sorted(names[:-3]) == sorted(found["seconds"])
    said = {**found["seconds"], "all": sum(found["seconds"].values())}
    for row in rows:
        assert row[2] == f"{said[row[0]]:.1f}" if row[0] in said else float(row[2]) >= 0
        assert row[5] == "not known" or float(row[5].replace(",", "")) > 1
    given = ["evaluate", mixed, "--train-per-class", 4, "--splits", 3, "--seed", 5, *FAST]
    assert typed(*given, "--report", report, "--json") in page.parts
    assert "(seed 5)" in page.text
    shown = {row[0]: row[1] for row in page.table("parameter", "LrrSPM")}
    assert shown.keys() == found["parameters"].keys() - {"method"}
    assert shown["levels"] == "1, 2, 4"
    assert shown["lambda"] == str(config.REGULARIZATION)
    machine = {row[0]: row[1] for row in page.table("what", "which")}
    assert machine["numpy"] == np.__version__
    assert {"commit", "Python", "processor", "cores"} <= machine.keys()


def test_skipped_pictures_and_findings_are_listed(mixed, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(mixed, root)
    (root / "dots" / "bad.png").write_bytes(b"no picture")
    shutil.copy(root / "dots" / "05.png", root / "dots" / "twin.png")
    arguments = ["evaluate", root, "--train-per-class", 4, "--splits", 1, *FAST]
    run(*arguments, "--report", tmp_path / "r.html", code=3)
    page = parse(tmp_path / "r.html")
    ((path, reason),) = page.table("picture", "why")
    assert path == str(root / "dots" / "bad.png")
    assert reason.startswith("not an image")
    shown = {row[0]: row[2] for row in page.table("what", "meaning")}
    assert shown["broken"] == shown["copy"] == "1"
    assert ["copy", "dots", f"{root / 'dots/05.png'}{root / 'dots/twin.png'}"] in page.table(
        "what", "in", "pictures"
    )
    assert "37 pictures in 3 classes of 12 to 13, median 12." in page.text
    assert "Left out, as if they were not there: 1" in page.text
    assert page.table("stage")[0][:2] == [
        "restart", "begun in vain, with pictures that cannot be read"
    ]  # fmt: skip
    # One split has no spread.
    assert "±" not in page.text
    assert "standard deviation" not in page.text
    assert "it rests on 25 test pictures, so few that it is a rough guess" in page.text


def test_train(mixed, tmp_path):
    arguments = ["train", mixed, "-o", tmp_path / "m", *FAST, "--seed", 1]
    done = run(*arguments, "--report", tmp_path / "r.html", "--json")
    found = json.loads(done.stdout)
    assert found["report"] == str(tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    assert "6 pictures altogether, was kept aside" in page.text
    assert f"{found['estimate']['accuracy']:.2f} %" in page.text
    assert len(page.named("img")) == 3 * (
        6 - sum(float(row[1]) / 100 * 2 for row in page.table("class", "accuracy %"))
    )
    done = run(*arguments, "--no-estimate", "--report", tmp_path / "r.html")
    assert f"wrote {tmp_path / 'r.html'}\n" in done.stdout
    page = parse(tmp_path / "r.html")
    assert typed(*arguments, "--no-estimate", "--report", tmp_path / "r.html") in page.parts
    assert "no estimate of how good it is: none was asked for" in page.text
    assert not page.named("img")
    assert "36 in 3 classes of 12 each" in page.text


def test_score_with_a_class_without_mistakes(model_path, pictures, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(pictures, root)
    (root / "dots" / "00.png").rename(root / "across" / "dotty.png")
    arguments = ["score", model_path, root, "--jobs", 1, "--report", tmp_path / "it's <b>.html"]
    run(*arguments)
    page = parse(arguments[-1])
    assert typed(*arguments) in page.parts
    rows = page.table("class", "accuracy %", "", "test pictures")
    assert [(row[0], row[1], row[3], row[4]) for row in rows] == [
        ("across", "92.3", "13", "dots (7.7 %)"),
        ("along", "100.0", "12", ""),
        ("dots", "100.0", "11", ""),
    ]
    assert page.table("class", "taken for") == [["across", "dots", "7.7", "1"]]
    assert len(page.named("img")) == 3
    assert str(root / "across" / "dotty.png") in page.text
    assert "; split" not in page.text
    assert "weakest class 92.3 % across" in page.text


def test_no_mistakes(model_path, pictures, tmp_path):
    run("score", model_path, pictures, "--jobs", 1, "--report", tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    assert "There are none: every test picture was recognised." in page.text
    assert "Most confused pairs" not in page.text
    assert "Nothing wrong was found" in page.text
    assert not page.named("img")
    # Of equals none is the weakest, and none has fewer pictures than another.
    assert "weakest class" not in page.text
    assert "36 pictures in 3 classes of 12 each." in page.text
    assert "Pictures that it was trained on flatter it" in page.text


def test_one_class(model_path, pictures, tmp_path):
    shutil.copytree(pictures / "dots", tmp_path / "set" / "dots")
    run("score", model_path, tmp_path / "set", "--jobs", 1, "--report", tmp_path / "r.html")
    page = parse(tmp_path / "r.html")
    assert "12 pictures in 1 class." in page.text
    assert "weakest class" not in page.text


def test_class_that_was_not_tested(model_path, pictures, tmp_path):
    shutil.copytree(pictures / "dots", tmp_path / "set" / "dots")
    shutil.copytree(pictures / "along", tmp_path / "set" / "along")
    run("score", model_path, tmp_path / "set", "--jobs", 1, "--report", tmp_path / "r.html")
    rows = parse(tmp_path / "r.html").table("class", "accuracy %")
    assert rows[-1][:4] == ["across", "not tested", "", "0"]


def test_all_methods(mixed, tmp_path):
    arguments = [
        "evaluate", mixed, "--method", "all", "--train-per-class", 4, "--splits", 2, *FAST,
        "--report", tmp_path / "r.html",
    ]  # fmt: skip
    run(*arguments)
    page = parse(tmp_path / "r.html")
    assert typed(*arguments) in page.parts
    rows = page.table("method", "accuracy %")
    assert {row[0] for row in rows} == set(METHODS)
    means = [float(row[1].split()[0]) for row in rows]
    assert means == sorted(means, reverse=True)
    assert f"{rows[0][0]}, the best of them" in page.text
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


def test_names_stay_names(tmp_path):
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
    assert not {"em", "strong", "script"} & {tag for tag, _ in page.tags}
    shown = {row[0] for row in page.table("class", "accuracy %")}
    assert shown == {NAMES[0], NAMES[1], NAMES[2], "no text \\udcff\\udc80 \\u202e"}
    assert "<img src=x>" in page.text
    assert all(image["src"].startswith("data:image/jpeg") for image in page.named("img"))
    assert page.named("img")


@pytest.mark.parametrize("n_classes", [2, ROOMY, ROOMY + 1, NUMBERED, NUMBERED + 1, 102])
def test_matrix_at_any_number_of_classes(n_classes):
    result = made_result(n_classes, 0.3)
    text = to_html(make_report(made_run(), {"LrrSPM": Measured(result, [])}))
    page = Parsed(text)
    check_alone(text, page)
    assert len(text) < 2e6
    names, counts = result["class_names"], np.array(result["confusion"])
    percent = 100 * counts / counts.sum(axis=1, keepdims=True)
    cells = matrix_cells(text)
    strength = []
    # From the smallest share to the largest, which has the strongest colour.
    for i, j in sorted(np.argwhere(counts).tolist(), key=lambda place: percent[tuple(place)]):
        colour, words = cells.pop((names[i], names[j]))
        what = "recognised" if i == j else f"taken for {names[j]}"
        assert words == f"{names[i]} {what}: {counts[i, j]} of {60 + 4 * i} ({percent[i, j]:.1f} %)"
        assert colour[:7] == (FOR if i == j else AGAINST)
        strength.append(int(colour[7:], 16))
    assert not cells
    assert strength == sorted(strength)
    assert strength[0] < strength[-1]
    if ROOMY < n_classes <= NUMBERED:
        for i, row in enumerate(page.table("", names[0])):
            shown = [f"{p:.0f}" if p >= 1 else "<1" if p else "" for p in percent[i]]
            assert row == [names[i], *shown]


@pytest.mark.parametrize("n_classes", [3, 102])
def test_numbers_stand_where_they_belong(n_classes):
    result = made_result(n_classes, 0.4)
    page = Parsed(to_html(make_report(made_run(), {"LrrSPM": Measured(result, [])})))
    names, counts = result["class_names"], np.array(result["confusion"])
    percent = 100 * counts / counts.sum(axis=1, keepdims=True)
    mean = result["accuracy"]["mean"]
    assert f"from split to split {mean - 2:.1f} to {mean + 3:.1f} %" in page.text
    order = sorted(range(n_classes), key=lambda i: percent[i, i])
    assert f"weakest class {percent[order[0], order[0]]:.1f} % {names[order[0]]}" in page.text
    rows = []
    for i in order:
        share, worst = max((percent[i, j], -j) for j in range(n_classes) if j != i)
        taken = f"{names[-worst]} ({share:.1f} %)"
        rows.append([names[i], f"{percent[i, i]:.1f}", "", str(15 + i), taken])
    assert page.table("class", "accuracy %", "", "test pictures a split") == rows
    bars = [bar["style"] for bar in page.named("i")][:n_classes]
    assert bars == [f"width:{row[1]}%" for row in rows]
    pairs = [(i, j) for i, j in np.argwhere(counts).tolist() if i != j]
    pairs.sort(key=lambda pair: (-percent[pair], -counts[pair]))
    assert page.table("class", "taken for", "% of the class", "answers") == [
        [names[i], names[j], f"{percent[i, j]:.1f}", str(counts[i, j])] for i, j in pairs[:15]
    ]


def test_methods_side_by_side():
    made = {name: made_result(4, wrong) for name, wrong in zip("abc", (0.5, 0.1, 0.3), strict=True)}
    measured = {name: Measured(result, []) for name, result in made.items()}
    page = Parsed(to_html(make_report(made_run(), measured)))
    header = ("method", "accuracy %", "", "each split", "coding s", "training s", "testing s")
    rows = page.table(*header)
    assert [(row[0], *row[4:]) for row in rows] == [
        ("b", "1.1", "2.1", "3.1"), ("c", "1.3", "2.3", "3.3"), ("a", "1.5", "2.5", "3.5")
    ]  # fmt: skip
    for name, shown, _, each, *_ in rows:
        accuracy = made[name]["accuracy"]
        assert shown == f"{accuracy['mean']:.2f} ± {accuracy['std']:.2f}"
        assert each == " ".join(f"{value:.1f}" for value in accuracy["splits"])


def test_picture_that_has_gone_is_told(mixed, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(mixed, root)
    paths, labels = find_images(root)
    classifier = ImageClassifier(LRREncoder(codebook_size=8), n_samples=500)
    measured: list[Measured] = []
    evaluate_all(paths, labels, [classifier], 4, 1, measured=measured)
    found = audit(root)
    os.unlink(measured[0].mistakes[0].path)
    write_report(tmp_path / "r.html", made_run(audit=found), {"LrrSPM": measured[0]})
    page = parse(tmp_path / "r.html")
    assert page.text.count("The picture can no longer be shown: no such file") == 1
    assert len(page.named("img")) == 3 * (len(measured[0].mistakes) - 1)


def test_seconds_and_memory(monkeypatch):
    monkeypatch.setattr("lrrspm._support.stages.held_memory", iter([900.4, 1234.4, 800.0]).__next__)
    monkeypatch.setattr(
        "lrrspm._support.stages.peak_memory", iter([1000.0, 5678.6, 9000.0]).__next__
    )
    given = made_run()
    given.stages.add("encode", 12.0)
    given.stages.add("audit", 1.5)
    page = Parsed(to_html(make_report(given, {})))
    assert page.table("stage", "what", "seconds", "", "memory MB", "peak MB") == [
        ["read", "reading and decoding pictures", "1.5", "", "900", "1,000"],
        ["encode", "coding and pooling", "12.0", "", "1,234", "5,679"],
        ["all", "", "13.5", "", "", "5,679"],
        ["audit", "looking at the pictures, for this report", "1.5", "", "800", "9,000"],
    ]
    bars = [bar["style"] for bar in page.named("i")]
    assert bars == ["width:10.0%", "width:80.0%", "width:10.0%"]


def test_memory_that_is_not_known(monkeypatch):
    monkeypatch.setattr("lrrspm._support.stages.held_memory", lambda: None)
    monkeypatch.setattr("lrrspm._support.stages.peak_memory", lambda: None)
    page = Parsed(to_html(make_report(made_run(), {})))
    assert page.table("stage")[0][4:] == ["not known", "not known"]


@pytest.mark.parametrize("command", ["evaluate", "train", "score"])
def test_a_target_that_cannot_be_written_fails_before_the_work(
    command, pictures, model_path, tmp_path, reads
):
    given = {
        "evaluate": [pictures],
        "train": [pictures, "-o", tmp_path / "m"],
        "score": [model_path, pictures],
    }[command]
    target = tmp_path / "none" / "r.html"
    done = run(command, *given, "--report", target, code=1)
    assert f"error: {target}: its folder does not exist" in done.stderr
    assert reads == []
    assert os.listdir(tmp_path) == []


def told(done):
    """A message without the frame around it."""
    return re.sub(r"[\s│]+", " ", done.stderr)


@pytest.mark.parametrize("command", ["evaluate", "train", "score"])
def test_a_report_replaces_no_other_kind_of_file(command, pictures, model_path, tmp_path, reads):
    other = tmp_path / "m2.lrrspm"
    other.write_bytes(b"kept")
    given = {
        "evaluate": [pictures],
        "train": [pictures, "-o", tmp_path / "m"],
        "score": [model_path, pictures],
    }[command]
    for name in ("m2.lrrspm", "html", "report.html.png"):
        done = run(command, *given, "--report", tmp_path / name, code=2)
        assert "end the name in .html or .htm, got" in told(done)
    assert reads == []
    assert os.listdir(tmp_path) == ["m2.lrrspm"]
    assert other.read_bytes() == b"kept"


def test_a_report_never_replaces_the_model(pictures, model_path, tmp_path):
    model = shutil.copy(model_path, tmp_path / "m.HTM")
    done = run("score", model, pictures, "--report", model, code=2)
    assert "would replace the model" in told(done)
    assert model.read_bytes() == model_path.read_bytes()
    named = tmp_path / "n.html"
    run("train", pictures, "-o", named, "--report", tmp_path / "." / "n.html", code=2)
    assert os.listdir(tmp_path) == ["m.HTM"]


def test_real_scenes(data_dir, tmp_path):
    """Under 5 MB, whatever the pictures."""
    arguments = ["evaluate", data_dir / "LS", "--codebook-size", 16, "--splits", 2]
    run(*arguments, "--report", tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 5e6
    page = parse(tmp_path / "r.html")
    assert len(page.named("img")) == 36
    shown = {row[0]: row[2] for row in page.table("what", "meaning")}
    assert shown["copy"] == "17"
