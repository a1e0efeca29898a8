"""What the benchmarks share: timing, the record of the machine, the result files."""

from __future__ import annotations

import importlib
import json
import operator
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrrspm._support.environment import describe_environment, short_commit, versions

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PEERS = ("cyvlfeat", "opencv-python-headless", "faiss-cpu", "spams-bin", "cleanlab")

_MEETS = {">=": operator.ge, "<=": operator.le, "<": operator.lt}


class MissingError(Exception):
    """Something a benchmark needs is not on this machine."""


def seconds(call: Callable[[], object]) -> float:
    """Return the wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def best_of(
    repeats: int, calls: Mapping[str, Callable[[], object]], warm_up: bool = True
) -> dict[str, float]:
    """Return the fewest seconds of each call.

    The calls take turns, so that whatever else the machine does affects all of
    them alike.
    """
    if warm_up:
        for call in calls.values():
            call()
    best = dict.fromkeys(calls, np.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            best[name] = min(best[name], seconds(call))
    return best


def figure(what: str, value: float | None, target: str | None = None) -> dict[str, Any]:
    """Return a line of the table: a number, its target such as ">= 3", and whether it is met.

    None is a number that could not be measured: neither met nor missed.
    """
    met = None
    if value is not None and target is not None:
        sign, limit = target.split()
        met = bool(_MEETS[sign](value, float(limit)))
    return {"what": what, "value": value, "target": target, "met": met}


def data_folder(name: str) -> Path:
    """Return a folder of real images in the one that LRRSPM_DATA names."""
    root = os.environ.get("LRRSPM_DATA")
    if root is None:
        raise MissingError(f"images of {name}: set LRRSPM_DATA to the folder of data sets")
    folder = Path(root).resolve() / name
    if not folder.is_dir():
        raise MissingError(f"images of {name}: no such folder in LRRSPM_DATA")
    return folder


def made_image(height: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    """Return smoothed noise in [0, 1]: edges in all directions at several scales."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    image = sum(s * gaussian_filter(rng.standard_normal((height, width)), s) for s in (1, 3, 9))
    image = (image - np.min(image)) / np.ptp(image)
    return image.astype(np.float32)


def environment() -> dict[str, Any]:
    """Return commit, machine and versions, those of the peers too."""
    return {**describe_environment(), "peers": versions(PEERS)}


def describe_source(environment: dict[str, Any]) -> str:
    """Return commit, machine and versions in a line."""
    return (
        f"commit {short_commit(environment)}, "
        f"{environment['cores']} cores of an {environment['cpu']}, "
        f"Python {environment['python']}, NumPy {environment['packages']['numpy']}"
    )


def save(name: str, result: dict[str, Any]) -> None:
    """Write results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    content = {"result": result, "environment": environment()}
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def measure(name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run one benchmark and keep its result; without its data it keeps the old one."""
    try:
        result = run()
    except MissingError as error:
        return {"missing": str(error)}
    save(name, result)
    return result


def measure_script(name: str) -> dict[str, Any]:
    """Run the benchmark of that name."""
    return measure(name, importlib.import_module(f"benchmarks.{name}").run)


def show(name: str, result: dict[str, Any]) -> None:
    """Print a benchmark's figures and targets."""
    if "missing" in result:
        print(f"{name:<11}missing: {result['missing']}", flush=True)
        return
    words = {True: "met", False: "NOT MET", None: ""}
    for line in result["figures"]:
        value = "missing" if line["value"] is None else f"{line['value']:.4g}"
        target, met = line["target"] or "", words[line["met"]]
        print(f"{name:<11}{line['what']:<66}{value:>9}  {target:<8}{met}", flush=True)


def find_torch() -> Any:
    """Return torch, on a machine that has a GPU."""
    try:
        import torch
    except ImportError:
        raise MissingError("torch: install lrrspm[gpu]") from None
    if not torch.cuda.is_available():
        raise MissingError("a GPU")
    return torch


def seconds_on_gpu(call: Callable[[], object]) -> float:
    """Return the median seconds of a call on the GPU, by its own clock."""
    from triton.testing import do_bench

    return 1e-3 * do_bench(call, warmup=50, rep=300, return_mode="median")


def describe_gpu() -> dict[str, str]:
    """Return GPU, driver and clocks, as they are after the work."""
    import torch
    import triton

    asked = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit")
    command = ["nvidia-smi", f"--query-gpu={','.join(asked)}", "--format=csv,noheader"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(zip(asked, told.splitlines()[0].split(", "), strict=True))
    return {**found, "torch": torch.__version__, "triton": triton.__version__}


def peak_of(pid: int) -> float:
    """Return the most memory in MB that another process has held, on Linux."""
    (line,) = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(line) * 1024 / 1e6
