"""Channels that are left out unless the training images have color."""

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone

from lrrspm import (
    SIFT,
    Channel,
    ImageClassifier,
    LRREncoder,
    SpatialPyramidFeatures,
    VQEncoder,
    evaluate,
    load_model,
    methods,
)
from lrrspm.descriptors import LocalColor, OpponentSIFT, Projection
from lrrspm.evaluation import split_by_class, split_seeds
from lrrspm.images import has_color
from lrrspm.methods import Method
from lrrspm.modelfile import ModelFileError, describe_parameters
from tests.modelfile.models import rewrite


def plain():
    return Channel(LRREncoder(codebook_size=4), SIFT(step=8))


def colored(**parameters):
    return Channel(VQEncoder(codebook_size=4), LocalColor((16,), (8,)), **parameters)


def projected(**parameters):
    return colored(projection=Projection(5), **parameters)


def features(*channels, **parameters):
    parameters = {"n_samples": 300, "random_state": 0, **parameters}
    return SpatialPyramidFeatures(list(channels), **parameters)


def made(n_colored, n_gray, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n_colored + n_gray, 40, 44, 3), dtype=np.uint8)
    images[n_colored:] = images[n_colored:, ..., :1]
    return list(images[rng.permutation(len(images))])


@pytest.fixture
def files(tmp_path):
    """Write images, and return their paths."""

    def write(images):
        (tmp_path / "images").mkdir(exist_ok=True)
        paths = [str(tmp_path / "images" / f"{i}.png") for i in range(len(images))]
        for path, image in zip(paths, images, strict=True):
            Image.fromarray(image).save(path)
        return paths

    return write


@pytest.mark.parametrize("optional", [colored, projected])
@pytest.mark.parametrize(("n_colored", "n_gray"), [(0, 6), (2, 3)])
def test_without_color_it_is_as_if_the_channel_were_not_there(optional, n_colored, n_gray):
    images = made(n_colored, n_gray)
    fitted = features(optional(when="color"), plain()).fit(images)
    assert [type(channel.descriptor) for channel in fitted.channels_] == [SIFT]
    expected = features(plain()).fit(images).transform(images)
    np.testing.assert_array_equal(fitted.transform(images), expected)


@pytest.mark.parametrize("optional", [colored, projected])
@pytest.mark.parametrize(("n_colored", "n_gray"), [(5, 0), (3, 3)])
def test_with_color_the_channel_is_fitted_to_the_images_that_have_it(optional, n_colored, n_gray):
    images = made(n_colored, n_gray)
    # All patches of all images: the sample does not depend on how many there are.
    fitted = features(plain(), optional(when="color"), n_samples=10**6).fit(images)
    assert [type(channel.descriptor) for channel in fitted.channels_] == [SIFT, LocalColor]
    assert fitted.channels_[1].when is None
    bright = [image for image in images if has_color(image / np.float32(255))]
    assert len(bright) == n_colored
    alone = features(optional(), n_samples=10**6).fit(bright)
    np.testing.assert_array_equal(
        fitted.channels_[1].encoder_.codebook_, alone.channels_[0].encoder_.codebook_
    )
    gray = np.full((30, 30), 0.4)
    assert np.isfinite(fitted.transform([gray, *images])).all()


@pytest.mark.parametrize("n_colored", [0, 2, 4])
def test_same_bits_for_any_number_of_workers_and_from_a_store(files, tmp_path, reads, n_colored):
    paths = files(made(n_colored, 6 - n_colored))
    channels = [plain(), colored(when="color")]
    expected = features(*channels).fit(paths).transform(paths)
    for others in ({"n_jobs": 4}, {"cache": tmp_path / "store", "n_jobs": 2}):
        found = features(*channels, **others).fit(paths).transform(paths)
        np.testing.assert_array_equal(found, expected)
    del reads[:]
    again = features(*channels, cache=tmp_path / "store").fit(paths)
    np.testing.assert_array_equal(again.transform(paths), expected)
    assert reads == []


def test_each_image_is_read_once_to_decide_and_to_fit(files, reads):
    paths = files(made(2, 4))
    features(plain(), colored(when="color"), projected(when="color")).fit(paths)
    assert sorted(reads) == sorted(paths)


def test_one_decision_for_several_channels_that_may_be_shared():
    """A channel that is always there does not change one that is left out."""
    images = made(2, 4)
    opponent = Channel(VQEncoder(codebook_size=4), OpponentSIFT((16,), (8,)), when="color")
    fitted = features(colored(), colored(when="color"), opponent).fit(images)
    assert len(fitted.channels_) == 1
    expected = features(colored()).fit(images).transform(images)
    np.testing.assert_array_equal(fitted.transform(images), expected)


@pytest.fixture
def tinted(monkeypatch):
    recipe = Method("Tinted", "a test", lambda: [colored(when="color"), plain()])
    monkeypatch.setitem(methods.BEYOND, "Tinted", recipe)


