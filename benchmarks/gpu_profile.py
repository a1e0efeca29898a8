"""What do the kernels on a GPU take, and which part of the chip is busiest while they run?

Times are those of torch's profiler, and come with ``python -m benchmarks.gpu kernels``. Hardware
counters are read by NVIDIA's ``ncu``, which runs each kernel several times and flushes caches
before each: what a kernel would have found in the L2 cache comes from memory here. Its times are
longer than the profiler's, and only weigh the launches of a kernel against each other.

A part of the chip limits a kernel if it is busier than all others, at more than 60 % of its peak.
Where none is, latency limits: too few instructions are in flight.

    python -m benchmarks.gpu_profile
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from lrrspm import SpatialPyramidFeatures
from lrrspm.channels import Channel
from lrrspm.methods import find_method

from ._measure import ROOT, find_torch, measure

IMAGES = 256
REPEATS = 5
SECONDS = 180
"""Most seconds of ``ncu``."""
SEPARATOR = "spin_kernel"
"""Kernel of ``torch.cuda._sleep``, which is between the cases."""
PRECISIONS = {"single": "highest", "half": "high"}
"""Words of torch for single precision, and for what replaces tf32."""
LIBRARY = ("gemm", "gemv", "cutlass", "sm80_", "sm90_xmma", "splitk")
"""Parts of names of the kernels of cuBLAS, in lower case."""

_ACTIVE, _ELAPSED = (f".avg.pct_of_peak_sustained_{when}" for when in ("active", "elapsed"))
METRICS = {
    "time": ("gpu__time_duration.sum",),
    "bytes": ("dram__bytes.sum",),
    "DRAM": (f"dram__throughput{_ELAPSED}", f"gpu__dram_throughput{_ELAPSED}"),
    "L2": (f"lts__throughput{_ELAPSED}",),
    "L1": (f"l1tex__throughput{_ELAPSED}", f"l1tex__throughput{_ACTIVE}"),
    "tensor units": (
        f"sm__pipe_tensor_cycles_active{_ACTIVE}",
        f"sm__pipe_tensor_op_hmma_cycles_active{_ACTIVE}",
        f"sm__inst_executed_pipe_tensor{_ACTIVE}",
    ),
    "instruction issue": (f"smsp__issue_active{_ACTIVE}",),
    "multiprocessors": (f"sm__throughput{_ELAPSED}",),
    "warps": (f"sm__warps_active{_ACTIVE}",),
}
"""Counters of ``ncu``; of several, the first that the chip has."""
PARTS = ("DRAM", "L2", "L1", "tensor units", "instruction issue")
BUSY = 60
"""Percent of the peak from which on a part limits."""
SCALES = {
    "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3,
    "second": 1.0, "s": 1.0, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 1.0,
}  # fmt: skip


class Times(NamedTuple):
    """Microseconds per image, and launches per batch, by kernel."""

    microseconds: dict[str, float]
    launches: dict[str, int]


def fitted_channels(name: str, images: Sequence[Any]) -> Sequence[Channel]:
    """Return the channels of a preset, fitted to a few images."""
    features = SpatialPyramidFeatures(
        find_method(name).channels(), n_samples=20_000, random_state=0, n_jobs=-1
    )
    return features.fit(images).channels_


def kernel_times(call: Callable[[], object], images: int) -> Times:
    """Return what the kernels of a call take: medians of several calls, each profiled alone.

    Kernels of cuBLAS are added up as "projection", and what is not ours as "other".
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    spent: dict[str, list[float]] = defaultdict(list)
    launches: dict[str, int] = {}
    with torch.inference_mode():
        for repeat in range(REPEATS + 2):
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as profiled:
                call()
                torch.cuda.synchronize()
            if repeat < 2:  # kernels are compiled, and the profiler starts
                continue
            seen: dict[str, float] = defaultdict(float)
            launches = defaultdict(int)
            for event in profiled.key_averages():
                if event.device_type == torch.autograd.DeviceType.CUDA:
                    seen[group_of(event.key)] += event.device_time_total
                    launches[group_of(event.key)] += event.count
            for name, microseconds in seen.items():
                spent[name].append(microseconds / images)
    return Times({name: median(each) for name, each in sorted(spent.items())}, dict(launches))


def group_of(kernel: str) -> str:
    """Return the name of a kernel of ours, "projection" or "other"."""
    if re.fullmatch("_[a-z_]+", kernel):
        return kernel
    return "projection" if any(part in kernel.lower() for part in LIBRARY) else "other"


def counters() -> dict[str, Any]:
    """Return what ``ncu`` counts, by preset or "codes", channel and kernel; or an error.

    Per image; percentages are weighed by time.
    """
    find_torch()
    program = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if program is None:
        return {"error": "ncu is missing"}
    try:
        asked = _known_metrics(program)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            done = subprocess.run(
                [
                    program, "--profile-from-start", "off", "--clock-control", "none",
                    "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log),
                    "--metrics", ",".join(asked.values()),
                    sys.executable, "-m", "benchmarks.gpu_profile", "child",
                ],
                cwd=ROOT, capture_output=True, text=True, timeout=SECONDS,
            )  # fmt: skip
            told = log.read_text() if log.exists() else ""
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    cases = re.findall("^case (.+)$", done.stdout, re.MULTILINE)
    try:
        found = counted(told, cases, asked, IMAGES)
    except ValueError as error:
        wrong = re.findall("^==ERROR== (.+)$", told, re.MULTILINE)
        wrong += done.stderr.strip().splitlines()[-1:]
        return {"error": (wrong or [str(error)])[0]}
    return found


