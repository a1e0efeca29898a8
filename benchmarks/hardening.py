"""What do attacks cost, before and after?

Runs every attack of ``benchmarks/attacks`` against an earlier commit and this
one, each in a process of its own with a time limit, and keeps seconds, megabytes
and exit codes. docs/reliability.md shows the table.

    python -m benchmarks.hardening [COMMIT]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ._measure import ROOT, figure, save, show
from .attacks.__main__ import find

BASE = "df8a6ff"
LIMIT = 60
"""Seconds after which an attack counts as endless."""


def _run(name: str, checkout: Path) -> dict[str, Any]:
    """Run one attack with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.attacks", name, folder]
        try:
            done = subprocess.run(
                command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
                timeout=LIMIT + 30,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"result": f"over {LIMIT} s"}
    try:
        # Temporary folders have other names each time.
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1].replace(f"{folder}/", ""))
    except (IndexError, ValueError):
        return {"result": f"failed: {done.stderr.strip()[-200:]}"}
    return found


def run(base: str = BASE) -> dict[str, Any]:
    """Run all attacks on both commits."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        before = Path(folder) / "base"
        subprocess.run([*git, "add", "-q", "--detach", "-f", str(before), base], check=True)
        try:
            for name, attack in find().items():
                rows.append(
                    {
                        "item": attack.item,
                        "attack": attack.name,
                        "before": _run(name, before),
                        "after": _run(name, ROOT),
                    }
                )
                print(rows[-1], flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    seconds = [row["after"]["seconds"] for row in rows if "seconds" in row["after"]]
    megabytes = [row["after"]["mb"] for row in rows if row["after"].get("mb") is not None]
    figures = [
        figure("slowest attack after, seconds", max(seconds)),
        figure("largest attack after, MB", max(megabytes)),
    ]
    return {"base": base, "rows": rows, "figures": figures}


def main() -> None:
    result = run(*sys.argv[1:])
    save("hardening", result)
    show("hardening", result)


if __name__ == "__main__":
    main()
