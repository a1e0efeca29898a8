"""Reports of made evaluations: every number and name is in its place."""

import re

import numpy as np
import pytest

from lrrspm._support.stages import Stages
from lrrspm.evaluation.results import Evaluation, Skipped
from lrrspm.images import Finding
from lrrspm.report.draw import AGAINST, FOR
from lrrspm.report.matrix import NUMBERED, ROOMY
from tests.report.reports import made_evaluation, matrix_cells, report


@pytest.mark.parametrize("n_classes", [2, ROOMY, ROOMY + 1, NUMBERED, NUMBERED + 1, 102])
def test_matrix_of_any_number_of_classes(n_classes):
    evaluation = made_evaluation(n_classes, 0.3)
    page = report(evaluation)
    assert len(page.source) < 2e6
    names, counts = evaluation.class_names, sum(evaluation.confusions)
    percent = 100 * counts / counts.sum(axis=1, keepdims=True)
    cells = matrix_cells(page.source)
    strength = []
    # From the smallest share to the largest, which has the strongest color.
    for i, j in sorted(np.argwhere(counts).tolist(), key=lambda place: percent[tuple(place)]):
        color, words = cells.pop((names[i], names[j]))
        what = "recognized" if i == j else f"confused with {names[j]}"
        assert words == f"{names[i]} {what}: {counts[i, j]} of {60 + 4 * i} ({percent[i, j]:.1f} %)"
        assert color[:7] == (FOR if i == j else AGAINST)
        strength.append(int(color[7:], 16))
    assert not cells
    assert strength == sorted(strength)
    assert strength[0] < strength[-1]
    if ROOMY < n_classes <= NUMBERED:
        for i, row in enumerate(page.table("", names[0])):
            shown = [f"{p:.0f}" if p >= 1 else "<1" if p else "" for p in percent[i]]
            assert row == [names[i], *shown]


def test_matrix_of_few_classes_has_percent_and_counts():
    evaluation = made_evaluation(3, 0.3)
    counts = sum(evaluation.confusions)
    percent = 100 * counts / counts.sum(axis=1, keepdims=True)
    for i, row in enumerate(report(evaluation).table("", *evaluation.class_names)):
        cells = zip(percent[i], counts[i], strict=True)
        assert row[1:] == [f"{share:.1f}{count}" if count else "" for share, count in cells]


@pytest.mark.parametrize("n_classes", [3, 102])
def test_numbers_are_in_their_places(n_classes):
    evaluation = made_evaluation(n_classes, 0.4)
    page = report(evaluation)
    names, counts = evaluation.class_names, sum(evaluation.confusions)
    percent = 100 * counts / counts.sum(axis=1, keepdims=True)
    hits = np.array([100 * np.diag(c) / c.sum(axis=1) for c in evaluation.confusions])
    splits = hits.mean(axis=1)
    assert f"accuracy {np.mean(splits):.2f} ± {np.std(splits, ddof=1):.2f} %" in page.text
    assert "mean and standard deviation over 4 splits" in page.text
    assert f"highest split {min(splits):.1f} to {max(splits):.1f} %" in page.text
    assert ", ".join(f"{value:.2f}" for value in splits) in page.text
    assert f"correct predictions {np.trace(counts):,} of {counts.sum():,}" in page.text
    assert f"{100 * np.trace(counts) / counts.sum():.2f} % of the test images, all" in page.text
    order = np.argsort(np.diag(percent), kind="stable").tolist()
    assert f"weakest class {percent[order[0], order[0]]:.1f} % {names[order[0]]}" in page.text
    rows = []
    for i in order:
        share, worst = max((percent[i, j], -j) for j in range(n_classes) if j != i)
        confused = f"{names[-worst]} ({share:.1f} %)"
        precision, f1 = 100 * counts[i, i] / counts[:, i].sum(), 2 * percent[i, i]
        f1 *= precision / (precision + percent[i, i])
        numbers = [f"{percent[i, i]:.1f}", "", f"{precision:.1f}", f"{f1:.1f}"]
        rows.append([names[i], *numbers, str(15 + i), confused])
    header = ("class", "recall %", "", "precision %", "F1 %", "test images per split")
    assert page.table(*header) == rows
    means = [np.mean([float(row[place]) for row in rows]) for place in (3, 4)]
    shown = re.search(r"precision and F1 ([\d.]+) / ([\d.]+) % means", page.text)
    assert shown
    assert [float(value) for value in shown.groups()] == pytest.approx(means, abs=0.1)
    bars = [bar["style"] for bar in page.named("i")][:n_classes]
    assert bars == [f"width:{row[1]}%" for row in rows]
    pairs = [(i, j) for i, j in np.argwhere(counts).tolist() if i != j]
    pairs.sort(key=lambda pair: (-percent[pair], -counts[pair]))
    assert page.table("class", "confused with", "% of the class", "predictions") == [
        [names[i], names[j], f"{percent[i, j]:.1f}", str(counts[i, j])] for i, j in pairs[:15]
    ]


