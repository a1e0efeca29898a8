"""Long vectors: only those of one model's training images are in memory, and no result changes."""

import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest

from lrrspm import Channel, ImageClassifier, LinearSVM, find_images
from lrrspm._support.stages import Stages
from lrrspm.descriptors import LBP, Projection, RootSIFT
from lrrspm.encoders import LRREncoder, LRRWeightEncoder, VQEncoder
from lrrspm.evaluation import evaluate, train_with_estimate
from lrrspm.loading import score_images
from lrrspm.pipeline import encode_images
from lrrspm.pooling import MomentPooling


def moments(descriptor):
    return Channel(
        LRRWeightEncoder(6), descriptor, MomentPooling(), (1, 2), projection=Projection(10)
    )


def classifier(**parameters):
    channels = [moments(RootSIFT((16, 24), (8, 8))), moments(LBP((16,), (8,), (1,)))]
    parameters = {"random_state": 0, "n_samples": 2000, "C": 0.01, **parameters}
    return ImageClassifier(channels=channels, **parameters)


@pytest.fixture(scope="module")
def fitted(image_folder):
    paths, labels = find_images(image_folder)
    return classifier().fit(paths, labels), paths


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr("lrrspm.training.MEMORY", 1)
    monkeypatch.setattr("lrrspm.pipeline.streaming._BLOCK_BYTES", 10_000)


class Watched:
    """``encode_images``, which also notes how many images it was given, and what is still alive."""

    def __init__(self):
        self.images, self.alive, self._matrices = [], [], []

    def __call__(self, features, images, *rest):
        self.alive.append(sum(matrix() is not None for matrix in self._matrices))
        self.images.append(len(images))
        encoded = encode_images(features, images, *rest)
        self._matrices += [weakref.ref(matrix) for matrix in encoded.matrices]
        return encoded


@pytest.fixture
def watched(monkeypatch):
    watched = Watched()
    monkeypatch.setattr("lrrspm.training.encode_images", watched)
    monkeypatch.setattr("lrrspm.pipeline.streaming.encode_images", watched)
    return watched


@pytest.mark.parametrize("size", [1, 3, 7])
def test_blocks_of_images_give_the_same_scores(fitted, tmp_path, monkeypatch, size):
    model, paths = fitted
    expected = model.decision_function(paths)
    told = []
    row = 2 * model.svm_.n_features_in_
    monkeypatch.setattr("lrrspm.pipeline.streaming._BLOCK_BYTES", size * row)
    np.testing.assert_array_equal(model.decision_function(paths), expected)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    stages = Stages(lambda name, done, total: told.append((done, total)))
    mixed = [paths[0], str(broken), *paths[1:], str(broken)]
    found = score_images(model, mixed, stages, skip=True)
    np.testing.assert_array_equal(found.scores, expected)
    assert sorted(found.skipped) == [1, len(mixed) - 1]
    assert told[-1] == (len(mixed), len(mixed))


def test_only_one_block_is_in_memory(fitted, little_memory, watched):
    model, paths = fitted
    model.predict(paths)
    assert max(watched.images) * 2 * model.svm_.n_features_in_ <= 10_000
    assert sum(watched.images) == len(paths)
    assert max(watched.alive) == 0


def test_single_precision_is_scored_at_once(image_folder, little_memory, watched):
    paths, labels = find_images(image_folder)
    ImageClassifier(LRREncoder(8), random_state=0).fit(paths, labels).predict(paths)
    assert watched.images == [len(paths), len(paths)]


