"""Claims about seconds: ratios of the paper's tables 4, 5 and 10, and of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from .. import config
from .experiments import TABLES, Options
from .findings import (
    FAILS,
    HOLDS,
    PARTLY,
    RIGHT,
    WRONG,
    Finding,
    Values,
    compare_digits,
    judge,
    say_span,
)
from .published import published, read_published
from .results import Results
from .tables import cells

LRR = config.PAPER_METHOD


def published_seconds(row: str, coding: bool = False) -> dict[str, float]:
    """Return the paper's seconds by data set; with ``coding`` those of coding in table 10."""
    found = {}
    for table in ("table10",) if coding else ("table4", "table5", "table10"):
        for cell in read_published()[table]["cells"]:
            if cell["row"] == row and ("seconds" in cell or table == "table10"):
                whole = (cell.get("seconds"), cell.get("coding"), cell.get("classification"))
                seconds, code, classify = (value or 0.0 for value in whole)
                found[cell["dataset"]] = seconds + code + (0 if coding else classify)
    return found


def our_seconds(
    row: str, results: Results, options: Options, coding: bool = False
) -> dict[str, float]:
    """Return our seconds by data set, for the cells in which the paper has them."""
    found: dict[str, float] = {}
    for table in ("table10",) if coding else ("table4", "table5", "table10"):
        for title, cell in cells(table, results, options).get(row, {}).items():
            name = title.split()[0].rstrip(",")
            kinds = (", s", " coding") if coding else (", s", " coding", " classifying")
            if title.endswith(kinds) and cell.mean is not None:
                found[name] = found.get(name, 0.0) + cell.mean
    return found


def time_ratios(seconds: Callable[[str], Values], other: str) -> dict[str, float]:
    """Return how many times LrrSPM's seconds another method takes, by data set."""
    theirs, own = seconds(other), seconds(LRR)
    return {name: theirs[name] / own[name] for name in own if name in theirs}


def _outside(values: Values, low: float, high: float) -> dict[str, float]:
    """Return the values that a range does not hold when it is rounded to whole numbers."""
    return {name: value for name, value in values.items() if not low <= round(value) <= high}


def check_speed_up(other: str, said: Sequence[str], results: Results, options: Options) -> Finding:
    low, high = map(float, said)
    theirs = time_ratios(published_seconds, other)
    outside = _outside(theirs, low, high)
    paper = f"{say_span(theirs)}"
    if outside:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in outside.items())
        paper += f"; outside of {said[0]} to {said[1]}: {listed}"
    right = WRONG if outside else RIGHT
    ours = time_ratios(partial(our_seconds, results=results, options=options), other)
    if not ours:
        return Finding(paper, right)
    reached = sum(value >= low for value in ours.values())
    verdict = HOLDS if reached == len(ours) else PARTLY if reached else FAILS
    return Finding(
        paper, right, f"{say_span(ours)}; at least {said[0]} on {reached} of {len(ours)}", verdict
    )


def check_coding(
    said: Sequence[str], results: Results, options: Options, inverse: bool = False
) -> Finding:
    """Check spans of the ratios of coding times, or of their inverses in percent."""

    def spans(seconds: Callable[[str], Values]) -> list[dict[str, float]]:
        found = [time_ratios(seconds, other) for other in ("ScSPM", "LLC")]
        if inverse:
            found = [{name: 100 / v for name, v in each.items()} for each in found]
        return found

    theirs = spans(partial(published_seconds, coding=True))
    ends = [end for each in theirs for end in (min(each.values()), max(each.values()))]
    unit = " %" if inverse else ""
    paper = "; ".join(
        f"{other} {say_span(each, unit=unit)}"
        for other, each in zip(("ScSPM", "LLC"), theirs, strict=True)
    )
    ours = spans(partial(our_seconds, results=results, options=options, coding=True))
    finding = Finding(f"coding alone: {paper}", compare_digits(said, ends))
    if not all(ours):
        return finding
    text = "; ".join(
        f"{other} {say_span(each, unit=unit)}"
        for other, each in zip(("ScSPM", "LLC"), ours, strict=True)
    )
    limits = [float(said[1]), float(said[3])] if inverse else [float(said[0]), float(said[2])]
    reached = [
        (value <= limit) if inverse else (value >= limit)
        for each, limit in zip(ours, limits, strict=True)
        for value in each.values()
    ]
    return finding._replace(ours=text, holds=judge(reached))


