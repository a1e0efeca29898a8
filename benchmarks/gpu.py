"""How many images per second does a GPU turn into vectors, and how near is it to its limits?

Images of 300x200 pixels, decoded, 8 bits, on the GPU. Targets, for an H200: 60,000
images per second for dense SIFT, 10,000 and 3,000 for balanced and best, and low-rank
codes with their maxima at half the speed of the bare matrix product (tf32, by cuBLAS),
which writes all codes and pools none. One iteration of k-means, 10 million x 128 numbers
and 4096 centers, in half the time of torch's product, argmax and sum; machines of 102
classes from a Gram matrix, on the GPU and on one thread of the CPU.

A limit is what the chip does in the same run: a copy within its memory, bytes read and
written, and the product of two matrices of 8192 x 8192. Parts of the benchmark keep the
results of others:

- *kernels*: all of the above
- *LS*, *YaleB*: models are trained with half of the images per class and tested with the
  rest, on the CPU and on the GPU, from files
- *Caltech101*: the command ``evaluate --method best`` on one split, from files; target:
  30 seconds. Twice: where kernels are not compiled yet, the first run compiles them.

    LRRSPM_DATA=... python -m benchmarks.gpu [PART...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lrrspm import ImageClassifier, LinearSVM, SpatialPyramidFeatures, find_images
from lrrspm._support.environment import describe_environment
from lrrspm.descriptors import SIFT
from lrrspm.methods import find_method
from lrrspm.pooling import SpatialPyramid

from ._measure import (
    RESULTS,
    MissingError,
    data_folder,
    figure,
    made_image,
    measure,
    show,
)

HEIGHT, WIDTH = 200, 300
IMAGES = 512
PATCHES = 48 * 31
VALUES = 128
PARTS = ("kernels", "LS", "YaleB", "Caltech101")
PRECISIONS = {"single": 3, "half": 1}
"""Products of halves per product."""
TARGETS = {"fast": None, "balanced": ">= 10000", "best": ">= 3000"}
SIDE = 8192


def run(*parts: str) -> dict[str, Any]:
    """Measure some parts; those left out keep their results."""
    torch = _torch()
    file = RESULTS / "gpu.json"
    found = json.loads(file.read_text())["result"] if file.exists() else {}
    found.pop("figures", None)
    commits = found.get("commits", {})
    if not parts or "kernels" in parts:
        limits = _limits(torch)
        found |= {
            "limits": limits,
            "sift": _sift(limits),
            "codes": [_codes(torch, k, limits) for k in (256, 1024, 4096)],
            "images_per_second": _presets(torch),
            "kmeans": _kmeans(torch, limits),
            "machines": _machines(torch),
        }
    for name in ("LS", "YaleB"):
        if not parts or name in parts:
            found[name] = _accuracies(name)
    if not parts or "Caltech101" in parts:
        found["Caltech101"] = _evaluate()
    found["device"] = _device(torch)
    now = describe_environment()["commit"]
    found["commits"] = {**commits, **dict.fromkeys(parts or PARTS, now)}
    return {"figures": _figures(found), **found}


def _figures(found: dict[str, Any]) -> list[dict[str, Any]]:
    figures = [
        figure(
            "dense SIFT, 300x200, images per second", found["sift"]["images_per_second"], ">= 60000"
        )
    ]
    figures += [
        figure(
            f"low-rank codes and maxima, k {row['k']}, {name}, share of the bare tf32 product",
            row[name]["share_of_bare"],
            None if row["k"] == 256 or name != "half" else ">= 0.5",
        )
        for row in found["codes"]
        for name in PRECISIONS
    ]
    figures += [
        figure(f"{name}, decoded images to vectors, per second", rate, TARGETS[name])
        for name, rate in found["images_per_second"].items()
    ]
    figures += [
        figure(f"k-means, one iteration, {name}: torch's seconds over ours", row["ratio"], ">= 2")
        for name, row in found["kmeans"]["precisions"].items()
    ]
    figures += [
        figure(f"102 SVMs, {name}: the CPU's seconds over the GPU's", row["ratio"])
        for name, row in found["machines"].items()
    ]
    for folder in ("LS", "YaleB"):
        for name, row in found.get(folder, {}).items():
            off = 100 * abs(row["cuda"]["accuracy"] - row["cpu"]["accuracy"])
            least = ">= 0.999" if folder == "LS" else None
            figures += [
                figure(
                    f"{name}, {folder}: share of equal predictions, one model", row["equal"], least
                ),
                figure(f"{name}, {folder}: accuracy, points between CPU and GPU", off, "<= 0.1"),
            ]
    if "Caltech101" in found:
        seconds = found["Caltech101"]["seconds"]
        figures += [
            figure("evaluate --method best, Caltech101, one split, seconds", min(seconds), "<= 30"),
            figure("the same, the first of two runs, seconds", seconds[0]),
        ]
    return figures


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingError("torch: install lrrspm[gpu]") from None
    if not torch.cuda.is_available():
        raise MissingError("a GPU")
    return torch


def _seconds(call: Callable[[], object]) -> float:
    """Return the median seconds of a call on the GPU, by its own clock."""
    from triton.testing import do_bench

    return 1e-3 * do_bench(call, warmup=50, rep=300, return_mode="median")


def _device(torch: Any) -> dict[str, str]:
    """Return GPU, driver and clocks, as they are after the work."""
    import triton

    asked = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit")
    command = ["nvidia-smi", f"--query-gpu={','.join(asked)}", "--format=csv,noheader"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(zip(asked, told.splitlines()[0].split(", "), strict=True))
    return {**found, "torch": torch.__version__, "triton": triton.__version__}


def _limits(torch: Any) -> dict[str, float]:
    """Return what the chip does: bytes per second, and operations per second of products."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    limits = {"copy": 2 * source.nbytes / _seconds(lambda: target.copy_(source))}
    square = source[: SIDE * SIDE].view(SIDE, SIDE)
    for name, precision in {"tf32": "high", "float32": "highest"}.items():
        torch.set_float32_matmul_precision(precision)
        limits[name] = 2 * SIDE**3 / _seconds(lambda: square @ square)
    return limits


