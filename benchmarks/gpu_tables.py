"""Tables of docs/gpu.md, from ``benchmarks/results/gpu.json``; see ``gpu.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import roofline
from ._measure import RESULTS, describe_source
from .gpu import HEIGHT, TARGETS, WIDTH, preset_rates


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
    kornia = result.get("kornia")
    if kornia is not None:
        form = "compiled by torch, " if kornia["compiled"] else ""
        what = f"dense SIFT of kornia {kornia['version']}, {form}batches of {kornia['batch']}"
        ratio = sift["images_per_second"] / kornia["images_per_second"]
        add(what, kornia["images_per_second"], f"ours is {ratio:.1f} times as fast")
    for row in result["codes"]:
        for key, precision in (("half", "as tf32"), ("single", "single precision")):
            found = row[key]
            share = (
                f"{found['share_of_bare']:.2f} of the bare tf32 product, "
                f"{found['share_of_chip']:.2f} of the chip"
            )
            what = f"low-rank codes and maxima, k = {row['k']}, {precision}"
            add(what, found["images_per_second"], share)
    for name, images, rate in preset_rates(result["images_per_second"]):
        add(f"`{name}`, decoded {images} to vectors", rate)
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
        *_extras(result),
        f"Images of {WIDTH}x{HEIGHT} pixels on one {device['name']}, driver "
        f"{device['driver_version']}, {device['clocks.sm']}, torch {device['torch']}, triton "
        f"{device['triton']}. From `benchmarks/results/gpu.json`: {describe_source(environment)}.",
    ]
    return "\n".join(lines)


def roofline_table() -> str:
    """Return bytes, operations, floor and time of each step."""
    result = _stored()["result"]
    limits, channels = roofline.ceilings(result), roofline.measured_steps(result)
    fast, *balanced = channels.values()
    shown = [step for step in fast if step.kernel not in roofline.CODES]
    shown += [*roofline.measured_codes(result), *(step for steps in balanced for step in steps)]
    shown += roofline.other_steps(result)
    heads = ["step", "MB", "million operations", "binds", "least time, µs", "measured, µs"]
    if any(step.counted for step in shown):
        heads += ["measured MB", "limited by"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(_cells(step, limits)[: len(heads)])} |" for step in shown]
    rate = result["images_per_second"]["fast"]
    spent = {("fast", "SIFT"): 1e6 / rate}
    for preset, each in result.get("channel_microseconds", {}).items():
        spent |= {(preset, channel): microseconds for channel, microseconds in each.items()}
    notes = [_sum_of(*each, limits, spent.get(each[0])) for each in channels.items()]
    patches, bare = roofline.fast_patches(), result["codes"][-1]
    taken = {key: roofline.slots(key) for key in roofline.MODES}
    padding = " and ".join(
        f"{n:,} slots in tiles of {roofline.code_tiles(key, 1)[1]} ({roofline.MODES[key]}; "
        f"{100 * (1 - patches / n):.0f} % are padding)"
        for key, n in taken.items()
    )
    written = 4 * patches * bare["k"]
    notes += [
        f"The {patches:,} patches of `fast` take {padding}.",
        f"At k = {bare['k']} the bare product writes {written / 1e6:.0f} MB per image, at least "
        f"{1e6 * written / limits['copy']:.1f} of its "
        f"{1e6 / bare['bare']['images_per_second']:.1f} µs.",
        f"Ceilings, measured: {limits['copy'] / 1e12:.2f} TB/s of memory, "
        f"{limits['tf32'] / 1e12:.0f} and {limits['float32'] / 1e12:.0f} million operations per "
        "µs of products in tf32 and float32; half of the latter is taken for that of other "
        "instructions, and that of float64 is not known. In brackets: the least time over the "
        "measured. It can exceed 1 where products of halves run, which matrix units multiply "
        "faster than tf32.",
    ]
    return "\n".join([*lines, "", " ".join(notes)])


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
        f"{content['environment']['cores']} cores. The first run compiled the kernels, which is "
        "done once per machine."
    )


def _extras(result: dict[str, Any]) -> list[str]:
    """Return paragraphs on kornia and on channels, if the results have these."""
    lines = []
    if result.get("kornia") is not None:
        lines += [
            "kornia describes the same patches, of images in single precision, but computes "
            "descriptors of another kind: from plain differences of pixels, with directions that "
            "count in two of eight bins, and places in a window half as wide.",
            "",
        ]
    if "channel_microseconds" in result:
        spent = result["channel_microseconds"]
        told = "; ".join(
            f"`{name}`: " + ", ".join(f"{what} {each:.1f}" for what, each in spent[name].items())
            for name in TARGETS
        )
        lines += [f"Microseconds per image with color, by channel: {told}.", ""]
    return lines


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


def _cells(step: roofline.Step, limits: dict[str, float]) -> list[str]:
    """Return a row of the table."""
    told = "not timed alone" if step.seconds is None else _digits(1e6 * step.seconds)
    cells = [step.what, _digits(step.nbytes / 1e6), _digits(step.operations / 1e6)]
    if step.ceiling is None:
        cells += ["not known", "", told]
    else:
        least, binds = roofline.floor(step, limits)
        told += f" ({least / step.seconds:.2f})" if step.seconds else ""
        cells += [binds, _digits(1e6 * least), told]
    if step.counted is None:
        return [*cells, "", ""]
    part = step.counted["limit"]
    busy = step.counted["percent"].get(part)
    limited = part if busy is None else f"{part}, {busy:.0f} %"
    return [*cells, _digits(step.counted["megabytes"]), limited]


def _sum_of(
    channel: tuple[str, str],
    steps: Sequence[roofline.Step],
    limits: dict[str, float],
    spent: float | None,
) -> str:
    """Compare the floors of a channel's steps with the microseconds that they take together."""
    least = 1e6 * sum(roofline.floor(step, limits)[0] for step in steps)
    preset, name = channel
    told = (
        f"The steps of {name} in `{preset}` move {sum(step.nbytes for step in steps) / 1e6:.1f} MB "
        f"and take at least {least:.1f} µs"
    )
    if spent is not None:
        told += f"; together they took {spent:.1f} µs ({least / spent:.2f})"
    times = [step.seconds for step in steps if step.seconds is not None]
    return told + (f", of which kernels ran {1e6 * sum(times):.1f} µs." if times else ".")


def _digits(value: float) -> str:
    """Return three significant digits without an exponent."""
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if short >= 100 else f"{short:g}"
