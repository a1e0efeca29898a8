"""A review finds labels that were changed, near copies in two classes, and what fits no class."""

import csv
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from lrrspm import ImageClassifier, LRREncoder, config, find_images
from lrrspm.evaluation import Groups, review
from lrrspm.evaluation.review import COLUMNS, COPY, OUTLIER, WRONG, judge_images
from tests.conftest import draw
from tests.report.reports import Parsed, run


def small(**parameters):
    return ImageClassifier(LRREncoder(codebook_size=16), random_state=0, **parameters)


@pytest.fixture(scope="module")
def mixed(image_folder, tmp_path_factory):
    """Made images, one of them in the folder of another class, and one in two classes."""
    folder = tmp_path_factory.mktemp("mixed") / "set"
    shutil.copytree(image_folder, folder)
    (folder / "across" / "00.png").rename(folder / "dots" / "moved.png")
    shutil.copy(folder / "dots" / "05.png", folder / "along" / "twice.png")
    return folder


def test_changed_labels_come_first(image_folder):
    paths, labels = find_images(image_folder)
    changed = {0: "dots", 13: "across", 30: "along"}
    given = [changed.get(i, label) for i, label in enumerate(labels)]
    found = review(paths, given, small())
    assert {one.path for one in found.wrong} == {paths[i] for i in changed}
    assert {one.path: one.suggested for one in found.wrong} == {
        paths[i]: labels[i] for i in changed
    }
    chances = [one.to_json()["probability_of_label"] for one in found.wrong]
    assert chances == sorted(chances)
    assert max(chances) < config.DOUBTED
    assert (found.images, found.tested, found.copies) == (36, 36, [])
    assert review(paths, labels, small()).wrong == []


def test_workers_and_store_change_nothing(mixed, tmp_path):
    paths, labels = find_images(mixed)
    first = review(paths, labels, small()).to_json()
    for _ in ("cold", "warm"):
        again = review(paths, labels, small(n_jobs=2, cache=tmp_path / "store"))
        assert again.to_json()["suspects"] == first["suspects"]


def test_near_copies_judge_each_other_in_no_fold(mixed):
    paths, labels = find_images(mixed)
    pair = [i for i, path in enumerate(paths) if path.endswith(("dots/05.png", "twice.png"))]
    numbers = np.arange(len(paths))
    numbers[pair[1]] = numbers[pair[0]]
    found = review(paths, labels, small(), Groups(numbers, "near copy"))
    ((one, other),) = found.copies
    assert (one.label, other.label) == ("along", "dots")
    # Neither was learned from, so both look like what they are.
    assert one.suggested == other.suggested == "dots"
    assert one.why == other.why == (COPY,)
    (row,) = [one for one in found.suspects if one.path.endswith("twice.png")]
    assert row.why == (WRONG, COPY)


def test_a_class_of_one_image_is_not_judged(image_folder, tmp_path):
    folder = tmp_path / "set"
    shutil.copytree(image_folder, folder)
    (folder / "slant").mkdir()
    Image.fromarray(draw("slant", np.random.default_rng(1))).save(folder / "slant" / "a.png")
    found = review(*find_images(folder), small())
    assert (found.images, found.tested) == (37, 36)
    assert not any("slant" in one.path for one in found.suspects)


def test_labels_that_cannot_be_judged(image_folder):
    paths, labels = find_images(image_folder)
    with pytest.raises(ValueError, match="learns its codebook from the labels"):
        review(paths, labels, ImageClassifier(method="SupervisedLrrSPM"))
    with pytest.raises(ValueError, match="two classes with two or more images"):
        review([paths[0], paths[-1]], [labels[0], labels[-1]], small())


