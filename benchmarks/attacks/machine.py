"""Attacks by failing machines, damaged caches, odd parameters, models and terminals."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from . import Attack

LIMIT = 60
CLASSES = ("кот", "пёс")


def attacks() -> list[Attack]:
    """Return the attacks of this module."""
    saved = {
        "n_samples=10**12": "n_samples=10**12",
        "max_side=250.5": "max_side=250.5",
        "random_state=True": "random_state=True",
    }
    return [
        Attack("4", "empty files in numba's cache", partial(_damage, lambda content: b"")),
        Attack("4", "two bytes flipped in numba's cache", partial(_damage, _flip)),
        Attack("4", "ulimit -n 8, --on-error skip, 32 threads", _few_files),
        Attack("5", "model with 40,000 empty tensors", _many_tensors),
        *(Attack("6", name, partial(_save, given, "[0, 1] * 3")) for name, given in saved.items()),
        Attack("6", "uint64 labels", partial(_save, "", "np.array([1, 2**63] * 3, np.uint64)")),
        Attack("6", "--step 4294967297", _large_step),
        Attack("7", "store filled with OPENBLAS_CORETYPE=Haswell", _other_kernel),
        Attack("8", "model with levels [1] * 300000", partial(_model, _long_levels)),
        Attack("8", "model with held_out.rough", partial(_model, _rough)),
        Attack("13", "Cyrillic classes on a cp1252 terminal", _few_letters),
        Attack("13", "standard output closed", _closed),
        Attack("13", "damaged model whose header has 128 bytes", _like_a_pickle),
        Attack("13", "paper report with a damaged first line", _paper),
    ]


def _make_images(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for place, name in enumerate(CLASSES):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(20):
            pixels = rng.integers(0, 100 + 100 * place, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{i}.png")
    return folder / "images"


def _run(*arguments: object, before: Any = None, **environment: str) -> dict[str, Any]:
    """Run Python with arguments; the last line of its messages is the result."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LIMIT,
            preexec_fn=before,
        )
    except subprocess.TimeoutExpired:
        return {"seconds": LIMIT, "result": f"over {LIMIT} s"}
    lines = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    seconds = round(time.perf_counter() - start, 2)
    return {
        "seconds": seconds,
        "mb": round(peak),
        "exit": done.returncode,
        "result": lines[-1][:160],
    }


def _train(folder: Path, *more: object, **settings: Any) -> dict[str, Any]:
    command = ["-m", "lrrspm", "train", folder / "images", "-o", folder / "a.lrrspm"]
    return _run(
        *command, "--method", "LrrSPM", "--codebook-size", 8, "--no-estimate", *more, **settings
    )


def _flip(content: bytes) -> bytes:
    half = len(content) // 2
    flipped = bytes(byte ^ 0xFF for byte in content[half : half + 2])
    return content[:half] + flipped + content[half + 2 :]


def _damage(change: Callable[[bytes], bytes], folder: Path) -> dict[str, Any]:
    _make_images(folder)
    cache = folder / "numba"
    _train(folder, NUMBA_CACHE_DIR=str(cache))
    for path in cache.rglob("*.nbc"):
        path.write_bytes(change(path.read_bytes()))
    return _train(folder, NUMBA_CACHE_DIR=str(cache))


def _few_files(folder: Path) -> dict[str, Any]:
    _make_images(folder)
    _train(folder)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))

    return _train(folder, "--on-error", "skip", "--jobs", 32, before=limit)


def _save(parameters: str, labels: str, folder: Path) -> dict[str, Any]:
    code = (
        "import sys, numpy as np, lrrspm\n"
        "images = list(np.random.default_rng(0).random((6, 40, 40)))\n"
        f"model = lrrspm.ImageClassifier(lrrspm.LRREncoder(codebook_size=8), {parameters})\n"
        f"model.fit(images, {labels}).save(sys.argv[1])\n"
        "print('saved')\n"
        "print('loaded', lrrspm.load_model(sys.argv[1]).classes_.dtype)\n"
    )
    return _run("-c", code, folder / "a.lrrspm")


def _large_step(folder: Path) -> dict[str, Any]:
    _make_images(folder)
    trained = _train(folder, "--step", 4294967297)
    if trained["exit"]:
        return trained
    return _run("-m", "lrrspm", "info", folder / "a.lrrspm")


def _other_kernel(folder: Path) -> dict[str, Any]:
    _make_images(folder)
    model = folder / "a.lrrspm"
    _train(folder)
    expected = model.read_bytes()
    _train(folder, "--cache", folder / "store", OPENBLAS_CORETYPE="Haswell")
    done = _train(folder, "--cache", folder / "store")
    same = model.read_bytes() == expected
    return {**done, "result": "the same model" if same else "another model than without a store"}


def _write(path: Path, header: dict[str, Any], rest: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + rest)


def _model(change: Callable[[dict[str, Any]], None], folder: Path) -> dict[str, Any]:
    _make_images(folder)
    _train(folder)
    path = folder / "a.lrrspm"
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    description = json.loads(header["__metadata__"]["lrrspm"])
    change(description)
    header["__metadata__"]["lrrspm"] = json.dumps(description)
    _write(path, header, content[8 + length :])
    return _run("-m", "lrrspm", "predict", path, folder / "images" / CLASSES[0] / "0.png")


def _long_levels(description: dict[str, Any]) -> None:
    owner = description["channels"][0] if "channels" in description else description["parameters"]
    owner["levels"] = [1] * 300_000


def _rough(description: dict[str, Any]) -> None:
    description["summary"]["held_out"] = {"accuracy": 90.0, "images": 9, "rough": 1}


def _many_tensors(folder: Path) -> dict[str, Any]:
    path = folder / "a.lrrspm"
    about = json.dumps({"format": 1, "library": "0", "parameters": {}})
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    names = {f"x{i}": empty for i in range(40_000)}
    _write(path, {"__metadata__": {"lrrspm": about}, **names}, b"")
    return _run("-m", "lrrspm", "info", path)


def _few_letters(folder: Path) -> dict[str, Any]:
    _make_images(folder)
    _train(folder)
    path = folder / "images" / CLASSES[0] / "0.png"
    command = ["-m", "lrrspm", "predict", folder / "a.lrrspm", path]
    return _run(*command, PYTHONIOENCODING="cp1252")


def _closed(folder: Path) -> dict[str, Any]:
    _make_images(folder)
    return _train(folder, before=partial(os.close, 1))


def _like_a_pickle(folder: Path) -> dict[str, Any]:
    path = folder / "a.lrrspm"
    path.write_bytes(struct.pack("<Q", 128) + b'{"x":' + bytes(300))
    return _run("-m", "lrrspm", "info", path)


def _paper(folder: Path) -> dict[str, Any]:
    rows = Path(__file__).parents[1] / "results" / "paper" / "rows.jsonl"
    content = rows.read_bytes()
    (folder / "rows.jsonl").write_bytes(b"{" + content[content.index(b"\n") :])
    return _run("-m", "lrrspm", "paper", "report", "--results", folder)
