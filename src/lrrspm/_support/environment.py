"""Where a result was made: commit, versions, machine, and how much memory it took."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

PACKAGES = ("lrrspm", "numpy", "scipy", "numba", "scikit-learn", "pillow")
# The checkout that holds this package, where it is one.
_CHECKOUT = Path(__file__).resolve().parents[3]


def describe_environment() -> dict[str, Any]:
    """Commit, versions and machine, as JSON takes them."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
        "blas": _blas(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
    }


def short_commit(environment: dict[str, Any]) -> str:
    """The commit of an environment in ten letters; whether files differed from it is kept."""
    commit, plus, state = str(environment["commit"]).partition("+")
    return f"{commit[:10] if len(commit) == 40 else commit}{plus}{state}"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions; "missing" for what is not there."""
    return {name: _version(name) for name in packages}


def forget_peak_memory() -> None:
    """Let the peak be measured from now on, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> float | None:
    """Most memory in MB that this process has held, or None where nothing tells."""
    peak = _memory_status("VmHWM")
    return _peak_by_usage() if peak is None else peak


def held_memory() -> float | None:
    """Memory in MB that this process holds now, or None where nothing tells (beyond Linux)."""
    return _memory_status("VmRSS")


def _memory_status(name: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return None


def _peak_by_usage() -> float | None:
    if sys.platform == "win32":
        return None
    import resource

    unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


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


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _blas() -> list[str]:
    import scipy.linalg  # noqa: F401  (it brings a BLAS of its own)

    fields = ("internal_api", "version", "architecture")
    libraries = (lib for lib in ThreadpoolController().info() if lib["user_api"] == "blas")
    return sorted({" ".join(str(lib.get(field)) for field in fields) for lib in libraries})


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
