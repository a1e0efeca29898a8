"""Tables: our numbers, the paper's below them, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from .. import config
from ..methods import METHODS
from ..report.page import Table, verbatim
from . import experiments
from .experiments import OWN_CODEBOOK, TABLES, Column, Options, cell_settings, table_rows
from .notes import QUICK
from .published import SPLITS, published, read_published
from .results import Results
from .settings import ALL_IMAGES, Setting
from .significance import Difference, say_p, welch

NOT_RUN = "not run"


@dataclass(frozen=True)
class Cell:
    """One number over several splits, and the paper's if it has one.

    Attributes
    ----------
    mean, std : float or None
        None if too few splits were run.
    done, wanted : int
        Numbers of splits.
    paper, paper_std : float or None
    error : str or None
        Why splits are missing, if known.
    other_data : bool
        True if the images are not the published ones.
    splits : tuple of float
        Accuracy of each split that was run, in their order.
    """

    mean: float | None
    std: float | None
    done: int
    wanted: int
    paper: float | None = None
    paper_std: float | None = None
    error: str | None = None
    other_data: bool = False
    splits: tuple[float, ...] = ()

    @property
    def difference(self) -> Difference | None:
        """Ours minus the paper's by Welch's test, if both have a spread to judge it by."""
        if self.mean is None or self.std is None or self.other_data:
            return None
        if self.paper is None or self.paper_std is None:
            return None
        return welch(self.mean, self.std, self.done, self.paper, self.paper_std, SPLITS)

    def lines(self) -> tuple[str, ...]:
        """Return the lines of a table cell: ours, the paper's in parentheses, the difference."""
        lines = [self.ours()]
        if self.paper is not None:
            lines.append(f"({spread(self.paper, self.paper_std)})")
        if self.difference is not None:
            lines.append(f"{self.difference.errors:+.1f} se, {say_p(self.difference.p)}")
        return tuple(lines)

    def ours(self) -> str:
        """Return our number as text."""
        if self.mean is None:
            return "failed" if self.error else NOT_RUN
        missing = "" if self.done == self.wanted else f" ({self.done} of {self.wanted} splits)"
        return spread(self.mean, self.std) + missing

    def change_from(self, base: Cell) -> float | None:
        """Return our mean minus that of another cell."""
        return None if self.mean is None or base.mean is None else self.mean - base.mean


