import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from benchmarks.evidence import (
    REGION,
    made_images,
    measure_falls,
    overlaps_region,
    share_of_change,
    share_on_region,
)
from lrrspm import ImageClassifier, KernelSVM, find_images, load_model
from lrrspm.evaluation import split_by_class
from lrrspm.evidence import Explanation, _spread
from lrrspm.methods import METHODS, find_method
from tests import naive
from tests.conftest import draw

ONE_CHANNEL = [*METHODS, "KernelLrrSPM", "NonlinearLrrSPM", "SupervisedLrrSPM"]


def adds_up(classifier, image, label=None):
    """An explanation, with everything checked that holds for each."""
    found = classifier.explain(image, label)
    n = len(found.contributions)
    assert found.x.shape == found.y.shape == found.size.shape == (n,)
    assert found.contributions.dtype == np.float64
    assert found.map.dtype == np.float32
    scores = np.atleast_1d(classifier.decision_function([image])[0])
    if len(classifier.classes_) == 2:
        scores = np.array([-scores[0], scores[0]])
    if label is None:
        assert found.label == classifier.predict([image])[0]
    else:
        assert found.label == label
    assert found.score == scores[classifier.classes_.tolist().index(found.label)]
    assert found.contributions.sum() + found.intercept == pytest.approx(found.score, abs=1e-5)
    assert found.map.sum() + found.intercept == pytest.approx(found.score, abs=1e-5)
    return found


@pytest.fixture(scope="module", params=ONE_CHANNEL)
def random_models(request):
    """Models of one method whose SVM is as good as random, of two and of five classes."""
    rng = np.random.default_rng(0)
    images = [draw("dots", rng) for _ in range(10)]
    made = []
    for n_classes in (2, 5):
        model = ImageClassifier(method=request.param, random_state=0, n_samples=2000)
        model.set_params(channels__0__encoder__codebook_size=11)
        model.fit(images, np.arange(10) % n_classes)
        if find_method(request.param).kernel is None:
            model.svm_.coef_ = rng.normal(size=model.svm_.coef_.shape).astype(np.float32)
            model.svm_.intercept_ = rng.normal(size=len(model.svm_.coef_)).astype(np.float32)
        else:
            model.svm_.dual_coef_ = rng.normal(size=model.svm_.dual_coef_.shape)
        made.append(model)
    return made


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 30), st.integers(0))
def test_spreading_agrees_with_naive(height, width, n, seed):
    rng = np.random.default_rng(seed)
    # Few rows and sizes, so that some patches share a row with the one before.
    y, x = rng.integers(0, height, n) // 3 * 3.0, rng.uniform(0, width, n)
    tall, wide, shares = rng.choice([4.0, 9.0], n), rng.uniform(1, 20, n), rng.normal(size=n)
    out = np.zeros((height, width))
    _spread(shares, y, x, tall, wide, out)
    expected = naive.spread(shares, y, x, tall, wide, out.shape)
    np.testing.assert_allclose(out, expected, atol=1e-12)


@settings(deadline=None, max_examples=15)
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    label=st.integers(0, 4),
    seed=st.integers(0),
)
def test_evidence_of_random_models_adds_up(random_models, height, width, label, seed):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (height, width)).astype(np.uint8)
    for model in random_models:
        assert adds_up(model, image).map.shape == (height, width)
        adds_up(model, image, label % len(model.classes_))


def test_evidence_of_a_flat_image_adds_up(random_models):
    for model in random_models:
        adds_up(model, np.zeros((40, 30), np.uint8))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["LS", "YaleB"])
