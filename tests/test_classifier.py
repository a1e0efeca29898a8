import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from lrrspm import Channel, ImageClassifier, LRREncoder, find_images, load_model
from tests.conftest import draw


def small(**parameters):
    return ImageClassifier(
        LRREncoder(codebook_size=8), **{"n_samples": 2000, "random_state": 0, **parameters}
    )


def test_learns_made_images(image_folder):
    paths, labels = find_images(image_folder)
    model = small().fit(paths[::2], labels[::2])
    assert model.classes_.tolist() == ["across", "along", "dots"]
    assert model.score(paths[1::2], labels[1::2]) == 1
    assert model.decision_function(paths[:2]).shape == (2, 3)
    assert model.summary_["images_per_class"] == {"across": 6, "along": 6, "dots": 6}


def test_one_image_of_any_kind(image_folder, tmp_path):
    """A path, an array, or an image of Pillow, in a list or not: the same scores."""
    paths, labels = find_images(image_folder)
    model = small().fit([Image.open(path) for path in paths], labels)
    gray = np.asarray(Image.open(paths[0]))
    kinds = [paths[0], Path(paths[0]), gray, Image.open(paths[0]), np.stack([gray] * 3, axis=2)]
    expected = small().fit(paths, labels).decision_function(paths[:1])
    vectors = model.features_.transform(kinds)
    np.testing.assert_array_equal(vectors, np.repeat(vectors[:1], len(kinds), axis=0))
    for image in kinds:
        np.testing.assert_array_equal(model.decision_function(image), expected)
        assert model.predict(image).tolist() == ["across"]
        assert model.features_.transform(image).shape == (1, 21 * 8)
        assert model.explain(image).label == "across"
    assert model.predict(np.stack([gray] * 2)).tolist() == ["across"] * 2
    for bad in (np.zeros((5, 5, 4)), [kinds[:1]], 3, np.zeros((4, 4), int)):
        with pytest.raises((TypeError, ValueError)):
            model.predict(bad)
    with pytest.raises(ValueError, match="expected a list"):
        small().fit(kinds[3], ["a"])
    (tmp_path / "cut.png").write_bytes(Path(paths[0]).read_bytes()[:200])
    with (
        Image.open(tmp_path / "cut.png") as cut,
        pytest.raises(ValueError, match="Pillow image cannot be read"),
    ):
        model.predict(cut)


def test_two_classes(image_folder):
    paths, labels = find_images(image_folder)
    model = small().fit(paths[:24], labels[:24])
    scores = model.decision_function(paths[:24])
    assert scores.shape == (24,)
    np.testing.assert_array_equal(model.predict(paths[:24]) == "along", scores > 0)


def test_works_in_scikit_learn(image_folder):
    paths, labels = find_images(image_folder)
    assert cross_val_score(small(), paths, labels, cv=3).mean() > 0.9
    search = GridSearchCV(small(), {"C": [0.1, 10], "encoder__threshold": [0.5]}, cv=2)
    assert search.fit(paths, labels).best_estimator_.encoder.threshold == 0.5
    assert clone(small(max_side=40)).max_side == 40
    with pytest.raises(NotFittedError):
        small().predict(paths)
    with pytest.raises(NotFittedError):
        small().save("never.lrrspm")


