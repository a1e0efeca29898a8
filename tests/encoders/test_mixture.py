"""Gaussian mixtures and Fisher vectors against scikit-learn, a slow twin and toys."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import fisher_vector
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from lrrspm import learn_codebook
from lrrspm._support.parallel import workers
from lrrspm.encoders import LRRWeightEncoder, MixtureEncoder
from lrrspm.encoders.mixture import Mixture, Posteriors, fit_mixture, improve
from lrrspm.pooling import MomentPooling, SpatialPyramid
from tests import naive


def groups(seed=0, n=900, m=5):
    """Descriptors around three places, wider in some directions."""
    rng = np.random.default_rng(seed)
    places = 2 * rng.normal(size=(3, m))
    spread = rng.uniform(0.5, 1.5, size=(3, m))
    which = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return (places[which] + spread[which] * rng.normal(size=(n, m))).astype(np.float32)


def some_mixture(rng, k, m):
    shares = rng.uniform(0.1, 1, k)
    return Mixture(
        shares / shares.sum(), 2 * rng.normal(size=(k, m)), rng.uniform(0.3, 2, size=(k, m))
    )


def peer(mixture):
    """scikit-learn's mixture with the same Gaussians."""
    found = GaussianMixture(len(mixture.means), covariance_type="diag")
    found.weights_, found.means_ = mixture.shares, mixture.means
    found.covariances_ = mixture.deviations**2
    found.precisions_cholesky_ = 1 / mixture.deviations
    return found


def encoder_of(mixture, **parameters):
    encoder = MixtureEncoder(**parameters)
    encoder.shares_, encoder.means_, encoder.deviations_ = mixture
    encoder.n_features_in_ = mixture.means.shape[1]
    encoder.ready()
    return encoder


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(1, 600),
    k=st.integers(1, 20),
    m=st.integers(1, 20),
    survivors=st.sampled_from([0.0, 1e-4, 0.1, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_posteriors(n, k, m, survivors, seed):
    rng = np.random.default_rng(seed)
    mixture = some_mixture(rng, k, m)
    X = (2 * rng.normal(size=(n, m))).astype(np.float32)
    codes = encoder_of(mixture, survivors=survivors).transform(X)
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes.sum(axis=1), 1, atol=1e-5)
    if survivors == 0:
        np.testing.assert_allclose(codes, peer(mixture).predict_proba(X), atol=1e-3)
    for x, code in zip(X[:20], codes, strict=False):
        likely = naive.posteriors(x, mixture, 0)
        ratios = np.sort(likely / likely.max())[:-1]
        if np.abs(ratios - survivors).min(initial=1) > 1e-2 * survivors:  # not at the limit
            expected = naive.posteriors(x, mixture, survivors)
            np.testing.assert_allclose(code, expected, atol=1e-3)
            if survivors > 0:
                np.testing.assert_array_equal(code > 0, expected > 0)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_gaussians_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    mixture = some_mixture(rng, 6, 4)
    X = rng.normal(size=(50, 4)).astype(np.float32)
    order = rng.permutation(6)
    codes = encoder_of(mixture, survivors=0.0).transform(X)
    again = encoder_of(Mixture(*(array[order] for array in mixture)), survivors=0.0).transform(X)
    np.testing.assert_allclose(again, codes[:, order], atol=1e-5)


def test_likelihood_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    mixture = some_mixture(rng, 6, 8)
    X = rng.normal(size=(100, 8)).astype(np.float32)
    posteriors = Posteriors(mixture)
    codes = np.empty((100, 6), np.float32)
    expected = peer(mixture).score_samples(X).sum()
    for survivors in (0, 0.5):  # what is cut from the codes is still likely
        found = posteriors(posteriors.powers(X), codes, survivors)
        assert found == pytest.approx(expected, rel=1e-6)


def test_two_gaussians_by_hand():
    """At 1, N(0, 1) has density exp(-1/2) and N(3, 2) exp(-1/2) / 2, up to a constant."""
    mixture = Mixture(np.array([0.25, 0.75]), np.array([[0.0], [3.0]]), np.array([[1.0], [2.0]]))
    codes = encoder_of(mixture).transform(np.array([[1.0]], np.float32))
    np.testing.assert_allclose(codes, [[0.25 / 0.625, 0.375 / 0.625]], atol=1e-6)


def test_far_from_zero():
    """Squares are measured from the means, so an offset changes little."""
    rng = np.random.default_rng(0)
    mixture = some_mixture(rng, 5, 6)
    X = rng.normal(size=(80, 6)).astype(np.float32)
    codes = encoder_of(mixture).transform(X)
    shifted = encoder_of(mixture._replace(means=mixture.means + 1024)).transform(X + 1024)
    np.testing.assert_allclose(shifted, codes, atol=5e-3)


def test_descriptors_far_from_all_gaussians_have_codes():
    mixture = Mixture(np.array([0.5, 0.5]), np.array([[0.0], [1.0]]), np.full((2, 1), 0.01))
    codes = encoder_of(mixture).transform(np.array([[-1e4], [1e4]], np.float32))
    np.testing.assert_array_equal(codes, [[1, 0], [0, 1]])


def test_steps_are_those_of_scikit_learn():
    X = groups()
    centers = learn_codebook(X, 4, 0)
    nearest = naive.vq_codes(X, centers).argmax(axis=1)
    clusters = [X[nearest == j].astype(float) for j in range(4)]
    expected = GaussianMixture(
        4, covariance_type="diag", max_iter=5, tol=0, reg_covar=0,
        weights_init=[len(c) / len(X) for c in clusters],
        means_init=[c.mean(axis=0) for c in clusters],
        precisions_init=[1 / c.var(axis=0) for c in clusters],
    )  # fmt: skip
    with pytest.warns(Warning, match="did not converge"):
        expected.fit(X.astype(float))
    found = fit_mixture(X, centers, max_iter=5, tol=0)
    np.testing.assert_allclose(found.shares, expected.weights_, atol=1e-5)
    np.testing.assert_allclose(found.means, expected.means_, atol=1e-4)
    np.testing.assert_allclose(found.deviations**2, expected.covariances_, rtol=1e-4)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), k=st.integers(1, 6))