def test_one_split_has_no_spread():
    page = report(Evaluation(["x", "y"], [np.array([[9, 1], [0, 2]])], 20))
    evaluation = Evaluation(["x", "y"], [np.array([[9, 1], [0, 2]])], 20)
    low, high = evaluation.interval
    between = f"95 % interval {low:.1f} to {high:.1f}, from 12 test images"
    assert f"accuracy 95.00 % mean of the per-class accuracies; {between}" in page.text
    assert "so a rough estimate" in page.text
    assert "±" not in page.text
    assert "split" not in page.text
    assert "91.67 % of the test images" in page.text
    assert page.table("class", "recall %", "", "precision %", "F1 %", "test images") == [
        ["x", "90.0", "", "100.0", "94.7", "10", "y (10.0 %)"],
        ["y", "100.0", "", "66.7", "80.0", "2", ""],
    ]


def test_many_test_images_are_no_rough_estimate():
    page = report(Evaluation(["x", "y"], [np.array([[900, 100], [0, 200]])], 1200))
    assert "from 1,200 test images" in page.text
    assert "rough" not in page.text


def test_evaluation_without_mistakes():
    page = report(Evaluation(["x", "y"], [np.diag([3, 4])], 7))
    assert "None: every test image was classified correctly." in page.text
    assert "Most confused pairs" not in page.text
    assert "explain" not in [row[0] for row in page.table("stage")]
    assert "weakest class" not in page.text
    assert not page.named("img")


def test_class_that_was_not_tested_comes_last():
    page = report(Evaluation(["x", "y"], [np.array([[0, 0], [1, 3]])], 4))
    assert page.table("class", "recall %") == [
        ["y", "75.0", "", "100.0", "85.7", "4", "x (25.0 %)"],
        ["x", "not tested", "", "", "", "0", ""],
    ]


def test_long_tables_of_classes_scroll():
    for n_classes, tall in ((30, False), (31, True)):
        found = report(made_evaluation(n_classes, 0.1)).named("div")
        assert any(each.get("class") == "scroll" for each in found) == tall


def test_methods_side_by_side():
    made = {
        name: made_evaluation(4, wrong) for name, wrong in zip("abc", (0.5, 0.1, 0.3), strict=True)
    }
    page = report(made)
    header = ("method", "accuracy %", "", "each split", "coding s", "training s", "testing s")
    rows = page.table(*header)
    assert [(row[0], *row[4:]) for row in rows] == [
        ("b", "1.1", "2.1", "3.1"), ("c", "1.3", "2.3", "3.3"), ("a", "1.5", "2.5", "3.5")
    ]  # fmt: skip
    for name, shown, _, each, *_ in rows:
        assert shown == f"{made[name].mean:.2f} ± {made[name].std:.2f}"
        assert each == " ".join(f"{value:.1f}" for value in made[name].accuracies)
    assert "Best method: b" in page.text
    assert [link["href"] for link in page.named("a")] == [
        "#methods", "#best", "#others", "#costs", "#images", "#reproduce"
    ]  # fmt: skip
    for row in rows[1:]:
        assert f"{row[0]}: {row[1]} %" in page.text


def test_methods_that_are_equally_good_are_all_named():
    made = {name: made_evaluation(4, wrong) for name, wrong in (("a", 0.3), ("b", 0.1), ("c", 0.1))}
    assert "Best methods: b, c are equal; this is b" in report(made).text


def test_report_without_an_evaluation():
    page = report()
    assert "images 3 in 2 classes, 1 to 2 each" in page.text
    assert "accuracy" not in page.text.split("Time and memory")[1]
    assert [link["href"] for link in page.named("a")] == ["#costs", "#images", "#reproduce"]


def test_seconds_and_memory(monkeypatch):
    monkeypatch.setattr("lrrspm._support.stages.held_memory", iter([900.4, 1234.4, 800.0]).__next__)
    monkeypatch.setattr(
        "lrrspm._support.stages.peak_memory", iter([1000.0, 5678.6, 9000.0]).__next__
    )
    stages = Stages()
    stages.add("read", 1.5)
    stages.add("encode", 12.0)
    stages.add("audit", 1.5)
    monkeypatch.undo()
    page = report(stages=stages)
    assert page.table("stage", "what", "seconds", "", "memory MB", "peak MB") == [
        ["read", "reading and decoding images", "1.5", "", "900", "1,000"],
        ["encode", "coding and pooling", "12.0", "", "1,234", "5,679"],
        ["all", "", "13.5", "", "", "5,679"],
        ["audit", "auditing the images, for this report", "1.5", "", "800", "9,000"],
    ]
    bars = [bar["style"] for bar in page.named("i")]
    assert bars == ["width:10.0%", "width:80.0%", "width:10.0%"]