@pytest.mark.usefixtures("tinted")
@pytest.mark.parametrize(("n_colored", "n_channels"), [(0, 1), (3, 1), (5, 2), (8, 2)])
def test_models_keep_the_choice(tmp_path, n_colored, n_channels):
    images, labels = made(n_colored, 8 - n_colored), ["a", "b"] * 4
    model = ImageClassifier(method="Tinted", n_samples=300, random_state=0).fit(images, labels)
    assert len(model.features_.channels_) == n_channels
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    expected = model.decision_function(images)
    np.testing.assert_array_equal(loaded.decision_function(images), expected)
    assert len(loaded.features_.channels_) == n_channels
    assert loaded.features_.left_out_ == model.features_.left_out_
    loaded.save(tmp_path / "again.lrrspm")
    assert (tmp_path / "again.lrrspm").read_bytes() == (tmp_path / "m.lrrspm").read_bytes()
    for image in (images[0], np.full((30, 30), 0.4)):  # a gray one too
        found = loaded.explain(image, "b")
        assert found.score == pytest.approx(loaded.decision_function([image])[0], abs=1e-5)
        assert found.map.sum() == pytest.approx(found.score - found.intercept, abs=1e-4)
    np.testing.assert_array_equal(loaded.fit(images, labels).decision_function(images), expected)


@pytest.mark.usefixtures("tinted")
@pytest.mark.parametrize(("before", "after"), [(0, 8), (8, 0)])
def test_a_loaded_model_chooses_anew_when_it_is_fitted_again(tmp_path, before, after):
    labels = ["a", "b"] * 4
    model = ImageClassifier(method="Tinted", n_samples=300, random_state=0)
    model.fit(made(before, 8 - before), labels).save(tmp_path / "m.lrrspm")
    others = made(after, 8 - after, seed=1)
    expected = model.fit(others, labels).decision_function(others)
    again = clone(load_model(tmp_path / "m.lrrspm")).fit(others, labels)
    assert len(again.features_.channels_) == 1 + (after > 0)
    np.testing.assert_array_equal(again.decision_function(others), expected)


@pytest.mark.usefixtures("tinted")
@pytest.mark.parametrize(
    ("left_out", "when"), [(5, "color"), ("x" * 201, "color"), ("", None), ("no color", "sunday")]
)
def test_a_file_that_leaves_out_other_channels_is_refused(tmp_path, left_out, when):
    model = ImageClassifier(method="Tinted", n_samples=300, random_state=0)
    model.fit(made(0, 4), ["a", "b"] * 2).save(tmp_path / "m.lrrspm")

    def change(description, _):
        description["channels"][0].update(left_out=left_out, when=when)

    with pytest.raises(ModelFileError, match="damaged"):
        load_model(rewrite(tmp_path / "m.lrrspm", tmp_path / "bad.lrrspm", change))


@pytest.mark.usefixtures("tinted")
def test_a_file_from_before_channels_were_listed_that_are_left_out(tmp_path):
    model = ImageClassifier(method="Tinted", n_samples=300, random_state=0)
    images = made(0, 4)
    model.fit(images, ["a", "b"] * 2).save(tmp_path / "m.lrrspm")

    def change(description, arrays):
        del description["channels"][0]
        for name in [name for name in arrays if name.startswith("channels.1.")]:
            arrays[name.replace("channels.1.", "channels.0.")] = arrays.pop(name)

    old = load_model(rewrite(tmp_path / "m.lrrspm", tmp_path / "old.lrrspm", change))
    np.testing.assert_array_equal(old.decision_function(images), model.decision_function(images))
    assert len(old.fit(images, ["a", "b"] * 2).features_.channels_) == 1


@pytest.mark.usefixtures("tinted")
def test_results_name_the_channels_that_are_left_out(files):
    paths = files(made(2, 10))
    model = ImageClassifier(method="Tinted", n_samples=300)
    found = evaluate(paths, ["a", "b"] * 6, model, train_per_class=2, splits=2)
    counts = []
    for number, seed in enumerate(split_seeds(0, 2), 1):
        train = split_by_class(np.array(["a", "b"] * 6), 2, seed)
        n = sum(
            has_color((np.asarray(Image.open(paths[i])) / 255).astype(np.float32)) for i in train
        )
        if n < 2:
            reason = f"only {n} of 4 training images have color"
            counts.append({"split": number, "descriptor": "LocalColor", "reason": reason})
    assert counts
    assert found.to_json()["left_out"] == counts
    model.fit(paths, ["a", "b"] * 6)
    first, second = describe_parameters(model)["channels"]
    assert first["left_out"] == "only 2 of 12 training images have color"
    assert "left_out" not in second


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ([plain(), colored(when="sunday")], "when must be None or 'color'"),
        ([plain().set_params(when="color"), colored()], "SIFT reads no color"),
        ([colored(when="color")], "all channels are left out without color"),
    ],
)
def test_bad_parameters(channels, message):
    with pytest.raises(ValueError, match=message):
        features(*channels).fit(made(1, 1))


def test_few_colored_pixels_are_noise():
    pixels = np.full((20, 10, 3), 0.5, np.float32)
    pixels[..., 1] += 0.05
    assert not has_color(pixels)
    pixels[3, 4, 2] = 0.7
    assert not has_color(pixels)
    pixels[4, 4, 0] = 0.3
    assert has_color(pixels)
