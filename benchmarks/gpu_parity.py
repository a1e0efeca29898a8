"""Are vectors, predictions and models of a GPU those of the CPU, and the same every time?

Half of the images per class train a model and the rest test it, from files, for each preset,
in torch's precisions of products: "highest" is single precision, "high" is tf32, and "medium"
takes bfloat16 for codes.

- One model, trained on the CPU: what it predicts on both devices, and vectors of some of the
  test images. In "highest" these are computed again, with all threads and with 2: are they the
  same bits?
- Models trained on the GPU: accuracy, seconds to train, and images per second from files to
  labels, next to the CPU's. Another one is trained: is it the same file?

Compiling is not in the seconds. Folders and presets that are not named keep their results. The
part of the CPU alone can be run before, also on another machine: it leaves its models in
``parity-models``.

    LRRSPM_DATA=... python -m benchmarks.gpu_parity [cpu] [FOLDER[:PRESET]...]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lrrspm import ImageClassifier, find_images, load_model
from lrrspm._support.environment import describe_environment, short_commit
from lrrspm._support.stages import Stages
from lrrspm.pipeline import Engine, encode_images, open_engine

from ._measure import (
    RESULTS,
    data_folder,
    describe_gpu,
    describe_source,
    figure,
    find_torch,
    measure,
    show,
)
from .gpu import TARGETS
from .parity import NEAR

FILE = RESULTS / "gpu_parity.json"
FOLDERS = ("LS", "YaleB")
PRECISIONS = {"LS": ("highest", "high", "medium"), "YaleB": ("highest",)}
"""Words of ``torch.set_float32_matmul_precision``, by folder."""
TRAINED = {"LS": ("highest", "high"), "YaleB": ("highest",)}
"""In which of them models are trained on the GPU."""
REPEATS = {"LS": (-1, 2), "YaleB": (2,)}
"""Threads with which vectors are computed again."""
COMPARED = 200
"""Most test images whose vectors are compared."""
MODELS = Path("parity-models")
WARM_UP = 70
"""Images, about, of a first training that is not timed."""


class Split(NamedTuple):
    """Paths of images to train with and to test, and their labels."""

    trained: list[str]
    labels: NDArray[np.str_]
    tested: list[str]
    truth: NDArray[np.str_]

    def accuracy(self, predicted: NDArray[Any]) -> float:
        """Return the mean over classes of the share of labels that are right."""
        right = predicted == self.truth
        return float(np.mean([right[self.truth == name].mean() for name in np.unique(self.truth)]))


def run(*parts: str) -> dict[str, Any]:
    """Compare presets on folders."""
    find_torch()
    done = json.loads(FILE.read_text())["result"]["rows"] if parts and FILE.exists() else []
    wanted = _wanted(parts)
    rows = [row for row in done if (row["folder"], row["method"]) not in wanted]
    rows += [compare(folder, method, "cuda") for folder, method in wanted]
    presets = list(TARGETS)
    rows.sort(key=lambda row: (FOLDERS.index(row["folder"]), presets.index(row["method"])))
    return {"figures": _figures(rows), "rows": rows, "device": describe_gpu()}


def _wanted(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return folders and presets by their names."""
    found = []
    for folder, _, method in (part.partition(":") for part in parts or FOLDERS):
        found += [(folder, one) for one in ([method] if method else TARGETS)]
    return found


