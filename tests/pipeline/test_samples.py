"""Samples for codebooks: bounded, however many images there are."""

import numpy as np
import pytest

from lrrspm import Channel, SpatialPyramidFeatures, VQEncoder, find_images
from lrrspm.encoders.kmeans import kmeans
from lrrspm.pipeline.sampling import _drawn_from


@pytest.mark.parametrize(("images", "samples"), [(5, 5), (5, 6), (1, 1), (4485, 200_000)])
def test_few_images_are_all_drawn_from(images, samples):
    np.testing.assert_array_equal(_drawn_from(images, samples, 0), np.arange(images))


def test_of_many_images_some_are_drawn_from():
    drawn = _drawn_from(10**6, 2000, seed=3)
    assert len(np.unique(drawn)) == 2000
    assert (np.diff(drawn) > 0).all()
    # From everywhere: folders of images are sorted by class.
    assert np.bincount(drawn // 100_000, minlength=10).min() > 100
    np.testing.assert_array_equal(drawn, _drawn_from(10**6, 2000, seed=3))
    assert not np.array_equal(drawn, _drawn_from(10**6, 2000, seed=4))


@pytest.mark.parametrize("n_samples", [1, 7, 54, 10**6])
def test_about_so_many_are_kept(image_folder, monkeypatch, n_samples):
    paths, _ = find_images(image_folder)
    assert len(paths) > 7
    seen = []

    def watched(X, *rest):
        seen.append(X)
        return kmeans(X, *rest)

    monkeypatch.setattr("lrrspm.encoders.base.kmeans", watched)
    for n_jobs in (1, 2):
        features = SpatialPyramidFeatures(
            [Channel(VQEncoder(1))], n_samples=n_samples, random_state=0, n_jobs=n_jobs
        )
        features.fit(paths)
    assert 0 < len(seen[0]) <= n_samples * 4 / 3  # the same number from each image
    np.testing.assert_array_equal(seen[0], seen[1])
