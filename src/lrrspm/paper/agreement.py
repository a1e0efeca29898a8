"""Do our accuracies agree with the paper's, and those of variants with each other?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from .. import config
from .._support.text import plural
from ..methods import METHODS
from ..report.page import Table
from .experiments import (
    NORMALIZED,
    OWN_CODEBOOK,
    TABLES,
    Column,
    Options,
    cell_settings,
    table_rows,
)
from .published import SPLITS
from .results import Results
from .settings import Setting
from .significance import SIGNIFICANT, Difference, paired, say_p, sign_test
from .tables import Cell, accuracy_cell, find_published

_PEERS = ("LLC", "ScSPM")
VARIANTS = {"codes normalized": NORMALIZED, "codebook from training images": OWN_CODEBOOK}
"""Variants of LrrSPM that run on the same splits: short names, and their rows in the tables."""


class Compared(NamedTuple):
    """One accuracy of ours that the paper has, too."""

    where: str
    dataset: str
    table: str
    cell: Cell

    @property
    def points(self) -> float:
        """Ours minus the paper's, percent, as both are printed."""
        assert self.cell.mean is not None
        assert self.cell.paper is not None
        return round(self.cell.mean, 2) - self.cell.paper


def compare(row: str, results: Results, options: Options) -> list[Compared]:
    """Return every cell of a row, over all tables, that was run on all splits; each one once."""
    found: dict[tuple[Setting, ...], Compared] = {}
    # Table 5 has the first cell of table 3 again.
    for table in (*(name for name in TABLES if name not in ("table3", "table10")), "table3"):
        changes = table_rows(table, options).get(row)
        for column in TABLES[table] if changes is not None else ():
            settings = tuple(cell_settings(column, changes or {}, options))
            paper = None if options.quick else find_published(table, row, column)
            cell = accuracy_cell(results, settings, paper)
            whole = cell.done == cell.wanted and not cell.other_data
            if whole and cell.paper is not None and settings not in found:
                found[settings] = Compared(_name(table, column), column.dataset, table, cell)
    return list(found.values())


def _name(table: str, column: Column) -> str:
    name = column.dataset
    if column.codebook_size != config.CODEBOOK_SIZE:
        name += f", k = {column.codebook_size}"
    if len({each.train_per_class for each in TABLES[table]}) > 1:
        name += f", {column.train_per_class} per class"
    return name


class Signs(NamedTuple):
    """How many of some differences are above 0, below, and significant."""

    above: int
    below: int
    surely_above: int
    surely_below: int

    @property
    def p(self) -> float:
        """Probability of signs as unequal, if both were as likely and cells independent."""
        return sign_test(self.above, self.below)


def count_signs(points: Sequence[float], tests: Sequence[Difference | None]) -> Signs:
    """Count signs of differences; those without a test are not significant."""
    sure = [test.points for test in tests if test is not None and test.significant]
    return Signs(
        sum(value > 0 for value in points),
        sum(value < 0 for value in points),
        sum(value > 0 for value in sure),
        sum(value < 0 for value in sure),
    )


def _signs(found: Sequence[Compared]) -> Signs:
    return count_signs([one.points for one in found], [one.cell.difference for one in found])


def agreement_table(results: Results, options: Options) -> Table:
    """Return how each method's accuracies differ from the paper's: signs, sizes, tests."""
    rows = []
    for method in METHODS:
        found = compare(method, results, options)
        if not found:
            continue
        signs = _signs(found)
        line = (
            method, str(len(found)), str(signs.above), str(signs.below),
            str(signs.surely_above), str(signs.surely_below),
            f"{fmean(one.points for one in found):+.2f}", say_p(signs.p),
        )  # fmt: skip
        rows.append(tuple((cell,) for cell in line))
    header = (
        "method", "cells", "above the paper", "below", f"above, p < {SIGNIFICANT}",
        f"below, p < {SIGNIFICANT}", "mean difference, points", "sign test",
    )  # fmt: skip
    note = (
        "Accuracies of all cells that were run on all splits. p of a cell: Welch's test of two "
        "means of five splits. Sign test: as if cells were independent, which those of one data "
        "set are not. Splits of one data set share images, so all of these probabilities are too "
        "small."
    )
    return Table("Agreement with the paper", header, tuple(rows), (note,))