def check_scenes_speed(said: Sequence[str], results: Results, options: Options) -> Finding:
    names = [(dataset, other) for dataset in ("OT", "LS") for other in ("ScSPM", "LLC")]
    ratios = {other: time_ratios(published_seconds, other) for other in ("ScSPM", "LLC")}
    theirs = [ratios[other][dataset] for dataset, other in names]
    right = compare_digits(said, theirs)
    paper = ", ".join(
        f"{other} {value:.2f} ({dataset})"
        for (dataset, other), value in zip(names, theirs, strict=True)
    )
    if right == WRONG:
        other_way = [theirs[place] for place in (1, 0, 3, 2)]
        if compare_digits(said, other_way) != WRONG:
            paper += ": the two are swapped"
    seconds = partial(our_seconds, results=results, options=options)
    ours = {other: time_ratios(seconds, other) for other in ("ScSPM", "LLC")}
    if any(dataset not in ours[other] for dataset, other in names):
        return Finding(paper, right)
    values = [ours[other][dataset] for dataset, other in names]
    text = ", ".join(
        f"{other} {value:.2f} ({dataset})"
        for (dataset, other), value in zip(names, values, strict=True)
    )
    held = [value >= round(claimed) for value, claimed in zip(values, theirs, strict=True)]
    return Finding(paper, right, text, judge(held))


def check_cpu_time(said: Sequence[str], results: Results, options: Options) -> Finding:
    def shares(seconds: Callable[[str], Values]) -> list[float]:
        found = [time_ratios(seconds, other).get("Caltech101") for other in ("ScSPM", "LLC")]
        return [100 / ratio for ratio in found if ratio is not None]

    theirs = shares(published_seconds)
    ours = shares(partial(our_seconds, results=results, options=options))
    paper = f"{theirs[0]:.2f} % and {theirs[1]:.2f} %"
    right = compare_digits(said, theirs)
    if len(ours) < 2:
        return Finding(paper, right)
    held = [value <= float(text) + 0.5 for value, text in zip(ours, said, strict=True)]
    return Finding(paper, right, f"{ours[0]:.0f} % and {ours[1]:.0f} %", judge(held))


def check_both_stages(said: Sequence[str], results: Results, options: Options) -> Finding:
    """Count where ScSPM or LLC is faster than LrrSPM in coding or classifying (table 10)."""

    def faster(value: Callable[[str, str, str], float | None]) -> list[str] | None:
        found = []
        for kind in ("coding", "classification"):
            for column in TABLES["table10"]:
                own = value(LRR, column.dataset, kind)
                for other in ("ScSPM", "LLC"):
                    theirs = value(other, column.dataset, kind)
                    if own is None or theirs is None:
                        return None
                    if theirs < own:
                        found.append(
                            f"{other} {theirs:.2f} s, {own:.2f} ({kind}, {column.dataset})"
                        )
        return found

    def paper_value(row: str, dataset: str, kind: str) -> float | None:
        return (published("table10", row=row, dataset=dataset) or {})[kind]

    found = cells("table10", results, options)

    def our_value(row: str, dataset: str, kind: str) -> float | None:
        title = f"{dataset} {'classifying' if kind == 'classification' else kind}"
        cell = found.get(row, {}).get(title)
        return None if cell is None else cell.mean

    theirs, ours = faster(paper_value) or [], faster(our_value)
    finding = Finding(_say_faster(theirs), WRONG if theirs else RIGHT)
    if ours is None:
        return finding
    return finding._replace(ours=_say_faster(ours), holds=PARTLY if ours else HOLDS)


def _say_faster(found: Sequence[str]) -> str:
    return f"faster than LrrSPM: {'; '.join(found)}" if found else "LrrSPM is always faster"