def compare(folder: str, method: str, device: str, limit: int | None = None) -> dict[str, Any]:
    """Compare a preset on a device with the CPU.

    Parameters
    ----------
    folder : str
        One of ``FOLDERS``.
    method : str
    device : str
        "cuda", or "torch" for a trial on the CPU.
    limit : int or None
        Most images per class, half of them to train; None is all.

    Returns
    -------
    dict
        A row of the result.
    """
    start = time.perf_counter()

    def tell(what: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s {folder} {method}: {what}", flush=True)

    split = _split(folder, limit)
    row: dict[str, Any] = {
        "folder": folder,
        "method": method,
        "trained": len(split.trained),
        "tested": len(split.tested),
        "commit": short_commit(describe_environment()),
    }
    if not (MODELS / f"{folder}-{method}.json").exists():
        train_on_cpu(folder, method, limit)
    known = json.loads((MODELS / f"{folder}-{method}.json").read_text())
    model = load_model(MODELS / f"{folder}-{method}.lrrspm").set_params(n_jobs=-1)
    predicted = np.array(known.pop("predicted"))
    row["cpu"] = known
    some = split.tested[:: max(1, len(split.tested) // COMPARED)][:COMPARED]
    with open_engine(-1, None, "cpu") as engine:
        vectors = _vectors(model, some, engine)
    tell("vectors on the CPU")
    row |= _compare_vectors(model, split, some, folder, device, vectors, predicted)
    tell("vectors on the device")
    row |= _compare_models(method, split, device, predicted, TRAINED[folder])
    tell(f"trained on the device\n{json.dumps(row)}")
    return row


def train_on_cpu(folder: str, method: str, limit: int | None = None) -> None:
    """Leave a model and what it predicts in ``MODELS``."""
    split = _split(folder, limit)
    _train(method, "cpu", _some(split))
    model, seconds = _train(method, "cpu", split)
    start = time.perf_counter()
    predicted = model.predict(split.tested)
    rate = len(split.tested) / (time.perf_counter() - start)
    MODELS.mkdir(exist_ok=True)
    model.save(MODELS / f"{folder}-{method}.lrrspm")
    environment = describe_environment()
    machine = f"{environment['cores']} cores of an {environment['cpu']}"
    known = {**_trained(split.accuracy(predicted), seconds, rate), "machine": machine}
    content = json.dumps({**known, "predicted": predicted.tolist()})
    (MODELS / f"{folder}-{method}.json").write_text(content)
    print(f"{folder} {method}: trained on the CPU in {seconds:.1f} s", flush=True)


def _split(folder: str, limit: int | None) -> Split:
    paths, labels = find_images(data_folder(folder))
    names = np.array(labels)
    rng = np.random.default_rng(0)
    trained, tested = np.zeros((2, len(paths)), bool)
    for label in np.unique(names):
        own = rng.permutation(np.flatnonzero(names == label))[:limit]
        trained[own[: len(own) // 2]] = True
        tested[own[len(own) // 2 :]] = True
    parts = [[paths[i] for i in np.flatnonzero(part)] for part in (trained, tested)]
    return Split(parts[0], names[trained], parts[1], names[tested])


def _some(split: Split) -> Split:
    """Return the same with fewer images to train: enough to compile what training runs."""
    step = max(1, len(split.trained) // WARM_UP)
    return split._replace(trained=split.trained[::step], labels=split.labels[::step])


def _train(method: str, device: str, split: Split) -> tuple[ImageClassifier, float]:
    """Return a model, and the seconds that it took."""
    model = ImageClassifier(method=method, random_state=0, n_jobs=-1, device=device)
    start = time.perf_counter()
    model.fit(split.trained, split.labels)
    return model, time.perf_counter() - start


def _vectors(model: ImageClassifier, images: Sequence[str], engine: Engine) -> NDArray[Any]:
    """Return vectors (n, d) of images."""
    return encode_images([model.features_], images, engine, Stages()).matrices[0]


def _trained(accuracy: float, seconds: float, rate: float) -> dict[str, float]:
    return {"accuracy": accuracy, "train_seconds": seconds, "images_per_second": rate}


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """Let torch multiply in a precision."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _compare_vectors(
    model: ImageClassifier,
    split: Split,
    some: Sequence[str],
    folder: str,
    device: str,
    expected: NDArray[Any],
    labels: NDArray[Any],
) -> dict[str, Any]:
    """Compare vectors of one model on the device with the CPU's, and with their repeats."""
    found: dict[str, Any] = {}
    first = expected
    model.set_params(device=device)
    for precision in PRECISIONS[folder]:
        with _products(precision), open_engine(-1, None, device) as engine:
            vectors = _vectors(model, some, engine)
            predicted = model.predict(split.tested)
        found[precision] = {
            **_differences(expected, vectors),
            "equal": float((predicted == labels).mean()),
            "accuracy": split.accuracy(predicted),
        }
        if precision == "highest":
            first = vectors
    repeated = {}
    for threads in REPEATS[folder]:
        with open_engine(threads, None, device) as engine:
            again = _vectors(model, some, engine)
        same = [one.tobytes() == other.tobytes() for one, other in zip(first, again, strict=True)]
        repeated[str(threads)] = float(np.mean(same))
    return {"compared": len(some), "vectors": found, "same_bits_by_threads": repeated}


def _differences(expected: NDArray[Any], found: NDArray[Any]) -> dict[str, float]:
    """Describe the lengths of differences of vectors over the lengths of the expected ones."""

    def apart(one: NDArray[Any], other: NDArray[Any]) -> float:
        wide = one.astype(np.float32)
        return float(np.linalg.norm(other - wide) / np.linalg.norm(wide))

    with ThreadPoolExecutor() as threads:
        away = np.array([*threads.map(apart, expected, found)])
    return {
        "near": float((away < NEAR).mean()),
        "median": float(np.median(away)),
        "quantile": float(np.quantile(away, 0.99)),
        "largest": float(away.max()),
    }


def _compare_models(
    method: str, split: Split, device: str, labels: NDArray[Any], precisions: Sequence[str]
) -> dict[str, Any]:
    """Train and test on the device, and train again: is the model the same file?"""
    found: dict[str, Any] = {}
    files = []
    _train(method, device, _some(split))
    for precision in precisions:
        with _products(precision):
            model, seconds = _train(method, device, split)
            start = time.perf_counter()
            predicted = model.predict(split.tested)
            rate = len(split.tested) / (time.perf_counter() - start)
            if precision == "highest":
                files = [_saved(one) for one in (model, _train(method, device, split)[0])]
        found[precision] = {
            **_trained(split.accuracy(predicted), seconds, rate),
            "equal": float((predicted == labels).mean()),
        }
    return {"device": found, "same_file": files[0] == files[1]}


def _saved(model: ImageClassifier) -> bytes:
    """Return a model file; it holds no time."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "one.lrrspm"
        model.save(file)
        return file.read_bytes()


def _figures(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    figures = []
    for row in rows:
        what, vectors = f"{row['method']}, {row['folder']}", row["vectors"]["highest"]
        apart = 100 * abs(row["device"]["highest"]["accuracy"] - row["cpu"]["accuracy"])
        least = ">= 0.999" if row["folder"] == "LS" else None
        repeated = min(row["same_bits_by_threads"].values())
        figures += [
            figure(f"{what}: share of vectors within {NEAR:.4f}", vectors["near"], ">= 1"),
            figure(f"{what}: share of equal predictions, one model", vectors["equal"], least),
            figure(f"{what}: accuracy, points between CPU and GPU", apart, "<= 0.1"),
            figure(f"{what}: share of vectors with the same bits again", repeated, ">= 1"),
            figure(f"{what}: the same model file again, 1 is yes", int(row["same_file"]), ">= 1"),
        ]
    return figures


def table() -> str:
    """Return tables of vectors and of models, by folder, preset and precision."""
    if not FILE.exists():
        return "Not measured yet."
    content = json.loads(FILE.read_text())
    rows, device = content["result"]["rows"], content["result"]["device"]
    lines = [
        f"| images | method | products | within {NEAR:.4f} | median | 99 % quantile | largest | "
        "same predictions | accuracy |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for precision, found in _ordered(row["vectors"]):
            sizes = (f"{found[key]:.1e}" for key in ("median", "quantile", "largest"))
            cells = (_percent(found["near"]), *sizes, _percent(found["equal"]),
                     _percent(found["accuracy"]))  # fmt: skip
            lines.append(f"| {_name(row)} | `{precision}` | {' | '.join(cells)} |")
    repeated = min(min(row["same_bits_by_threads"].values()) for row in rows)
    alike = sum(row["same_file"] for row in rows)
    lines += [
        "",
        "Vectors of one model, which was trained on the CPU: lengths of the differences from the "
        "CPU's vectors, over the lengths of these, for at least "
        f"{min(row['compared'] for row in rows)} test images. Computed again in `highest`, with "
        f"another number of threads, {'all' if repeated == 1 else _percent(repeated) + ' of the'} "
        "vectors have the same bits.",
        "",
        "| images | method | trained and tested on | accuracy | predictions as on the CPU | "
        "seconds to train | images per second |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        devices = {f"GPU, `{precision}`": found for precision, found in _ordered(row["device"])}
        for name, found in {f"CPU, {row['cpu']['machine']}": row["cpu"], **devices}.items():
            cells = (name, _percent(found["accuracy"]),
                     _percent(found["equal"]) if "equal" in found else "",
                     f"{found['train_seconds']:.1f}",
                     f"{found['images_per_second']:,.0f}")  # fmt: skip
            lines.append(f"| {_name(row)} | {' | '.join(cells)} |")
    last = {row["folder"]: row for row in rows}.values()
    used = [
        f"{row['trained']:,} images of {row['folder']} to train and {row['tested']:,} to test "
        f"(commit {row['commit']})"
        for row in last
    ]
    lines += [
        "",
        f"Half of the images per class train, from files: {'; '.join(used)}. Trained again in "
        f"`highest`, {alike} of {len(rows)} models are the same file. On one {device['name']}, "
        f"driver {device['driver_version']}, torch {device['torch']}, triton {device['triton']}. "
        f"From `benchmarks/results/{FILE.name}`: {describe_source(content['environment'])}.",
    ]
    return "\n".join(lines)


def _ordered(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what was found by precision, the most exact one first."""
    return [(one, found[one]) for one in PRECISIONS[FOLDERS[0]] if one in found]


def _name(row: dict[str, Any]) -> str:
    return f"{row['folder']} | `{row['method']}`"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


if __name__ == "__main__":
    if sys.argv[1:2] == ["cpu"]:
        for name, preset in _wanted(sys.argv[2:]):
            train_on_cpu(name, preset)
        sys.exit()
    show("gpu_parity", measure("gpu_parity", lambda: run(*sys.argv[1:])))
