"""Several channels in one: vectors, weights, work that is shared, nested parameters, evidence."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lrrspm import (
    SIFT,
    AveragePooling,
    Channel,
    HistogramPooling,
    ImageClassifier,
    LLCEncoder,
    LRREncoder,
    MaxPooling,
    SignedMaxPooling,
    SpatialPyramidFeatures,
    VQEncoder,
    find_images,
    load_model,
)
from tests.conftest import draw


def first(**parameters):
    return Channel(LRREncoder(codebook_size=4), **parameters)


def second(**parameters):
    return Channel(VQEncoder(codebook_size=6), levels=(1, 3), **parameters)


def channel_of(estimator, place):
    return estimator.get_params()[f"channels__{place}"]


def features(*channels, **parameters):
    parameters = {"n_samples": 500, "random_state": 0, **parameters}
    return SpatialPyramidFeatures(list(channels), **parameters)


@pytest.mark.parametrize("step", [6, 9])
def test_the_vector_is_the_weighted_vectors_one_after_another(image_folder, step):
    paths = find_images(image_folder)[0]
    other = SIFT(step=step)
    alone = [features(c).fit(paths).transform(paths) for c in (first(), second(descriptor=other))]
    both = features(first(weight=1), second(descriptor=other, weight=3)).fit(paths)
    vectors = both.transform(paths)
    assert vectors.dtype == np.float32
    expected = np.hstack([np.sqrt(0.25) * alone[0], np.sqrt(0.75) * alone[1]])
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    # So the linear kernel is the weighted mean of the channels' kernels.
    kernels = [part @ part.T for part in alone]
    np.testing.assert_allclose(
        vectors @ vectors.T, 0.25 * kernels[0] + 0.75 * kernels[1], atol=1e-5
    )
    assert len(both.get_feature_names_out()) == vectors.shape[1] == 21 * 4 + 10 * 6


def test_levels_with_weights_of_their_own(image_folder, tmp_path):
    paths, labels = find_images(image_folder)
    alone = [features(c).fit(paths).transform(paths) for c in (first(), second())]
    both = features(first(weight=(1.0, 2.0, 6.0)), second(weight=2)).fit(paths)
    level = np.repeat([1, 2, 6], [4, 16, 64])
    expected = np.hstack([np.sqrt(level / 5) * alone[0], np.sqrt(2 / 5) * alone[1]])
    np.testing.assert_allclose(both.transform(paths), expected, rtol=1e-6)
    # Also where there is no other channel.
    one = features(first(weight=(1.0, 2.0, 6.0))).fit(paths)
    np.testing.assert_allclose(one.transform(paths), np.sqrt(level / 3) * alone[0], rtol=1e-6)
    for channels in (both.channels, one.channels):
        model = ImageClassifier(channels=channels, random_state=0, n_samples=500)
        model.fit(paths, labels).save(tmp_path / "m.lrrspm")
        loaded = load_model(tmp_path / "m.lrrspm")
        assert channel_of(loaded, 0).weight == (1.0, 2.0, 6.0)
        scores = model.decision_function(paths[:3])
        np.testing.assert_array_equal(loaded.decision_function(paths[:3]), scores)
        found = loaded.explain(paths[0], labels[0])
        total = found.contributions.sum() + found.intercept
        assert total == pytest.approx(scores[0, list(model.classes_).index(labels[0])], abs=1e-5)
    for wrong in ((1.0, 2.0), (1.0, 2.0, 0.0), (1.0, 2.0, float("inf")), (), [1.0, 2.0, 6.0], "a"):
        with pytest.raises(ValueError, match="weight"):
            features(first(weight=wrong)).fit(paths)


def test_weights_alone_of_one_channel_change_nothing(image_folder):
    paths = find_images(image_folder)[0]
    plain, heavy = (features(first(weight=w)).fit(paths).transform(paths) for w in (1, 7))
    np.testing.assert_array_equal(plain, heavy)


@pytest.fixture
def described(monkeypatch):
    """Steps of the SIFT descriptors that are computed while a test runs."""
    seen = []
    original = SIFT.describe

    def spy(self, pixels):
        seen.append(self.step)
        return original(self, pixels)

    monkeypatch.setattr(SIFT, "describe", spy)
    return seen


def test_a_descriptor_that_channels_share_is_computed_once(image_folder, described, reads):
    paths = find_images(image_folder)[0][:5]
    model = features(first(), second(descriptor=SIFT(step=6)), second(descriptor=SIFT(step=9)))
    model.fit(paths)
    assert sorted(described) == [6] * 5 + [9] * 5
    assert sorted(reads) == sorted(paths)
    del described[:], reads[:]
    model.transform(paths)
    assert sorted(described) == [6] * 5 + [9] * 5
    assert sorted(reads) == sorted(paths)


def test_channels_that_share_a_sample_share_the_codebook(image_folder, learned):
    paths = find_images(image_folder)[0][:5]
    channels = [Channel(encoder(codebook_size=4)) for encoder in (LRREncoder, LLCEncoder)]
    fitted = features(*channels).fit(paths).channels_
    assert learned == [4]
    np.testing.assert_array_equal(fitted[0].encoder_.codebook_, fitted[1].encoder_.codebook_)


def test_fitting_leaves_the_given_channels_alone(image_folder):
    paths = find_images(image_folder)[0][:5]
    given = [first(), second()]
    fitted = features(*given).fit(paths)
    for channel in given:
        assert not hasattr(channel, "encoder_")
        assert channel.encoder.random_state is None
        assert channel.encoder.codebook is None
        assert (channel.descriptor, channel.pooling) == (None, None)
    assert all(a is not b for a, b in zip(given, fitted.channels_, strict=True))


def test_same_bits_with_a_store_without_and_for_any_number_of_workers(image_folder, tmp_path):
    paths = find_images(image_folder)[0]
    expected = features(first(), second(weight=2)).fit(paths).transform(paths)
    for _ in range(2):
        kept = features(first(), second(weight=2), cache=tmp_path, n_jobs=3)
        np.testing.assert_array_equal(kept.fit(paths).transform(paths), expected)
    # Another weight takes the same stored vectors.
    heavier = features(first(), second(weight=3), cache=tmp_path).fit(paths).transform(paths)
    plain = features(first(), second(weight=3)).fit(paths).transform(paths)
    np.testing.assert_array_equal(heavier, plain)


def test_nested_parameters():
    model = ImageClassifier(channels=[first(), second()])
    params = model.get_params()
    assert params["channels__0__encoder__codebook_size"] == 4
    assert params["channels__1__levels"] == (1, 3)
    assert params["channels__1"] is channel_of(model, 1)
    copy = clone(model)
    copy.set_params(channels__0__encoder__threshold=0.5, channels__1__weight=2, C=3)
    assert (channel_of(copy, 0).encoder.threshold, channel_of(copy, 1).weight, copy.C) == (
        0.5,
        2,
        3,
    )
    assert (channel_of(model, 0).encoder.threshold, channel_of(model, 1).weight) == (0.98, 1)
    copy.set_params(channels__1=first())
    assert isinstance(channel_of(copy, 1).encoder, LRREncoder)
    with pytest.raises(ValueError, match="there is no channel '2'"):
        copy.set_params(channels__2__weight=1)
    with pytest.raises(ValueError, match="there is no channel 'x'"):
        copy.set_params(channels__x__weight=1)
    with pytest.raises(ValueError, match="Invalid parameter 'magic'"):
        copy.set_params(channels__0__encoder__magic=1)


def test_a_whole_part_is_set_before_its_parameters():
    model = ImageClassifier(method="LLC").set_params(
        channels__0__encoder__n_neighbors=3, channels__0__encoder=LLCEncoder(codebook_size=8)
    )
    assert channel_of(model, 0).encoder.get_params()["n_neighbors"] == 3
    assert channel_of(model, 0).encoder.codebook_size == 8
    model.set_params(channels__0__encoder__n_neighbors=4, channels=[Channel(LLCEncoder())])
    assert channel_of(model, 0).encoder.n_neighbors == 4


def test_parameters_of_parts_that_were_left_to_their_defaults():
    """Each names its part first; the pooling is the encoder's own."""
    model = SpatialPyramidFeatures([Channel(LLCEncoder())])
    model.set_params(channels__0__descriptor__step=9, channels__0__pooling__norm="l1")
    assert channel_of(model, 0).descriptor.step == 9
    assert isinstance(channel_of(model, 0).pooling, SignedMaxPooling)
    assert channel_of(model, 0).pooling.norm == "l1"
    plain = SpatialPyramidFeatures().set_params(channels__0__encoder__threshold=0)
    assert channel_of(plain, 0).encoder.threshold == 0
    assert ImageClassifier(VQEncoder()).get_params()["channels__0__levels"] == (1, 2, 4)