def test_unknown_memory(monkeypatch):
    monkeypatch.setattr("lrrspm._support.stages.held_memory", lambda: None)
    monkeypatch.setattr("lrrspm._support.stages.peak_memory", lambda: None)
    assert report().table("stage")[0][4:] == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ({"a": 1}, "1 image in 1 class."),
        ({"a": 3, "b": 3}, "6 images in 2 classes, 3 each."),
        ({"a": 3, "b": 4}, "7 images in 2 classes, 3 to 4 each."),
        ({"a": 3, "b": 900, "c": 1200}, "2,103 images in 3 classes, 3 to 1,200 each, median 900."),
    ],
)
def test_class_sizes_in_words(classes, words):
    assert words in report(classes=classes).text


def test_skipped_images_and_findings_are_listed():
    skipped = [Skipped(f"dots/{i}.png", "not an image") for i in range(53)]
    findings = [Finding("copy", [f"{i}/{j}" for j in range(6)], "dots") for i in range(12)]
    findings.append(Finding("empty class", [], "along"))
    audit = {"findings": findings, "counts": {"broken": 0, "copy": 12, "empty class": 1}}
    page = report(skipped=skipped, audit=audit)
    assert page.table("image", "reason") == [[f"dots/{i}.png", "not an image"] for i in range(50)]
    assert "Skipped: 53 images" in page.text
    assert "And 3 more." in page.text
    assert [(row[0], row[2]) for row in page.table("what", "meaning", "findings")] == [
        ("copy", "12"), ("empty class", "1")
    ]  # fmt: skip
    listed = [["copy", "dots", f"{i}/0{i}/1{i}/2{i}/3and 2 more"] for i in range(10)]
    assert page.table("what", "where", "images") == [*listed, ["empty class", "along", ""]]
    assert "Some of the findings" in page.text
    assert "The audit found nothing" not in page.text


def test_clean_data():
    page = report()
    assert "The audit found nothing" in page.text
    assert "Skipped" not in page.text


def test_parameters_are_flattened():
    given = {
        "method": "one",
        "C": 10.0,
        "seed": 7,
        "channels": [
            {"descriptor": {"name": "SIFT", "step": 6}, "levels": [1, 2, 4]},
            {"descriptor": {"name": "LBP"}, "levels": (1,)},
        ],
    }
    page = report(parameters={"one": given, "two": {"C": 1.0, "seed": 8}})
    assert page.table("parameter", "one", "two") == [
        ["C", "10.0", "1.0"],
        ["seed", "7", "8"],
        ["channels.0.descriptor.name", "SIFT", ""],
        ["channels.0.descriptor.step", "6", ""],
        ["channels.0.levels", "1, 2, 4", ""],
        ["channels.1.descriptor.name", "LBP", ""],
        ["channels.1.levels", "1", ""],
    ]
    assert "(seed 7, 8)" in page.text
    assert "(seed" not in report(parameters={"one": {"C": 1.0}}).text


def test_versions_and_machine():
    rows = dict(report().table("what", "value"))
    assert rows["numpy"] == np.__version__
    assert {"made", "commit", "Python", "BLAS", "system", "processor", "cores"} <= rows.keys()


HOSTILE = "</title></style><script>alert(1)</script> `a` **b** *c* [d](e) | \" ' & \udcff \u202e \n"
SAFE = HOSTILE.replace("\udcff \u202e \n", "\\udcff \\u202e \\n")


@pytest.mark.parametrize("n_classes", [2, NUMBERED + 1])
def test_hostile_names_never_become_markup(n_classes):
    names = [f"{HOSTILE}{i}" for i in range(n_classes)]
    evaluation = made_evaluation(n_classes, 0.3, names)
    page = report(
        {HOSTILE: evaluation, "other": evaluation},
        title=HOSTILE,
        about=HOSTILE,
        command=HOSTILE,
        parameters={HOSTILE: {HOSTILE: HOSTILE}},
        skipped=[Skipped(HOSTILE, HOSTILE)],
        audit={"findings": [Finding("copy", [HOSTILE], HOSTILE)], "counts": {"copy": 1}},
    )
    used = {tag for tag, _ in page.tags}
    assert not {"em", "strong", "img"} & used  # report() knows the one script
    assert len(page.named("title")) == 1 + (len(page.named("rect")) if n_classes > 2 else 0)
    assert {row[0] for row in page.tables[1]} == {
        "class",
        *(f"{SAFE}{i}" for i in range(n_classes)),
    }
    assert page.table("image", "reason") == [[SAFE, SAFE]]
    assert page.table("what", "where", "images") == [["copy", SAFE, SAFE]]
    assert page.table("parameter") == [[SAFE, SAFE]]
    assert page.parts.count(SAFE) >= 5  # title, heading, about, command, best method
    assert "\u202e" not in page.source
    page.source.encode()