def naive_judge(labels, chances, known, least, groups):
    """Indices of wrong labels, groups of copies and outliers, one image at a time."""
    wrong, outliers = [], []
    copies: dict[int, list[int]] = {}
    for i, (label, row) in enumerate(zip(labels, chances, strict=True)):
        copies.setdefault(groups[i], []).append(i)
        if np.isnan(row[0]):
            continue
        if row[label] < config.DOUBTED and row[label] < max(row):
            wrong.append((row[label], i))
        if known[i] < least:
            outliers.append((known[i], i))
    disputed = [rows for _, rows in sorted(copies.items()) if len({labels[i] for i in rows}) > 1]
    return [i for _, i in sorted(wrong)], disputed, [i for _, i in sorted(outliers)]


@settings(deadline=None)
@given(st.data())
def test_judging_is_that_of_the_naive_twin(data):
    n, k = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 6))
    labels = data.draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    chances = data.draw(arrays(np.float64, (n, k), elements=st.floats(0.01, 1)))
    chances /= chances.sum(axis=1, keepdims=True)
    known = data.draw(arrays(np.float64, n, elements=st.floats(0, 5)))
    untested = data.draw(arrays(np.bool_, n))
    chances[untested] = known[untested] = np.nan
    groups = data.draw(arrays(np.int64, n, elements=st.integers(0, 4)))
    paths = [f"{i}" for i in range(n)]
    found = judge_images(paths, labels, np.arange(k), chances, known, 1.0, groups)
    wrong, copies, outliers = naive_judge(labels.tolist(), chances, known, 1.0, groups.tolist())
    assert [int(one.path) for one in found.wrong] == wrong
    assert [[int(one.path) for one in group] for group in found.copies] == copies
    assert [int(one.path) for one in found.outliers] == outliers
    assert found.tested == n - np.isnan(chances[:, 0]).sum()
    assert all(one.why == (OUTLIER,) for one in found.outliers)
    assert len({one.path for one in found.suspects}) == len(found.suspects)


@pytest.fixture(scope="module")
def reviewed(mixed, tmp_path_factory):
    """Run the command; return its JSON, its parsed page and the rows of its CSV file."""
    place = tmp_path_factory.mktemp("review")
    before = sorted(mixed.rglob("*"))
    arguments = ["review", mixed, "--method", "LrrSPM", "-o", place / "r.html"]
    done = run(*arguments, "--csv", place / "r.csv", "--json")
    assert sorted(mixed.rglob("*")) == before
    with (place / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    page = Parsed((place / "r.html").read_text())
    return json.loads(done.stdout), page, rows


def test_command_finds_what_was_moved(reviewed):
    found, _, _ = reviewed
    why = {one["path"].rsplit("/", 1)[1]: one["why"] for one in found["suspects"]}
    assert why["moved.png"] == [WRONG]
    assert why["twice.png"] == [WRONG, COPY]
    assert len(found["copies"]) == 1
    assert found["counts"][COPY] == 2


def test_page_fetches_and_runs_nothing(reviewed):
    _, page, _ = reviewed
    assert page.named("meta")[1]["content"].startswith("default-src 'none'; img-src data:; style")
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    images = page.named("img")
    assert images
    assert all(image["src"].startswith("data:image/jpeg;") for image in images)
    anchors = [link["href"] for link in page.named("a")]
    assert anchors == [f"#{one['id']}" for one in page.named("h2")]


def test_csv_and_page_are_those_of_the_json(reviewed):
    found, page, rows = reviewed
    assert tuple(rows[0]) == COLUMNS
    for row, one in zip(rows, found["suspects"], strict=True):
        assert [row[name] for name in ("path", "label", "suggested")] == [
            one[name] for name in ("path", "label", "suggested")
        ]
        assert row["why"].split("; ") == one["why"]
        assert float(row["probability_of_label"]) == pytest.approx(
            one["probability_of_label"], abs=1e-6
        )
        assert one["path"] in page.text


def test_command_prints_and_refuses(mixed, tmp_path):
    text = run("review", mixed, "--method", "LrrSPM").stdout
    assert "twice.png" in text
    for option in ("-o", "--csv"):
        run("review", mixed, option, tmp_path / "photo.jpg", code=2)
    run("review", mixed, "--method", "all", code=2)