def _pixels(color: bool = False) -> list[Any]:
    planes = [made_image(HEIGHT, WIDTH, seed) for seed in range(18)]
    images = [np.stack(planes[i : i + 3], axis=2) if color else planes[i] for i in range(16)]
    return [(255 * images[i % 16]).astype(np.uint8) for i in range(IMAGES)]


def _sift(limits: dict[str, float]) -> dict[str, float]:
    from lrrspm.gpu.batches import Batch
    from lrrspm.gpu.sift import describe_sift

    images = _pixels()
    batch = Batch(images, "cuda")
    taken = _seconds(lambda: describe_sift(SIFT(), batch)) / IMAGES
    found = describe_sift(SIFT(), batch)[0][:16].cpu().numpy()
    expected = np.stack([SIFT().describe(image / np.float32(255)).values for image in images[:16]])
    # Pixels are read and descriptors written; maps and sums go through memory in between.
    least = HEIGHT * WIDTH + 4 * PATCHES * VALUES
    between = 4 * (2 * 8 * HEIGHT * WIDTH + 2 * 32 * 31 * WIDTH)
    return {
        "images_per_second": 1 / taken,
        "bytes_at_least": least,
        "bytes_of_maps_and_sums": between,
        "share_of_copy": (least + between) / taken / limits["copy"],
        "largest_difference": float(np.abs(found - expected).max()),
    }


