"""The record in ``evaluate --json``: enough to repeat an evaluation, and to check its numbers."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from lrrspm import ImageClassifier, evaluate, find_images
from lrrspm._support.environment import PACKAGES
from lrrspm.cli import app
from lrrspm.cli.terminal import print_json
from lrrspm.evaluation import class_accuracies, count_confusions
from lrrspm.evaluation.record import describe_data, describe_predictions, describe_splits

FAST = ["--codebook-size", "8", "--jobs", "1", "--method", "fast"]


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def recomputed(found, predictions):
    """Return the accuracy of each split from the record alone."""
    names = np.array(found["class_names"])
    labels = names[found["data"]["labels"]]
    accuracies = []
    for split, predicted in zip(found["splits"], predictions, strict=True):
        assert not set(split["train"]) & set(split["test"])
        confusion = count_confusions(names, labels[split["test"]], names[predicted])
        accuracies.append(float(np.nanmean(class_accuracies(confusion))))
    return accuracies


def test_accuracies_follow_from_the_record(image_folder):
    found = run(image_folder, "--train-per-class", 3, "--splits", 2, *FAST)
    assert recomputed(found, found["predictions"]) == pytest.approx(found["accuracy"]["splits"])
    data = found["data"]
    assert data["paths"][0] == "across/00.png"
    assert [found["class_names"][place] for place in data["labels"]] == [
        path.partition("/")[0] for path in data["paths"]
    ]
    assert [len(split["train"]) for split in found["splits"]] == [9, 9]
    environment = found["environment"]
    assert set(environment) >= {"commit", "python", "packages", "blas", "system", "cpu", "cores"}
    assert set(environment["packages"]) == set(PACKAGES)


def test_lists_of_places_are_one_line_each(capsys):
    content = {"a": [1, -2, 3], "b": [[4], []], "c": ["[\n 1,\n 2\n]", 1.5], "d": [1.5, 2]}
    print_json(**content)
    printed = capsys.readouterr().out
    assert json.loads(printed) == content
    assert '"a": [1,-2,3]' in printed
    assert "    [4]" in printed


def test_methods_share_data_and_splits(image_folder):
    found = run(
        image_folder, "--train-per-class", 3, "--splits", 1, *FAST[:-1], "all", "--no-near-copies"
    )
    assert len(found["methods"]) == 7
    for method in found["methods"].values():
        shown = {**found, "class_names": method["class_names"]}
        accuracies = recomputed(shown, method["predictions"])
        assert accuracies == pytest.approx(method["accuracy"]["splits"])


def test_skipped_images_are_not_in_the_record(image_folder, tmp_path):
    folder = shutil.copytree(image_folder, tmp_path / "images")
    (folder / "across" / "00.png").write_bytes(b"no image")
    found = run(folder, "--train-per-class", 3, "--splits", 1, *FAST, code=3)
    assert len(found["skipped"]) == 1
    assert found["data"]["paths"][0] == "across/01.png"
    assert recomputed(found, found["predictions"]) == pytest.approx(found["accuracy"]["splits"])


def test_fingerprint_by_hand(tmp_path):
    folder = tmp_path / "images"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.png").write_bytes(b"one")
    (folder / "a" / "2.png").write_bytes(b"two")
    paths = [str(folder / "a" / name) for name in ("2.png", "1.png")]
    found = describe_data(paths, ["a", "b"], folder, ["a"])
    lines = [
        f"a/{name}\t{label}\t{hashlib.sha256(content).hexdigest()}\n"
        for name, label, content in (("1.png", "b", b"one"), ("2.png", "a", b"two"))
    ]
    wanted = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert found == {
        "fingerprint": f"sha256:{wanted}",
        "paths": ["a/2.png", "a/1.png"],
        "labels": [0, None],
    }
    # Neither the order of the images nor the place of the folder matters, but content does.
    moved = folder.rename(tmp_path / "moved")
    paths = [str(moved / "a" / name) for name in ("1.png", "2.png")]
    again = describe_data(paths, ["b", "a"], moved, ["a"], n_jobs=2)
    assert again["fingerprint"] == found["fingerprint"]
    (moved / "a" / "1.png").write_bytes(b"other")
    assert describe_data(paths, ["b", "a"], moved, ["a"])["fingerprint"] != found["fingerprint"]


def test_paths_elsewhere_stay_whole(tmp_path):
    (tmp_path / "sub").mkdir()
    table = tmp_path / "sub" / "list.csv"
    table.write_text("")
    inside, outside = tmp_path / "sub" / "1.png", tmp_path / "2.png"
    found = describe_data([str(inside), str(outside)], ["a", "a"], table, ["a"])
    assert found["paths"] == ["1.png", str(outside)]


def test_in_python(image_folder):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(method="fast", n_samples=20_000)
    found = evaluate(paths, labels, model, 3, splits=2)
    (first, second) = describe_splits(found)
    assert first["train"] != second["train"]
    assert [len(one) for one in describe_predictions(found)] == [27, 27]
    assert [one.path for one in found.predictions[:27]] == [paths[i] for i in first["test"]]
