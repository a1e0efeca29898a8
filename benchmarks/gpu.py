"""How many images per second does a GPU turn into vectors, and how near is it to its limits?

Images of 300x200 pixels, decoded, 8 bits, on the GPU. Targets, for an H200: 60,000
images per second for dense SIFT, which is compared with kornia's; 10,000 and 3,000 for
balanced and best on color images; and low-rank codes with their maxima at half the speed
of the bare matrix product (tf32, by cuBLAS), which writes all codes and pools none. One
iteration of k-means, 10 million x 128 numbers and 4096 centers, in half the time of
torch's product, argmax and sum; machines of 102 classes from a Gram matrix, on the GPU
and on one thread of the CPU.

A limit is what the chip does in the same run: a copy within its memory, bytes read and
written, and the product of two matrices of 8192 x 8192. Parts of the benchmark keep the
results of others:

- *kernels*: all of the above, and what each kernel takes
- *counters*: what limits each kernel, see ``gpu_profile.py``
- *Caltech101*: the command ``evaluate --method best`` on one split, from files; target:
  30 seconds. Twice: where kernels are not compiled yet, the first run compiles them.

    LRRSPM_DATA=... python -m benchmarks.gpu [PART...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lrrspm import LinearSVM
from lrrspm._support.environment import describe_environment
from lrrspm.channels import Channel
from lrrspm.descriptors import SIFT
from lrrspm.pooling import SpatialPyramid

from ._measure import (
    RESULTS,
    data_folder,
    describe_gpu,
    figure,
    find_torch,
    made_image,
    measure,
    seconds_on_gpu,
    show,
)
from .gpu_peers import kornia_sift
from .gpu_profile import PRECISIONS, counters, fitted_channels, kernel_times

HEIGHT, WIDTH = 200, 300
IMAGES = 512
PATCHES = 48 * 31
VALUES = 128
PARTS = ("kernels", "counters", "Caltech101")
TARGETS = {"fast": None, "balanced": ">= 10000", "best": ">= 3000"}
SIDE = 8192


def run(*parts: str) -> dict[str, Any]:
    """Measure some parts; those left out keep their results."""
    torch = find_torch()
    file = RESULTS / "gpu.json"
    found = json.loads(file.read_text())["result"] if parts and file.exists() else {}
    found.pop("figures", None)
    commits = found.get("commits", {})
    if not parts or "kernels" in parts:
        limits = _limits(torch)
        found |= {
            "limits": limits,
            "sift": _sift(limits),
            "kornia": kornia_sift(IMAGES),
            "codes": [_codes(torch, k, limits) for k in (256, 1024, 4096)],
            **_presets(torch),
            "kmeans": _kmeans(torch, limits),
            "machines": _machines(torch),
        }
    if not parts or "counters" in parts:
        found["counters"] = counters()
    if not parts or "Caltech101" in parts:
        found["Caltech101"] = _evaluate()
    found["device"] = describe_gpu()
    now = describe_environment()["commit"]
    found["commits"] = {**commits, **dict.fromkeys(parts or PARTS, now)}
    return {"figures": _figures(found), **found}


def preset_rates(rates: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
    """Yield presets, the kind of images that they were timed on, and images per second."""
    for name in TARGETS:
        if (gray := f"{name}_gray") in rates:
            yield name, "color images", rates[name]
            yield name, "gray images", rates[gray]
        else:
            yield name, "images", rates[name]


def _figures(found: dict[str, Any]) -> list[dict[str, Any]]:
    ours, theirs = found["sift"]["images_per_second"], found.get("kornia")
    ratio = None if theirs is None else ours / theirs["images_per_second"]
    figures = [
        figure("dense SIFT, 300x200, images per second", ours, ">= 60000"),
        figure("dense SIFT: our images per second over kornia's", ratio),
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
        figure(
            f"{name}, decoded {images} to vectors, per second",
            rate,
            None if images == "gray images" else TARGETS[name],
        )
        for name, images, rate in preset_rates(found["images_per_second"])
    ]
    figures += [
        figure(f"k-means, one iteration, {name}: torch's seconds over ours", row["ratio"], ">= 2")
        for name, row in found["kmeans"]["precisions"].items()
    ]
    figures += [
        figure(f"102 SVMs, {name}: the CPU's seconds over the GPU's", row["ratio"])
        for name, row in found["machines"].items()
    ]
    if "Caltech101" in found:
        seconds = found["Caltech101"]["seconds"]
        figures += [
            figure("evaluate --method best, Caltech101, one split, seconds", min(seconds), "<= 30"),
            figure("the same, the first of two runs, seconds", seconds[0]),
        ]
    return figures


def _limits(torch: Any) -> dict[str, float]:
    """Return what the chip does: bytes per second, and operations per second of products."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    limits = {"copy": 2 * source.nbytes / seconds_on_gpu(lambda: target.copy_(source))}
    square = source[: SIDE * SIDE].view(SIDE, SIDE)
    for name, precision in {"tf32": "high", "float32": "highest"}.items():
        torch.set_float32_matmul_precision(precision)
        limits[name] = 2 * SIDE**3 / seconds_on_gpu(lambda: square @ square)
    return limits