def errors_table(results: Results, options: Options) -> Table:
    """Return LrrSPM's difference from the paper in each cell, with its standard error."""
    rows = []
    for one in compare(config.PAPER_METHOD, results, options):
        cell, test = one.cell, one.cell.difference
        line = (
            one.where,
            _with_error(cell.mean, cell.std, cell.done),
            _with_error(cell.paper, cell.paper_std, SPLITS),
            f"{one.points:+.2f}",
            *(
                ("no spread", "", "")
                if test is None
                else (f"{test.errors:+.1f}", f"{test.freedom:.1f}", say_p(test.p)[2:].strip("= "))
            ),
        )
        rows.append(tuple((text,) for text in line))
    header = (
        "cell", "ours ± se", "paper ± se", "difference", "in standard errors",
        "degrees of freedom", "p",
    )  # fmt: skip
    note = "se: standard error of the mean, the standard deviation over the root of the splits."
    return Table("LrrSPM and the paper, cell by cell", header, tuple(rows), (note,))


def _with_error(mean: float | None, std: float | None, splits: int) -> str:
    if mean is None or std is None:
        return "" if mean is None else f"{mean:.2f}"
    return f"{mean:.2f} ± {std / splits**0.5:.2f}"


def say_shortfall(results: Results, options: Options) -> str:
    """State how far LrrSPM is from the paper as a whole, and how far LLC is."""
    found = compare(config.PAPER_METHOD, results, options)
    apart = [one for one in found if one.points]
    if not apart:
        return ""
    signs = _signs(found)
    sizes = sorted(one.points for one in apart)
    sets = {one.dataset: 0.0 for one in found}
    for name in sets:
        sets[name] = fmean(one.points for one in found if one.dataset == name)
    sure = [
        f"{one.where} {test.errors:+.1f}"
        for one in found
        if (test := one.cell.difference) is not None and test.significant
    ]
    said = (
        f"LrrSPM is below the paper in {signs.below} of the {len(apart)} cells that differ, by "
        f"{sizes[0]:+.2f} to {sizes[-1]:+.2f} points ({fmean(sizes):+.2f} on average), and on "
        f"{sum(mean < 0 for mean in sets.values())} of {plural(len(sets), 'data set')}: "
        f"{say_p(signs.p)} by the sign test. "
    )
    if sure:
        said += f"Significant, in standard errors of the means: {'; '.join(sure)}. "
    others = {name: compare(name, results, options) for name in _PEERS}
    beside = [
        f"{name} is above in {_signs(cells).above} and below in {_signs(cells).below} of "
        f"{len(cells)} ({fmean(one.points for one in cells):+.2f} on average)"
        for name, cells in others.items()
        if cells
    ]
    if not beside:
        return said
    return said + (
        f"Beside it, {'; '.join(beside)}. They share descriptors, codebook, splits and support "
        "vector machine with LrrSPM, so the cause is in what LrrSPM does alone, or in how the "
        "paper ran it."
    )


def pair(
    row: str, results: Results, options: Options, base: str = config.PAPER_METHOD
) -> Iterator[tuple[Compared, Compared, Difference | None]]:
    """Yield each cell of a row, the same cell of LrrSPM, and the test of their splits."""
    bases = {one.where: one for one in compare(base, results, options)}
    for one in compare(row, results, options):
        if one.where in bases:
            other = bases[one.where]
            yield one, other, paired(one.cell.splits, other.cell.splits)