@pytest.mark.parametrize("shared_codebook", [False, True])
def test_evaluations_stay_the_same(fitted, image_folder, request, shared_codebook):
    paths, labels = find_images(image_folder)
    kept = evaluate(paths, labels, classifier(), 3, 2, shared_codebook)
    request.getfixturevalue("little_memory")
    watched = request.getfixturevalue("watched")
    apart = evaluate(paths, labels, classifier(n_jobs=2), 3, 2, shared_codebook)
    np.testing.assert_array_equal(apart.confusions, kept.confusions)
    assert [(m.path, m.score) for m in apart.mistakes] == [(m.path, m.score) for m in kept.mistakes]
    assert set(apart.seconds) == set(kept.seconds)
    # Not even all training images of one model: their vectors are on disk.
    assert max(watched.images) * 2 * fitted[0].svm_.n_features_in_ <= 10_000
    assert max(watched.alive) == 0


def test_training_with_an_estimate_stays_the_same(image_folder, tmp_path, request):
    paths, labels = find_images(image_folder)
    kept, apart = classifier(), classifier()
    expected = train_with_estimate(paths, labels, kept).estimate
    request.getfixturevalue("little_memory")
    watched = request.getfixturevalue("watched")
    found = train_with_estimate(paths, labels, apart).estimate
    assert found is not None
    assert expected is not None
    np.testing.assert_array_equal(found.confusions, expected.confusions)
    assert max(watched.alive) == 0
    for name, model in {"kept": kept, "apart": apart}.items():
        model.save(tmp_path / name)
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "apart").read_bytes()


def test_weights_of_channels_are_learned_as_in_memory(image_folder, tmp_path, request):
    paths, labels = find_images(image_folder)
    channels = [moments(RootSIFT((16, 24), (8, 8))), moments(LBP((16,), (8,), (1,)))]
    for channel in channels:
        channel.weight = None
    kept = ImageClassifier(channels=channels, n_samples=2000, random_state=0).fit(paths, labels)
    request.getfixturevalue("little_memory")
    apart = ImageClassifier(channels=channels, n_samples=2000, random_state=0).fit(paths, labels)
    assert [c.weight for c in kept.features_.channels_] != [1, 1]
    for name, model in {"kept": kept, "apart": apart}.items():
        model.save(tmp_path / name)
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "apart").read_bytes()


@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
def test_too_many_images_for_a_gram_matrix(image_folder, tmp_path, monkeypatch, loss):
    """The primal: the same solution within its tolerance, calibrated on one fold held out."""
    paths, labels = find_images(image_folder)
    monkeypatch.setattr(
        ImageClassifier, "new_svm", lambda self: LinearSVM(C=self.C, loss=loss, random_state=0)
    )
    kept = classifier(C=10.0).fit(paths, labels)
    monkeypatch.setattr("lrrspm.training.MEMORY", 1)
    monkeypatch.setattr("lrrspm.svm.stored.GRAM_BYTES", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    apart = classifier(C=10.0).fit(paths, labels)
    expected = kept.decision_function(paths)
    np.testing.assert_allclose(apart.decision_function(paths), expected, atol=0.02)
    assert apart.temperature_ is not None
    assert apart.familiar_ is not None
    assert apart.summary_ == kept.summary_
    assert list(tmp_path.iterdir()) == []


def test_kernels_stay_in_memory(image_folder, little_memory):
    paths, labels = find_images(image_folder)
    model = ImageClassifier(VQEncoder(8), "KernelSPM", random_state=0, n_samples=500)
    assert model.fit(paths, labels).score(paths, labels) > 0.5


def test_unreadable_images_are_left_out(image_folder, tmp_path, little_memory):
    paths, labels = find_images(image_folder)
    expected = evaluate(paths, labels, classifier(), 3, 1)
    folder = tmp_path / "images"
    shutil.copytree(image_folder, folder)
    for name in sorted(set(labels)):
        Path(folder, name, "zzz.png").write_bytes(b"no image")
        Path(folder, name, "000.png").write_bytes(b"no image")
    paths, labels = find_images(folder)
    found = evaluate(paths, labels, classifier(), 3, 1, max_skipped=0.9)
    np.testing.assert_array_equal(found.confusions, expected.confusions)
    assert len(found.skipped) == 2 * len(set(labels))
