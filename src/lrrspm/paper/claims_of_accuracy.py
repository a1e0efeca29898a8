"""Claims about accuracies: ranks, differences and spans in the paper's tables, and in ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from .. import config
from ..methods import METHODS
from . import figures
from .agreement import compare, pair
from .claims_of_speed import our_seconds, published_seconds, time_ratios
from .experiments import TABLES, Options
from .findings import (
    FAILS,
    HOLDS,
    NOT_IN_TABLES,
    NOT_OURS,
    PARTLY,
    RIGHT,
    WRONG,
    Finding,
    Values,
    compare_digits,
    judge,
)
from .published import SPLITS, published, read_published
from .results import Results
from .significance import say_p, welch
from .tables import cells

LRR = config.PAPER_METHOD


def check_codebooks(said: Sequence[str], results: Results, options: Options) -> Finding:
    sizes = [column.codebook_size for column in TABLES["table3"]]
    first, last = (
        published("table3", codebook_size=size) or {} for size in (min(sizes), max(sizes))
    )
    gain, ratio = last["accuracy"] - first["accuracy"], last["seconds"] / first["seconds"]
    right = compare_digits(said, [gain, 100 * ratio])
    increase = 100 * (ratio - 1)
    paper = (
        f"{gain:+.2f} points; {ratio:.2f} times the seconds, so an increase by {increase:.0f} % "
        f"({said[1]} % is the ratio)"
    )
    right = WRONG if abs(increase - float(said[1])) > 1 else right
    found = cells("table3", results, options).get(LRR, {})
    few, many = (found.get(f"k = {size}") for size in (min(sizes), max(sizes)))
    spent = [found.get(f"k = {size}, s") for size in (min(sizes), max(sizes))]
    if not few or not many or few.mean is None or many.mean is None:
        return Finding(paper, right)
    times = [cell.mean for cell in spent if cell is not None and cell.mean]
    means = [cell.mean for title, cell in found.items() if not title.endswith(", s")]
    rises = all(a < b for a, b in pairwise(means) if a and b)
    return Finding(
        paper,
        right,
        f"{many.mean - few.mean:+.2f} points, {times[-1] / times[0]:.2f} times the seconds",
        judge([rises, many.mean - few.mean >= float(said[0])]),
    )


def _paper_ranks(tables: Sequence[str]) -> dict[tuple[str, int], int]:
    """Return LrrSPM's rank among the seven methods in each cell: data set, training images."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for table in tables:
        for cell in read_published()[table]["cells"]:
            if cell["row"] in METHODS:
                place = (cell["dataset"], cell["train_per_class"])
                found.setdefault(place, {})[cell["row"]] = cell["accuracy"]
    return {place: _rank(line) for place, line in found.items()}


def _our_ranks(tables: Sequence[str], results: Results, options: Options) -> dict[str, int]:
    lines: dict[str, dict[str, float]] = {}
    for method in METHODS:
        for one in compare(method, results, options):
            if one.table in tables and one.cell.mean is not None:
                lines.setdefault(one.where, {})[method] = round(one.cell.mean, 2)
    return {where: _rank(line) for where, line in lines.items() if len(line) == len(METHODS)}


def _rank(accuracies: Values) -> int:
    return 1 + sum(value > accuracies[LRR] for value in accuracies.values())


def _say_ranks(ranks: Mapping[Any, int]) -> str:
    counts = {rank: list(ranks.values()).count(rank) for rank in sorted(set(ranks.values()))}
    listed = ", ".join(f"rank {rank} in {count}" for rank, count in counts.items())
    return f"{listed} of {len(ranks)} cells"


