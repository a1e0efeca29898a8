"""Parts that are not ours, or not alike, beside those that are: each as if it were alone."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from lrrspm import (
    SIFT,
    Channel,
    ImageClassifier,
    LLCEncoder,
    LRREncoder,
    SparseEncoder,
    SpatialPyramidFeatures,
    VQEncoder,
    evaluate,
    find_images,
)
from lrrspm._support.stages import Stages
from lrrspm.cache import FeatureStore
from lrrspm.evaluation import evaluate_all
from lrrspm.pipeline import open_engine
from lrrspm.training import fit_together
from tests.conftest import draw


class FirstRows(LRREncoder):
    """Its codebook is the first descriptors: a poor one."""

    def learn(self, X, executor, progress):
        return X[: self.codebook_size].copy()


class Centered(LRREncoder):
    """Learns more than a codebook from the sample."""

    def learn_from(self, X, executor, progress):
        super().learn_from(X, executor, progress)
        self.mean_ = X.mean(axis=0)

    def encode(self, X, codes):
        super().encode(X - self.mean_, codes)


def classifier(encoder=LRREncoder, cache=None, **parameters):
    parameters = {"n_samples": 500, "C": 0.01, "random_state": 0, **parameters}
    return ImageClassifier(encoder(codebook_size=6), cache=cache, **parameters)


def confusions(paths, labels, *classifiers, shared_codebook=False):
    found = evaluate_all(paths, labels, classifiers, 2, 3, shared_codebook)
    return [evaluation.confusions for evaluation in found]


@pytest.mark.parametrize("foreign", [FirstRows, Centered])
@pytest.mark.parametrize("foreign_first", [True, False])
@pytest.mark.parametrize("shared_codebook", [True, False])
def test_an_encoder_that_learns_its_own_way_spoils_no_other(
    image_folder, tmp_path, foreign, foreign_first, shared_codebook
):
    paths, labels = find_images(image_folder)
    shared = {"shared_codebook": shared_codebook}
    (ours,) = confusions(paths, labels, classifier(), **shared)
    (theirs,) = confusions(paths, labels, classifier(foreign), **shared)
    different = vectors_of([classifier(), classifier(foreign)], paths, labels)
    assert not np.array_equal(*different)
    pair = [classifier(foreign, tmp_path), classifier(LRREncoder, tmp_path)]
    expected = [theirs, ours]
    if not foreign_first:
        pair, expected = pair[::-1], expected[::-1]
    for _ in range(2):  # with an empty store, and with what the first run left there
        np.testing.assert_array_equal(confusions(paths, labels, *pair, **shared), expected)
        (later,) = confusions(paths, labels, classifier(LRREncoder, tmp_path), **shared)
        np.testing.assert_array_equal(later, ours)
        (later,) = confusions(paths, labels, classifier(foreign, tmp_path), **shared)
        np.testing.assert_array_equal(later, theirs)


def vectors_of(classifiers, paths, labels, shared_codebook=False, store=None):
    members = [np.arange(len(paths))] * len(classifiers)
    with open_engine(1) as engine:
        trained, _ = fit_together(
            classifiers, paths, labels, members, engine, Stages(), shared_codebook, store=store
        )
    return [part.vectors for part in trained]


@pytest.mark.parametrize("shared_codebook", [True, False])
def test_descriptors_that_differ_are_each_ones_own(image_folder, tmp_path, shared_codebook):
    paths, labels = find_images(image_folder)

    def make(cache=None):
        parts = [SIFT(6), SIFT(12), SIFT(6, patch_size=24)]
        return [
            ImageClassifier(
                channels=[Channel(LRREncoder(codebook_size=6), sift)],
                n_samples=500, C=0.01, random_state=0, cache=cache,
            )
            for sift in parts
        ]  # fmt: skip

    alone = [vectors_of([one], paths, labels, shared_codebook)[0] for one in make()]
    assert not np.array_equal(alone[0], alone[1])
    assert not np.array_equal(alone[0], alone[2])
    for store in (None, FeatureStore(tmp_path), FeatureStore(tmp_path)):
        together = vectors_of(make(), paths, labels, shared_codebook, store)
        np.testing.assert_array_equal(together, alone)
    found = evaluate_all(paths, labels, make(), 2, 3, shared_codebook)
    for one, evaluation in zip(make(), found, strict=True):
        expected = evaluate(paths, labels, one, 2, 3, shared_codebook)
        np.testing.assert_array_equal(evaluation.confusions, expected.confusions)


def test_sizes_that_differ_are_each_ones_own(image_folder):
    paths, labels = find_images(image_folder)
    kinds = [classifier(), classifier(max_side=30)]
    alone = [vectors_of([one], paths, labels)[0] for one in kinds]
    assert not np.array_equal(*alone)
    np.testing.assert_array_equal(vectors_of(kinds, paths, labels), alone)


def test_codebooks_that_differ_in_the_middle_share_no_features(image_folder):
    """NumPy prints large arrays alike if their corners are alike."""
    paths, labels = find_images(image_folder)
    codebook = np.random.default_rng(0).random((40, 128))
    other = codebook.copy()
    other[5:-5, 5:-5] = 0
    assert str(codebook) == str(other)
    kinds = [
        ImageClassifier(LRREncoder(codebook=given), n_samples=500, C=0.01, random_state=0)
        for given in (codebook, other, codebook.copy())
    ]
    alone = [vectors_of([one], paths, labels, shared_codebook=True)[0] for one in kinds]
    assert not np.array_equal(alone[0], alone[1])
    together = vectors_of(kinds, paths, labels, shared_codebook=True)
    np.testing.assert_array_equal(together, alone)
    assert together[0] is together[2]  # those that are alike do share


class Mirrored(SpatialPyramidFeatures):
    def read(self, image):
        pixels = super().read(image)
        assert pixels.gray is not None
        return pixels._replace(gray=np.ascontiguousarray(pixels.gray[:, ::-1]))


class MirroredClassifier(ImageClassifier):
    """The way to use features of one's own in a classifier."""

    def new_features(self):
        return Mirrored(**super().new_features().get_params(deep=False))


