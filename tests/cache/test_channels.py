"""Whole fitted channels in a store: a second run draws no sample, and has the same bits."""

import numpy as np
import pytest

from lrrspm import Channel, ImageClassifier, find_images
from lrrspm.descriptors import LBP, Projection, RootSIFT
from lrrspm.encoders import LRREncoder, LRRWeightEncoder
from lrrspm.pipeline import sampling
from lrrspm.pipeline.chunks import sample_chunk
from lrrspm.pipeline.fitted import array_names, fitted_arrays
from lrrspm.pooling import MomentPooling
from tests.cache.stores import counts, shards

ARRAYS = 8
"""Of one channel: codebook, projection, offset; shares, means, deviations; mean, components."""


def moments(descriptor, atoms=6, components=10):
    encoder, projection = LRRWeightEncoder(atoms), Projection(components)
    return Channel(encoder, descriptor, MomentPooling(), (1, 2), projection=projection)


def classifier(cache=None, channels=None, **parameters):
    channels = channels or [moments(RootSIFT((16,), (8,))), moments(LBP((16,), (8,), (1,)))]
    parameters = {"random_state": 0, "n_samples": 1000, **parameters}
    return ImageClassifier(channels=channels, cache=cache, **parameters)


@pytest.fixture
def sampled(monkeypatch):
    """Number of images in each chunk that was sampled."""
    chunks = []

    def watch(sources, draws, items):
        chunks.append(len(items))
        return original(sources, draws, items)

    original = sample_chunk
    monkeypatch.setattr(sampling, "sample_chunk", watch)
    return chunks


def saved(model, image_folder, path):
    model.fit(*find_images(image_folder)).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_a_second_run_samples_nothing(image_folder, tmp_path, sampled, n_jobs):
    expected = saved(classifier(), image_folder, tmp_path / "m")
    cold = saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m")
    assert counts(tmp_path / "store")["codebooks"] == 2 * ARRAYS
    sampled.clear()
    warm = saved(classifier(tmp_path / "store", n_jobs=n_jobs), image_folder, tmp_path / "m")
    assert sampled == []
    assert cold == warm == expected
    assert counts(tmp_path / "store")["samples"] == 0


@pytest.mark.parametrize(
    "change", [{"random_state": 1}, {"n_samples": 500}, {"max_side": 40}], ids=str
)
def test_what_the_sample_depends_on_counts(image_folder, tmp_path, sampled, change):
    saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m")
    sampled.clear()
    found = saved(classifier(tmp_path / "store", **change), image_folder, tmp_path / "m")
    assert sampled != []
    assert found == saved(classifier(**change), image_folder, tmp_path / "m")


@pytest.mark.parametrize("part", [{"atoms": 7}, {"components": 9}], ids=str)
def test_a_channel_that_changes_is_fitted_alone(image_folder, tmp_path, sampled, part):
    def channels():
        return [moments(RootSIFT((16,), (8,))), moments(LBP((16,), (8,), (1,)), **part)]

    saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m")
    found = saved(classifier(tmp_path / "store", channels()), image_folder, tmp_path / "m")
    assert counts(tmp_path / "store")["codebooks"] == 3 * ARRAYS
    assert found == saved(classifier(None, channels()), image_folder, tmp_path / "m")


def test_damaged_arrays_are_computed_again(image_folder, tmp_path, sampled):
    expected = saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m")
    damaged = shards(tmp_path / "store", "codebooks")
    content = bytearray(damaged[0].read_bytes())
    content[-1] ^= 1
    damaged[0].write_bytes(content)
    sampled.clear()
    with pytest.warns(UserWarning, match="checksum mismatch"):
        found = saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m")
    assert found == expected
    assert sampled != []
    assert counts(tmp_path / "store")["codebooks"] == 2 * ARRAYS


def test_arrays_that_do_not_fit_are_computed_again(image_folder, tmp_path, monkeypatch):
    expected = saved(classifier(), image_folder, tmp_path / "m")

    def wrong(channel):
        arrays = original(channel)
        place = ("pooling", "deviations_")
        return {**arrays, place: np.zeros_like(arrays[place])}

    original = fitted_arrays
    monkeypatch.setattr(sampling, "fitted_arrays", wrong)
    saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m")
    assert saved(classifier(tmp_path / "store"), image_folder, tmp_path / "m") == expected


def test_codebooks_alone_are_kept_as_before(image_folder, tmp_path):
    channels = [Channel(LRREncoder(8)), moments(RootSIFT((16,), (8,)))]
    saved(classifier(tmp_path / "store", channels), image_folder, tmp_path / "m")
    assert counts(tmp_path / "store")["codebooks"] == 1 + ARRAYS


def test_what_is_learned_from_labels_has_no_name(monkeypatch):
    channel = moments(LBP())
    assert len(array_names(channel, {})) == ARRAYS
    monkeypatch.setattr(LRRWeightEncoder, "uses_labels", True, raising=False)
    assert array_names(channel, {}) == {}
