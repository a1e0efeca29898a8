import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_approximation import AdditiveChi2Sampler, Nystroem

from lrrspm import ImageClassifier, LRREncoder, find_images, load_model
from lrrspm.encoders import KernelLRREncoder
from lrrspm.encoders.kernel_lrr import _additive_map
from tests import naive


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 40),
    k=st.integers(1, 20),
    m=st.integers(1, 12),
    kernel=st.sampled_from(["rbf", "hellinger"]),
    regularization=st.sampled_from([0.1, 0.7, 3.0]),
    threshold=st.sampled_from([0.0, 0.5, 0.98, 2.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_naive(n, k, m, kernel, regularization, threshold, seed):
    rng = np.random.default_rng(seed)
    codebook, X = rng.random((k, m)), rng.random((n, m)).astype(np.float32)
    encoder = KernelLRREncoder(
        regularization=regularization, threshold=threshold, codebook=codebook, kernel=kernel
    )
    codes = encoder.fit(X).transform(X)
    expected = naive.kernel_lrr_codes(X, codebook, kernel, regularization, threshold)
    plain = naive.kernel_lrr_codes(X, codebook, kernel, regularization, 0)
    # Entries at the threshold may fall on either side of it; others may not.
    total = plain.sum(axis=1, keepdims=True)
    sure = np.abs(plain - threshold / k * total) > 1e-4 * np.abs(plain).max()
    np.testing.assert_allclose(codes[sure], expected[sure], atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "hellinger"])
def test_is_the_minimum_of_the_objective(kernel):
    """||phi(x) - phi(D) c||^2 + lambda ||c||^2 in kernels: its gradient is 0."""
    rng = np.random.default_rng(0)
    D, X = rng.random((9, 6)), rng.random((5, 6))
    codes = KernelLRREncoder(threshold=0, codebook=D, kernel=kernel).fit(X).transform(X)
    pairs = [((a - b) ** 2).sum() for i, a in enumerate(D) for b in D[:i]]
    gram, against = (
        np.array([[naive.kernel(kernel, a, b, np.median(pairs)) for b in D] for a in rows])
        for rows in (D, X)
    )
    scale = np.trace(gram) / len(gram)
    gradient = codes @ gram / scale - against / scale + 0.7 * codes
    assert np.abs(gradient).max() < 1e-5


def test_rbf_by_hand():
    """Atoms 0 and 1 on a line: the median distance is 1, K = (1, 1/e; 1/e, 1)."""
    encoder = KernelLRREncoder(regularization=1, threshold=0, codebook=[[0.0], [1.0]], kernel="rbf")
    e = np.exp(-1)
    code = encoder.fit([[0.0]]).transform([[0.0]])[0]
    np.testing.assert_allclose(code, np.array([2 - e * e, e]) / (4 - e * e), atol=1e-6)
    # Far from every atom nothing is explained.
    np.testing.assert_array_equal(encoder.transform([[100.0]]), [[0, 0]])


def test_hellinger_is_lrr_of_roots():
    """Atoms of sum 1 have k(d, d) = 1, so there is nothing to scale."""
    rng = np.random.default_rng(0)
    D, X = rng.dirichlet(np.ones(8), 12), rng.random((7, 8))
    found = KernelLRREncoder(codebook=D, kernel="hellinger").fit(X).transform(X)
    expected = LRREncoder(codebook=np.sqrt(D)).fit(X).transform(np.sqrt(X))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 20), m=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_the_map_of_chi2(n, m, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, m)) * (rng.random((n, m)) > 0.2)
    mapped = _additive_map("chi2", X)
    peer = AdditiveChi2Sampler(sample_steps=2).fit_transform(X)
    np.testing.assert_allclose(mapped, peer, atol=1e-12)
    np.testing.assert_allclose(_additive_map("chi2", -X), -mapped)
    exact = np.array([[naive.kernel("chi2", a, b, None) for b in X] for a in X])
    # With three numbers per value k(x, x) is 0.898 of what it should be, and nothing is worse.
    larger = np.array([[np.maximum(a, b).sum() for b in X] for a in X])
    assert (np.abs(mapped @ mapped.T - exact) <= 0.102 * larger).all()


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 20), m=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_the_map_of_intersection(n, m, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, m)) * (rng.random((n, m)) > 0.2)
    mapped = _additive_map("intersection", X)
    np.testing.assert_allclose(_additive_map("intersection", -X), -mapped)
    exact = np.array([[naive.kernel("intersection", a, b, None) for b in X] for a in X])
    # With three numbers per value k(x, x) is 0.771 of what it should be, and nothing is worse.
    larger = np.array([[np.maximum(a, b).sum() for b in X] for a in X])
    assert (np.abs(mapped @ mapped.T - exact) <= 0.23 * larger).all()


