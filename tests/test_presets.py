"""Presets: fast, balanced and best."""

import numpy as np
import pytest
from PIL import Image

from lrrspm import ImageClassifier, find_images, load_model
from lrrspm.cache import same_key
from lrrspm.methods import PRESETS, find_method
from tests.modelfile.models import header, rewrite, svm

GRAY = {"fast": ["SIFT"], "balanced": ["RootSIFT", "LBP"], "best": ["RootSIFT", "RootSIFT", "LBP"]}
COLOR = {"fast": [], "balanced": ["LocalColor"], "best": ["OpponentSIFT", "LocalColor"]}


def small(preset, **parameters):
    return ImageClassifier(
        method=preset, **{"n_samples": 2000, "random_state": 0, "n_jobs": 2, **parameters}
    )


def described(model):
    return [type(channel.descriptor).__name__ for channel in model.features_.channels_]


@pytest.fixture(scope="module")
def colored(tmp_path_factory):
    """Two classes of noise that differ in color alone."""
    root = tmp_path_factory.mktemp("colored")
    rng = np.random.default_rng(0)
    for name, tint in {"red": (90, 0, 0), "blue": (0, 0, 90)}.items():
        (root / name).mkdir()
        for i in range(8):
            gray = rng.integers(0, 160, (70, 80, 1))
            pixels = np.clip(gray + np.array(tint), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


@pytest.fixture(scope="module", params=PRESETS)
def preset(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(image_folder, preset):
    paths, labels = find_images(image_folder)
    return small(preset).fit(paths, labels), paths, labels


def test_fast_is_the_papers_method():
    fast, own = (find_method(name).channels() for name in ("fast", "LrrSPM"))
    assert [same_key(channel) for channel in fast] == [same_key(channel) for channel in own]
    assert find_method("fast").kernel is None
    assert find_method("fast").loss == "squared_hinge"


def test_balanced_is_the_default():
    assert ImageClassifier().method_name == "balanced"
    default, balanced = (model.new_channels() for model in (ImageClassifier(), small("balanced")))
    assert [same_key(channel) for channel in default] == [same_key(one) for one in balanced]


def test_same_bits_for_any_number_of_workers_and_from_a_store(fitted, preset, tmp_path):
    model, paths, labels = fitted
    expected = model.decision_function(paths)
    for change in ({"n_jobs": 1}, {"n_jobs": 4}, {"cache": tmp_path}, {"cache": tmp_path}):
        found = small(preset, **change).fit(paths, labels).decision_function(paths)
        np.testing.assert_array_equal(found, expected)


def test_models_are_saved_loaded_and_explained(fitted, preset, tmp_path):
    model, paths, labels = fitted
    assert (model.predict(paths) == labels).mean() > 0.9
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    assert loaded.method_name == preset
    np.testing.assert_array_equal(loaded.decision_function(paths), model.decision_function(paths))
    explained = loaded.explain(paths[0])
    assert explained.score == pytest.approx(model.decision_function(paths[:1]).max(), abs=1e-5)
    assert explained.contributions.sum() == pytest.approx(explained.score, abs=1e-5)


def test_only_best_is_trained_by_least_squares(fitted, preset, tmp_path):
    model, *_ = fitted
    loss = "squared" if preset == "best" else "squared_hinge"
    assert model.svm_.loss == loss
    model.save(tmp_path / "m.lrrspm")
    own = {"loss": loss} if preset == "best" else {}
    assert svm(header(tmp_path / "m.lrrspm")) == {"C": 10.0, **own}
    loaded = load_model(tmp_path / "m.lrrspm")
    assert loaded.svm_.loss == loss
    loaded.save(tmp_path / "again.lrrspm")
    assert (tmp_path / "again.lrrspm").read_bytes() == (tmp_path / "m.lrrspm").read_bytes()


def test_a_file_of_best_without_a_loss_has_the_squared_hinge(image_folder, tmp_path):
    """Files were so before there was a choice; trained again, it is as the preset is now."""
    paths, labels = find_images(image_folder)
    small("best").fit(paths, labels).save(tmp_path / "m.lrrspm")
    rewrite(tmp_path / "m.lrrspm", tmp_path / "old", lambda d, a: svm(d).pop("loss"))
    new, old = load_model(tmp_path / "m.lrrspm"), load_model(tmp_path / "old")
    assert old.svm_.loss == "squared_hinge"
    assert old.new_svm().loss == "squared"
    np.testing.assert_array_equal(old.decision_function(paths), new.decision_function(paths))


@pytest.fixture(scope="module")
def seen_in_color(colored, preset):
    paths, labels = find_images(colored)
    return small(preset).fit(paths, labels), paths, labels


def test_color_is_used_where_there_is_some(fitted, seen_in_color, preset):
    assert described(fitted[0]) == GRAY[preset]
    model, paths, labels = seen_in_color
    assert described(model) == [*GRAY[preset], *COLOR[preset]]
    if COLOR[preset]:
        assert (model.predict(paths) == labels).all()


def test_same_bits_in_color(seen_in_color, preset, tmp_path):
    model, paths, labels = seen_in_color
    expected = model.decision_function(paths)
    for change in ({"n_jobs": 1}, {"n_jobs": 4}, {"cache": tmp_path}, {"cache": tmp_path}):
        found = small(preset, **change).fit(paths, labels).decision_function(paths)
        np.testing.assert_array_equal(found, expected)


def test_models_of_color_are_saved_loaded_and_explained(seen_in_color, tmp_path):
    model, paths, _ = seen_in_color
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    assert described(loaded) == described(model)
    for image in (paths[0], paths[-1], np.full((50, 60), 0.4)):
        scores = model.decision_function([image])
        np.testing.assert_array_equal(loaded.decision_function([image]), scores)
        explained = loaded.explain(image)
        assert explained.score == pytest.approx(np.abs(scores).max(), abs=1e-5)
        total = explained.contributions.sum() + explained.intercept
        assert total == pytest.approx(explained.score, abs=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (30, 40)])
def test_images_without_anything_to_see(fitted, shape):
    """They have scores, and always the same ones."""
    model, *_ = fitted
    black = np.zeros(shape)
    scores = model.decision_function([black, black])
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores[0], scores[1])