def accuracy_cell(
    results: Results, settings: Sequence[Setting], paper: dict[str, Any] | None = None
) -> Cell:
    """Return the accuracy over splits."""
    rows = results.rows(settings)
    values = [row["accuracy"] for row in rows]
    errors = results.errors(settings)
    return Cell(
        mean=fmean(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        done=len(values),
        wanted=len(settings),
        paper=paper["accuracy"] if paper else None,
        paper_std=paper["std"] if paper else None,
        error=errors[0] if errors else None,
        other_data=any("other_data" in row for row in rows),
        splits=tuple(values),
    )


def seconds_cell(
    results: Results, settings: Sequence[Setting], stages: Sequence[str], paper: float | None
) -> Cell:
    """Return the mean seconds of some stages; without spread, as in the paper."""
    rows = results.rows(settings)
    values = [sum(row["seconds"][stage] for stage in stages) for row in rows]
    return Cell(fmean(values) if values else None, None, len(values), len(settings), paper)


def cells(table: str, results: Results, options: Options) -> dict[str, dict[str, Cell]]:
    """Return the numbers of a table by row and column."""
    found: dict[str, dict[str, Cell]] = {}
    for row, changes in table_rows(table, options).items():
        found[row] = {}
        for column in TABLES[table]:
            settings = cell_settings(column, changes, options)
            # A quick run is not comparable with the paper.
            paper = None if options.quick else find_published(table, row, column)
            if table == "table10":
                for kind, (stages, field) in _TIMES.items():
                    theirs = paper[field] if paper else None
                    cell = seconds_cell(results, settings, stages, theirs)
                    found[row][f"{column.dataset} {kind}"] = cell
                continue
            title = _title(table, column, options)
            found[row][title] = accuracy_cell(results, settings, paper)
            if table in _WITH_SECONDS:
                theirs = paper.get("seconds") if paper else None
                cell = seconds_cell(results, settings, ("encode", "train", "test"), theirs)
                found[row][f"{title}, s"] = cell
    return found


# Columns of table 10: stages of ours, and a field of the paper's cells.
_TIMES = {"coding": (("encode",), "coding"), "classifying": (("train", "test"), "classification")}
_WITH_SECONDS = ("table3", "table4", "table5")


def make_table(table: str, results: Results, options: Options) -> Table:
    """Return a table of the paper."""
    found = cells(table, results, options)
    if not found:
        return Table(_table_title(table), ("method",), ((("no method selected",),),))
    header = list(next(iter(found.values())))
    rows = [((row,), *(cell.lines() for cell in line.values())) for row, line in found.items()]
    rows += [] if options.quick else _quoted(table, header)
    lines = [*_notes(table, found, options)]
    if table in (*_WITH_SECONDS, "table10"):
        lines += results.remarks(column.dataset for column in TABLES[table])
    return Table(_table_title(table), ("method", *header), tuple(rows), tuple(lines))


def _table_title(table: str) -> str:
    return f"Table {table.removeprefix('table')}. {read_published()[table]['title']}"


def _quoted(table: str, header: Sequence[str]) -> list[tuple[tuple[str, ...], ...]]:
    """Return rows that the paper quotes from elsewhere, which we do not run."""
    rows: list[tuple[tuple[str, ...], ...]] = []
    for name in sorted({cell["row"] for cell in read_published()[table]["cells"]} - set(METHODS)):
        found = [published(table, row=name, dataset=title) for title in header]
        line = [("", f"({spread(c['accuracy'], c['std'])})") if c else ("",) for c in found]
        rows.append(((name,), *line))
    return rows


def _notes(table: str, found: dict[str, dict[str, Cell]], options: Options) -> list[str]:
    every = [cell for line in found.values() for cell in line.values()]
    notes = [QUICK] if options.quick else []
    notes.append(_about(table, options))
    errors = dict.fromkeys(c.error for c in every if c.error)
    notes += [f"Failed: {verbatim(error)}" for error in errors]
    if any(cell.other_data for cell in every):
        notes.append("Not compared: the images are not the published ones.")
    if any(cell.mean is None and not cell.error for cell in every):
        notes.append("Not run: data set missing, or not requested; see `lrrspm datasets`.")
    return notes


def _about(table: str, options: Options) -> str:
    if table == "table10":
        return (
            f"Seconds with {options.training(experiments.TIMED)} training images per class (the "
            "paper does not say how many): coding all images on all cores, without reading and "
            "SIFT; training and testing on one split."
            + ("" if options.quick else " In parentheses: the paper's, on its machine.")
        )
    about = "Mean per-class accuracy, percent"
    if table in _WITH_SECONDS:
        about += "; s: seconds to code all images and to train and test on one split, on all cores"
    if options.codebook == ALL_IMAGES:
        about += ". One codebook from all images, including test images, as the authors did"
        if OWN_CODEBOOK in table_rows(table, options):
            about += " (rows that say so: one per split, from its training images only)"
    else:
        about += ". One codebook per split, from its training images only"
    compared = (
        ". In parentheses: the paper's. se: the difference in standard errors of the two means; p: "
        "the probability of one as large by chance (Welch's test)."
    )
    return about + ("." if options.quick else compared)


def _title(table: str, column: Column, options: Options) -> str:
    if table == "table3":
        return f"k = {column.codebook_size}"
    if table in ("table4", "table5"):
        return column.dataset
    return f"{options.training(column.train_per_class)} per class"


def find_published(table: str, row: str, column: Column) -> dict[str, Any] | None:
    """Return the paper's cell; a variant of LrrSPM is compared with the paper's LrrSPM."""
    where: dict[str, Any] = {"row": config.PAPER_METHOD if row in experiments.EXTRA_ROWS else row}
    where["dataset"] = column.dataset
    if table != "table10":
        where |= {"train_per_class": column.train_per_class, "codebook_size": column.codebook_size}
    return published(table, **where)


def spread(mean: float, std: float | None) -> str:
    """Write a mean with its standard deviation, if it has one."""
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
