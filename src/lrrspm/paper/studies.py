"""Why numbers differ: copies, the scale of histograms, one factor at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from .. import config
from ..report.page import Table
from . import experiments
from .experiments import AS_IS, FACTOR_SETS, FACTORS, TABLES, Column, Options
from .figures import curve_points
from .published import published
from .results import Results
from .settings import Setting
from .significance import paired, say_p
from .tables import NOT_RUN, Cell, accuracy_cell

DOES_NOT_APPLY = "does not apply"
Cells = dict[str, dict[str, Cell | None]]


def copies_cells(results: Results, options: Options) -> Cells:
    """Return the accuracy on LS with and without test images that have a training copy."""
    return {
        method: {
            "all test images": accuracy_cell(results, kept),
            "without copies of training images": accuracy_cell(results, left_out),
        }
        for method, (kept, left_out) in experiments.copies(options).items()
    }


def copies_table(results: Results, options: Options) -> Table:
    """Return a table of the effect of test images that have a training copy."""
    rows = []
    for method, halves in experiments.copies(options).items():
        kept, left_out = (accuracy_cell(results, half) for half in halves)
        change = _signed(left_out.change_from(kept))
        counts = _left_out(*(results.rows(half) for half in halves))
        rows.append(((method,), kept.lines(), left_out.lines(), (change,), (counts,)))
    note = "Percent. Left out: test images per split that are exact copies of training images."
    return Table(
        "Copies in 15-Scene (LS)",
        ("method", "all test images", "without copies of training images", "change", "left out"),
        tuple(rows),
        (note,),
    )


def _left_out(kept: Sequence[dict[str, Any]], left_out: Sequence[dict[str, Any]]) -> str:
    def tested(row: dict[str, Any]) -> int:
        return sum(count for _, count in row["per_class"].values())

    if not left_out or len(kept) != len(left_out):
        return NOT_RUN
    counts = [tested(a) - tested(b) for a, b in zip(kept, left_out, strict=True)]
    return f"{min(counts)} to {max(counts)} of {tested(kept[0])}"


def scaling_cells(results: Results, options: Options) -> Cells:
    """Return the accuracy of BOF and SPM on OT for differently scaled histograms."""
    found: Cells = {}
    for name, line in experiments.scaling(options).items():
        machine = name.partition(",")[0].capitalize()
        ours = name.endswith("(ours)") and not options.quick
        found[name] = {}
        for kind, settings in line.items():
            paper = published("table4", row=machine + kind, dataset="OT") if ours else None
            found[name][kind] = accuracy_cell(results, settings, paper)
    return found


def scaling_table(results: Results, options: Options) -> Table:
    """Return a table of the effect of the scale of the histograms."""
    rows = [
        ((name,), *_lines([line.get(kind) for kind in ("BOF", "SPM")]))
        for name, line in scaling_cells(results, options).items()
    ]
    stopped = [
        name
        for name, line in experiments.scaling(options).items()
        if any("warnings" in row for cell in line.values() for row in results.rows(cell))
    ]
    note = [f"Training not converged after 1000 passes: {', '.join(stopped)}."] if stopped else []
    return Table(
        "Differently scaled histograms on OT",
        ("", "BOF", "SPM"),
        tuple(rows),
        ("Percent." if options.quick else "Percent; in parentheses: the paper's.", *note),
    )


OVERALL = "protocol: accuracy over all test images, not mean over classes"


def factor_cells(results: Results, options: Options) -> Cells:
    """Return the accuracy of LrrSPM with one factor changed at a time."""
    factors = (AS_IS, *FACTORS)
    found: Cells = {name: {} for name in (*(factor.title for factor in factors), OVERALL)}
    for dataset, train in FACTOR_SETS:
        column = f"{dataset}, {options.training(train)} per class"
        for factor in factors:
            settings = factor.settings(dataset, train, options)
            paper = _paper(dataset, train) if factor is AS_IS and not options.quick else None
            cell = accuracy_cell(results, settings, paper) if settings else None
            found[factor.title][column] = cell
        found[OVERALL][column] = _overall(results, AS_IS.settings(dataset, train, options))
    return found


def factor_table(results: Results, options: Options) -> Table:
    """Return a table of the effect of each factor on LrrSPM."""
    found = factor_cells(results, options)
    base = found[AS_IS.name]
    rows = [((AS_IS.name,), *_lines(list(base.values())))]
    for name, line in found.items():
        if name != AS_IS.name:
            known = name in _SAME_SPLITS
            rows.append(
                ((name,), *(_compared(cell, base[title], known) for title, cell in line.items()))
            )
    note = (
        "Percent, and the change from the first row; p: paired t-test, where the splits are the "
        "same. With so many factors, one in twenty has p < 0.05 by chance. These numbers are from "
        "test images, so nothing was chosen by them."
    )
    return Table("LrrSPM, one factor changed at a time", ("factor", *base), tuple(rows), (note,))


def say_factors(results: Results, options: Options) -> list[str]:
    """State for each data set the gap to the paper and the factors that matter most."""
    found = factor_cells(results, options)
    said = []
    for title, base in found[AS_IS.name].items():
        if base is None or base.mean is None or base.paper is None or base.difference is None:
            continue
        changes: dict[str, float] = {}
        for name, line in found.items():
            cell = line[title]
            change = None if cell is None else cell.change_from(base)
            if change is not None and name != AS_IS.name:
                changes[name] = change
        gains = sorted(changes, key=lambda name: -changes[name])[:4]
        losses = sorted(changes, key=lambda name: changes[name])[:3]
        up, down = (
            "; ".join(f"{name} {changes[name]:+.2f}" for name in names) for names in (gains, losses)
        )
        said.append(
            f"**{title}**: {base.mean - base.paper:+.2f} points from the paper, "
            f"{base.difference.errors:+.1f} standard errors. Largest gains: {up}. Largest losses: "
            f"{down}."
        )
    return said


# Factors that could explain a shortfall: what each would mean, and its titles among the factors.
_CAUSES = {
    "flat patches were normalized like all others": ("descriptors: flat patches normalized too",),
    "training views were not random": ("protocol: training views at equal angles",),
    "codes were normalized, which Yale B rules out": ("codes: normalized (Algorithm 1)",),
    "another sample or seed of the codebook": (
        "sampling: 20 000 descriptors",
        "sampling: second codebook seed",
    ),
    "C was the number of classes": tuple(f.title for f in FACTORS if "a bug in" in f.title),
    "images were read or resized in another way": tuple(
        f.title for f in FACTORS if f.group == "image reading"
    ),
}


def say_causes(results: Results, options: Options) -> list[str]:
    """List candidate causes of a shortfall of LrrSPM, with what each changes here."""
    found = factor_cells(results, options)
    said = []
    for cause, titles in _CAUSES.items():
        parts = []
        for title in found[AS_IS.name]:
            base = found[AS_IS.name][title]
            lines = (found.get(name, {}).get(title) for name in titles)
            changes = [
                change
                for cell in lines
                if cell is not None and base is not None
                if (change := cell.change_from(base)) is not None
            ]
            if changes:
                dataset = title.partition(",")[0]
                low, high = min(changes), max(changes)
                span = _signed(low) if low == high else f"{_signed(low)} to {_signed(high)}"
                parts.append(f"{span} on {dataset}")
        if parts:
            said.append(f"{cause[0].upper()}{cause[1:]}: {', '.join(parts)}.")
    curve = [mean for mean, _ in curve_points(results, options)["lambda"].values()]
    if curve:
        said.append(
            "The best of several runs was reported: the paper's OT is the highest value of its "
            f"curve over lambda (figure 4); ours spans {max(curve) - min(curve):.2f} points."
        )
    return said


def _paper(dataset: str, train: int) -> dict[str, Any] | None:
    table = next(t for t, columns in TABLES.items() if Column(dataset, train) in columns)
    return published(table, row=config.PAPER_METHOD, dataset=dataset, train_per_class=train)


def _overall(results: Results, settings: Sequence[Setting]) -> Cell:
    values = [row["overall"] for row in results.rows(settings)]
    return Cell(fmean(values) if values else None, None, len(values), len(settings))


def _lines(cells: Sequence[Cell | None]) -> list[tuple[str, ...]]:
    return [(DOES_NOT_APPLY,) if cell is None else cell.lines() for cell in cells]


_SAME_SPLITS = {f.title for f in FACTORS if f.rounds == 1 and "choice" not in f.changes}


def _compared(cell: Cell | None, base: Cell | None, same_splits: bool) -> tuple[str, ...]:
    if cell is None or base is None:
        return (DOES_NOT_APPLY,)
    change = cell.change_from(base)
    if change is None:
        return (cell.ours(),)
    comparable = same_splits and cell.done == cell.wanted == base.done
    test = paired(cell.splits, base.splits) if comparable else None
    known = "" if test is None else f", {say_p(test.p)}"
    return (f"{cell.ours()}, {_signed(change)}{known}",)


def _signed(change: float | None) -> str:
    return NOT_RUN if change is None else f"{round(change, 2) + 0:+.2f}"


STUDIES: dict[str, tuple[Callable[..., Cells], Callable[..., Table]]] = {
    "copies": (copies_cells, copies_table),
    "scaling": (scaling_cells, scaling_table),
    "factors": (factor_cells, factor_table),
}
"""The numbers of each study, and its table."""
