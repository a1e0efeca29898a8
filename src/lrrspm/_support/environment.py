"""Environment: commit, versions and machine of a result, and the memory of this process."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
from threadpoolctl import ThreadpoolController

PACKAGES = ("lrrspm", "numpy", "scipy", "numba", "scikit-learn", "pillow")
# The checkout that holds this package, if it runs from one.
_CHECKOUT = Path(__file__).resolve().parents[3]


def describe_environment() -> dict[str, Any]:
    """Return commit, versions and machine, ready for JSON."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
        "blas": blas_libraries(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
    }


def short_commit(environment: dict[str, Any]) -> str:
    """Shorten the commit of an environment to ten letters, plus "+dirty" if files differed."""
    commit, plus, state = str(environment["commit"]).partition("+")
    return f"{commit[:10] if len(commit) == 40 else commit}{plus}{state}"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of packages; "missing" for those not installed."""
    found = dict.fromkeys(packages, "missing")
    for name in found:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def forget_peak_memory() -> None:
    """Measure the peak from now on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@lru_cache(maxsize=1)
def _process(pid: int) -> psutil.Process:
    """Return this process; making the object anew takes longer than asking it."""
    return psutil.Process(pid)


def held_memory() -> float:
    """Return the memory in MB that this process holds now."""
    return _process(os.getpid()).memory_info().rss / 1e6


def peak_memory() -> float:
    """Return the most memory in MB that this process has held."""
    if sys.platform == "win32":
        return _process(os.getpid()).memory_info().peak_wset / 1e6
    import resource

    # Only this figure of Linux follows forget_peak_memory; psutil does not report it.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_CHECKOUT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    if not (_CHECKOUT / ".git").exists():
        return "none: an installed package"
    try:
        commit = git("rev-parse", "HEAD")
        # Results of this very run do not count as changes.
        changed = git("status", "--porcelain", "--", ".", ":(exclude)benchmarks/results")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+dirty" if changed else commit


def blas_libraries() -> list[str]:
    """Return name, version and kernel of each BLAS that NumPy and SciPy use."""
    import scipy.linalg  # noqa: F401  (it loads a BLAS of its own)

    fields = ("internal_api", "version", "architecture")
    libraries = (lib for lib in ThreadpoolController().info() if lib["user_api"] == "blas")
    return sorted({" ".join(str(lib.get(field)) for field in fields) for lib in libraries})


def _cpu() -> str:
    """Return the model name of the CPU, which psutil does not know."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