def check_best(
    tables: Sequence[str], said: Sequence[str], results: Results, options: Options
) -> Finding:
    """Check that LrrSPM has rank 1, shared or not, in most cells."""
    theirs, ours = _paper_ranks(tables), _our_ranks(tables, results, options)
    first = list(theirs.values()).count(1)
    right = RIGHT if 2 * first > len(theirs) else WRONG
    paper = "; ".join([_say_ranks(theirs), *_paper_tests(tables)])
    if not ours:
        return Finding(paper, right)
    own = list(ours.values()).count(1)
    verdict = HOLDS if 2 * own > len(ours) else FAILS
    tested = [
        f"{name} significantly above it in {sum(t > 0 for t in signs)}, below in "
        f"{sum(t < 0 for t in signs)} of {len(found)}"
        for name in ("LLC", "ScSPM")
        if (found := [p for p in pair(name, results, options) if p[0].table in tables])
        and (signs := [t.points for _, _, t in found if t and t.significant]) is not None
    ]
    return Finding(paper, right, "; ".join([_say_ranks(ours), *tested]), verdict)


def _paper_tests(tables: Sequence[str]) -> list[str]:
    """Count where the paper's LrrSPM is significantly above others, by Welch's test."""
    said = []
    for other in ("LLC", "ScSPM"):
        tests = []
        for table in tables:
            for cell in read_published()[table]["cells"]:
                if cell["row"] == LRR:
                    same = {name: cell[name] for name in ("dataset", "train_per_class")}
                    peer = published(table, row=other, **same) or {}
                    sides = (c[name] for c in (cell, peer) for name in ("accuracy", "std"))
                    mean, std, other_mean, other_std = sides
                    tests.append(welch(mean, std, SPLITS, other_mean, other_std, SPLITS))
        above = sum(t is not None and t.significant and t.points > 0 for t in tests)
        said.append(f"significantly above {other} in {above} of {len(tests)}")
    return said


_ACCURACIES = ("table4", "table5", "table7", "table8", "table9")


def check_competitive(said: Sequence[str], results: Results, options: Options) -> Finding:
    """Show the ranks on all data sets; competitive means among the first three."""
    theirs, ours = _paper_ranks(_ACCURACIES), _our_ranks(_ACCURACIES, results, options)
    right = RIGHT if max(theirs.values()) <= 3 else WRONG
    if not ours:
        return Finding(_say_ranks(theirs), right)
    near = [rank <= 3 for rank in ours.values()]
    verdict = HOLDS if all(near) else PARTLY if 2 * sum(near) > len(near) else FAILS
    text = f"{_say_ranks(ours)}; among the first three in {sum(near)}"
    return Finding(_say_ranks(theirs), right, text, verdict)


def check_energy(said: Sequence[str], results: Results, options: Options) -> Finding:
    claim = read_published()["figure1"]["claim"]
    top = round(claim["top_share"] * claim["codebook_size"])
    paper = (
        f"{said[1]} % of {claim['codebook_size']} are {top} singular values; a codebook of "
        "128-dimensional descriptors has at most 128 that are not 0"
    )
    record = figures.find("figure1", results, options)
    if record is None:
        return Finding(paper, NOT_IN_TABLES)
    values = record["values"]["singular_values"]
    plain, squares = (figures.energy_share(values, top, power) for power in (1, 2))
    share = float(said[0]) / 100
    text = (
        f"{record['setting']['dataset']}: the first {min(top, len(values))} hold {plain:.1%} of "
        f"the sum, {squares:.2%} of the sum of squares"
    )
    return Finding(paper, NOT_IN_TABLES, text, judge([plain > share, squares > share]))


def check_robust(name: str, said: Sequence[str], results: Results, options: Options) -> Finding:
    low, high = map(float, said)
    reported = (published("table4", row=LRR, dataset="OT") or {})["accuracy"]
    paper = f"a span of {high - low:.2f} points; table 4 has {reported:.2f} for OT"
    if reported == high:
        paper += ", the highest of the curve"
    right = RIGHT if low <= reported <= high else WRONG
    curve = figures.curve_points(results, options)[name]
    if not curve:
        return Finding(paper, right)
    means = [mean for mean, _ in curve.values()]
    span = max(means) - min(means)
    text = f"{min(means):.2f} to {max(means):.2f}, a span of {span:.2f} points"
    return Finding(paper, right, text, HOLDS if span <= high - low else FAILS)


