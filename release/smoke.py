"""Try an installed lrrspm: every everyday command once, on drawn images, without a network.

    python smoke.py

Runs with nothing but lrrspm and what it needs, on any system, and leaves no file behind.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PIL import Image

_OFFLINE = """
import socket

def refuse(*_, **__):
    raise RuntimeError("lrrspm wants to reach somebody")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
import sys
sys.argv[0] = "lrrspm"
from lrrspm.cli import app
app()
"""


def draw(kind: str, rng: np.random.Generator) -> Image.Image:
    """Draw stripes or dots with noise."""
    y, x = np.mgrid[:64, :64] + rng.uniform(0, 8, 2)[:, None, None]
    waves = {"across": np.sin(y), "along": np.sin(x), "dots": np.sin(x) * np.sin(y)}
    pixels = 128 + 70 * waves[kind] + rng.normal(0, 25, (64, 64))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def run(*arguments: object, program: tuple[str, ...] = (sys.executable, "-c", _OFFLINE)) -> str:
    """Run a command that must succeed; returns what it prints."""
    # Without what would lead Python to a checkout.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [*program, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    )
    if done.returncode:
        name = " ".join(map(str, arguments))
        raise SystemExit(f"lrrspm {name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(truth: bool, what: str) -> None:
    """Stop with a message unless something is true."""
    if not truth:
        raise SystemExit(f"failed: {what}")


def main() -> None:
    installed = version("lrrspm")
    script = Path(sysconfig.get_path("scripts")) / ("lrrspm.exe" if os.name == "nt" else "lrrspm")
    said = run("--version", program=(str(script),))
    check(said.split() == ["lrrspm", installed], "lrrspm --version")
    check("train" in run("--help"), "lrrspm --help")
    for command in ("train", "predict", "explain", "evaluate", "info", "methods"):
        check(f"lrrspm {command}" in run(command, "--help"), f"lrrspm {command} --help")
    check("balanced" in run("methods"), "lrrspm methods")
    check(bool(json.loads(run("methods", "--json"))), "lrrspm methods --json")

    rng = np.random.default_rng(0)
    images = Path("images")
    for kind in ("across", "along", "dots"):
        (images / kind).mkdir(parents=True)
        for number in range(12):
            draw(kind, rng).save(images / kind / f"{number}.png")
    new = [f"new-{kind}.png" for kind in ("across", "along", "dots")]
    for name in new:
        draw(name[4:-4], rng).save(name)

    for method in ("fast", "balanced"):
        model = f"{method}.lrrspm"
        run("train", images, "-o", model, "--method", method, "--cache", "store")
        about = json.loads(run("info", model, "--json"))
        check(about["library"] == installed, "lrrspm info")
        answers = json.loads(run("predict", model, *new, "--json"))
        labels = [one["label"] for one in answers["predictions"]]
        check(labels == ["across", "along", "dots"], f"lrrspm predict with {method}: {labels}")
        run("explain", model, new[0], "-o", f"{method}.png")
        with Image.open(f"{method}.png") as drawn:
            check(min(drawn.size) > 100, "lrrspm explain")
    run("evaluate", images, "--method", "fast", "--report", "report.html")
    check(Path("report.html").stat().st_size > 10_000, "lrrspm evaluate --report")
    first = Path("fast.lrrspm").read_bytes()
    run("train", images, "-o", "again.lrrspm", "--method", "fast", "--cache", "store")
    check(Path("again.lrrspm").read_bytes() == first, "the same model from the store")

    packages = ("numpy", "scipy", "numba", "scikit-learn", "pillow")
    used = ", ".join(f"{name} {version(name)}" for name in packages)
    print(f"lrrspm {installed} works: Python {platform.python_version()}, {used}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            main()
        finally:
            os.chdir(os.path.dirname(folder))  # Windows removes no folder that is in use
