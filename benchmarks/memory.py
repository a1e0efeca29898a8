"""How much memory does an evaluation take, and how does it grow?

Peak resident memory of ``lrrspm evaluate`` on LS (4485 images, 5 splits, 100
per class to train) in a process of its own: target under 1.5 GB. The same on
every fourth and every second image, and on ten times LS (each image under ten
names), with as many times the training images: target under 24 GB. On small
sets the descriptors for the codebooks, whose number is fixed, make the peak;
on large ones the images' vectors do, so a line through small sets would tell
too little of large ones.

    python -m benchmarks.memory METHOD DATASET PER_CLASS [OPTION ...]

measures another method instead: peak memory of ``evaluate`` (one split, all
other images tested) and of ``train`` on the first PER_CLASS images of each
class, and the size of the model file. Options, such as ``--codebook-size 256``,
go to both commands. Targets: under 6 GB, under 150 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lrrspm import config, find_images

from ._measure import data_folder, figure, measure, show

TIMES = 10

# A child's peak begins with what its parent held when it was started, so a
# small process stands between this one and the command.
_WRAPPER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run() -> dict[str, Any]:
    """Measure peak bytes for parts and multiples of LS."""
    paths, labels = find_images(data_folder("LS"))
    train = config.TRAIN_PER_CLASS
    peaks = {len(paths[::n]): _peak(paths[::n], labels[::n], 1, train // n) for n in (4, 2, 1)}
    one, many = len(paths), TIMES * len(paths)
    peaks[many] = _peak(paths, labels, TIMES, TIMES * train)
    growth = (peaks[many] - peaks[one]) / (many - one)
    return {
        "figures": [
            figure("evaluate on LS: peak GB", peaks[one] / 1e9, "< 1.5"),
            figure(f"evaluate on {TIMES} times LS: peak GB", peaks[many] / 1e9, "< 24"),
            figure("growth between them, MB an image", growth / 1e6),
        ],
        "peak_bytes_by_images": {str(count): value for count, value in peaks.items()},
        "bytes_an_image": growth,
    }


def run_method(method: str, dataset: str, per_class: int, options: list[str]) -> dict[str, Any]:
    """Measure peak bytes of a method's ``evaluate`` and ``train``, and of its model file."""
    source = data_folder(dataset)
    paths, labels = find_images(source)
    counts: Counter[str] = Counter()
    chosen = []
    for i, label in enumerate(labels):
        counts[label] += 1
        if counts[label] <= per_class:
            chosen.append(i)
    options = ["--method", method, "--jobs", "-1", *options]
    evaluating = ["evaluate", str(source), "--splits", "1", "--train-per-class", str(per_class)]
    tested = _peak_of([*evaluating, *options])
    with tempfile.TemporaryDirectory() as name:
        images, model = Path(name, "images"), Path(name, "model")
        _link(images, [paths[i] for i in chosen], [labels[i] for i in chosen])
        trained = _peak_of(["train", str(images), "-o", str(model), *options])
        size = model.stat().st_size
    what = f"{method} on {dataset}, {per_class} per class"
    return {
        "figures": [
            figure(f"{what}: evaluate, peak GB", tested / 1e9, "< 6"),
            figure(f"{what}: train, peak GB", trained / 1e9, "< 6"),
            figure(f"{what}: model file, MB", size / 1e6, "< 150"),
        ],
        "options": options,
        "images": len(paths),
        "classes": len(counts),
    }


def _peak(paths: list[str], labels: list[str], times: int, train_per_class: int) -> int:
    """Measure the peak resident bytes of one evaluation; each image counts several times."""
    with tempfile.TemporaryDirectory() as name:
        _link(Path(name), paths, labels, times)
        options = ["--method", "LrrSPM", "--train-per-class", str(train_per_class)]
        return _peak_of(["evaluate", name, *options])


def _link(root: Path, paths: Sequence[str], labels: Sequence[str], times: int = 1) -> None:
    """Make a folder of links to images, one folder per class, each image several times."""
    for path, label in zip(paths, labels, strict=True):
        folder = root / label
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(times):
            (folder / f"{i}-{Path(path).name}").symlink_to(path)


def _peak_of(arguments: list[str]) -> int:
    """Measure the peak resident bytes of a command of lrrspm."""
    command = [sys.executable, "-m", "lrrspm", *arguments, "--json"]
    wrapped = [sys.executable, "-c", _WRAPPER, *command]
    output = subprocess.run(wrapped, check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(output) * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    if len(sys.argv) == 1:
        show("memory", measure("memory", run))
        return
    method, dataset, per_class, *options = sys.argv[1:]
    name = f"memory-{method}-{dataset}"
    result = measure(name, lambda: run_method(method, dataset, int(per_class), options))
    show("memory", result)


if __name__ == "__main__":
    main()
