"""Clusters and support vector machines of a device agree with those of the loops."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lrrspm import ImageClassifier, LinearSVM, find_images, learn_codebook
from lrrspm._support.devices import Accelerator
from lrrspm._support.parallel import workers
from lrrspm.encoders.kmeans import kmeans
from lrrspm.pipeline import open_engine
from lrrspm.svm import linear_gram

from .conftest import KINDS, vectors


@pytest.mark.parametrize("kind", KINDS)
def test_products(accelerator, kind):
    X, _ = vectors(70, 9000, kind=kind)
    betas = np.random.default_rng(1).standard_normal((3, 70)).astype(np.float32)
    wide = X.astype(np.float64)
    held = accelerator.hold(X)
    assert accelerator.hold(X) is held
    np.testing.assert_array_equal(np.asarray(held), X)
    np.testing.assert_allclose(held.gram(), wide @ wide.T, atol=2e-5, rtol=0)
    np.testing.assert_allclose(held.weights(betas), betas @ wide, atol=2e-5, rtol=0)
    np.testing.assert_allclose(held.scores(betas @ wide), wide @ (betas @ wide).T, atol=1e-4)


def test_a_matrix_is_filled_in_order(accelerator):
    X, _ = vectors(20, 30, kind=np.float16)
    matrix = accelerator.make_room(20, 30, np.float16)
    for part in (X[:7], X[7:]):
        assert matrix.append(accelerator.hold(part)) == len(part)
    np.testing.assert_array_equal(np.asarray(matrix), X)
    with pytest.raises(ValueError, match="more than the 20 rows"):
        matrix.append(accelerator.hold(X))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_refuses_what_is_not_finite(accelerator, bad):
    X, _ = vectors(200, 30, kind=np.float16)
    X[150, 7] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        accelerator.make_room(200, 30, np.float16).append(accelerator.hold(X))


def test_vectors_that_wait_together_fit_on_the_device(device, image_folder, monkeypatch):
    """Fewer images at a time on a smaller device; their scores stay what they are."""
    from lrrspm.gpu.encoding import DeviceChannels

    paths, labels = find_images(image_folder)
    model = ImageClassifier(method="fast", n_samples=2000, random_state=0, device=device)
    scores = model.fit(paths, labels).decision_function(paths)
    channels = DeviceChannels(model.features_.channels_, "cpu")
    assert channels.most == 2**30 // (4 * model.features_.channels_[0].n_features)
    counts: list[int] = []
    joined = DeviceChannels.joined

    def count(self, images, scales):
        counts.append(len(images))
        return joined(self, images, scales)

    monkeypatch.setattr(DeviceChannels, "joined", count)
    monkeypatch.setattr(DeviceChannels, "most", 5)
    np.testing.assert_allclose(model.decision_function(paths), scores, rtol=0, atol=1e-4)
    assert counts == [5] * 7 + [1]


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("weight", [None, "balanced"])
@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
def test_machines(accelerator, loss, weight, classes):
    X, y = vectors(120, 300, classes=classes)
    new = {"loss": loss, "class_weight": weight, "tol": 1e-7, "random_state": 0}
    here, there = LinearSVM(**new).fit(X, y), LinearSVM(**new).fit_on(X, y, accelerator)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=2e-3 * np.abs(here.coef_).max())
    new["tol"] = 1e-4  # the default: both are this close to the solution
    there = LinearSVM(**new).fit_on(accelerator.hold(X), y, accelerator)
    scores = here.decision_function(X)
    np.testing.assert_allclose(there.decision_function(X), scores, atol=0.02)
    np.testing.assert_array_equal(there.predict(X), here.predict(X))


def test_more_samples_than_columns(accelerator):
    """On the CPU weights are updated there; on a device products of all pairs are quick."""
    X, y = vectors(300, 40)
    here, there = (LinearSVM(tol=1e-7).fit_on(X, y, one) for one in (None, accelerator))
    np.testing.assert_allclose(there.coef_, here.coef_, atol=2e-3 * np.abs(here.coef_).max())


def test_a_class_is_done_at_its_duality_gap(accelerator):
    """Primal less dual objective, by their definitions."""
    import torch

    from lrrspm.gpu.machines import solve_hinge

    X, y = vectors(150, 60)
    gram = torch.from_numpy(X.astype(np.float64) @ X.T)
    signs = torch.from_numpy(np.where(y == np.arange(5)[:, None], 1.0, -1.0))
    costs = torch.full((150,), 10.0, dtype=torch.float64)
    for tol in (1e-2, 1e-6):
        betas, steps = solve_hinge(gram, signs, costs, tol, at_once=2)
        slacks = (1 - signs * (betas @ gram)).clamp_min(0)
        primal = 0.5 * (betas * (betas @ gram)).sum(1) + (costs * slacks**2).sum(1)
        alphas = 2 * costs * slacks
        own = signs * alphas
        dual = alphas.sum(1) - 0.5 * (own * (own @ gram)).sum(1) - (alphas**2 / (4 * costs)).sum(1)
        assert (dual <= primal * (1 + 1e-12)).all()
        assert (primal - dual <= tol * primal).all()
        assert 0 < steps < 30


def test_samples_without_weight_do_not_count(accelerator):
    X, y = vectors(80, 200)
    weights = np.where(np.arange(80) < 60, 1.0, 0.0)
    there = LinearSVM(tol=1e-6).fit_on(X, y, accelerator, weights)
    alone = LinearSVM(tol=1e-6).fit_on(X[:60], y[:60], accelerator)
    np.testing.assert_allclose(there.coef_, alone.coef_, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
def test_where_a_factorization_fails_the_host_solves(accelerator, loss):
    """More samples than dimensions and a large C: the Gram matrix is singular, and rounded."""
    X, y = vectors(300, 40)
    gram, signs = X @ X.T, np.where(y == np.arange(5)[:, None], 1, -1).astype(np.float32)
    assert accelerator.solve(gram, signs, np.full(300, 1e8), loss == "squared", 1e-4) is None
    if loss == "squared_hinge":
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            LinearSVM(C=1e8, random_state=0, max_iter=5).fit_on(X, y, accelerator)


def test_machines_that_have_not_converged_warn(accelerator, monkeypatch):
    from lrrspm.gpu import machines

    X, y = vectors(300, 400)
    monkeypatch.setattr(machines, "_MOST_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="5 of 5 problems"):
        LinearSVM(tol=1e-9).fit_on(X, y, accelerator)


def test_kernels_are_launched_where_their_tensor_is(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="Triton, which also interprets kernels, is not installed")
    from lrrspm.gpu import cells, histograms, kernels, moments, products
    from lrrspm.gpu.device import launched_there

    places = []

    @contextmanager
    def enter(tensor):
        places.append(tensor)
        yield

    given = torch.arange(3)
    assert launched_there(torch.sum)(given).item() == 3
    monkeypatch.setattr(torch.cuda, "device_of", enter)
    assert launched_there(torch.sum)(given).item() == 3
    assert places[0] is given
    entries = (
        kernels.planes, kernels.sift, cells.list_members, histograms.lbp,
        histograms.local_color, moments.sum_moments, moments.finish_moments,
        products.pool_codes, products.nearest, products.sums_of_rows,
    )  # fmt: skip
    assert all(hasattr(one, "__wrapped__") for one in entries)


def test_tiles_fit_into_shared_memory(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="Triton is not installed")
    from lrrspm.gpu import products

    device = torch.device("cpu")
    tiles = [
        (one[parts], parts, m)
        for one in (products._CODE_TILES, products._MANY_CODE_TILES, products._NEAREST_TILES)
        for parts in (1, 3)
        for m in (64, 128)
    ]
    # An H200 has 227 KB, and keeps the tiles that are fastest there; others have 99.
    monkeypatch.setattr(products, "_shared_memory", lambda _: 232448)
    assert all(products.fitting(*one, device) == one[0] for one in tiles)
    monkeypatch.setattr(products, "_shared_memory", lambda _: 101376)
    for one, parts, m in tiles:
        held, passing, _, stages = products.fitting(one, parts, m, device)
        halves = 2 if parts == 3 else 1
        assert 2 * m * halves * (held + stages * passing) < 101376
    assert products.fitting(products._CODE_TILES[3], 3, 128, device) == products._SMALL_TILES


@pytest.mark.parametrize(("n", "m", "k"), [(5000, 64, 40), (3000, 20, 7), (600, 128, 300)])
def test_codebooks(accelerator, monkeypatch, n, m, k):
    from lrrspm.gpu import executor

    values = np.random.default_rng(0).random((n, m), dtype=np.float32) ** 3
    here = learn_codebook(values, k, 0)
    assert accelerator.cluster(values, k) is None  # small ones keep their bits
    np.testing.assert_array_equal(kmeans(values, k, 0, accelerator), here)
    monkeypatch.setattr(executor, "LEAST_CLUSTERED", 0)
    there = kmeans(values, k, 0, accelerator)
    np.testing.assert_allclose(there, here, atol=1e-4)
    np.testing.assert_array_equal(kmeans(values, k, 0, accelerator), there)


def test_empty_clusters_take_the_farthest_rows(on_torch):
    from lrrspm.gpu.clustering import DeviceRows

    values = np.zeros((6, 3), np.float32)
    values[4], values[5] = 5, 1
    found = DeviceRows(values, on_torch).nearest(np.zeros((2, 3), np.float32))
    assert found.counts.tolist() == [6, 0]  # the first of equally near ones
    assert found.total == 78
    assert found.farthest(4).tolist() == [4, 5]
    np.testing.assert_array_equal(found.sums[0], [6, 6, 6])


@pytest.mark.parametrize("precision", ["high", "medium"])  # on a CPU, only the latter is another
def test_gram_matrices_are_in_single_precision(accelerator, precision):
    import torch

    X, _ = vectors(60, 5000)
    expected = accelerator.gram(X)
    torch.set_float32_matmul_precision(precision)
    try:
        np.testing.assert_array_equal(accelerator.gram(X), expected)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_gram_matrix_of_half_precision(accelerator):
    X, _ = vectors(40, 5000, kind=np.float16)
    np.testing.assert_allclose(linear_gram(X, accelerator), linear_gram(X, None), atol=2e-5)


@pytest.mark.parametrize("method", ["fast", "balanced", "best"])
def test_vectors_stay_on_the_device(device, image_folder, monkeypatch, method, tmp_path):
    """The same model, whether vectors come back to the host, or do not fit there."""
    paths, labels = find_images(image_folder)
    given = {"method": method, "n_samples": 2000, "random_state": 0, "device": device}
    given["min_side"] = None  # small images take little time
    back = ImageClassifier(**given).fit(paths, labels)
    scores = back.decision_function(paths)
    monkeypatch.setattr("lrrspm.training.MEMORY", 0)
    held = ImageClassifier(**given).fit(paths, labels)
    np.testing.assert_allclose(held.decision_function(paths), scores, rtol=0, atol=5e-3)
    stored = ImageClassifier(**given, cache=tmp_path).fit(paths, labels)  # comes to the host
    np.testing.assert_allclose(stored.decision_function(paths), scores, rtol=0, atol=5e-3)
    calibrated = ImageClassifier(**given).fit(paths, labels)
    folds = np.arange(len(paths)) % 3
    matrix = calibrated.features_.transform(paths)
    crossings: list[Any] = []
    with open_engine(1, None, device) as engine:
        assert isinstance(engine.threads, Accelerator)
        sent = engine.threads.hold(matrix)
        assert sent is not None
        for X in (matrix, sent):
            crossed = calibrated.fit_svm(X, np.array(labels), engine, folds)
            assert crossed is not None
            crossings.append(crossed.scores)
    np.testing.assert_allclose(crossings[0], crossings[1], rtol=0, atol=5e-3)


def test_threads_run_beside_the_device(on_torch):
    from lrrspm.gpu.executor import DeviceThreads

    with ThreadPoolExecutor(2) as pool:
        for threads in (None, pool):
            assert list(DeviceThreads(threads, on_torch).map(abs, [-1, 2])) == [1, 2]
    with pytest.raises(ZeroDivisionError):
        DeviceThreads(None, on_torch).submit(lambda: 1 / 0).result()
    with workers(1) as none:
        assert none is None


SCRIPT = """
import sys
from typing import Any
import torch
from lrrspm.gpu import products

