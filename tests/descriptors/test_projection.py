"""Principal components with places."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from lrrspm.descriptors import LocalDescriptors, Projection, places


def test_components_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    values = (rng.random((500, 12)) @ rng.random((12, 12))).astype(np.float32)
    found = Projection(5, position=0).fit(values)
    expected = PCA(5, svd_solver="full").fit(values.astype(float))
    projected = found.transform(values, np.zeros((500, 2), np.float32))
    reference = expected.transform(values)
    signs = np.sign((projected * reference).sum(axis=0))
    np.testing.assert_allclose(projected * signs, reference, atol=1e-4)


def test_places_are_appended():
    values = np.random.default_rng(1).random((4, 6), dtype=np.float32)
    corner = np.array([0, 9, 0, 9], np.float32)
    found = LocalDescriptors(values, corner, corner[::-1].copy(), np.ones(4, np.float32), 10, 10)
    expected = [[-0.45, 0.45], [0.45, -0.45], [-0.45, 0.45], [0.45, -0.45]]
    np.testing.assert_allclose(places(found), expected, atol=1e-6)
    projection = Projection(3, position=0.3).fit(values)
    out = projection.transform(values, places(found))
    assert out.shape == (4, projection.n_values(6)) == (4, 5)
    np.testing.assert_allclose(out[:, 3:], 0.3 * np.array(expected), atol=1e-6)


def test_more_components_than_values():
    values = np.random.default_rng(2).random((9, 4), dtype=np.float32)
    projection = Projection(80, position=0).fit(values)
    out = projection.transform(values, np.zeros((9, 2), np.float32))
    assert out.shape == (9, 4)
    np.testing.assert_allclose(  # a rotation keeps distances
        np.linalg.norm(out[0] - out[1]), np.linalg.norm(values[0] - values[1]), rtol=1e-4
    )


@pytest.mark.parametrize("bad", [Projection(0), Projection(3, -1), Projection(3, np.nan)])
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match="must be at least"):
        bad.check_parameters()
