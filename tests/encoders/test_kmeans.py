import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from lrrspm import learn_codebook
from lrrspm._support.loops import first_maximum
from lrrspm._support.parallel import workers
from lrrspm._support.shards import Shards
from lrrspm.encoders.kmeans import _improve, _InMemory, kmeans
from tests import naive


def inertia(X, centers):
    return cdist(X, centers, "sqeuclidean").min(axis=1).sum()


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 1500),
    k=st.integers(1, 30),
    m=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_iteration_agrees_with_naive(n, k, m, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)).astype(np.float32)
    centers = rng.normal(size=(k, m)).astype(np.float32)
    if k > 1:  # which of two centers is nearer must not depend on rounding
        nearest = np.sort(cdist(X, centers, "sqeuclidean"), axis=1)
        assume((nearest[:, 1] - nearest[:, 0]).min() > 1e-5)
    moved, total = _improve(_InMemory(X), centers, None)
    expected, expected_total = naive.lloyd_step(X, centers)
    # A difference of squares in float32 has the error of the squares.
    assert total == pytest.approx(expected_total, rel=1e-5, abs=1e-6 * float((X**2).sum()))
    used = np.zeros(k, bool)
    used[cdist(X, centers, "sqeuclidean").argmin(axis=1)] = True
    np.testing.assert_allclose(moved[used], expected[used], atol=1e-4)
    if k <= n:  # a center without descriptors has moved onto one
        assert (cdist(moved[~used], X).min(axis=1) < 1e-6).all()


def test_finds_separate_groups():
    rng = np.random.default_rng(0)
    truth = np.array([[0, 0], [10, 0], [0, 10], [10, 10]], float)
    X = np.concatenate([center + rng.normal(0, 0.1, (50, 2)) for center in truth])
    centers = min((learn_codebook(X, 4, seed) for seed in range(8)), key=lambda c: inertia(X, c))
    assert cdist(truth, centers).min(axis=1).max() < 0.1


def test_is_as_good_as_scikit_learn():
    from sklearn.cluster import KMeans

    X = np.random.default_rng(0).gamma(1.0, size=(4000, 16)).astype(np.float32)
    ours = np.mean([inertia(X, learn_codebook(X, 32, seed)) for seed in range(4)])
    peer = [KMeans(32, init="random", n_init=1, random_state=s).fit(X).inertia_ for s in range(4)]
    assert ours < 1.02 * np.mean(peer)


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_same_bits_for_any_number_of_threads(n_jobs):
    X = np.random.default_rng(0).random((30_000, 16), dtype=np.float32)
    one = learn_codebook(X, 20, 7)
    assert one.dtype == np.float32
    np.testing.assert_array_equal(one, learn_codebook(X, 20, 7, n_jobs))
    assert not np.array_equal(one, learn_codebook(X, 20, 8))


def test_data_far_from_zero():
    X = np.random.default_rng(0).normal(size=(3000, 8))
    near, far = (inertia(X, learn_codebook(X + shift, 30, 0) - shift) for shift in (0, 10_000))
    assert far < 1.05 * near


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=70))
def test_first_maximum(numbers):
    row = np.array(numbers, np.float32) + np.float32(0)  # no negative zero
    assert first_maximum(row) == row.argmax()


def test_progress_ends_at_the_end():
    told = []
    X = np.random.default_rng(0).random((500, 4))
    learn_codebook(X, 5, 0, progress=lambda *counts: told.append(counts))
    assert told[0] == (1, 100)
    assert told[-1] == (100, 100)
    assert len(told) < 100


def test_larger_than_the_sample():
    X = np.random.default_rng(0).normal(size=(5, 3))
    with pytest.warns(UserWarning, match="only 5 descriptors"):
        centers = learn_codebook(X, 9, 0)
    assert inertia(X, centers) < 1e-10
    assert centers.shape == (5, 3)


def test_duplicates():
    X = np.zeros((500, 4), np.float32)
    X[:3] = np.eye(4)[:3]
    centers = learn_codebook(X, 4, 0)
    assert inertia(X, centers) < 1e-10
    np.testing.assert_array_equal(learn_codebook(np.zeros((50, 4)), 3, 0), np.zeros((3, 4)))


def test_bad_input():
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        learn_codebook(np.ones((3, 2)), 0)
    with pytest.raises(ValueError, match="NaN"):
        learn_codebook(np.full((3, 2), np.nan), 2)


@pytest.mark.parametrize(("n", "rows"), [(20_000, 8192), (20_000, 16_384), (300, 8192)])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_descriptors_in_shards_give_the_same_bits(tmp_path, n, rows, n_jobs):
    rng = np.random.default_rng(0)
    X = (rng.gamma(1.0, size=(n, 7)) + 5).astype(np.float32)
    X[n // 2 :: 3] = X[0]  # flat patches: centers lose all their descriptors
    expected = learn_codebook(X, 20, random_state=0)
    with Shards(n, 7, np.float32, tmp_path, rows) as shards, workers(n_jobs) as executor:
        shards.append(X)
        np.testing.assert_array_equal(kmeans(shards, 20, 0, executor), expected)


def test_more_atoms_than_different_descriptors_in_shards(tmp_path):
    X = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    expected = learn_codebook(X, 5, random_state=0)
    with Shards(60, 3, np.float32, tmp_path, 8192) as shards:
        shards.append(X)
        np.testing.assert_array_equal(kmeans(shards, 5, 0, None), expected)


def test_shards_that_would_change_the_order_of_sums_are_refused(tmp_path):
    with Shards(30, 2, np.float32, tmp_path, 10) as shards:
        shards.append(np.zeros((30, 2), np.float32))
        with pytest.raises(ValueError, match="multiple of 8192 rows"):
            kmeans(shards, 2, 0, None)
