"""Fixtures: golden numbers, made images, and real data where there are any."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

# Before SciPy is imported: scikit-learn's checks of array-API input skip without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from PIL import Image

HERE = Path(__file__).parent

_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


# Tables are as wide as this says; tests that are about it set it.
os.environ.pop("COLUMNS", None)


@pytest.fixture(autouse=True)
def _no_network(request, monkeypatch):
    """Tests reach nobody; those marked ``network`` reach this machine, by its own addresses."""
    allowed = _THIS_MACHINE if request.node.get_closest_marker("network") else ()

    def guard(name, host_of):
        original = getattr(socket.socket, name)

        def guarded(self, *arguments):
            if self.family in (socket.AF_INET, socket.AF_INET6):
                _refuse(host_of(arguments), allowed)
            return original(self, *arguments)

        monkeypatch.setattr(socket.socket, name, guarded, raising=False)

    guard("connect", lambda arguments: arguments[0][0])
    guard("connect_ex", lambda arguments: arguments[0][0])
    guard("sendto", lambda arguments: arguments[-1][0])
    look_up = socket.getaddrinfo

    def guarded_look_up(host, *rest, **named):
        _refuse(host, allowed)
        return look_up(host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)


@pytest.fixture(autouse=True)
def _empty_memory():
    """Files at ``memory://`` end with the test: all of a process are in one place."""
    yield
    if (module := sys.modules.get("fsspec.implementations.memory")) is not None:
        module.MemoryFileSystem.store.clear()
        module.MemoryFileSystem.pseudo_dirs[:] = [""]


def _refuse(host, allowed):
    if host not in allowed:
        raise RuntimeError(
            f"a test wants to reach {host}; mark it 'network' if that is its purpose"
        )


@pytest.fixture(scope="session")
def synthetic():
    """What the original programs compute on a made image."""
    with np.load(HERE / "golden" / "synthetic.npz") as file:
        return dict(file)


def _folder(variable: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    return Path(os.environ[variable])


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with LS, YaleB and COIL20, one folder a class."""
    return _folder("LRRSPM_DATA")


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Folder with golden numbers of real images."""
    return _folder("LRRSPM_GOLDEN")


def hear_ctrl_c():
    """For a process about to start: what runs in the background is born deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def draw(kind: str, rng: np.random.Generator, size: int = 48) -> np.ndarray:
    """An image of stripes or dots with noise, uint8 (size, size)."""
    y, x = np.mgrid[:size, :size] + rng.uniform(0, 8, 2)[:, None, None]
    waves = {
        "across": np.sin(y),
        "along": np.sin(x),
        "dots": np.sin(x) * np.sin(y),
        "slant": np.sin(x + y),
    }
    image = 128 + 70 * waves[kind] + rng.normal(0, 25, (size, size))
    return np.clip(image, 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory) -> Path:
    """A folder of three classes with 12 made images each."""
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for kind in ("across", "along", "dots"):
        (root / kind).mkdir()
        for i in range(12):
            Image.fromarray(draw(kind, rng)).save(root / kind / f"{i:02}.png")
    return root


@pytest.fixture(scope="session")
def pictures(image_folder) -> Path:
    """The same, by the name that other tests use."""
    return image_folder


@pytest.fixture(scope="session")
def model_path(image_folder, tmp_path_factory) -> Path:
    """A small model trained on the made images."""
    from lrrspm import ImageClassifier, LRREncoder, find_images

    path = tmp_path_factory.mktemp("model") / "small.lrrspm"
    encoder = LRREncoder(codebook_size=16)
    ImageClassifier(encoder, random_state=0).fit(*find_images(image_folder)).save(path)
    return path


def run_alone(script: str, given: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process whose peak memory is its own.

    A process's peak begins with what its parent held, so a small one stands between.
    """
    between = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    command = [sys.executable, "-c", between, sys.executable, "-c", script]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The files that are read while a test runs."""
    from lrrspm.images import read_pixels

    seen: list[str] = []

    def spy(image, *rest, **named):
        seen.append(image)
        return read_pixels(image, *rest, **named)

    replace_reader(monkeypatch, spy)
    return seen


def replace_reader(monkeypatch, function):
    """Put a function in the place of ``read_pixels``, wherever features call it."""
    monkeypatch.setattr("lrrspm.features.read_pixels", function)
    monkeypatch.setattr("lrrspm.pipeline.chunks.read_pixels", function)


@pytest.fixture
def sample_sizes(monkeypatch) -> list[int]:
    """The numbers of descriptors that LRR encoders are fitted to while a test runs."""
    from lrrspm import LRREncoder

    seen: list[int] = []
    original = LRREncoder.fit_on

    def spy(self, X, *rest):
        seen.append(len(X))
        return original(self, X, *rest)

    monkeypatch.setattr(LRREncoder, "fit_on", spy)
    return seen


@pytest.fixture
def learned(monkeypatch) -> list[int]:
    """Sizes of the k-means codebooks that are learned while a test runs."""
    from lrrspm.encoders.kmeans import kmeans

    seen: list[int] = []

    def spy(X, size, *rest):
        seen.append(size)
        return kmeans(X, size, *rest)

    monkeypatch.setattr("lrrspm.encoders.base.kmeans", spy)
    return seen


def mixed_up(image_folder: Path, target: Path) -> Path:
    """A copy of made images, two of each class being in the folder of the next one."""
    shutil.copytree(image_folder, target)
    kinds = sorted(folder.name for folder in target.iterdir())
    for kind, other in zip(kinds, [*kinds[1:], kinds[0]], strict=True):
        for i in range(2):
            (target / kind / f"{i:02}.png").rename(target / other / f"{kind}-{i}.png")
    return target