def test_a_nested_parameter_keeps_the_method_and_the_encoder():
    model = ImageClassifier(VQEncoder(codebook_size=8), method="KernelSPM")
    model.set_params(channels__0__levels=(1, 2))
    (channel,) = model.new_channels()
    assert (channel.encoder.codebook_size, channel.levels) == (8, (1, 2))
    assert isinstance(channel.pooling, HistogramPooling)
    assert channel.pooling.norm == "l1"
    assert model.new_svm().kernel == "intersection"


def test_grid_search_over_nested_parameters(image_folder):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(channels=[first(), second()], n_samples=500, random_state=0)
    grid = {"channels__1__weight": [0.5, 2], "channels__0__pooling": [None, AveragePooling()]}
    search = GridSearchCV(model, grid, cv=2).fit(paths, labels)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ > 0.9


@pytest.mark.parametrize(
    "channels",
    [
        [first(), second(weight=3)],
        [first(), first(descriptor=SIFT(step=9), weight=2)],
        [
            Channel(LLCEncoder(codebook_size=5), SIFT(step=5, patch_size=24)),
            Channel(VQEncoder(codebook_size=7), SIFT(step=11), AveragePooling(), (2,), 0.3),
            Channel(LRREncoder(codebook_size=3), pooling=MaxPooling("l1")),
        ],
    ],
    ids=["one descriptor", "two steps", "three channels"],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_of_several_channels_adds_up(image_folder, tmp_path, channels, n_classes):
    paths, labels = find_images(image_folder)
    keep = [i for i, label in enumerate(labels) if n_classes == 3 or label != "dots"]
    model = ImageClassifier(channels=channels, n_samples=500, random_state=0)
    model.fit([paths[i] for i in keep], [labels[i] for i in keep])
    large = draw("dots", np.random.default_rng(1), 350)[:, :320]
    for image in (paths[0], large, np.zeros((5, 9), np.uint8)):
        scores = model.decision_function([image])[0]
        scores = [-scores, scores] if n_classes == 2 else scores
        for label, score in zip(model.classes_, scores, strict=True):
            found = model.explain(image, label)
            assert found.score == pytest.approx(score, abs=1e-6)
            assert found.intercept + found.contributions.sum() == pytest.approx(score, abs=1e-5)
            assert found.intercept + found.map.sum() == pytest.approx(score, abs=1e-5)
    sizes = [channel.descriptor or SIFT() for channel in channels]
    found = model.explain(draw("dots", np.random.default_rng(1)))
    assert set(found.size) == {sift.patch_size for sift in sizes}
    counts = [((48 - sift.patch_size) // sift.step + 1) ** 2 for sift in sizes]
    assert len(found.contributions) == sum(counts)
    # And all of it survives a file.
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.decision_function(paths), model.decision_function(paths))
    np.testing.assert_array_equal(loaded.explain(paths[0]).map, model.explain(paths[0]).map)
