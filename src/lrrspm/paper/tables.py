"""Tables: our numbers, the paper's beneath them, and how far they are apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from .. import config
from ..methods import METHODS
from . import experiments
from .experiments import BESIDE, OWN_CODEBOOK, TABLES, Column, Options, cell_settings, table_rows
from .page import Table
from .published import published, read_published
from .results import Results
from .settings import ALL_IMAGES, Setting

NOT_RUN = "not run"


@dataclass(frozen=True)
class Cell:
    """One number of ours over several splits, and the paper's where it has one.

    Attributes
    ----------
    mean, std : float or None
        None where nothing was run, or only one split.
    done, wanted : int
        Splits.
    paper, paper_std : float or None
    error : str or None
        Why splits are missing, where that is known.
    """

    mean: float | None
    std: float | None
    done: int
    wanted: int
    paper: float | None = None
    paper_std: float | None = None
    error: str | None = None

    @property
    def deviations(self) -> float | None:
        """Ours minus the paper's in standard deviations of both together."""
        if self.mean is None or self.paper is None:
            return None
        variance = (self.std or 0) ** 2 + (self.paper_std or 0) ** 2
        return (self.mean - self.paper) / variance**0.5 if variance else None

    def lines(self) -> tuple[str, ...]:
        """What a table shows."""
        lines = [_ours(self)]
        if self.paper is not None:
            far = "" if self.deviations is None else f" ({self.deviations:+.1f} sd)"
            lines.append(f"paper {_spread(self.paper, self.paper_std)}{far}")
        return tuple(lines)