@pytest.fixture(scope="module")
def mirrored(image_folder):
    model = MirroredClassifier(LRREncoder(codebook_size=6), n_samples=500, random_state=0)
    return model.fit(*find_images(image_folder))


def test_features_of_ones_own_are_not_saved_as_ours(mirrored, tmp_path):
    with pytest.raises(ValueError, match="features of class Mirrored cannot be saved"):
        mirrored.save(tmp_path / "m.lrrspm")
    assert list(tmp_path.iterdir()) == []


def test_explanations_read_as_predictions_do(mirrored, image_folder, tmp_path):
    paths, _ = find_images(image_folder)
    slanted = draw("slant", np.random.default_rng(3))
    for image in (*paths[::5], slanted):
        scores = mirrored.decision_function([image])[0]
        np.testing.assert_allclose(mirrored.examine(image).scores, scores, atol=1e-6)
        for label, score in zip(mirrored.classes_, scores, strict=True):
            found = mirrored.explain(image, label)
            assert found.score == pytest.approx(score, abs=1e-6)
            assert found.intercept + found.contributions.sum() == pytest.approx(score, abs=1e-5)
    # The test can fail: unmirrored, the scores are others.
    plain = ImageClassifier(LRREncoder(codebook_size=6))
    plain.features_ = SpatialPyramidFeatures(**mirrored.features_.get_params(deep=False))
    plain.features_.channels_ = mirrored.features_.channels_
    plain.svm_, plain.classes_, plain.temperature_ = mirrored.svm_, mirrored.classes_, None
    assert np.abs(plain.examine(slanted).scores - mirrored.examine(slanted).scores).max() > 0.001


METHODS = [("LrrSPM", LRREncoder), ("LLC", LLCEncoder), ("ScSPM", SparseEncoder),
           ("LinearSPM", VQEncoder)]  # fmt: skip


def of_method(method):
    model = ImageClassifier(method=method, n_samples=500, C=0.01, random_state=0)
    return model.set_params(channels__0__encoder__codebook_size=6)


@pytest.mark.parametrize(("method", "encoder"), METHODS)
def test_an_encoder_alone_is_its_method(image_folder, method, encoder):
    paths, labels = find_images(image_folder)
    alone, named = classifier(encoder), of_method(method)
    np.testing.assert_array_equal(
        vectors_of([alone], paths, labels), vectors_of([named], paths, labels)
    )
    np.testing.assert_array_equal(alone.svm_.coef_, named.svm_.coef_)
    assert alone.method_name == method
    both = ImageClassifier(encoder(codebook_size=6), method, n_samples=500, C=0.01, random_state=0)
    np.testing.assert_array_equal(
        both.fit(paths, labels).decision_function(paths), named.decision_function(paths)
    )


@pytest.mark.parametrize("name", ["encoder", "channels__0__encoder"])
def test_a_grid_search_over_encoders_compares_the_methods(image_folder, name):
    paths, labels = find_images(image_folder)
    some = slice(None, None, 2)
    paths, labels = paths[some], labels[some]
    grid = {name: [encoder(codebook_size=6) for _, encoder in METHODS]}
    plain = ImageClassifier(LRREncoder(), n_samples=500, C=0.01, random_state=0)
    # The margin of the scores says more than the accuracy, which is easily the same.
    search = GridSearchCV(plain, grid, cv=2, scoring=margin).fit(paths, labels)
    expected = [
        cross_val_score(of_method(method), paths, labels, cv=2, scoring=margin).mean()
        for method, _ in METHODS
    ]
    assert len(set(expected)) == len(METHODS)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], expected)


def margin(model, X, y):
    return float(np.abs(model.decision_function(X)).mean())


def test_predictions_change_nothing_that_was_fitted(image_folder, tmp_path):
    """Threads of a server share the parts."""
    paths, labels = find_images(image_folder)
    model = classifier(n_jobs=1).fit(paths, labels)
    expected = model.decision_function(paths)

    def state():
        parts = (model.features_, model.svm_, model.classes_, model.summary_)
        return pickle.dumps(parts)

    before, parts = state(), (model.features_, model.svm_)
    parameters = [part.get_params(deep=False).copy() for part in parts]
    for changes in ({}, {"n_jobs": 3, "cache": tmp_path / "cache"}, {"n_jobs": None, "C": 1}):
        model.set_params(**changes)
        np.testing.assert_array_equal(model.decision_function(paths), expected)
        model.predict(paths)
        model.explain(paths[0])
        model.examine(paths[1]).explain("dots")
        model.save(tmp_path / "m.lrrspm")
        for part, own in zip((model.features_, model.svm_), parameters, strict=True):
            assert part.get_params(deep=False) == own
        assert (model.features_, model.svm_) == parts
        assert state() == before
    assert (model.features_.n_jobs, model.features_.cache, model.svm_.n_jobs) == (1, None, 1)
    assert (tmp_path / "cache").is_dir()  # the classifier's own parameter counts