def test_evidence_on_real_images_adds_up(data_dir, name, method):
    paths, labels = map(np.array, find_images(data_dir / name))
    chosen = np.isin(labels, np.unique(labels)[:4])
    paths, labels = paths[chosen], labels[chosen]
    train = split_by_class(labels, 10, seed=0)
    model = ImageClassifier(method=method, random_state=0, n_samples=20_000, n_jobs=-1)
    model.fit(paths[train].tolist(), labels[train])
    rest = np.setdiff1d(np.arange(len(paths)), train)
    for path in paths[rest][:: len(rest) // 12]:
        for label in (None, *model.classes_):
            adds_up(model, str(path), label)


@pytest.fixture(scope="module")
def model(model_path):
    return load_model(model_path)


def test_the_map_has_the_size_of_the_image_as_given(model, tmp_path):
    rng = np.random.default_rng(1)
    large = Image.fromarray(draw("along", rng, 900)[:, :700])
    large.save(tmp_path / "large.png")
    large.save(tmp_path / "large.jpg")  # shrunk, though not reduced
    for name in ("large.png", "large.jpg"):
        assert adds_up(model, str(tmp_path / name)).map.shape == (900, 700)


def test_a_reduced_photograph_has_the_map_of_the_full_one(model, tmp_path):
    rng = np.random.default_rng(1)
    pixels = np.kron(draw("along", rng, 100), np.ones((19, 13), np.uint8))
    path = tmp_path / "photograph.jpg"
    Image.fromarray(pixels).save(path, quality=95)
    found = adds_up(model, str(path))  # 1900 x 1300 are decoded at a half
    assert found.map.shape == (1900, 1300)
    full = adds_up(model, pixels)
    assert found.x == pytest.approx(full.x)
    assert found.y == pytest.approx(full.y)
    assert np.corrcoef(found.map.ravel(), full.map.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_map_lies_on_the_upright_image(model, tmp_path, orientation):
    pixels = draw("across", np.random.default_rng(2), 64)[:, :40]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned.png"
    Image.fromarray(pixels).save(path, exif=exif)
    with Image.open(path) as opened:
        from PIL import ImageOps

        upright = np.asarray(ImageOps.exif_transpose(opened))
    found, expected = adds_up(model, str(path)), adds_up(model, upright)
    np.testing.assert_array_equal(found.map, expected.map)


def test_a_file_an_array_and_an_open_file_are_explained_alike(model, image_folder):
    path = next(iter(sorted((image_folder / "dots").iterdir())))
    with Image.open(path) as opened:
        array = np.asarray(opened)
    found = [model.explain(image) for image in (path, str(path), array)]
    found.append(model.explain(io.BytesIO(path.read_bytes())))
    for other in found[1:]:
        assert other[:3] == found[0][:3]
        for one, two in zip(other[3:], found[0][3:], strict=True):
            np.testing.assert_array_equal(one, two)


def test_patch_centers_by_hand(model):
    # 30 x 23 pixels: corners 1 and 7 downwards, 0 and 6 across; patches of 16.
    found = model.explain(draw("dots", np.random.default_rng(0))[:30, :23])
    assert found.x.tolist() == [7.5, 13.5, 7.5, 13.5, 7.5, 13.5]
    assert found.y.tolist() == [8.5, 8.5, 14.5, 14.5, 20.5, 20.5]


def test_patch_centers_of_a_padded_image(model):
    # 5 x 9 pixels are padded to 16 x 16: the one patch lies around their middle, rounded down.
    found = model.explain(draw("dots", np.random.default_rng(0))[:5, :9])
    assert (found.x.tolist(), found.y.tolist()) == ([4.5], [2.5])
    row, column = np.unravel_index(np.abs(found.map).argmax(), found.map.shape)
    assert (row, column) in ((2, 4), (2, 5), (3, 4), (3, 5))


def test_the_first_of_equal_scores_wins(model):
    black = np.zeros((40, 40), np.uint8)  # nothing to see: all scores are 0
    assert model.explain(black).label == "across"
    ranked = model.examine(black).ranked()
    assert [one[:2] for one in ranked] == [("across", 0), ("along", 0), ("dots", 0)]
    assert [one.probability for one in ranked] == pytest.approx([1 / 3] * 3)


def test_patch_centers_of_a_shrunk_image(model):
    # 600 x 600 is shrunk to 300 x 300: edges lie twice as far.
    image = np.kron(draw("dots", np.random.default_rng(0), 300), np.ones((2, 2), np.uint8))
    found = model.explain(image)
    assert found.x.min() == 2 * (7.5 + (300 - 16) % 6 // 2 + 0.5) - 0.5
    assert np.unique(np.diff(np.unique(found.x))).tolist() == [12.0]


def test_evidence_lies_on_its_patch(model):
    image = draw("dots", np.random.default_rng(0))[:16, :40].copy()
    examined = model.examine(image)
    found = examined.explain()
    alone = np.zeros(len(found.contributions))
    alone[2] = 3.0
    spread = examined._spread(alone, image.shape)
    inside = slice(round(found.x[2] + 0.5) - 8, round(found.x[2] + 0.5) + 8)
    assert spread[:, inside].sum() == pytest.approx(3)
    assert (spread[:, inside] > 0).all()
    assert spread.sum() == pytest.approx(3)
    row, column = np.unravel_index(spread.argmax(), spread.shape)
    assert abs(column - found.x[2]) <= 0.5
    assert abs(row - found.y[2]) <= 0.5


def test_a_map_of_another_shape_has_the_same_sum(model, image_folder):
    path = next(iter(sorted((image_folder / "dots").iterdir())))
    examined = model.examine(path)
    small, large = (examined.explain(shape=shape) for shape in ((7, 9), (480, 480)))
    assert small.map.shape == (7, 9)
    assert small.map.sum() == pytest.approx(large.map.sum(), abs=1e-5)
    # Ten times as large: each pixel is what ten by ten of the large one are.
    own = examined.explain().map
    np.testing.assert_allclose(
        large.map.reshape(48, 10, 48, 10).sum(axis=(1, 3)), own, atol=1e-6 * np.abs(own).max() * 100
    )


def test_two_classes_have_opposite_evidence(image_folder):
    paths, labels = find_images(image_folder)
    two = [i for i, label in enumerate(labels) if label != "dots"]
    model = ImageClassifier(random_state=0, n_samples=2000)
    model.fit([paths[i] for i in two], [labels[i] for i in two])
    first, second = (adds_up(model, paths[0], label) for label in ("across", "along"))
    assert second.score == model.decision_function([paths[0]])[0]
    assert first.score == -second.score
    assert math.copysign(1, first.intercept) == math.copysign(1, second.intercept) == 1
    np.testing.assert_array_equal(first.contributions, -second.contributions)
    np.testing.assert_array_equal(first.map, -second.map)


def test_the_intercept_is_stated_apart(image_folder):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(random_state=0, n_samples=2000).fit(paths, labels)
    without = model.explain(paths[0], "dots")
    assert without.intercept == 0
    model.svm_.intercept_ = np.array([1, 2, 3], np.float32)
    found = adds_up(model, paths[0], "dots")
    assert found.intercept == 3
    assert found.score == pytest.approx(without.score + 3)
    np.testing.assert_array_equal(found.contributions, without.contributions)


def test_an_explanation_is_a_small_tuple(model, image_folder):
    assert Explanation._fields == (
        "label", "score", "intercept", "contributions", "x", "y", "size", "map",
    )  # fmt: skip
    found = model.explain(image_folder / "dots" / "00.png")
    label, score, *_ = found
    assert (label, score) == (found.label, found.score)
    assert isinstance(score, float)
    assert isinstance(label, str)


def test_unknown_labels_are_named(model, image_folder):
    with pytest.raises(ValueError, match="no class 'cat'; choose from: across, along, dots"):
        model.explain(image_folder / "dots" / "00.png", "cat")


def test_an_unfitted_classifier_explains_nothing():
    with pytest.raises(ValueError, match="not fitted"):
        ImageClassifier().explain(np.zeros((20, 20), np.uint8))


def test_broken_files_are_named(model, tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(b"not an image")
    with pytest.raises(ValueError, match=r"broken\.png: not an image"):
        model.explain(path)
    with pytest.raises(ValueError, match="the image: not an image"):
        model.explain(io.BytesIO(b"not an image"))
    with pytest.raises(ValueError, match="the image: the file is empty"):
        model.explain(io.BytesIO())


@pytest.mark.parametrize("given", [["a.png"], None, 3])
def test_one_image_is_expected(model, given):
    with pytest.raises(TypeError, match="expected one image: a path, an array"):
        model.explain(given)


def test_scores_of_other_kernels_cannot_be_explained():
    svm = KernelSVM("chi2").fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="scores of kernel 'chi2' cannot be explained"):
        svm.weights_at(np.ones(4), 0)


# LinearSPM gives the plain patches' atoms some weight too; benchmarks/evidence.py has its share.
@pytest.mark.parametrize(
    "method",
    ["LrrSPM", "ScSPM", "LLC", "LinearBOF", "KernelBOF", "KernelSPM",
     "KernelLrrSPM", "NonlinearLrrSPM", "SupervisedLrrSPM"],
)  # fmt: skip
def test_evidence_lies_where_the_classes_differ(method):
    """On average: of LLC and LinearBOF the share changes by up to 0.08 with the codebook.

    And the codebook changes with the processor, whose k-means rounds in its own way.
    """
    means = []
    for seed in range(4 if method == "LrrSPM" else 2):
        images, labels = made_images(80, seed)
        # Nothing but the region differs.
        outside = np.ones(images[0].shape, bool)
        outside[REGION] = False
        assert all((image[outside] == images[0][outside]).all() for image in images)
        model = ImageClassifier(method=method, random_state=0, n_samples=20_000, n_jobs=-1)
        model.fit(images[:60], labels[:60])
        assert (model.predict(images[60:]) == labels[60:]).all()
        means.append(np.mean([share_on_region(model.explain(image)) for image in images[60:70]]))
    assert np.mean(means) >= 0.9
    assert method != "LrrSPM" or min(means) >= 0.9


@pytest.mark.parametrize("method", ["LrrSPM", "balanced"])
def test_what_changes_with_the_class_is_on_patches_that_see_it(method):
    """Large patches see the region from outside it, so their maps reach beyond."""
    images, labels = made_images(80)
    model = ImageClassifier(method=method, random_state=0, n_samples=20_000, n_jobs=-1)
    model.fit(images[:60], labels[:60])
    pairs = [[model.explain(image, 0) for image in images[i : i + 2]] for i in range(60, 80, 4)]
    assert np.mean([share_of_change(*pair) for pair in pairs]) >= 0.9
    assert overlaps_region(pairs[0][0]).mean() < 0.6  # what chance would give


def test_covering_strong_evidence_lowers_the_score(data_dir):
    falls = measure_falls("YaleB", 30, "LrrSPM")
    for how in ("patches", "smooth"):
        strongest, random = falls[how]
        assert strongest > 0.1
        assert strongest >= 3 * random