def check_caltech(said: Sequence[str], results: Results, options: Options) -> Finding:
    others = [method for method in METHODS if method != LRR]
    where = {"dataset": "Caltech101", "train_per_class": 30}
    theirs = {row: (published("table5", row=row, **where) or {})["accuracy"] for row in METHODS}
    paper = [theirs[LRR] - theirs[row] for row in others]
    # The paper lists the baselines in the order of its tables.
    right = compare_digits(said, paper)
    text = ", ".join(f"{v:+.2f} ({row})" for row, v in zip(others, paper, strict=True))
    found = cells("table5", results, options)
    means = {row: found[row]["Caltech101"].mean for row in found if "Caltech101" in found[row]}
    ours = {row: means[LRR] - means[row] for row in others if means.get(row) and means.get(LRR)}  # type: ignore[operator]
    if len(ours) < len(others):
        return Finding(text, right)
    same = [(ours[row] > 0) == (v > 0) for row, v in zip(others, paper, strict=True)]
    listed = ", ".join(f"{value:+.2f} ({row})" for row, value in ours.items())
    return Finding(text, right, listed, judge(same))


def check_flowers(said: Sequence[str], results: Results, options: Options) -> Finding:
    own, other = (published("table5", row=row, dataset="17flowers") or {} for row in (LRR, "ScSPM"))
    gain = own["accuracy"] - other["accuracy"]
    ratio = time_ratios(published_seconds, "ScSPM")["17flowers"]
    paper = f"{gain:+.2f} points, {ratio:.1f} times the seconds"
    right = compare_digits(said, [gain, ratio])
    found = [p for p in pair("ScSPM", results, options) if p[0].dataset == "17flowers"]
    seconds = partial(our_seconds, results=results, options=options)
    ratios = time_ratios(seconds, "ScSPM")
    if not found or found[0][2] is None or "17flowers" not in ratios:
        return Finding(paper, right)
    test = found[0][2]
    text = f"{-test.points:+.2f} points ({say_p(test.p)}), {ratios['17flowers']:.1f} times"
    return Finding(paper, right, text, judge([test.points < 0, ratios["17flowers"] >= ratio]))


def check_literature(said: Sequence[str], results: Results, options: Options) -> Finding:
    cells = {(c["row"], c["dataset"]): c["accuracy"] for c in read_published()["table6"]["cells"]}
    best = {name: max(v for (_, d), v in cells.items() if d == name) for _, name in cells}
    listed = ", ".join(f"{value:.2f} ({name})" for name, value in best.items())
    return Finding(f"of other work; the best in table 6: {listed}", NOT_IN_TABLES, "", NOT_OURS)


def check_perfect(
    names: Sequence[str], said: Sequence[str], results: Results, options: Options
) -> Finding:
    table_of = {"COIL20": "table7", "COIL100": "table8", "YaleB": "table9"}
    theirs = {
        name: (published(table_of[name], row=LRR, train_per_class=50) or {})["accuracy"]
        for name in names
    }
    paper = ", ".join(f"{value:.2f} ({name})" for name, value in theirs.items())
    right = compare_digits([*said] * len(names), list(theirs.values()))
    if any(value < float(said[0]) for value in theirs.values()):
        right = WRONG
    wanted = {f"{name}, 50 per class": name for name in names}
    ours = {
        wanted[one.where]: one.cell.mean
        for one in compare(LRR, results, options)
        if one.where in wanted and one.cell.mean is not None
    }
    if len(ours) < len(names):
        return Finding(paper, right)
    text = ", ".join(f"{value:.2f} ({name})" for name, value in ours.items())
    held = [round(value, 2) >= float(said[0]) for value in ours.values()]
    return Finding(paper, right, text, judge(held))


def check_faces(said: Sequence[str], results: Results, options: Options) -> Finding:
    """Check the accuracy on Yale B; ours agrees if it is not significantly another."""
    finding = check_perfect(("YaleB",), said, results, options)
    for one in compare(LRR, results, options):
        if one.where == "YaleB, 50 per class" and (test := one.cell.difference) is not None:
            verdict = FAILS if test.significant else HOLDS
            return finding._replace(ours=f"{finding.ours}, {say_p(test.p)}", holds=verdict)
    return finding