@pytest.mark.parametrize("labels", [[0, 1, 2], [1.0, 2.0, 3.0], ["a", "ä", "emoji 🐝"]])
def test_saved_and_loaded_scores_are_identical(tmp_path, labels):
    rng = np.random.default_rng(0)
    images = [draw(kind, rng) for kind in ("across", "along", "dots") for _ in range(3)]
    y = np.repeat(np.array(labels), 3)
    model = small(n_jobs=2).set_params(channels__0__levels=(1, 3)).fit(images, y)
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    np.testing.assert_array_equal(loaded.decision_function(images), model.decision_function(images))
    np.testing.assert_array_equal(loaded.predict(images), model.predict(images))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.summary_ == model.summary_
    # A model file names every part, also those that were left to their defaults.
    named = clone(model).set_params(channels=model.new_channels())
    ours, theirs = loaded.get_params(), named.get_params()
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if name == "method":  # what the parameters amount to
            assert (value, ours[name]) == (None, None)
        elif isinstance(value, BaseEstimator):
            assert type(ours[name]) is type(value), name
        elif name not in ("channels", "n_jobs"):
            assert ours[name] == value, name
    # A loaded model can be trained again, and saved again to the same bytes.
    loaded.save(tmp_path / "again.lrrspm")
    assert (tmp_path / "again.lrrspm").read_bytes() == (tmp_path / "m.lrrspm").read_bytes()
    refitted = loaded.fit(images, y)
    np.testing.assert_array_equal(
        refitted.decision_function(images), model.decision_function(images)
    )


def test_same_input_gives_the_same_bytes(image_folder, tmp_path):
    digests = set()
    for n_jobs in (1, 4):
        model = small(n_jobs=n_jobs).fit(*find_images(image_folder))
        model.save(tmp_path / "m.lrrspm")
        digests.add(hashlib.sha256((tmp_path / "m.lrrspm").read_bytes()).hexdigest())
    assert len(digests) == 1
    assert str(image_folder).encode() not in (tmp_path / "m.lrrspm").read_bytes()


def test_saves_what_was_fitted(image_folder, tmp_path):
    """Parameters that were set after fit belong to the next fit, not to the model."""
    paths, labels = find_images(image_folder)
    model = small().fit(paths, labels)
    expected = model.decision_function(paths)
    changes = {"channels__0__descriptor__step": 9, "channels__0__levels": (1, 2)}
    model.set_params(**changes, C=3, max_side=20).save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    np.testing.assert_array_equal(loaded.decision_function(paths), expected)
    assert (loaded.C, loaded.max_side) == (10, 300)
    assert loaded.get_params()["channels__0__descriptor__step"] == 6
    assert loaded.get_params()["channels__0__levels"] == (1, 2, 4)


def test_given_codebook_is_kept(image_folder, tmp_path):
    paths, labels = find_images(image_folder)
    codebook = np.random.default_rng(0).random((5, 128))
    model = ImageClassifier(LRREncoder(codebook=codebook), random_state=0).fit(paths, labels)
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    np.testing.assert_array_equal(loaded.get_params()["channels__0__encoder__codebook"], codebook)
    expected = model.decision_function(paths)
    np.testing.assert_array_equal(loaded.fit(paths, labels).decision_function(paths), expected)


def test_bad_calls(image_folder):
    paths, labels = find_images(image_folder)
    with pytest.raises(ValueError, match="at least two classes, got one class: across"):
        small().fit(paths[:5], labels[:5])
    with pytest.raises(ValueError, match="5 images, but 4 labels"):
        small().fit(paths[:5], labels[:4])


def test_only_known_encoders_are_saved(image_folder, tmp_path):
    class OwnEncoder(LRREncoder):
        pass

    model = ImageClassifier(OwnEncoder(codebook_size=4), random_state=0)
    model.fit(*find_images(image_folder))
    with pytest.raises(ValueError, match="OwnEncoder cannot be saved"):
        model.save(tmp_path / "m.lrrspm")


def test_channels_of_another_method_are_refused():
    both = ImageClassifier(method="LLC", channels=[Channel(LRREncoder(codebook_size=4))])
    with pytest.raises(ValueError, match="not those of LLC: they encode with LRREncoder"):
        both.fit([np.zeros((20, 20))] * 2, [0, 1])
    changed = ImageClassifier(method="LrrSPM")
    changed.set_params(channels__0__encoder__threshold=1.0)
    with pytest.raises(ValueError, match="leave out the method or the channels"):
        changed.set_params(method="LLC").new_channels()
