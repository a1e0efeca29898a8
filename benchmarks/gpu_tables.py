"""Tables of docs/gpu.md, from ``benchmarks/results/gpu.json``; see ``gpu.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ._measure import RESULTS, describe_source
from .gpu import HEIGHT, TARGETS, WIDTH


def _stored() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / "gpu.json").read_text())
    return content


def kernels_table() -> str:
    """Return images per second of each step and preset, and their shares of the limits."""
    result = _stored()["result"]
    lines = ["| measured | images per second, or time | share of |", "|---|---|---|"]

    def add(what: str, rate: float, share: str = "") -> None:
        lines.append(f"| {what} | {round(rate, -2):,.0f} | {share} |")

    sift = result["sift"]
    copied = f"{sift['share_of_copy']:.2f} of the memory's speed"
    add("dense SIFT of decoded images", sift["images_per_second"], copied)
    for row in result["codes"]:
        for key, precision in (("half", "as tf32"), ("single", "single precision")):
            found = row[key]
            share = (
                f"{found['share_of_bare']:.2f} of the bare tf32 product, "
                f"{found['share_of_chip']:.2f} of the chip"
            )
            what = f"low-rank codes and maxima, k = {row['k']}, {precision}"
            add(what, found["images_per_second"], share)
    for name in TARGETS:
        add(f"`{name}`, decoded images to vectors", result["images_per_second"][name])
    kmeans = result["kmeans"]
    for key, precision in (("half", "as tf32"), ("single", "single precision")):
        found = kmeans["precisions"][key]
        what = f"k-means, an iteration on {kmeans['n'] // 10**6} million descriptors, {precision}"
        share = (
            f"{found['ratio']:.1f} times as fast as torch; its product alone runs at "
            f"{found['share_of_chip']:.2f} of the chip's tf32"
        )
        lines.append(f"| {what} | {1e3 * found['seconds']:.0f} ms | {share} |")
    for key, loss in (("squared_hinge", "squared hinge"), ("squared", "least squares")):
        found = result["machines"][key]
        share = f"{found['ratio']:.1f} times as fast as one thread of the CPU"
        lines.append(
            f"| 102 SVMs, {loss}, from the Gram matrix of 3,060 images | "
            f"{1e3 * found['cuda']:.0f} ms | {share} |"
        )
    least, between = sift["bytes_at_least"], sift["bytes_of_maps_and_sums"]
    differ = [max(row[key]["largest_difference"] for row in result["codes"])
              for key in ("half", "single")]  # fmt: skip
    device = result["device"]
    environment = _stored()["environment"]
    lines += [
        "",
        f"The kernels of dense SIFT move {(least + between) / 1e6:.1f} MB per image through "
        f"memory, by our count; {least / 1e6:.1f} MB is the minimum. Codes differ from those in "
        f"double precision by up to {differ[0]:.1g} of the largest one in the mode "
        f"that replaces tf32, and by {differ[1]:.1g} in single precision.",
        "",
        _losses(result["codes"]),
        "",
        f"Images of {WIDTH}x{HEIGHT} pixels on one {device['name']}, driver "
        f"{device['driver_version']}, {device['clocks.sm']}, torch {device['torch']}, triton "
        f"{device['triton']}. From `benchmarks/results/gpu.json`: {describe_source(environment)}.",
    ]
    return "\n".join(lines)


def evaluate_line() -> str:
    """Return the seconds of a whole evaluation."""
    content = _stored()
    found = content["result"]["Caltech101"]
    stages = ", ".join(f"{name} {spent:.1f}" for name, spent in found["stages"].items())
    first, second = found["seconds"]
    return (
        f"`evaluate --method best --train-per-class 30 --splits 1 --device cuda` on Caltech101, "
        f"{found['images']:,} files, took {first:.1f} s in the first run and {second:.1f} s in the "
        f"second (target: at most 30 s), including startup and the search for near copies, with an "
        f"accuracy of {found['accuracy']:.1f} % on that split (seconds by stage: {stages}), on "
        f"{content['environment']['cores']} cores. Kernels were already compiled before both; a "
        "run that compiles them takes longer, and none was kept."
    )


def scenes_table() -> str:
    """Return accuracies and images per second on half of LS, from files, on CPU and GPU."""
    content = _stored()
    cores = content["environment"]["cores"]
    rows = content["result"]["LS"]
    first = next(iter(rows.values()))
    threads = f"{cores} and 4 threads"
    lines = [
        f"On half of the LS images ({first['trained']:,} to train, {first['tested']:,} to test), "
        f"files to predictions, {cores} cores, at the commit "
        f"{content['result']['commits']['LS'][:10]}, which read files with threads only:",
        "",
        "| method | accuracy, CPU | accuracy, GPU | same predictions | "
        f"images per second, CPU, {threads} | GPU, {threads} |",
        "|---|---|---|---|---|---|",
    ]
    for name in TARGETS:
        row = rows[name]
        rates = (row[device]["test_images_per_second_by_threads"] for device in ("cpu", "cuda"))
        cells = [f"{100 * row[device]['accuracy']:.2f} %" for device in ("cpu", "cuda")]
        cells.append(f"{100 * row['equal']:.2f} %")
        cells += [f"{rate['-1']:,.0f}, {rate['4']:,.0f}" for rate in rates]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _losses(codes: Sequence[dict[str, Any]]) -> str:
    """Say which precision reaches half of the bare product where that was the target."""
    rows = [row for row in codes if row["k"] > 256]
    sizes = " and ".join(str(row["k"]) for row in rows)
    said = []
    for key, what in (("single", "single precision, the default,"), ("half", '"as tf32"')):
        shares = [row[key]["share_of_bare"] for row in rows]
        verb = "meets" if min(shares) >= 0.5 else "misses"
        said.append(f"{what} {verb} it ({', '.join(f'{share:.2f}' for share in shares)})")
    return f"The target was half of the bare tf32 product at k = {sizes}: {'; '.join(said)}."
