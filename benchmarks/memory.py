"""How much memory does an evaluation take, and how does it grow?

Peak resident memory of ``lrrspm evaluate`` on LS (4485 images, 5 splits, 100
per class to train) in a process of its own: target under 1.5 GB. The same on
every fourth and every second image, and on ten times LS (each image under ten
names), with as many times the training images: target under 24 GB. On small
sets the descriptors for the codebooks, whose number is fixed, make the peak;
on large ones the images' vectors do, so a line through small sets would tell
too little of large ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
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


def _peak(paths: list[str], labels: list[str], times: int, train_per_class: int) -> int:
    """Measure the peak resident bytes of one evaluation; each image counts several times."""
    with tempfile.TemporaryDirectory() as name:
        for path, label in zip(paths, labels, strict=True):
            folder = Path(name, label)
            folder.mkdir(exist_ok=True)
            for i in range(times):
                (folder / f"{i}-{Path(path).name}").symlink_to(path)
        command = [sys.executable, "-m", "lrrspm", "evaluate", name, "--json"]
        command += ["--train-per-class", str(train_per_class)]
        wrapped = [sys.executable, "-c", _WRAPPER, *command]
        output = subprocess.run(wrapped, check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(output) * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    show("memory", measure("memory", run))


if __name__ == "__main__":
    main()
