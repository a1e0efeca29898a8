import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from lrrspm import (
    Channel,
    LinearSVM,
    LLCEncoder,
    LRREncoder,
    MaxPooling,
    SignedMaxPooling,
    SparseEncoder,
    SpatialPyramidFeatures,
    dense_sift,
    find_images,
    read_image,
)
from tests.conftest import draw


def small(**parameters):
    channels = [Channel(LRREncoder(codebook_size=8))]
    return SpatialPyramidFeatures(channels, **{"n_samples": 2000, "random_state": 0, **parameters})


def test_is_its_stages_one_after_the_other(image_folder):
    paths, _ = find_images(image_folder)
    features = small().fit(paths)
    vectors = features.transform(paths[:3])
    assert vectors.shape == (3, 21 * 8)
    assert vectors.dtype == np.float32
    for path, vector in zip(paths, vectors, strict=False):
        found = dense_sift(read_image(path))
        codes = features.channels_[0].encoder_.transform(found.values)
        expected = MaxPooling().pool(codes, found.x, found.y, found.width, found.height)
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_golden_vectors_of_real_images(data_dir, golden_dir):
    codebook = np.load(golden_dir / "codebook.npy")
    for threshold, field in ((0.98, "lrr_pooled"), (0, "lrr_pooled_no_threshold")):
        encoder = LRREncoder(threshold=threshold, codebook=codebook)
        features = SpatialPyramidFeatures([Channel(encoder)])
        names = sorted(golden_dir.glob("*_*.npz"))
        assert len(names) == 4
        for path in names:
            with np.load(path) as golden:
                image = data_dir / str(golden["image"])
                vector = features.fit([image]).transform([image])[0]
                np.testing.assert_allclose(vector, golden[field], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("encoder", "pooling", "name", "atol_codes", "atol"),
    [
        (SparseEncoder, MaxPooling, "sc", 1e-5, 1e-5),
        (LLCEncoder, SignedMaxPooling, "llc", 1e-5, 1e-5),
    ],
)
def test_golden_codes_of_real_images(golden_dir, encoder, pooling, name, atol_codes, atol):
    fitted = encoder(codebook=np.load(golden_dir / "codebook.npy")).fit(np.zeros((1, 128)))
    names = sorted(golden_dir.glob("*_*.npz"))
    assert len(names) == 4
    for path in names:
        with np.load(path) as golden:
            codes = fitted.transform(golden["descriptors"])
            expected = golden[f"{name}_codes"]
            np.testing.assert_allclose(
                codes[golden["code_rows"]], expected, atol=atol_codes, rtol=0
            )
            size = int(golden["width"]), int(golden["height"])
            vector = pooling().pool(codes, golden["x"] - 1, golden["y"] - 1, *size)
            np.testing.assert_allclose(vector, golden[f"{name}_pooled"], atol=atol, rtol=0)


def test_large_image_is_encoded_in_blocks_as_in_one_piece():
    image = np.random.default_rng(0).random((250, 280))
    features = small().fit([image])
    found = dense_sift(image)
    assert len(found.values) > 1024
    codes = features.channels_[0].encoder_.transform(found.values)
    expected = MaxPooling().pool(codes, found.x, found.y, found.width, found.height)
    np.testing.assert_array_equal(features.transform([image])[0], expected)


def test_paths_and_arrays_mixed(image_folder):
    paths, _ = find_images(image_folder)
    features = small().fit(paths)
    as_uint8 = np.round(read_image(paths[0]) * 255).astype(np.uint8)
    vectors = features.transform([paths[0], read_image(paths[0]), as_uint8, paths[1]])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[3])


def test_arrays_are_shrunk_as_files_are(tmp_path):
    from PIL import Image

    image = draw("slant", np.random.default_rng(0), size=340)
    Image.fromarray(image).save(tmp_path / "a.png")
    features = small().fit([image])
    vectors = features.transform([image, tmp_path / "a.png"])
    np.testing.assert_array_equal(vectors[0], vectors[1])


@pytest.mark.parametrize("n_jobs", [4, -1])
def test_same_bits_for_any_number_of_workers(image_folder, n_jobs):
    paths, _ = find_images(image_folder)
    one = small().fit(paths)
    many = small(n_jobs=n_jobs).fit(paths)
    np.testing.assert_array_equal(
        one.channels_[0].encoder_.codebook_, many.channels_[0].encoder_.codebook_
    )
    np.testing.assert_array_equal(one.transform(paths), many.transform(paths))