def _known_metrics(program: str) -> dict[str, str]:
    """Return the counters that this chip has; the first ones if it does not say which."""
    done = subprocess.run(
        [program, "--query-metrics"], capture_output=True, text=True, timeout=SECONDS
    )
    known = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    if "dram__bytes" not in known:
        return {what: names[0] for what, names in METRICS.items()}
    there = {
        what: [name for name in names if name.partition(".")[0] in known]
        for what, names in METRICS.items()
    }
    # ncu knows the time without listing it.
    return {"time": METRICS["time"][0]} | {what: names[0] for what, names in there.items() if names}


def counted(text: str, cases: Sequence[str], asked: Mapping[str, str], images: int) -> Any:
    """Return counters by case, "preset/channel", and kernel, from what ``ncu`` wrote.

    Raises ValueError where that is no table of these cases.
    """
    launched = list(_rows(text, asked))
    parts: list[list[tuple[str, dict[str, float]]]] = []
    for name, values in launched:
        if SEPARATOR in name:
            parts.append([])
        elif parts:
            parts[-1].append((name, values))
    if not cases or len(parts) != len(cases):
        raise ValueError(f"ncu counted {len(parts)} cases of {len(cases)}")
    found: dict[str, dict[str, Any]] = {}
    for case, part in zip(cases, parts, strict=True):
        kernels: dict[str, list[dict[str, float]]] = defaultdict(list)
        for name, values in part:
            kernels[group_of(name)].append(values)
        preset, _, channel = case.partition("/")
        found.setdefault(preset, {})[channel] = {
            name: _summed(launches, images) for name, launches in kernels.items()
        }
    return found


def _rows(text: str, asked: Mapping[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield names and counters of launches; seconds, bytes and percent."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        raise ValueError("ncu wrote no table")
    table = csv.DictReader(lines)
    units = next(table)
    for row in table:
        values = {}
        for what, metric in asked.items():
            told = (row.get(metric) or "").replace(",", "")
            if re.fullmatch(r"[0-9.]+(?:[eE][+-]?[0-9]+)?", told):
                values[what] = float(told) * SCALES.get(units[metric], 1.0)
        yield row["Kernel Name"], values


def _summed(launches: Sequence[Mapping[str, float]], images: int) -> dict[str, Any]:
    seconds = [values.get("time", 0.0) for values in launches]
    total = sum(seconds) or 1.0
    percent = {}
    for what in (*PARTS, "multiprocessors", "warps"):
        if all(what in values for values in launches):
            weighed = sum(s * values[what] for s, values in zip(seconds, launches, strict=True))
            percent[what] = weighed / total
    return {
        "launches": len(launches),
        "microseconds": 1e6 * sum(seconds) / images,
        "megabytes": sum(values.get("bytes", 0.0) for values in launches) / 1e6 / images,
        "percent": percent,
        "limit": limit_of(percent),
    }


def limit_of(percent: Mapping[str, float]) -> str:
    """Return the busiest part of the chip, or "latency" where none is busy."""
    busiest = max(PARTS, key=lambda part: percent.get(part, 0.0))
    if percent.get(busiest, 0.0) > BUSY:
        return busiest
    # Its throughput is that of the busiest of many units, most of which were not counted alone.
    return "another unit" if percent.get("multiprocessors", 0.0) > BUSY else "latency"


def _child() -> None:
    """Run each case once while ``ncu`` counts, after it has run before."""
    import torch

    for case, call in _cases(torch):
        with torch.inference_mode():
            for _ in range(2):
                call()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1000)
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
        print(f"case {case}", flush=True)


def _cases(torch: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield names of cases and what to call; a case is done before the next one is prepared."""
    from functools import partial

    from lrrspm.gpu.batches import Batch, find_members
    from lrrspm.gpu.encoding import DeviceChannels
    from lrrspm.gpu.products import pool_codes, split_atoms
    from lrrspm.gpu.sift import describe_sift
    from lrrspm.pooling import SpatialPyramid

    from .gpu import VALUES, made_pixels

    pixels = {color: made_pixels(color)[:IMAGES] for color in (False, True)}
    batches = {color: Batch(images, "cuda") for color, images in pixels.items()}
    for preset in ("fast", "balanced"):
        fitted = fitted_channels(preset, pixels[True][:16])
        computed = DeviceChannels(fitted, "cuda")
        for channel in fitted:
            name = type(channel.descriptor).__name__
            batch = batches[channel.descriptor.color]
            yield f"{preset}/{name}", partial(computed.encode, channel, batch)
    described = fitted_channels("fast", pixels[True][:2])[0].descriptor
    values, kinds = describe_sift(described, batches[False])
    members = find_members(batches[False], kinds, SpatialPyramid())
    for k in (256, 1024, 4096):
        atoms = 0.05 * torch.randn(VALUES, k, device="cuda")
        for precision, word in PRECISIONS.items():
            torch.set_float32_matmul_precision(word)
            split = split_atoms(atoms)
            torch.set_float32_matmul_precision("highest")
            yield (
                f"codes/{k} {precision}",
                partial(pool_codes, values, members, split, atoms.sum(1), 0.98 / k),
            )


def _print(result: Mapping[str, Any]) -> None:
    found = result.get("counters", {})
    if problem := result.get("missing") or found.get("error"):
        print(f"nothing was counted: {problem}")
        return
    for preset, channels in found.items():
        for channel, kernels in channels.items():
            for name, row in kernels.items():
                print(
                    f"{preset:<9}{channel:<12}{name:<20}{row['microseconds']:>8.2f} us"
                    f"{row['megabytes']:>8.2f} MB  {row['limit']}"
                )


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        _child()
    else:
        from .gpu import run

        _print(measure("gpu", lambda: run("counters")))