def test_a_nystroem_map_of_the_atoms_gives_the_same_codes():
    rng = np.random.default_rng(0)
    D, X = rng.random((12, 6)), rng.random((30, 6))
    pairs = [((a - b) ** 2).sum() for i, a in enumerate(D) for b in D[:i]]
    peer = Nystroem(gamma=1 / np.median(pairs), n_components=12, random_state=0).fit(D)
    atoms, mapped = peer.transform(D), peer.transform(X)
    expected = LRREncoder(codebook=atoms).fit(mapped).transform(mapped)
    found = KernelLRREncoder(codebook=D, kernel="rbf").fit(X).transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_chi2_codes_solve_the_system_of_the_mapped():
    rng = np.random.default_rng(0)
    D, X = rng.random((20, 16)), rng.random((30, 16))
    codes = KernelLRREncoder(threshold=0, codebook=D, kernel="chi2").fit(X).transform(X)
    atoms, mapped = (AdditiveChi2Sampler(sample_steps=2).fit_transform(rows) for rows in (D, X))
    gram, against = atoms @ atoms.T, atoms @ mapped.T
    scale = np.trace(gram) / len(gram)
    expected = np.linalg.solve(gram / scale + 0.7 * np.eye(20), against / scale).T
    np.testing.assert_allclose(codes, expected, atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "hellinger", "chi2", "intersection"])
def test_degenerate_codebooks(kernel):
    for codebook in (np.zeros((3, 4)), np.ones((1, 4)), np.ones((5, 4))):
        for regularization in (0, 0.7):
            encoder = KernelLRREncoder(
                regularization=regularization, codebook=codebook, kernel=kernel
            )
            codes = encoder.fit_transform(np.array([[0, 0, 0, 0], [1, 2, 3, 4], [1, 1, 1, 1]]))
            assert np.isfinite(codes).all()


def test_far_from_zero():
    rng = np.random.default_rng(0)
    D, X = rng.random((8, 5)), rng.random((9, 5))
    near = KernelLRREncoder(threshold=0, codebook=D, kernel="rbf").fit(X).transform(X)
    far = KernelLRREncoder(threshold=0, codebook=D + 100, kernel="rbf").fit(X).transform(X + 100)
    np.testing.assert_allclose(far, near, atol=1e-3)


@pytest.mark.parametrize("kernel", ["hellinger", "chi2", "intersection", "rbf"])
def test_models_of_every_kernel(image_folder, tmp_path, kernel):
    """The same bits for any number of workers, from a store and from a file; evidence adds up."""
    paths, labels = find_images(image_folder)

    def fit(**parameters):
        encoder = KernelLRREncoder(12, kernel=kernel)
        model = ImageClassifier(encoder, n_samples=3000, random_state=0, **parameters)
        return model.fit(paths, labels)

    model = fit()
    expected = model.decision_function(paths)
    store = tmp_path / "store"
    for parameters in ({"n_jobs": 2}, {"n_jobs": 4}, {"cache": store}, {"cache": store}):
        np.testing.assert_array_equal(fit(**parameters).decision_function(paths), expected)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").decision_function(paths), expected)
    explained = model.explain(paths[0])
    assert explained.contributions.sum() == pytest.approx(explained.score, abs=1e-5)


def test_unknown_kernel():
    message = "kernel must be one of hellinger, chi2, intersection, rbf, got 'cubic'"
    with pytest.raises(ValueError, match=message):
        KernelLRREncoder(kernel="cubic").fit(np.ones((10, 5)))


def test_arrays_of_another_kernel_are_refused():
    encoder = KernelLRREncoder(codebook=np.eye(4, 6)).fit(np.ones((3, 6)))
    with pytest.raises(ValueError, match="projection has 6 rows, expected 4"):
        encoder.set_params(kernel="rbf").ready()