def test_a_step_agrees_with_naive_and_raises_the_likelihood(seed, k):
    X = groups(seed, n=200, m=3)
    mixture = some_mixture(np.random.default_rng(seed), k, 3)
    least = np.full(3, 0.05)
    better, before = improve(X, mixture, least, None)
    codes = np.array([naive.posteriors(x, mixture, 0) for x in X.astype(float)])
    counts = codes.sum(axis=0)
    kept = np.maximum(counts, 1)
    np.testing.assert_allclose(better.shares, kept / kept.sum(), atol=1e-4)
    for j in range(k):
        if abs(counts[j] - 1) < 1e-3:  # either side
            continue
        mean, deviation = mixture.means[j], mixture.deviations[j]
        if counts[j] > 1:
            mean = codes[:, j] @ X / counts[j]
            deviation = np.sqrt(np.maximum(codes[:, j] @ (X - mean) ** 2 / counts[j], least))
        np.testing.assert_allclose(better.means[j], mean, atol=1e-3)
        np.testing.assert_allclose(better.deviations[j], deviation, atol=1e-3)
    if counts.min() > 1 and (better.deviations**2 > 0.051).all():
        assert improve(X, better, least, None)[1] >= before - 1e-4


def test_finds_the_gaussians():
    rng = np.random.default_rng(0)
    wide, narrow = rng.normal(0, 3, size=(3000, 2)), rng.normal(10, 0.5, size=(1000, 2))
    encoder = MixtureEncoder(2, random_state=0).fit(np.vstack([wide, narrow]))
    order = encoder.means_[:, 0].argsort()
    np.testing.assert_allclose(encoder.shares_[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(encoder.means_[order], [[0, 0], [10, 10]], atol=0.2)
    np.testing.assert_allclose(encoder.deviations_[order], [[3.0, 3.0], [0.5, 0.5]], atol=0.2)


def test_same_bits_for_any_number_of_threads():
    X = np.random.default_rng(0).normal(size=(30_000, 8)).astype(np.float32)
    one = MixtureEncoder(12, random_state=0).fit(X)
    for n_jobs in (2, 4):
        with workers(n_jobs) as executor:
            again = MixtureEncoder(12, random_state=0).fit_on(X, executor)
        for name in MixtureEncoder.derived:
            np.testing.assert_array_equal(getattr(again, name), getattr(one, name))


@pytest.mark.filterwarnings("ignore:a codebook of")
@pytest.mark.parametrize("X", [np.ones((20, 3)), np.eye(3), np.zeros((1, 2))])
def test_few_or_equal_descriptors(X):
    codes = MixtureEncoder(5, random_state=0).fit(X).transform(X)
    np.testing.assert_allclose(codes.sum(axis=1), 1, atol=1e-6)


def test_progress_ends():
    seen = []
    fit_mixture(groups(), groups()[:3], progress=lambda *step: seen.append(step), max_iter=3)
    assert seen[-1] == (3, 3)


def test_a_fisher_vector_is_the_gradient_of_the_likelihood():
    """Divided by the square root of the Fisher information: pi / sigma^2 and 2 pi / sigma^2."""
    X = groups()
    encoder = MixtureEncoder(3, survivors=0.0, random_state=0).fit(X)
    pooling = MomentPooling().fit(X, encoder)
    some = X[:40] + np.float32(0.5)
    mixture = Mixture(*(array.astype(float) for array in encoder.moments()))
    gradients = []
    for field, information in (("means", 1), ("deviations", 2)):
        for place in np.ndindex(mixture.means.shape):
            ahead, behind = (getattr(mixture, field).copy() for _ in range(2))
            ahead[place] += 1e-5
            behind[place] -= 1e-5
            up, down = (
                peer(mixture._replace(**{field: changed})).score_samples(some).sum()
                for changed in (ahead, behind)
            )
            scale = math.sqrt(information * mixture.shares[place[0]])
            gradients.append((up - down) / 2e-5 * mixture.deviations[place] / scale)
    pyramid = SpatialPyramid((1,))
    state = pooling.start(pyramid, 3, 5)
    pooling.add(state, some, encoder.transform(some), np.zeros(len(some), np.int64))
    rooted = np.sign(gradients) * np.sqrt(np.abs(gradients))
    found = pooling.finish(state, pyramid)
    np.testing.assert_allclose(found, rooted / np.linalg.norm(rooted), atol=1e-3)


@pytest.mark.parametrize("improved", [False, True])
def test_a_fisher_vector_is_that_of_scikit_image(improved):
    """Its second moments have the other sign, and it also has moments of the shares."""
    rng = np.random.default_rng(3)
    mixture = some_mixture(rng, 4, 6)
    values = (2 * rng.normal(size=(150, 6))).astype(np.float32)
    expected = fisher_vector(values.astype(np.float64), peer(mixture), improved=False)
    expected = np.r_[expected[4:28], -expected[28:]]
    if improved:
        expected = np.sign(expected) * np.sqrt(np.abs(expected))
    encoder = encoder_of(mixture, survivors=0.0)
    pooling = MomentPooling().fit(values, encoder)
    pyramid = SpatialPyramid((1,))
    cells = np.zeros(len(values), np.int64)
    state = pooling.start(pyramid, 4, 6)
    pooling.add(state, values, encoder.encode_all(values), cells)
    merged = pooling.merge(state, pyramid) if improved else pooling._statistics(state, pyramid)
    # Theirs are means over the descriptors, and not divided by their norm.
    scale = 1 / float(np.linalg.norm(expected)) if improved else len(values)
    np.testing.assert_allclose(merged.ravel() / scale, expected, atol=1e-4)


def test_moments_are_the_encoders_own():
    X = groups()
    encoder = MixtureEncoder(3, random_state=0).fit(X)
    pooling = MomentPooling().fit(X[:5], encoder)
    np.testing.assert_array_equal(pooling.means_, encoder.means_)
    np.testing.assert_array_equal(pooling.deviations_, encoder.deviations_)
    np.testing.assert_array_equal(pooling.shares_, encoder.shares_)
    assert LRRWeightEncoder(3).moments() is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (MixtureEncoder(0), "codebook_size must be at least 1"),
        (MixtureEncoder(survivors=-0.1), "survivors must be from 0 to 1"),
        (MixtureEncoder(survivors=1.5), "survivors must be from 0 to 1"),
    ],
)
def test_bad_parameters(bad, message):
    with pytest.raises(ValueError, match=message):
        bad.fit(groups())


def test_unfitted():
    with pytest.raises(NotFittedError):
        MixtureEncoder().transform(groups())


def test_progress_fills_once():
    """Of both steps, k-means and Gaussians."""
    told = []
    X = np.random.default_rng(0).random((200, 4), np.float32)
    MixtureEncoder(4, random_state=0).fit_on(X, None, lambda done, total: told.append(done / total))
    assert told == sorted(told)
    assert told[0] < 0.5
    assert told[-1] == 1