def paired_table(results: Results, options: Options) -> Table:
    """Return variants and peers minus LrrSPM, on the same splits."""
    columns = {**VARIANTS, **{name: name for name in _PEERS}}
    found = {
        title: {one.where: (one, base, test) for one, base, test in pair(row, results, options)}
        for title, row in columns.items()
    }
    rows = []
    for base in compare(config.PAPER_METHOD, results, options):
        line = [_say_pair(found[title].get(base.where)) for title in columns]
        if any(line):
            rows.append(((base.where,), *((text,) for text in line)))
    note = (
        "Points above LrrSPM on the same splits, p of the paired t-test, and the splits on which "
        "it is higher. Same splits and, but for the second column, same codebook, so this tells "
        "smaller differences than the standard deviations above suggest."
    )
    return Table("Variants and peers minus LrrSPM", ("cell", *columns), tuple(rows), (note,))


def _say_pair(found: tuple[Compared, Compared, Difference | None] | None) -> str:
    if found is None:
        return ""
    one, base, test = found
    assert one.cell.mean is not None
    assert base.cell.mean is not None
    higher = sum(a > b for a, b in zip(one.cell.splits, base.cell.splits, strict=True))
    points = round(one.cell.mean - base.cell.mean, 2) + 0.0
    known = "" if test is None else f", {say_p(test.p)}"
    return f"{points:+.2f}{known} ({higher} of {one.cell.done})"


def say_variants(results: Results, options: Options) -> list[str]:
    """State for each variant where it is significantly better or worse than LrrSPM."""
    said = []
    for title, row in VARIANTS.items():
        found = list(pair(row, results, options))
        if not found:
            continue
        changes = [_change(one, base) for one, base, _ in found]
        signs = count_signs(changes, [test for _, _, test in found])
        better, worse = (
            ", ".join(
                f"{one.where} {_change(one, base):+.2f}"
                for one, base, test in found
                if test is not None and test.significant and sign * test.points > 0
            )
            for sign in (1, -1)
        )
        said.append(
            f"**{title[0].upper()}{title[1:]}**: higher in {signs.above}, lower in {signs.below} "
            f"of {len(found)} cells. Significantly higher: {better or 'nowhere'}. "
            f"Significantly lower: {worse or 'nowhere'}."
        )
    return said


def say_readings(results: Results, options: Options) -> str:
    """State which reading of Algorithm 1 is closer to the paper: codes normalized or not."""
    compared = []
    nearer: dict[str, list[bool]] = {}
    for one, base, _ in pair(NORMALIZED, results, options):
        gaps = [abs(each.points) for each in (base, one)]
        nearer.setdefault(base.table, []).append(gaps[0] < gaps[1])
        ours = f"{base.cell.ours()} without, {one.cell.ours()} with"
        said = f"{one.where}: {ours}, {base.cell.paper:.2f} in the paper"
        compared.append((abs(_change(one, base)), said))
    if not compared:
        return ""
    by_table = ", ".join(
        f"{sum(cells)} of {len(cells)} in table {table.removeprefix('table')}"
        for table, cells in sorted(nearer.items(), key=lambda item: int(item[0][5:]))
    )
    return (
        "Of the two readings of Algorithm 1, the one without normalized codes is closer to the "
        f"paper in {sum(map(sum, nearer.values()))} of {plural(len(compared), 'cell')}: "
        f"{by_table}. The largest difference is in {max(compared)[1]}."
    )


def _change(one: Compared, base: Compared) -> float:
    assert one.cell.mean is not None
    assert base.cell.mean is not None
    return one.cell.mean - base.cell.mean


def describe(results: Results, options: Options) -> dict[str, Any]:
    """Return the tests as JSON: every method against the paper, and variants against LrrSPM."""
    columns = {**VARIANTS, **{name: name for name in _PEERS}}
    return {
        "paper": {
            method: {one.where: _test(one.points, one.cell.difference) for one in found}
            for method in METHODS
            if (found := compare(method, results, options))
        },
        "paired": {
            title: {
                one.where: _test(_change(one, base), test)
                for one, base, test in pair(row, results, options)
            }
            for title, row in columns.items()
        },
    }


def _test(points: float, test: Difference | None) -> dict[str, Any]:
    rest = {"errors": None, "freedom": None, "p": None} if test is None else test._asdict()
    return {**rest, "points": points}