def accuracy_cell(
    results: Results, settings: Sequence[Setting], paper: dict[str, Any] | None = None
) -> Cell:
    """Accuracy over splits."""
    rows = results.rows(settings)
    values = [row["accuracy"] for row in rows]
    records = [results.records[s.key] for s in settings if s.key in results.records]
    errors = [record["error"] for record in records if "error" in record]
    return Cell(
        mean=fmean(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        done=len(values),
        wanted=len(settings),
        paper=paper["accuracy"] if paper else None,
        paper_std=paper["std"] if paper else None,
        error=errors[0] if errors else None,
    )


def seconds_cell(
    results: Results,
    settings: Sequence[Setting],
    stages: Sequence[str],
    paper: float | None,
) -> Cell:
    """Mean seconds of some stages; our spread is not shown, the paper gives none."""
    rows = results.rows(settings)
    values = [sum(row["seconds"][stage] for stage in stages) for row in rows]
    mean = fmean(values) if values else None
    return Cell(mean, None, len(values), len(settings), paper)


def cells(table: str, results: Results, options: Options) -> dict[str, dict[str, Cell]]:
    """Numbers of a table by row and column."""
    found: dict[str, dict[str, Cell]] = {}
    for row, changes in table_rows(table, options).items():
        found[row] = {}
        for column in TABLES[table]:
            settings = cell_settings(column, changes, options)
            # A quick run is something else than what the paper did.
            paper = None if options.quick else _published(table, row, column)
            if table == "table10":
                for kind, stages in _TIMES.items():
                    theirs = paper[kind] if paper else None
                    cell = seconds_cell(results, settings, stages, theirs)
                    found[row][f"{column.dataset}, {kind}"] = cell
                continue
            title = _title(table, column, options)
            found[row][title] = accuracy_cell(results, settings, paper)
            if table in _WITH_SECONDS:
                theirs = paper.get("seconds") if paper else None
                stages = (*_TIMES["coding"], *_TIMES["classification"])
                found[row][f"{title}, s"] = seconds_cell(results, settings, stages, theirs)
    return found


_TIMES = {"coding": ("encode",), "classification": ("train", "test")}
_WITH_SECONDS = ("table3", "table4", "table5")


def make_table(table: str, results: Results, options: Options) -> Table:
    """A table of the paper."""
    found = cells(table, results, options)
    header = list(next(iter(found.values()))) if found else []
    rows = [((row,), *(cell.lines() for cell in line.values())) for row, line in found.items()]
    rows += [] if options.quick else _quoted(table, header)
    number = table.removeprefix("table")
    title = f"Table {number}. {read_published()[table]['title']}"
    return Table(title, ("method", *header), tuple(rows), tuple(_notes(table, found, options)))


def _quoted(table: str, header: Sequence[str]) -> list[tuple[tuple[str, ...], ...]]:
    """Rows of the paper that it quotes from elsewhere, and that nobody runs."""
    names = {cell["row"] for cell in read_published()[table]["cells"]}
    rows = []
    for name in sorted(names - set(METHODS)):
        line: list[tuple[str, ...]] = [(name,)]
        for title in header:
            cell = published(table, row=name, dataset=title)
            spread = (f"paper {_spread(cell['accuracy'], cell['std'])}",) if cell else ("",)
            line.append(spread)
        rows.append(tuple(line))
    return rows


def _notes(table: str, found: dict[str, dict[str, Cell]], options: Options) -> list[str]:
    every = [cell for line in found.values() for cell in line.values()]
    notes = [_about(table, options)]
    errors = Counter(cell.error for cell in every if cell.error)
    notes += [f"Failed: {error}" for error in errors]
    if any(cell.mean is None and not cell.error for cell in every):
        notes.append(
            f"{NOT_RUN.capitalize()}: the data set is not here, or it was not asked for; "
            "`lrrspm datasets` tells."
        )
    return notes


def _about(table: str, options: Options) -> str:
    if table == "table10":
        return (
            f"Seconds with {options.training(experiments.TIMED)} training images a class (the "
            "paper does not say how many): coding of all images on all cores, SIFT and reading "
            "apart; training and testing of one split."
        )
    about = "Percent, mean of the classes' accuracies"
    if table in _WITH_SECONDS:
        about += "; s: seconds of coding all images, training and testing one split, on all cores"
    if options.codebook == ALL_IMAGES:
        about += ". One codebook from all images, test images included, as the authors did"
        if OWN_CODEBOOK in table_rows(table, options):
            about += " (where the row says so one for each split, from its training images alone)"
    else:
        about += ". A codebook for each split, from its training images alone"
    return about + "; sd: standard deviations of both together."


def _title(table: str, column: Column, options: Options) -> str:
    if table == "table3":
        return f"k = {column.codebook_size}"
    if table in ("table4", "table5"):
        return column.dataset
    return f"{options.training(column.train_per_class)} a class"


def _published(table: str, row: str, column: Column) -> dict[str, Any] | None:
    where: dict[str, Any] = {"row": config.METHOD if row in BESIDE else row}
    where["dataset"] = column.dataset
    if table != "table10":
        where |= {"train_per_class": column.train_per_class, "codebook_size": column.codebook_size}
    return published(table, **where)


def _ours(cell: Cell) -> str:
    if cell.mean is None:
        return "failed" if cell.error else NOT_RUN
    missing = "" if cell.done == cell.wanted else f" ({cell.done} of {cell.wanted} splits)"
    return _spread(cell.mean, cell.std) + missing


def _spread(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def copies_table(results: Results, options: Options) -> Table:
    """What leaving copies out of the test does."""
    rows = []
    for method, (kept, left_out) in experiments.copies(options).items():
        with_copies, without = (accuracy_cell(results, half) for half in (kept, left_out))
        fewer = _fewer(results.rows(kept), results.rows(left_out))
        rows.append(
            (
                (method,),
                with_copies.lines(),
                without.lines(),
                (_change(with_copies, without),),
                fewer,
            )
        )
    return Table(
        "Copies in 15-Scene (LS)",
        ("method", "all test images", "without copies of training images", "change", "left out"),
        tuple(rows),
        ("Percent. Left out: test images a split that are, bit for bit, also training images.",),
    )


def _fewer(kept: Sequence[dict[str, Any]], left_out: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    def tested(row: dict[str, Any]) -> int:
        return sum(count for _, count in row["per_class"].values())

    if not left_out or len(kept) != len(left_out):
        return (NOT_RUN,)
    counts = [tested(a) - tested(b) for a, b in zip(kept, left_out, strict=True)]
    return (f"{min(counts)} to {max(counts)} of {tested(kept[0])}",)


def _change(before: Cell, after: Cell) -> str:
    if before.mean is None or after.mean is None:
        return NOT_RUN
    return f"{after.mean - before.mean:+.2f}"


def scaling_table(results: Results, options: Options) -> Table:
    """What the scale of the histograms does."""
    rows = []
    for name, line in experiments.scaling(options).items():
        machine = name.partition(",")[0].capitalize()
        ours = name.endswith("(ours)") and not options.quick
        row: list[tuple[str, ...]] = [(name,)]
        for kind in ("BOF", "SPM"):
            paper = published("table4", row=machine + kind, dataset="OT") if ours else None
            row.append(accuracy_cell(results, line[kind], paper).lines() if kind in line else ("",))
        rows.append(tuple(row))
    return Table(
        "Histograms on OT, scaled in different ways",
        ("", "BOF", "SPM"),
        tuple(rows),
        ("Percent.", *_unconverged(results, options)),
    )


def _unconverged(results: Results, options: Options) -> list[str]:
    """A note on machines whose training stopped before it was done."""
    names = [
        name
        for name, line in experiments.scaling(options).items()
        if any("warnings" in row for cell in line.values() for row in results.rows(cell))
    ]
    return [f"Not trained to the end in 1000 passes: {', '.join(names)}."] if names else []


def factor_table(results: Results, options: Options) -> Table:
    """What each factor does to LrrSPM where it differs from the paper."""
    sets = experiments.FACTOR_SETS
    names = [f"{dataset}, {options.training(train)} a class" for dataset, train in sets]
    rows: list[tuple[tuple[str, ...], ...]] = []
    bases = []
    first: list[tuple[str, ...]] = [("as in the tables",)]
    for dataset, train in sets:
        table = next(t for t, columns in TABLES.items() if Column(dataset, train) in columns)
        paper = (
            None
            if options.quick
            else published(table, row=config.METHOD, dataset=dataset, train_per_class=train)
        )
        base = accuracy_cell(results, experiments.factor_base(dataset, train, options), paper)
        bases.append(base)
        first.append(base.lines())
    rows.append(tuple(first))
    for group, factors in experiments.FACTORS.items():
        for name, changes in factors.items():
            row: list[tuple[str, ...]] = [(f"{group}: {name}",)]
            for (dataset, train), base in zip(sets, bases, strict=True):
                splits = experiments.factor(dataset, train, changes, options)
                row.append(_compared(accuracy_cell(results, splits), base))
            rows.append(tuple(row))
    rows.append(_protocol_row("twice as many splits", sets, bases, results, options))
    rows.append(_overall_row(sets, bases, results, options))
    return Table(
        "LrrSPM, one factor changed at a time",
        ("factor", *names),
        tuple(rows),
        (
            "Percent, and the change from the first row, on the same splits. Nothing was chosen by "
            "these numbers: they are measured on test images.",
        ),
    )


def _protocol_row(
    name: str,
    sets: Sequence[tuple[str, int]],
    bases: Sequence[Cell],
    results: Results,
    options: Options,
) -> tuple[tuple[str, ...], ...]:
    line = [
        _compared(accuracy_cell(results, experiments.more_rounds(*where, options)), base)
        for where, base in zip(sets, bases, strict=True)
    ]
    return ((f"protocol: {name}",), *line)


def _overall_row(
    sets: Sequence[tuple[str, int]], bases: Sequence[Cell], results: Results, options: Options
) -> tuple[tuple[str, ...], ...]:
    line = []
    for where, base in zip(sets, bases, strict=True):
        rows = results.rows(experiments.factor_base(*where, options))
        values = [row["overall"] for row in rows]
        mean = fmean(values) if values else None
        line.append(_compared(Cell(mean, None, base.done, base.wanted), base))
    return (("protocol: share of all test images, not mean over classes",), *line)


def _compared(cell: Cell, base: Cell) -> tuple[str, ...]:
    if cell.mean is None or base.mean is None:
        return cell.lines()
    return (f"{_ours(cell)}, {_change(base, cell)}",)
