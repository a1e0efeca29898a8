"""Chunks: what they compute, and that they travel to other processes."""

import pickle

import numpy as np
import pytest

from lrrspm import SIFT, Channel, LLCEncoder, LRREncoder, SpatialPyramidFeatures, find_images
from lrrspm.images import ImageError
from lrrspm.pipeline.chunks import (
    Draw,
    Item,
    Sources,
    _draw,
    draw_quota,
    encode_chunk,
    sample_chunk,
)


@pytest.fixture(scope="module")
def fitted(image_folder):
    channels = [
        Channel(LRREncoder(codebook_size=4)),
        Channel(LLCEncoder(codebook_size=6), SIFT(step=9)),
    ]
    features = SpatialPyramidFeatures(channels, n_samples=500, random_state=0)
    return features.fit(find_images(image_folder)[0])


@pytest.mark.parametrize(
    ("n_samples", "n_images", "all_of_them", "projected"),
    [
        (200_000, 1500, 133, 133),
        (200_000, 1000, 200, 150),  # at most 150 of an image
        (200_000, 100, 2000, 500),  # but 50,000 in all
        (200_000, 4, 50_000, 12_500),
        (500, 10, 50, 50),
        (5, 10, 1, 1),
    ],
)
def test_few_images_give_fewer_samples_to_a_projection(n_samples, n_images, all_of_them, projected):
    assert draw_quota(n_samples, n_images, located=False) == all_of_them
    assert draw_quota(n_samples, n_images, located=True) == projected


def test_a_draw_depends_on_the_place_of_its_image():
    """Images of one size would otherwise all give the same patches."""
    values = np.arange(400, dtype=np.float32).reshape(100, 4)
    first, second = (_draw(values, 10, seed=1, place=place) for place in (0, 1))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, _draw(values, 10, seed=1, place=0))
    assert not np.array_equal(first, _draw(values, 10, seed=2, place=0))
    assert (np.diff(first[:, 0]) > 0).all()  # in the order of the image, none twice
    np.testing.assert_array_equal(_draw(values, 100, 1, 0), values)


def test_patches_are_drawn_from_everywhere(image_folder):
    """Over many images of one size every patch of the grid is drawn sometimes."""
    sources = Sources()
    channel = Channel(LRREncoder()).complete()
    sources.add(SpatialPyramidFeatures(), channel)
    image = np.random.default_rng(0).random((48, 48)).astype(np.float32)
    items = [Item(number, image, (0,), (number,)) for number in range(200)]
    draw = Draw(0, 2, 7)
    outcomes = sample_chunk(sources, [draw], items)
    every = channel.descriptor.describe(image).values
    drawn = np.concatenate([outcome.arrays[0] for outcome in outcomes])
    assert len(drawn) == 400
    assert len(np.unique(drawn, axis=0)) == len(np.unique(every, axis=0)) == 36


def jobs_of(features):
    sources = Sources()
    return sources, [(sources.add(features, channel), channel) for channel in features.channels_]


def test_a_chunk_and_its_arguments_are_picklable(fitted, image_folder):
    paths = find_images(image_folder)[0][:3]
    sources, channels = jobs_of(fitted)
    items = [Item(number, path, (0, 1)) for number, path in enumerate(paths)]
    here = encode_chunk(sources, channels, items)
    work = pickle.loads(pickle.dumps((encode_chunk, sources, channels, items)))
    there = pickle.loads(pickle.dumps(work[0](*work[1:])))
    for one, other in zip(here, there, strict=True):
        assert (one.number, one.error) == (other.number, other.error)
        assert len(one.arrays) == 2
        assert len(one.seconds) == len(other.seconds) == 4
        for a, b in zip(one.arrays, other.arrays, strict=True):
            np.testing.assert_array_equal(a, b)
    weighed = [fitted.weigh(outcome.arrays) for outcome in here]
    np.testing.assert_array_equal(weighed, fitted.transform(paths))


def test_an_item_may_have_some_of_the_jobs(fitted, image_folder):
    paths = find_images(image_folder)[0][:2]
    sources, channels = jobs_of(fitted)
    both = encode_chunk(sources, channels, [Item(0, paths[0], (0, 1))])[0]
    one, none = encode_chunk(sources, channels, [Item(0, paths[0], (1,)), Item(1, paths[1], ())])
    assert len(one.arrays) == 1
    np.testing.assert_array_equal(one.arrays[0], both.arrays[1])
    assert none.arrays == []


def test_images_that_cannot_be_read_are_outcomes(fitted, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"not an image")
    sources, channels = jobs_of(fitted)
    items = [Item(5, str(tmp_path / "broken.png"), (0,))]
    (outcome,) = pickle.loads(pickle.dumps(encode_chunk(sources, channels, items)))
    assert (outcome.number, outcome.arrays) == (5, [])
    assert isinstance(outcome.error, ImageError)
    assert "not an image" in outcome.error.reason
    assert "broken.png" in str(outcome.error)
