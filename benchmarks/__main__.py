"""Every speed benchmark, one after the other, each in a process of its own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from ._measure import measure_script, show

SCRIPTS = (
    "sift", "reading", "coding", "encoders", "mixture", "dictionary", "svm", "kernel", "pipeline",
    "presets", "floors", "memory",
    "codebook", "startup", "robustness", "store", "growing", "evidence", "serve",
)  # fmt: skip


def main() -> None:
    results = {}
    # A fresh process each: no script sees the libraries or the memory of another.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as executor:
        for name in SCRIPTS:
            print(f"running {name} ...", flush=True)
            results[name] = executor.submit(measure_script, name).result()
    print()
    for name, result in results.items():
        show(name, result)


if __name__ == "__main__":
    main()
