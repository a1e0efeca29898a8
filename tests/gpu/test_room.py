"""Room on a device: the same decision on the same device, and the host where there is none."""

from types import SimpleNamespace

import numpy as np
import pytest

from lrrspm import LinearSVM
from lrrspm.gpu import DeviceError
from lrrspm.pipeline import open_engine
from lrrspm.svm import linear_gram
from lrrspm.svm.long import long_weights

from .conftest import KINDS, vectors


def test_without_room_the_host_solves(accelerator, monkeypatch):
    X, y = vectors(80, 200)
    expected = LinearSVM(random_state=0).fit(X, y).coef_
    monkeypatch.setattr(type(accelerator), "has_room", lambda *_: False)
    assert accelerator.make_room(3, 4, np.float16) is None
    found = LinearSVM(random_state=0).fit_on(X, y, accelerator).coef_
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_without_room_nothing_is_put_on_the_device(accelerator, monkeypatch, kind):
    from lrrspm.gpu.machines import DeviceMatrix

    X, y = vectors(80, 200, kind=kind)
    host = LinearSVM(random_state=0).fit(X, y)
    betas = np.random.default_rng(1).standard_normal((3, 80)).astype(np.float32)
    monkeypatch.setattr(type(accelerator), "has_room", lambda *_: False)
    monkeypatch.setattr(DeviceMatrix, "of", None)
    monkeypatch.setattr(DeviceMatrix, "__init__", None)
    np.testing.assert_array_equal(linear_gram(X, accelerator), linear_gram(X, None))
    np.testing.assert_array_equal(host.scores(X, accelerator), host.scores(X))
    if kind == np.float16:
        weights = long_weights(betas, X, accelerator)
        np.testing.assert_array_equal(weights, long_weights(betas, X, None))


def test_without_room_for_a_gram_matrix_the_host_makes_it(accelerator, monkeypatch):
    """Vectors fit, their products do not: 80 vectors take less than 4 MB, the products more."""
    from lrrspm.gpu.machines import DeviceMatrix, gram_bytes

    X, y = vectors(80, 200)
    assert X.nbytes < gram_bytes(80) == 4 * 80 * (2 * 80 + 4096)
    monkeypatch.setattr(type(accelerator), "has_room", lambda _, nbytes: nbytes < gram_bytes(80))
    monkeypatch.setattr(DeviceMatrix, "gram", None)
    held = accelerator.hold(X)
    for given in (X, held):
        np.testing.assert_array_equal(linear_gram(given, accelerator), linear_gram(X, None))
    assert accelerator.make_room(80, 200, np.float32) is None
    assert accelerator.make_room(79, 200, np.float32) is not None
    expected = LinearSVM(tol=1e-7, random_state=0).fit(X, y).coef_
    there = LinearSVM(tol=1e-7).fit_on(held, y, accelerator)
    np.testing.assert_allclose(there.coef_, expected, atol=1e-4)


def test_room_is_a_share_of_all_memory(monkeypatch):
    """Not of what is free at the moment: then another program would change the last bits."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from lrrspm.gpu.executor import DeviceThreads

    card = SimpleNamespace(total_memory=1000)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(torch.cuda, "mem_get_info", None)
    assert [DeviceThreads(None, "cuda").has_room(n) for n in (400, 401)] == [True, False]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("RuntimeError", "CUDA error: out of memory\nCUDA kernel errors might be reported later"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`"),
        ("RuntimeError", "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `create`"),
        ("RuntimeError", "[enforce fail] . DefaultCPUAllocator: can't allocate memory: 8 bytes"),
    ],
)
def test_full_memory_says_what_helps(device, kind, message):
    import torch

    error = getattr(torch, kind, RuntimeError)(message)
    with pytest.raises(DeviceError, match="--device cpu") as caught, open_engine(1, None, device):
        raise error
    if kind == "RuntimeError":
        assert message.splitlines()[0] in str(caught.value)
        assert "container" in str(caught.value)


def test_other_errors_of_torch_are_left_alone(device):
    message = "out of resource: shared memory"  # of a kernel, which is no matter of other programs
    with pytest.raises(RuntimeError, match=message) as caught, open_engine(1, None, device):
        raise RuntimeError(message)
    assert caught.type is RuntimeError