def _codes(torch: Any, k: int, limits: dict[str, float]) -> dict[str, Any]:
    from lrrspm.gpu.batches import Batch, find_members
    from lrrspm.gpu.pooling import truncated
    from lrrspm.gpu.products import pool_codes
    from lrrspm.gpu.sift import describe_sift

    count = IMAGES if k < 4096 else IMAGES // 2
    batch = Batch(_pixels()[:count], "cuda")
    values, kinds = describe_sift(SIFT(), batch)
    members = find_members(kinds, SpatialPyramid(), values.device)
    generator = torch.Generator("cuda").manual_seed(0)
    projection = 0.05 * torch.randn(VALUES, k, device="cuda", generator=generator)
    total, share, atoms = projection.sum(1), 0.98 / k, projection.T.contiguous()
    exact = torch.stack(
        [
            truncated(cell.double(), projection.double(), total.double(), share, False)
            .abs().amax(1)
            for cell in members.take(values)[:4].unbind(1)
        ], 1,
    )  # fmt: skip
    flat, out = values.flatten(0, 1), values.new_empty((count * PATCHES, k))
    torch.set_float32_matmul_precision("high")
    bare = _seconds(lambda: torch.mm(flat, projection, out=out))
    torch.set_float32_matmul_precision("highest")
    operations = 2 * count * PATCHES * VALUES * k
    row: dict[str, Any] = {
        "k": k, "operations_per_image": operations // count,
        "bytes_per_image_at_least": 4 * (PATCHES * VALUES + 16 * k),
        "bare": {"images_per_second": count / bare, "share_of_chip": operations / bare
                 / limits["tf32"]},
    }  # fmt: skip
    for precision, parts in PRECISIONS.items():
        pool = partial(pool_codes, values, members, atoms, total, share, parts)
        taken, found = _seconds(pool), pool()[:4]
        row[precision] = {
            "images_per_second": count / taken,
            "share_of_bare": bare / taken,
            "share_of_chip": operations / taken / limits["tf32"],
            "largest_difference": float((found - exact).abs().max() / exact.max()),
        }
    return row


def _presets(torch: Any) -> dict[str, float]:
    """Return images per second from decoded pixels on the GPU to vectors there."""
    from lrrspm.gpu.batches import Batch
    from lrrspm.gpu.encoding import DeviceChannels

    pixels = {color: _pixels(color)[:256] for color in (False, True)}
    batches = {color: Batch(images, "cuda") for color, images in pixels.items()}
    rates = {}
    for name in TARGETS:
        features = SpatialPyramidFeatures(
            find_method(name).channels(), n_samples=20_000, random_state=0, n_jobs=-1
        ).fit(pixels[True][:16])
        channels = DeviceChannels(features.channels_, "cuda")

        def encode(features: Any = features, channels: Any = channels) -> None:
            with torch.inference_mode():
                for channel in features.channels_:
                    channels.encode(channel, batches[channel.descriptor.color])

        rates[name] = 256 / _seconds(encode)
    return rates


def _kmeans(torch: Any, limits: dict[str, float]) -> dict[str, Any]:
    """Return seconds of an iteration of k-means, by torch's operations and by ours."""
    from lrrspm.gpu.clustering import DeviceRows, find_nearest

    n, m, k, block = 10_000_000, VALUES, 4096, 250_000
    generator = torch.Generator("cuda").manual_seed(0)
    values = torch.rand((n, m), device="cuda", generator=generator).pow_(3)
    values /= values.norm(dim=1, keepdim=True)
    centers = values[torch.randperm(n, device="cuda", generator=generator)[:k]].clone()
    offsets, out = 0.5 * centers.square().sum(1), values.new_empty((block, k))
    rows = DeviceRows(values, "cuda")
    sums, counts = values.new_empty((k, m)), values.new_empty(k)
    given = centers.cpu().numpy()

    def by_torch() -> None:
        sums.zero_()
        counts.zero_()
        for part in values.split(block):
            nearest = torch.addmm(offsets, part, centers.T, beta=-1, out=out).argmax(1)
            sums.index_add_(0, nearest, part)
            counts.add_(torch.bincount(nearest, minlength=k))

    exact = torch.cat(
        [
            (part.double() @ centers.double().T - 0.5 * centers.double().square().sum(1)).argmax(1)
            for part in values[:65536].split(8192)
        ]
    )
    operations = 2 * n * m * k
    found: dict[str, Any] = {"n": n, "m": m, "k": k, "precisions": {}}
    for name, precision in (("single", "highest"), ("half", "high")):
        torch.set_float32_matmul_precision(precision)
        theirs, ours = _seconds(by_torch), _seconds(lambda: rows.nearest(given))
        assigned = _seconds(lambda: find_nearest(values, centers))
        bare = _seconds(
            lambda: [torch.mm(part, centers.T, out=out) for part in values.split(block)]
        )
        right = (find_nearest(values[:65536], centers)[0] == exact).float().mean()
        found["precisions"][name] = {
            "torch_seconds": theirs,
            "seconds": ours,
            "ratio": theirs / ours,
            "assignment_seconds": assigned,
            "bare_product_seconds": bare,
            "share_of_chip": operations / assigned / limits["tf32"],
            "rows_as_in_double_precision": float(right),
        }
    torch.set_float32_matmul_precision("highest")
    return found


