"""Images that belong on one side of every split."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lrrspm import ImageClassifier, LRREncoder, evaluate, find_images
from lrrspm._support.stages import Stages
from lrrspm.cache import FeatureStore
from lrrspm.evaluation import (
    Groups,
    count_leaks,
    find_groups,
    name_groups,
    score_model,
    split_by_class,
    train_with_estimate,
)
from lrrspm.evaluation.splits import left_to_test
from lrrspm.images import find_labeled
from lrrspm.training import fit_together
from tests.images.test_auditing import blobs


def small(**parameters):
    return ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, **parameters)


grouped = st.integers(2, 4).flatmap(
    lambda classes: st.lists(
        st.tuples(st.integers(0, classes - 1), st.integers(0, 5)), min_size=12, max_size=40
    )
)


@given(grouped, st.integers(1, 5), st.integers(0, 99))
def test_no_group_is_on_both_sides(images, per_class, seed):
    """Groups within classes: each class trains, and is tested if it has several groups."""
    y = np.array([f"c{label}" for label, _ in images])
    groups = np.array([10 * label + group for label, group in images])
    several = {name for name in y if len(set(groups[y == name])) > 1}
    if not several:
        return
    train = split_by_class(y, per_class, seed, groups)
    test = left_to_test(train, len(y), groups)
    assert not set(groups[train]) & set(groups[test])
    assert set(y[train]) == set(y)
    assert set(y[test]) == several
    assert max(np.unique(y[train], return_counts=True)[1]) <= per_class


def test_a_class_has_its_number_of_training_images():
    y = np.repeat(["a", "b"], 60)
    groups = np.arange(120) // 7
    for seed in range(5):
        train = split_by_class(y, 20, seed, groups)
        assert np.unique(y[train], return_counts=True)[1].tolist() == [20, 20]
        assert set(y[left_to_test(train, 120, groups)]) == {"a", "b"}


def test_groups_across_classes():
    """Each person shows each expression: whoever trains is not tested."""
    y = np.tile(["glad", "sad"], 30)
    person = np.arange(60) // 6
    train = split_by_class(y, 9, 0, person)
    test = left_to_test(train, 60, person)
    assert len(set(person[train])) == 3
    assert set(person[test]) == set(range(10)) - set(person[train])


def test_splits_without_groups_are_what_they_were():
    """The numbers of published splits."""
    y = np.repeat(["a", "b", "c"], [7, 9, 8])
    assert split_by_class(y, 3, 5).tolist() == [0, 3, 4, 9, 10, 12, 17, 18, 20]
    rng = np.random.default_rng(5)
    chosen = [rng.choice(np.flatnonzero(y == name), 3, replace=False) for name in "abc"]
    np.testing.assert_array_equal(split_by_class(y, 3, 5), np.sort(np.concatenate(chosen)))


def test_a_class_of_one_image_trains_and_is_not_tested(image_folder):
    """It was an error."""
    y = np.array(["a"] * 5 + ["b"] + ["c"] * 6)
    train = split_by_class(y, 2, 0)
    assert np.unique(y[train], return_counts=True)[1].tolist() == [2, 1, 2]
    with pytest.raises(ValueError, match="every class has 1 image"):
        split_by_class(np.array(["a", "b"]), 1, 0)
    paths, labels = find_images(image_folder)
    found = evaluate(paths[:13], labels[:13], small(), 3, 2)
    assert list(found.per_class) == ["across"]
    assert found.class_names == ["across", "along"]


def test_classes_of_one_group_cannot_be_tested(image_folder):
    paths, labels = find_images(image_folder)
    groups = Groups(np.unique(labels, return_inverse=True)[1], "group")
    with pytest.raises(ValueError, match="leave nothing to test"):
        evaluate(paths, labels, small(), 3, 2, groups=groups)


def test_evaluation_keeps_groups_together(image_folder):
    paths, labels = find_images(image_folder)
    groups = Groups(np.arange(36) // 4, "group")
    found = evaluate(paths, labels, small(), 4, 2, groups=groups)
    # Two of three groups of each class are left to test.
    assert [matrix.sum() for matrix in found.confusions] == [24, 24]
    assert found.to_json()["kept_together"] == {"by": "group", "images": 36, "groups": 9}
    assert "kept_together" not in evaluate(paths, labels, small(), 4, 1).to_json()
    estimate, _ = train_with_estimate(paths, labels, small(random_state=0), groups=groups)
    assert estimate is not None
    assert estimate.kept_together is groups
    # All of a class in one group: it cannot be tested.
    groups = Groups(np.r_[np.zeros(12, int), np.arange(1, 25)], "group")
    estimate, _ = train_with_estimate(paths, labels, small(random_state=0), groups=groups)
    assert estimate is not None
    assert list(estimate.per_class) == ["along", "dots"]


def test_calibration_in_an_evaluation_knows_the_groups(image_folder, monkeypatch):
    """A near copy of an image that is left out would judge it."""
    seen = []

    def spy(*given, **named):
        seen.append(named["groups"])
        return fit_together(*given, **named)

    monkeypatch.setattr("lrrspm.evaluation.protocol.fit_together", spy)
    paths, labels = find_images(image_folder)
    groups = Groups(np.arange(36) // 2, "group")
    evaluate(paths, labels, small(), 4, 1, groups=groups)
    np.testing.assert_array_equal(seen, [groups.numbers])


def test_a_given_split(image_folder):
    """Training images train, the others test, and unknown classes are counted."""
    paths, labels = find_images(image_folder)
    tests = [i % 3 == 0 or label == "dots" for i, label in enumerate(labels)]
    found = evaluate(paths, labels, small(random_state=0), 100, 5, seed=3, tests=tests)
    assert found.confusion.sum() == 8
    assert list(found.per_class) == ["across", "along"]
    assert found.to_json()["unknown_classes"] == {"dots": 12}
    assert found.parameters["split"] == "given"
    with pytest.raises(ValueError, match="a split needs images to train with"):
        evaluate(paths, labels, small(), tests=[True] * 36)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_model_of_a_given_split_is_that_of_fit(image_folder, seed):
    """The seed itself trains it; a seed is drawn only where a split is."""
    paths, labels = find_images(image_folder)
    tests = np.arange(36) % 3 == 0
    model = small(random_state=seed)
    found = evaluate(paths, labels, model, seed=seed, tests=tests)
    train, test = (np.flatnonzero(part).tolist() for part in (~tests, tests))
    model.fit([paths[i] for i in train], [labels[i] for i in train])
    scored = score_model(model, [paths[i] for i in test], [labels[i] for i in test], Stages())
    expected = [(one.path, one.predicted, one.score) for one in scored.predictions]
    assert [(one.path, one.predicted, one.score) for one in found.predictions] == expected


def folder_of(root, images):
    for name, image in images.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return find_images(root)


def test_near_copies_are_found_and_kept(tmp_path):
    images = {f"{'ab'[i % 2]}/{i}.png": blobs(i, (96, 64)) for i in range(12)}
    images["a/near.jpg"] = blobs(4, (96, 64)).resize((192, 128))
    images["b/again.jpg"] = blobs(4, (96, 64)).resize((48, 32))
    paths, labels = folder_of(tmp_path / "set", images)
    (tmp_path / "set" / "a" / "0.png").write_bytes(b"broken")
    found = find_groups(paths, labels)
    names = [os.path.basename(path) for path in paths]
    number = found.numbers[names.index("4.png")]
    near = {name for name, n in zip(names, found.numbers, strict=True) if n == number}
    assert near == {"4.png", "near.jpg", "again.jpg"}
    assert found.to_json() == {"by": "near copy", "images": 3, "groups": 1}
    assert str(found) == "3 near copies"
    # With a store the same, cold and warm.
    store = FeatureStore(tmp_path / "store")
    for _ in range(2):
        again = find_groups(paths, labels, 2, Stages(), store)
        np.testing.assert_array_equal(again.numbers, found.numbers)
    tests = np.array([name == "again.jpg" for name in names])
    assert count_leaks(found, tests) == np.flatnonzero(tests).tolist()
    assert count_leaks(found, np.zeros(len(paths), bool)) == []


def test_near_copies_do_not_excuse_classes_that_are_too_small(tmp_path):
    images = {f"{'ab'[i % 2]}/{i}.png": blobs(i, (96, 64)) for i in range(12)}
    images["a/near.jpg"] = blobs(4, (96, 64)).resize((192, 128))
    paths, labels = folder_of(tmp_path / "set", images)
    groups = find_groups(paths, labels)
    model = ImageClassifier(LRREncoder(codebook_size=4), n_samples=200, random_state=0)
    with pytest.raises(ValueError, match="class 'b' has 6 images; 6 for training leave none"):
        evaluate(paths, labels, model, train_per_class=6, splits=1, groups=groups)
    found = evaluate(paths, labels, model, train_per_class=5, splits=1, groups=groups)
    assert found.confusions[0].sum(axis=1).min() >= 1


def test_patterns_are_kept_in_a_store(tmp_path, monkeypatch):
    images = {f"{'ab'[i % 2]}/{i}.png": blobs(i, (96, 64)) for i in range(4)}
    images["a/plain.png"] = Image.new("L", (96, 64), 9)
    paths, labels = folder_of(tmp_path / "set", images)
    store = FeatureStore(tmp_path / "store")
    find_groups(paths, labels, store=store)
    opened: list[str] = []
    monkeypatch.setattr("lrrspm.images.near_copies.opened", opened.append)
    find_groups(paths, labels, store=store)
    assert opened == []


def views(seed, count):
    """Views of a camera that turns: each is nearly the one before, the last unlike the first."""
    wide = np.asarray(blobs(seed, (2000, 100)))
    return [Image.fromarray(wide[:, 3 * i : 3 * i + 100]) for i in range(count)]


def test_a_sequence_is_not_kept_together_but_warned_of(tmp_path):
    images = {f"turn/view_{i}.png": view for i, view in enumerate(views(0, 40))}
    images |= {f"other/{i}.png": blobs(50 + i, (100, 100)) for i in range(40)}
    paths, labels = folder_of(tmp_path, images)
    with pytest.warns(UserWarning, match=r"look like sequences \(1\): turn; .*--group"):
        found = find_groups(paths, labels)
    sizes = np.unique(found.numbers, return_counts=True)[1]
    assert sizes.max() <= 20


def test_real_sequences(data_dir):
    """Objects on a turntable are sequences; photographs of offices are not."""
    for name, sequences in (("COIL20", True), ("LS", False)):
        labeled = find_images(data_dir / name)
        chosen = [i for i, label in enumerate(labeled[1]) if label in ("obj1", "obj2", "PARoffice")]
        paths, labels = ([column[i] for i in chosen] for column in labeled)
        if sequences:
            with pytest.warns(UserWarning, match=r"look like sequences \(2\): obj1, obj2"):
                find_groups(paths, labels)
        else:
            find_groups(paths, labels)


def test_names_of_groups(tmp_path):
    names = ["a/t1_01.png", "a/t1_02.png", "a/t2_01.png", "b/t1_01.png", "b/odd.png", "b/x.png"]
    folder_of(tmp_path / "set", {name: Image.new("L", (4, 4)) for name in names})
    found = find_labeled(tmp_path / "set")
    with pytest.warns(UserWarning, match="no group for 2 images"):
        tracks = name_groups(found, tmp_path / "set", r"(.*)_\d+")
    assert tracks.numbers.tolist() == [0, 0, 1, 2, 3, 4]
    assert str(tracks) == "2 images of 1 group"
    with pytest.raises(ValueError, match="a group in parentheses"):
        name_groups(found, tmp_path / "set", "person")
    with pytest.raises(ValueError, match="not a regular expression"):
        name_groups(found, tmp_path / "set", "(")
    with pytest.raises(ValueError, match=r"matches no path, such as a/t1_01\.png"):
        name_groups(found, tmp_path / "set", "(z+)")


def test_a_column_of_groups(tmp_path):
    rows = [("1.png", "a", "ann"), ("2.png", "a", "bob"), ("3.png", "b", "ann"), ("4.png", "b", "")]
    table = tmp_path / "list.csv"
    table.write_text("path,label,person\n" + "".join(f"{','.join(row)}\n" for row in rows))
    found = find_labeled(table)
    with pytest.warns(UserWarning, match="no group for 1 image"):
        assert name_groups(found, table, "person").numbers.tolist() == [0, 1, 0, 2]
    with pytest.raises(ValueError, match="the columns are: path, label, person"):
        name_groups(found, table, "name")