def test_same_bits_for_the_same_seed(image_folder):
    paths, _ = find_images(image_folder)
    one, same, other = (small(random_state=s).fit(paths) for s in (1, 1, 2))
    np.testing.assert_array_equal(
        one.channels_[0].encoder_.codebook_, same.channels_[0].encoder_.codebook_
    )
    assert not np.array_equal(
        one.channels_[0].encoder_.codebook_, other.channels_[0].encoder_.codebook_
    )
    # An encoder's own seed is its own.
    encoder = LRREncoder(codebook_size=8, random_state=5)
    features = SpatialPyramidFeatures([Channel(encoder)], random_state=1).fit(paths)
    assert features.channels_[0].encoder_.random_state == 5
    assert encoder.random_state == 5
    assert not hasattr(encoder, "codebook_")


def test_quota_of_each_image(sample_sizes, image_folder):
    paths, _ = find_images(image_folder)
    small(n_samples=360).fit(paths)
    assert sample_sizes == [360]  # 36 images, 10 each
    small(n_samples=10**6).fit(paths[:2])
    assert sample_sizes[-1] == 2 * 36  # all there are: 6 x 6 patches in 48 x 48 pixels


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (3, 2), (17, 16), (1, 2000)])
def test_images_of_any_size_have_a_vector(shape):
    rng = np.random.default_rng(0)
    features = small().fit([rng.random((60, 60))])
    vector = features.transform([rng.random(shape)])[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_black_image_has_a_zero_vector():
    features = small().fit([np.random.default_rng(0).random((60, 60))])
    assert not features.transform([np.zeros((50, 50))]).any()


def test_all_black_training_images():
    features = small().fit([np.zeros((50, 50))])
    assert np.isfinite(features.transform([np.random.default_rng(0).random((50, 50))])).all()


def test_scikit_learn_conventions(image_folder):
    paths, labels = find_images(image_folder)
    features = small()
    copy = clone(features)
    assert copy.get_params()["channels__0__encoder__codebook_size"] == 8
    with pytest.raises(NotFittedError):
        features.transform(paths)
    pipeline = make_pipeline(features, LinearSVM(random_state=0))
    assert cross_val_score(pipeline, paths, labels, cv=3).mean() > 0.9
    name = "spatialpyramidfeatures__channels__0__encoder__regularization"
    search = GridSearchCV(pipeline, {name: [0.1, 0.7]}, cv=2)
    search.fit(np.array(paths), labels)
    assert search.best_score_ > 0.9
    names = features.fit(paths).get_feature_names_out()
    assert len(names) == 21 * 8


def test_bad_images():
    features = small()
    for bad, message in (
        ([], "no images"),
        ("one.jpg", "expected a list of images, got one path"),
        (np.zeros((20, 20)), "expected a list of images, got one array"),
        ([np.zeros((9, 9)), np.full((20, 20), np.nan)], "image 1: the image contains NaN"),
        (pd.DataFrame({"path": ["a.png"]}), "expected a list of images, got one array"),
    ):
        with pytest.raises(ValueError, match=message):
            features.fit(bad)
    with pytest.raises(TypeError, match="an image is a path, an array"):
        features.fit([3])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1"),
        ({"channels__0__encoder__codebook_size": 0}, "codebook_size must be at least 1"),
        ({"channels__0__levels": 4}, "levels must be positive whole numbers in a tuple"),
        ({"channels__0__levels": (0,)}, "levels must be positive"),
        ({"channels__0__descriptor__step": 0}, "step must be"),
        ({"channels__0__pooling__norm": "l3"}, "norm must be one of"),
        ({"channels__0__weight": 0}, "weight must be positive"),
        ({"channels": []}, "channels must be a list of one or more Channel"),
        ({"max_side": 0}, "max_side must be at least 1"),
        ({"min_side": 0}, "min_side must be from 1 to max_side"),
        ({"min_side": 301}, "min_side must be from 1 to max_side"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}"):  # no image is to blame
        small().set_params(**parameters).fit([np.zeros((20, 20))])


def test_worker_threads_leave_the_warning_filters_alone(image_folder):
    paths, _ = find_images(image_folder)
    before = list(warnings.filters)
    small(n_jobs=4).fit(paths).transform(paths)
    assert warnings.filters == before


def test_layout_of_arrays_does_not_matter():
    image = np.random.default_rng(0).random((40, 50), dtype=np.float32)
    features = small().fit([image])
    frozen = image.copy()
    frozen.flags.writeable = False
    whole, *others = features.transform([image, np.asfortranarray(image), frozen])
    for other in others:
        np.testing.assert_array_equal(whole, other)


@pytest.mark.parametrize("seed", [None, np.random.RandomState(3)])
def test_kinds_of_seeds(seed):
    features = small(random_state=seed).fit([np.random.default_rng(0).random((60, 60))])
    assert features.channels_[0].encoder_.codebook_.shape == (8, 128)