def _machines(torch: Any) -> dict[str, Any]:
    """Return seconds of training 102 machines from a Gram matrix, 30 samples per class."""
    from lrrspm.gpu.executor import DeviceThreads

    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(102), 30)
    X = rng.standard_normal((len(y), 8192), dtype=np.float32)
    X += 0.6 * rng.standard_normal((102, 8192), dtype=np.float32)[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    signs = np.where(y == np.arange(102)[:, None], 1, -1).astype(np.float32)
    gram = X @ X.T
    device = DeviceThreads(None, "cuda")
    found = {}
    for loss in ("squared_hinge", "squared"):
        machine = LinearSVM(loss=loss)
        betas, seconds = {}, {}
        for name, executor in (("cuda", device), ("cpu", None)):
            solve = partial(machine.solve_betas, None, gram, signs, None, 0, executor)
            betas[name] = solve()[0]
            start = time.perf_counter()
            solve()
            seconds[name] = time.perf_counter() - start
        scores = {name: found_betas @ gram for name, found_betas in betas.items()}
        found[loss] = {
            **seconds,
            "ratio": seconds["cpu"] / seconds["cuda"],
            "equal": float((scores["cpu"].argmax(0) == scores["cuda"].argmax(0)).mean()),
        }
    return found


def _evaluate() -> dict[str, Any]:
    """Return seconds of the command on one split of Caltech101, and what it says."""
    folder = data_folder("Caltech101")
    command = [sys.executable, "-m", "lrrspm", "evaluate", str(folder), "--method", "best"]
    command += ["--train-per-class", "30", "--splits", "1", "--device", "cuda"]
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    # This also describes the data.
    told = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    said = json.loads(told.stdout)
    return {
        "seconds": seconds,
        "accuracy": said["accuracy"]["mean"],
        "stages": said["seconds"],
        "images": said["images"],
    }


def _accuracies(name: str) -> dict[str, dict[str, Any]]:
    """Return accuracies and seconds on a data set, from files, on the CPU and on the GPU."""
    paths, labels = find_images(data_folder(name))
    names = np.array(labels)
    rng = np.random.default_rng(0)
    trained = np.zeros(len(paths), bool)
    for label in np.unique(names):
        own = rng.permutation(np.flatnonzero(names == label))
        trained[own[: len(own) // 2]] = True
    parts = [[paths[i] for i in np.flatnonzero(part)] for part in (trained, ~trained)]
    truth = names[~trained]
    rows: dict[str, dict[str, Any]] = {}
    for name in TARGETS:
        row: dict[str, Any] = {"trained": len(parts[0]), "tested": len(parts[1])}
        found = {}
        for device in ("cpu", "cuda"):
            model = ImageClassifier(method=name, random_state=0, n_jobs=-1, device=device)
            model.fit(parts[0][::17], names[trained][::17])  # compiles
            start = time.perf_counter()
            model.fit(parts[0], names[trained])
            rates = {}
            taken = time.perf_counter() - start
            for threads in (-1, 4):
                start = time.perf_counter()
                found[device] = model.set_params(n_jobs=threads).predict(parts[1])
                rates[str(threads)] = len(truth) / (time.perf_counter() - start)
            if device == "cpu":  # the same model on the other device
                found["swapped"] = model.set_params(device="cuda").predict(parts[1])
            row[device] = {
                "accuracy": float(
                    np.mean([(found[device] == truth)[truth == c].mean() for c in np.unique(truth)])
                ),
                "train_seconds": taken,
                "test_images_per_second_by_threads": rates,
            }
        row["equal"] = float((found["cpu"] == found["swapped"]).mean())
        row["equal_when_trained_apart"] = float((found["cpu"] == found["cuda"]).mean())
        rows[name] = row
    return rows


if __name__ == "__main__":
    show("gpu", measure("gpu", lambda: run(*sys.argv[1:])))
