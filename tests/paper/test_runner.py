"""Computing settings: splits, codebooks, copies, errors."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from lrrspm import ImageClassifier, find_images
from lrrspm._support.stages import Stages
from lrrspm.evaluation.protocol import evaluate_all
from lrrspm.methods import METHODS
from lrrspm.paper import runner, tables
from lrrspm.paper.results import Results
from lrrspm.paper.settings import ALL_IMAGES, EVEN, TRAINING_IMAGES
from tests.paper.helpers import (
    VIEWS,
    row_of,
    small,
)

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


@pytest.mark.parametrize("shared", [True, False])
def test_rows_agree_with_evaluate(root, computed, shared):
    paths, labels = find_images(root / "COIL20")
    names = list(METHODS) if shared else ["LrrSPM"]
    way = ALL_IMAGES if shared else TRAINING_IMAGES
    classifiers = [
        ImageClassifier(method=name, n_samples=2000).set_params(
            channels__0__encoder__codebook_size=16
        )
        for name in names
    ]
    found = evaluate_all(paths, labels, classifiers, 5, 2, shared_codebook=shared, seed=0)
    for name, result in zip(names, found, strict=True):
        rows = computed.rows(small(split, method=name, codebook=way) for split in (0, 1))
        assert [row["accuracy"] for row in rows] == result.accuracies


def test_a_row_is_complete(computed):
    row = row_of(computed, small(method="ScSPM"))
    assert row["setting"]["dataset"] == "COIL20"
    assert set(row["seconds"]) == {"read", "sift", "codebook", "encode", "train", "test"}
    assert row["per_class"].keys() == {"obj1", "obj2", "obj3"}
    right, tested = np.array(list(row["per_class"].values())).T
    assert tested.tolist() == [VIEWS - 5] * 3
    assert row["accuracy"] == pytest.approx(np.mean(100 * right / tested))
    assert row["peak_mb"] > 50
    environment = computed.environments[row["environment"]]
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["commit"]
    assert environment["cores"]


def test_existing_rows_are_not_computed_again(root, computed, monkeypatch):
    lines = computed.path.read_bytes()
    monkeypatch.setattr(runner, "fit_features", None)
    again = Results(computed.folder)
    runner.run([small(), small(1, method="LLC")], again, root)
    assert computed.path.read_bytes() == lines
    assert again.records == computed.records


def test_a_class_that_is_too_small_is_a_row_with_the_error(root, tmp_path):
    results = Results(tmp_path)
    too_many = replace(small(), train_per_class=VIEWS)
    runner.run([too_many, small()], results, root)
    assert results.row(small()) is not None
    assert results.row(too_many) is None
    assert "class 'obj1' has 12 images" in results.records[too_many.key]["error"]
    cell = tables.accuracy_cell(results, [too_many])
    assert cell.lines() == ("failed",)


def test_an_unreadable_image_fails_its_data_set_alone(root, tmp_path):
    broken = tmp_path / "COIL20"
    for path in sorted((root / "COIL20").rglob("*.png")):
        target = broken / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (broken / "obj1" / "obj1__3.png").write_text("no image")
    results = Results(tmp_path / "results")
    runner.run([small(), replace(small(), dataset="YaleB")], results, tmp_path)
    assert "obj1__3.png: " in results.records[small().key]["error"]
    assert len(results.records) == 1  # Yale B is missing, which is no error


def test_copies_of_training_images_are_not_tested(root, tmp_path):
    results = Results(tmp_path)
    left_out = small(leave_out_copies=True)
    runner.run([small(), left_out], results, root)
    paths = np.array(find_images(root / "COIL20")[0])
    training = set(paths[runner.Images(small(), root).training(small())])
    expected = []
    for number in (1, 2, 3):
        folder = root / "COIL20" / f"obj{number}"
        pair = [str(folder / f"obj{number}__{view}.png") in training for view in (0, 1)]
        expected.append(VIEWS - 5 - (sum(pair) == 1))
    tested = [count for _, count in row_of(results, left_out)["per_class"].values()]
    assert tested == expected
    assert sum(expected) < sum(n for _, n in row_of(results, small())["per_class"].values())


def test_evenly_spaced_training_images(root):
    images = runner.Images(small(), root)
    for split in (0, 1):
        chosen = images.training(replace(small(split, choice=EVEN), train_per_class=4))
        views = sorted(int(re.findall(r"__(\d+)", images.paths[i])[0]) for i in chosen)
        assert views == sorted([(split + step) % VIEWS for step in (0, 3, 6, 9)] * 3)


def test_few_images_of_few_classes(root):
    images = runner.Images(small(images_per_class=3, max_classes=2), root)
    assert images.labels.tolist() == ["obj1"] * 3 + ["obj2"] * 3


def test_codebooks_do_not_depend_on_the_methods(root, tmp_path):
    images = runner.Images(small(), root)

    def learn(*methods):
        work = runner._Work(images, Results(tmp_path), None, Stages())
        ((codebook, _),) = work.learn_codebooks([small(method=m) for m in methods]).values()
        return codebook

    expected = learn(*METHODS)
    for method in METHODS:
        assert np.array_equal(learn(method), expected)


def test_rows_of_other_images_are_computed_again(root, computed, tmp_path):
    shutil.copytree(computed.folder, tmp_path / "results")
    shutil.copytree(root, tmp_path / "data")
    (tmp_path / "data" / "COIL20" / "obj1" / "obj1__2.png").unlink()
    results = Results(tmp_path / "results")
    runner.run([small()], results, tmp_path / "data")
    assert row_of(results, small())["images"] == 3 * VIEWS - 1
    assert row_of(computed, small())["images"] == 3 * VIEWS


def test_a_set_other_than_the_published_one_is_a_warning(root, tmp_path):
    results = Results(tmp_path)
    with pytest.warns(UserWarning, match="COIL20 is not the published set"):
        runner.run([small()], results, root)
    assert row_of(results, small())["other_data"] is True