def made_pixels(color: bool = False) -> list[Any]:
    """Return images of 8 bits, gray (h, w) or color (h, w, 3)."""
    planes = [made_image(HEIGHT, WIDTH, seed) for seed in range(18)]
    images = [np.stack(planes[i : i + 3], axis=2) if color else planes[i] for i in range(16)]
    return [(255 * images[i % 16]).astype(np.uint8) for i in range(IMAGES)]


def _sift(limits: dict[str, float]) -> dict[str, float]:
    from lrrspm.gpu.batches import Batch
    from lrrspm.gpu.sift import describe_sift

    images = made_pixels()
    batch = Batch(images, "cuda")
    taken = seconds_on_gpu(lambda: describe_sift(SIFT(), batch)) / IMAGES
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
    from lrrspm.gpu.products import pool_codes, split_atoms
    from lrrspm.gpu.sift import describe_sift

    count = IMAGES if k < 4096 else IMAGES // 2
    batch = Batch(made_pixels()[:count], "cuda")
    values, kinds = describe_sift(SIFT(), batch)
    members = find_members(batch, kinds, SpatialPyramid())
    generator = torch.Generator("cuda").manual_seed(0)
    projection = 0.05 * torch.randn(VALUES, k, device="cuda", generator=generator)
    total, share = projection.sum(1), 0.98 / k
    exact = torch.stack(
        [
            truncated(cell.double(), projection.double(), total.double(), share, False)
            .abs().amax(1)
            for cell in members.take(values)[:4].unbind(1)
        ], 1,
    )  # fmt: skip
    flat, out = values.flatten(0, 1), values.new_empty((count * PATCHES, k))
    torch.set_float32_matmul_precision("high")
    bare = seconds_on_gpu(lambda: torch.mm(flat, projection, out=out))
    torch.set_float32_matmul_precision("highest")
    operations = 2 * count * PATCHES * VALUES * k
    row: dict[str, Any] = {
        "k": k, "operations_per_image": operations // count,
        "bytes_per_image_at_least": 4 * (PATCHES * VALUES + 16 * k),
        "bare": {"images_per_second": count / bare, "share_of_chip": operations / bare
                 / limits["tf32"]},
    }  # fmt: skip
    for precision, word in PRECISIONS.items():
        torch.set_float32_matmul_precision(word)
        pool = partial(pool_codes, values, members, split_atoms(projection), total, share)
        torch.set_float32_matmul_precision("highest")
        taken, found = seconds_on_gpu(pool), pool()[:4]
        row[precision] = {
            "images_per_second": count / taken,
            "share_of_bare": bare / taken,
            "share_of_chip": operations / taken / limits["tf32"],
            "largest_difference": float((found - exact).abs().max() / exact.max()),
            "kernels": kernel_times(pool, count).microseconds,
        }
    return row


def _presets(torch: Any) -> dict[str, Any]:
    """Return images per second from decoded pixels on the GPU to vectors there.

    Also microseconds per image of each channel and of its kernels, and how often these are
    launched for a batch of 256. Where images have no color, the channels that read it are
    left out.
    """
    from lrrspm.gpu.batches import Batch
    from lrrspm.gpu.encoding import DeviceChannels

    pixels = {color: made_pixels(color)[:256] for color in (False, True)}
    batches = {color: Batch(images, "cuda") for color, images in pixels.items()}
    rates, spent, times = {}, {}, {}
    for name in TARGETS:
        fitted = fitted_channels(name, pixels[True][:16])
        computed = DeviceChannels(fitted, "cuda")

        def seconds(channels: Sequence[Channel], computed: DeviceChannels = computed) -> float:
            def encode() -> None:
                with torch.inference_mode():
                    for channel in channels:
                        computed.encode(channel, batches[channel.descriptor.color])

            return seconds_on_gpu(encode) / 256

        gray = [channel for channel in fitted if not channel.descriptor.color]
        rates[name] = 1 / seconds(fitted)
        if len(gray) < len(fitted):
            rates[f"{name}_gray"] = 1 / seconds(gray)
        each = [1e6 * seconds([channel]) for channel in fitted]
        spent[name] = dict(zip(_numbered(fitted), each, strict=True))
        times[name] = {
            named: kernel_times(
                partial(computed.encode, channel, batches[channel.descriptor.color]), 256
            )
            for named, channel in zip(_numbered(fitted), fitted, strict=True)
        }
    return {
        "images_per_second": rates,
        "channel_microseconds": spent,
        "kernels": {
            name: {channel: found.microseconds for channel, found in each.items()}
            for name, each in times.items()
        },
        "launches": {
            name: {channel: found.launches for channel, found in each.items()}
            for name, each in times.items()
        },
    }


def _numbered(channels: Sequence[Channel]) -> list[str]:
    """Return names of the channels' descriptors; several of one kind are numbered."""
    names = [type(channel.descriptor).__name__ for channel in channels]
    return [
        f"{name} {names[: i + 1].count(name)}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


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
        theirs, ours = seconds_on_gpu(by_torch), seconds_on_gpu(lambda: rows.nearest(given))
        assigned = seconds_on_gpu(lambda: find_nearest(values, centers))
        bare = seconds_on_gpu(
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


if __name__ == "__main__":
    show("gpu", measure("gpu", lambda: run(*sys.argv[1:])))
