"""Growing: images added, classes added, images gone, with the features as they are."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from lrrspm import Channel, ImageClassifier, LLCEncoder, LRREncoder, find_images, load_model
from lrrspm._support.stages import Stages
from lrrspm.growing import find_changes, gather
from lrrspm.modelfile import label_digests
from lrrspm.pipeline import encode_images, open_engine
from lrrspm.svm import stratified_folds
from lrrspm.training import as_seed
from tests.conftest import draw


def small(**parameters):
    return ImageClassifier(
        LRREncoder(codebook_size=8), **{"n_samples": 2000, "random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def images(image_folder):
    """Paths and labels of three classes, the last of them in the second half alone."""
    paths, labels = find_images(image_folder)
    order = [*range(0, 24, 2), *range(1, 24, 2), *range(24, 36)]
    return [paths[i] for i in order], np.array([labels[i] for i in order])


def on_all_vectors(model, paths, labels):
    """A machine trained on the vectors of all images, and its temperature: the slow way."""
    twin = clone(model)
    twin.features_ = model.features_
    with open_engine(1) as engine:
        vectors = encode_images([model.features_], paths, engine, Stages()).matrices[0]
        twin.fit_svm(vectors, labels, engine, stratified_folds(labels, as_seed(0)))
    return twin


def same(one, other, paths):
    np.testing.assert_array_equal(one.decision_function(paths), other.decision_function(paths))
    assert (one.temperature_, one.familiar_) == (other.temperature_, other.familiar_)
    assert one.summary_ == other.summary_
    np.testing.assert_array_equal(one.classes_, other.classes_)


@pytest.mark.parametrize("method", [None, "KernelSPM", "balanced"])
def test_grown_equals_trained_on_all_vectors(images, method, tmp_path):
    paths, labels = images
    if method is None:
        model = small()
    else:
        model = ImageClassifier(method=method, random_state=0, n_samples=2000)
        model.set_params(channels__0__encoder__codebook_size=4)
    model.set_params(cache=tmp_path / "store").fit(paths[:12], labels[:12])
    codebook = model.features_.channels_[0].encoder_.codebook_.copy()
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m").set_params(cache=tmp_path / "store", n_jobs=3)
    loaded.grow(paths, labels)
    same(loaded, on_all_vectors(model, paths, labels), paths)
    assert loaded.classes_.tolist() == ["across", "along", "dots"]
    np.testing.assert_array_equal(loaded.features_.channels_[0].encoder_.codebook_, codebook)
    # Back to the images before: the same file.
    loaded.grow(paths[:12], labels[:12]).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_learned_weights_of_channels_stay(images, tmp_path):
    paths, labels = images
    parts = [LRREncoder(codebook_size=8), LLCEncoder(codebook_size=6)]
    channels = [Channel(part, levels=(1, 2), weight=None) for part in parts]
    model = ImageClassifier(channels=channels, random_state=0, n_samples=2000)
    model.fit(paths[:12], labels[:12]).save(tmp_path / "m")
    learned = [channel.weight for channel in model.features_.channels_]
    anew = clone(model).fit(paths, labels).features_.channels_
    assert learned != [channel.weight for channel in anew]
    for one in (model, load_model(tmp_path / "m")):
        one.grow(paths, labels)
        assert [channel.weight for channel in one.features_.channels_] == learned
        same(one, on_all_vectors(one, paths, labels), paths)


def test_vectors_of_known_images_come_from_the_store(images, tmp_path, reads):
    paths, labels = images
    model = small(cache=tmp_path).fit(paths[:24], labels[:24])
    reads.clear()
    model.grow(paths[:30], labels[:30])
    assert sorted(reads) == sorted(paths[24:30])


def test_partial_fit_equals_growing_with_all(images, tmp_path):
    paths, labels = images
    model = small()
    for rows in (slice(12), slice(12, 20), slice(20, 36)):
        model.partial_fit(paths[rows], labels[rows])
    grown = small().fit(paths[:12], labels[:12]).grow(paths, labels)
    same(model, grown, paths)
    model.save(tmp_path / "one")
    grown.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_first_partial_fit_is_fit(images):
    paths, labels = images
    same(small().partial_fit(paths, labels), small().fit(paths, labels), paths)


def test_partial_fit_needs_the_vectors(images, tmp_path):
    paths, labels = images
    model = small().fit(paths, labels)
    with pytest.raises(ValueError, match="call grow with all images"):
        model.partial_fit(paths, labels)
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match="call grow with all images"):
        load_model(tmp_path / "m").partial_fit(paths, labels)
    # A fit in between forgets what came before.
    model = small().partial_fit(paths, labels)
    model.fit(paths[:12], labels[:12])
    with pytest.raises(ValueError, match="call grow with all images"):
        model.partial_fit(paths, labels)


def test_partial_fit_checks_labels(images):
    paths, labels = images
    model = small()
    with pytest.raises(ValueError, match=r"not among classes: \['dots'\]"):
        model.partial_fit(paths, labels, classes=["across", "along"])
    model.partial_fit(paths[:24], labels[:24], classes=["across", "along", "dots"])
    expected = model.decision_function(paths)
    with pytest.raises(ValueError, match="those before were"):
        model.partial_fit(paths[24:], [1] * 12)
    np.testing.assert_array_equal(model.decision_function(paths), expected)
    assert len(model.partial_fit(paths[24:], labels[24:]).classes_) == 3


def test_weights_and_other_penalties_apply(images):
    paths, labels = images
    model = small().fit(paths, labels)
    plain = model.grow(paths, labels).decision_function(paths)
    weighted = model.grow(paths, labels, np.arange(1, 37)).decision_function(paths)
    assert not np.array_equal(plain, weighted)
    softer = model.set_params(C=0.01).grow(paths, labels).decision_function(paths)
    assert not np.array_equal(plain, softer)


def test_digests_are_those_of_the_files(images, tmp_path):
    paths, labels = images
    model = small().fit(paths, labels)
    model.save(tmp_path / "m")
    expected = Counter(
        (hashlib.sha256(Path(path).read_bytes()).hexdigest()[:32], label)
        for path, label in zip(paths, labels.tolist(), strict=True)
    )
    for one in (model, load_model(tmp_path / "m")):
        assert one.digests_ is not None
        found = label_digests(one.digests_, one.classes_, one.summary_)
        assert Counter(found) == expected
    model.digests_ = None
    model.save(tmp_path / "without")
    added = (tmp_path / "m").stat().st_size - (tmp_path / "without").stat().st_size
    assert 0 < added - 16 * len(paths) < 100


def test_arrays_have_digests_too():
    rng = np.random.default_rng(0)
    arrays = [draw(kind, rng) for kind in ("across", "along") for _ in range(3)]
    model = small().fit(arrays, [0, 0, 0, 1, 1, 1])
    assert len({row.tobytes() for row in model.digests_}) == 6
    same_images = small().fit(arrays[::-1], [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(model.digests_, same_images.digests_)


def test_changes(images, tmp_path):
    paths, labels = images
    model = small().fit(paths[:24], labels[:24])
    copy, broken = tmp_path / "copy.png", tmp_path / "broken.png"
    copy.write_bytes(Path(paths[2]).read_bytes())
    broken.touch()
    # One image gone, ten new ones, one relabeled by a second folder, one that cannot be read.
    given = [(paths[1:34], labels[1:34].tolist()), ([str(copy), str(broken)], ["dots", "dots"])]
    with open_engine(1) as engine:
        gathered = gather(given, model.store(), engine)
    assert len(gathered.paths) == 34
    assert paths[2] not in gathered.paths
    assert gathered.labels == sorted(gathered.labels)
    changes = find_changes(model, gathered)
    assert sorted(changes.new) == sorted([*paths[24:34], str(broken)])
    assert changes.relabeled == [str(copy)]
    assert changes.known == 22
    assert changes.gone == {labels[0]: 1}


def test_what_cannot_be_compared(images):
    paths, labels = images
    numbers = np.unique(labels, return_inverse=True)[1]
    model = small().fit(paths, numbers)
    with open_engine(1) as engine:
        gathered = gather([(paths, labels.tolist())], model.store(), engine)
    with pytest.raises(ValueError, match="are numbers"):
        find_changes(model, gathered)
    model.digests_ = None
    with pytest.raises(ValueError, match="does not record its training images; train it again"):
        find_changes(model, gathered)
