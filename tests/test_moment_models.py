"""LrrFV and its peers, FV and VLAD, from images to a model file and back."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from lrrspm import Channel, ImageClassifier, VQEncoder, find_images, load_model
from lrrspm.descriptors import LBP, Projection, RootSIFT
from lrrspm.encoders import LRREncoder, LRRWeightEncoder, MixtureEncoder
from lrrspm.modelfile import ModelFileError
from lrrspm.pooling import MomentPooling, VLADPooling

KINDS = {
    "LrrFV": (LRRWeightEncoder, MomentPooling),
    "FV": (MixtureEncoder, MomentPooling),
    "VLAD": (VQEncoder, VLADPooling),
}


def small(kind="LrrFV", **parameters):
    encoder, pooling = KINDS[kind]
    channels = [
        Channel(encoder(6), descriptor, pooling(), (1, (3, 1)), projection=Projection(10))
        for descriptor in (RootSIFT((16, 24), (8, 8)), LBP((16,), (8,), (1,)))
    ]
    return ImageClassifier(
        channels=channels, **{"random_state": 0, "n_samples": 5000, **parameters}
    )


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(image_folder, kind):
    paths, labels = find_images(image_folder)
    return small(kind).fit(paths, labels), paths, labels


def test_vectors_and_weights_have_half_precision(fitted):
    model, paths, _ = fitted
    assert model.svm_.coef_.dtype == np.float16
    vectors = model.features_.transform(paths)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, vectors.astype(np.float16))
    scores = vectors @ model.svm_.coef_.T.astype(np.float32)
    np.testing.assert_allclose(model.decision_function(paths), scores, atol=1e-5)


def test_half_precision_needs_all_channels(image_folder, tmp_path):
    paths, labels = find_images(image_folder)
    channels = [*small().channels, Channel(LRREncoder(8))]
    cold, warm = (
        ImageClassifier(channels=channels, random_state=0, cache=tmp_path).fit(paths, labels)
        for _ in range(2)
    )
    assert cold.svm_.coef_.dtype == np.float32
    np.testing.assert_array_equal(cold.decision_function(paths), warm.decision_function(paths))
    explained = cold.explain(paths[0])
    assert explained.score == pytest.approx(cold.decision_function(paths[:1]).max(), abs=1e-5)
    assert explained.contributions.sum() == pytest.approx(explained.score, abs=1e-5)


def test_it_learns(fitted, kind):
    model, paths, labels = fitted
    assert (model.predict(paths) == labels).mean() > 0.95
    order = 1 if kind == "VLAD" else 2
    assert model.features_.transform(paths[:1]).shape == (1, 2 * 4 * order * 6 * 12)


def test_same_bits_for_any_number_of_workers_and_from_a_store(fitted, kind, tmp_path):
    model, paths, labels = fitted
    expected = model.decision_function(paths)
    changes = ({"n_jobs": 2}, {"n_jobs": 4}, {"cache": tmp_path}, {"cache": tmp_path})
    for again in (small(kind, **one) for one in changes):
        found = again.fit(paths, labels).decision_function(paths)
        np.testing.assert_array_equal(found, expected)


def test_models_are_saved_and_loaded(fitted, tmp_path):
    model, paths, _ = fitted
    model.save(tmp_path / "m.lrrspm")
    loaded = load_model(tmp_path / "m.lrrspm")
    np.testing.assert_array_equal(loaded.decision_function(paths), model.decision_function(paths))
    loaded.save(tmp_path / "again.lrrspm")
    assert (tmp_path / "again.lrrspm").read_bytes() == (tmp_path / "m.lrrspm").read_bytes()


def test_explanations_add_up(fitted):
    model, paths, _ = fitted
    for path in paths[::3]:
        explained = model.explain(path)
        assert explained.score == pytest.approx(model.decision_function([path]).max(), abs=1e-6)
        assert explained.contributions.sum() == pytest.approx(explained.score, abs=1e-6)
        assert explained.map.sum() == pytest.approx(explained.score, abs=1e-4)


def test_the_method(image_folder, kind):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(method=kind, n_samples=20_000, random_state=0)
    assert [type(one.encoder) for one in model.new_channels()] == [KINDS[kind][0]] * 2
    model.set_params(channels__0__encoder__codebook_size=8, channels__1__encoder__codebook_size=8)
    assert (model.fit(paths, labels).predict(paths) == labels).mean() > 0.95


@pytest.mark.parametrize(
    "name",
    [
        "channels.0.pooling.deviations",
        "channels.1.pooling.shares",
        "channels.0.shares",
        "channels.1.deviations",
    ],
)
def test_arrays_that_cannot_be_right_are_refused(image_folder, tmp_path, name):
    model = small("FV").fit(*find_images(image_folder))
    model.save(tmp_path / "m.lrrspm")
    with safe_open(tmp_path / "m.lrrspm", "numpy") as file:
        metadata = file.metadata()
        arrays = {key: file.get_tensor(key) for key in list(file.keys())}
    arrays[name][:] = 0
    save_file(arrays, tmp_path / "bad.lrrspm", metadata)
    with pytest.raises(ModelFileError, match="must be positive"):
        load_model(tmp_path / "bad.lrrspm")


def test_only_weights_may_have_half_precision(fitted, tmp_path):
    model, _, _ = fitted
    model.save(tmp_path / "m.lrrspm")
    with safe_open(tmp_path / "m.lrrspm", "numpy") as file:
        metadata = file.metadata()
        arrays = {key: file.get_tensor(key) for key in list(file.keys())}
    for name in sorted(arrays.keys() - {"svm.coef"}):
        save_file(
            {**arrays, name: arrays[name].astype(np.float16)}, tmp_path / "bad.lrrspm", metadata
        )
        with pytest.raises(ModelFileError, match="holds F16"):
            load_model(tmp_path / "bad.lrrspm")
    arrays["svm.coef"][0, 0] = np.inf
    save_file(arrays, tmp_path / "bad.lrrspm", metadata)
    with pytest.raises(ModelFileError, match="not finite"):
        load_model(tmp_path / "bad.lrrspm")


def test_a_projection_of_another_size_is_refused(fitted, tmp_path):
    model, _, _ = fitted
    model.save(tmp_path / "m.lrrspm")
    with safe_open(tmp_path / "m.lrrspm", "numpy") as file:
        metadata = file.metadata()
        arrays = {key: file.get_tensor(key) for key in list(file.keys())}
    narrow = arrays["channels.0.projection.components"][:, :4]
    arrays["channels.0.projection.components"] = np.ascontiguousarray(narrow)
    save_file(arrays, tmp_path / "bad.lrrspm", metadata)
    with pytest.raises(ModelFileError, match="components has shape"):
        load_model(tmp_path / "bad.lrrspm")