torch.manual_seed(0)
for n, m, k in ((300, 128, 200), (70, 20, 7), (33, 62, 130)):
    values = torch.rand(n, m, device=sys.argv[1]) ** 3
    values /= values.norm(dim=1, keepdim=True)
    values[-1] = values[0]
    centers = values[torch.randperm(n)[:k]].clone()
    exact = values.double() @ centers.double().T - 0.5 * centers.double().square().sum(1)
    found, scores = products.nearest(values, centers)
    # Matrix units cut off what is below 2^-23 of a sum: 24 times for 128 values.
    torch.testing.assert_close(scores.double(), exact.amax(1), rtol=0, atol=3e-6)
    best = exact.gather(1, found.long()[:, None])[:, 0]
    assert (best >= exact.amax(1) - 3e-6).all()
    rough, _ = products.nearest(values, centers, (1, torch.half))
    assert (exact.gather(1, rough.long()[:, None])[:, 0] >= exact.amax(1) - 1e-2).all()
    counts = torch.bincount(found.long(), minlength=len(centers))
    starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    sums = products.sums_of_rows(values, torch.argsort(found.long(), stable=True), starts)
    expected = torch.zeros(len(centers), m, dtype=torch.float64, device=values.device)
    expected.index_add_(0, found.long(), values.double())
    torch.testing.assert_close(sums, expected)

# As on a GPU, whatever the device is: the scale of the rows is found once after each change.
from lrrspm.gpu.clustering import DeviceRows

plain = values.cpu().numpy()
expected = DeviceRows(plain, "cpu")
rows, scaled, scale_of = DeviceRows(plain, sys.argv[1]), [], products.scale_of
products.scale_of = lambda matrix: scaled.append(len(matrix)) or scale_of(matrix)
torch.Tensor.is_cuda = property(lambda _: True)
for change in (False, True):
    if change:
        rows.center()
    for centers in (plain[:5], plain[5:10], plain[10:15]):
        found = rows.nearest(centers)
    assert scaled.count(len(rows)) == 1 + change
torch.Tensor.is_cuda = property(lambda one: one.device.type == "cuda")
expected.center()
assert found.counts.tolist() == expected.nearest(centers).counts.tolist()
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels(device):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="Triton, which also interprets kernels, is not installed")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    interpreted = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
    subprocess.run(
        [sys.executable, "-c", SCRIPT, device], env={**os.environ, **interpreted}, check=True
    )
