"""The command ``lrrspm paper``: repeat the paper's experiments."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import config
from .._support.text import printable
from .app import SKIPPED, command
from .options import DataDir, Jobs, Json, Seed, as_local
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from .._support.stages import Listener
    from ..paper.experiments import Options
    from ..paper.results import Results
    from ..paper.tables import Cell
    from ..report.page import Table


_PAUSE = 30
"""Seconds between progress lines without a terminal."""


class Codebook(StrEnum):
    """Images that codebooks are learned from."""

    all = "all"
    training = "training"


class Format(StrEnum):
    """Kinds of output."""

    text = "text"
    markdown = "markdown"
    html = "html"


@command
def paper(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="table1 to table10, figure1, figure1b, figure2, figure3, figure4; statistics (do "
            "we agree with the paper?), claims (its sentences, one by one); copies, scaling, "
            "factors (why numbers differ); all; or report (a page of the results so far).",
        ),
    ],
    results_dir: Annotated[
        Path,
        typer.Option("--results", metavar="DIR", parser=as_local, help="Folder for the results."),
    ] = Path("lrrspm-paper"),
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=as_local,
            help="Page that 'all' and 'report' write, .html or .md. Default: report.html in "
            "--results.",
        ),
    ] = None,
    data_dir: DataDir = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few images, small codebooks: a trial run of two minutes."),
    ] = False,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods", metavar="NAMES", help="Methods, separated by commas. Default: all seven."
        ),
    ] = None,
    splits: Annotated[
        int, typer.Option("--splits", min=1, metavar="N", help="Number of random splits.")
    ] = config.SPLITS,
    codebook: Annotated[
        Codebook,
        typer.Option(
            "--codebook",
            help="Learn codebooks from all images, test images too, as the authors did, or from "
            "the training images of each split.",
        ),
    ] = Codebook.all,
    normalize_codes: Annotated[
        bool,
        typer.Option(
            "--normalize-codes",
            help="Divide each code by its length, as in Algorithm 1 but not in the authors' "
            "program.",
        ),
    ] = False,
    leave_out_copies: Annotated[
        bool,
        typer.Option("--leave-out-copies", help="Do not test on copies of training images."),
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="Format of printed tables.")
    ] = Format.text,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Repeat the paper's tables and figures, with its numbers next to ours.

    Results are stored as they are computed, so an interrupted run resumes.
    Missing data sets are marked "not run"; 'lrrspm datasets' lists them.

    Example: lrrspm paper table4 --quick
    """
    from ..paper.experiments import NOT_RUN_PARTS, PARTS, Options
    from ..paper.results import Results
    from ..paper.settings import ALL_IMAGES, TRAINING_IMAGES

    parts = _check_parts(what, (*PARTS, *NOT_RUN_PARTS))
    paged = bool({"all", "report"} & set(what))
    _check_output(output, paged)
    options = Options(
        quick=quick,
        methods=_check_methods(methods),
        splits=splits,
        codebook=ALL_IMAGES if codebook == Codebook.all else TRAINING_IMAGES,
        normalize_codes=normalize_codes,
        leave_out_copies=leave_out_copies,
        seed=seed,
    )
    results = Results(results_dir)
    run = [part for part in parts if part in PARTS]
    failed = _compute(run, results, data_dir, options, jobs) if run else []
    _note_outdated(results, options)
    written = _write_figures(parts, results, options)
    if paged:
        written.append(_write_page(results, options, output or results_dir / "report.html"))
    if as_json:
        print_json(
            results=str(results.path),
            written=[str(path) for path in written],
            failed=failed,
            parts={part: _describe(part, results, options) for part in parts},
        )
    else:
        for part in parts:
            _show(part, results, options, form)
        for path in written:
            print(f"wrote {printable(path)}")
        if parts:
            print(f"results: {printable(results.path)}")
    if failed:
        raise typer.Exit(SKIPPED)


def _check_parts(what: list[str], known: tuple[str, ...]) -> list[str]:
    """Return the parts to run; none for "report", which shows existing results."""
    choices = (*known, "all", "report")
    for name in what:
        if name not in choices:
            reason = f"{name!r} is not one of: {', '.join(choices)}"
            raise typer.BadParameter(reason, param_hint="WHAT")
    return [part for part in known if part in what or "all" in what]


def _check_output(output: Path | None, paged: bool) -> None:
    if output is not None and not paged:
        raise typer.BadParameter("only 'all' and 'report' write a page", param_hint="-o")
    if output is not None and output.suffix not in (".html", ".md"):
        raise typer.BadParameter("the page must be a .html or .md file", param_hint="-o")


def _check_methods(given: str | None) -> tuple[str, ...]:
    from ..methods import METHODS, find_method

    names = METHODS if given is None else given.split(",")
    try:
        return tuple(find_method(name.strip()).name for name in names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--methods") from None


def _compute(
    parts: list[str], results: Results, data_dir: Path | None, options: Options, jobs: int
) -> list[str]:
    """Compute missing results; return the errors."""
    from .._support.stages import Stages
    from ..datasets import data_root, locate
    from ..paper import figures
    from ..paper.experiments import needed
    from ..paper.runner import run

    root = data_root(data_dir)
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root}: no such folder, so no data sets; set --data-dir, or download some "
            "with 'lrrspm datasets fetch'"
        )
    settings = [setting for part in parts for setting in needed(part, options)]
    absent = [n for n in dict.fromkeys(s.dataset for s in settings) if locate(n, root) is None]
    if absent:
        print(
            f"data sets missing, not run: {', '.join(absent)} (see 'lrrspm datasets')",
            file=sys.stderr,
        )
    drawn = [part for part in ("figure1", "figure3") if part in parts]
    try:
        with progress() as listener:
            stages = Stages(listener or _lines())
            for part in drawn:
                figures.compute(part, results, root, options, jobs, stages)
            run(settings, results, root, jobs, stages)
    except KeyboardInterrupt:
        print(f"results so far: {printable(results.path)}; run it again to resume", file=sys.stderr)
        raise
    missing = [part for part in drawn if not figures.has_numbers(part, results, options)]
    errors = [r["error"] for part in missing for r in results.figures(part) if "error" in r]
    return list(dict.fromkeys(errors + results.errors(settings)))


def _note_outdated(results: Results, options: Options) -> None:
    from ..paper.report import say_outdated, shown

    old = say_outdated(results, shown(results, options))
    if old:
        print(f"note: {old}", file=sys.stderr)


def _lines() -> Listener:
    """Return a listener that prints a line now and then, for use without a terminal."""
    last = time.monotonic()

    def listen(name: str, done: int, total: int) -> None:
        nonlocal last
        if name == "results" and (done == total or time.monotonic() - last > _PAUSE):
            last = time.monotonic()
            print(f"{done} of {total} results", file=sys.stderr, flush=True)

    return listen


def _write_figures(parts: list[str], results: Results, options: Options) -> list[Path]:
    from ..paper import figures
    from ..paper.experiments import FIGURES, SCHEMATICS

    wanted = [part for part in parts if part in (*FIGURES, *SCHEMATICS)]
    drawn = {part: figures.draw(part, results, options) for part in wanted}
    saved = (figures.save(name, made, results.folder) for name, made in drawn.items() if made)
    return [path for paths in saved for path in paths]


def _write_page(results: Results, options: Options, path: Path) -> Path:
    """Write the page; figures of a Markdown page go into a folder next to it."""
    from .._support.files import write_atomically
    from ..paper.report import make_page, shown
    from ..report.page import to_html, to_markdown

    if not shown(results, options):
        count = len(results.records)
        other = f"; {count} with other options, such as --quick" if count else ""
        warnings.warn(f"{results.path}: no results with these options{other}", stacklevel=2)
    page = make_page(results, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".md":
        folder = path.parent / "figures"
        folder.mkdir(exist_ok=True)
        for figure in page.figures():
            write_atomically(folder / f"{figure.name}.svg", figure.svg)
        content = to_markdown(page, folder.name)
    else:
        content = to_html(page)
    write_atomically(path, content.encode())
    return path


def _describe(part: str, results: Results, options: Options) -> Any:
    """Return a part as JSON."""
    from ..paper import agreement, claims, figures, reference
    from ..paper.experiments import SCHEMATICS

    if part == "figure4":
        return {
            name: [{"value": v, "mean": m, "std": s} for v, (m, s) in curve.items()]
            for name, curve in figures.curve_points(results, options).items()
        }
    if part in ("figure1", "figure3"):
        record = figures.find(part, results, options)
        return record and record["values"]
    if part in SCHEMATICS:
        return None
    if part in reference.REFERENCE:
        return reference.describe(part, results, options)
    if part == "statistics":
        return agreement.describe(results, options)
    if part == "claims":
        return claims.describe(results, options)
    return {
        row: {name: cell and _cell_json(cell) for name, cell in line.items()}
        for row, line in _cells(part, results, options).items()
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    test = cell.difference
    known = {"standard_errors": test and test.errors, "p": test and test.p}
    return {**asdict(cell), **known}


def _cells(part: str, results: Results, options: Options) -> Any:
    from ..paper.studies import STUDIES
    from ..paper.tables import cells

    made = STUDIES[part][0] if part in STUDIES else partial(cells, part)
    return made(results, options)


def _tables(part: str, results: Results, options: Options) -> list[Table]:
    """Return the tables that show a part."""
    from ..paper import agreement
    from ..paper.claims import claims_table
    from ..paper.reference import REFERENCE
    from ..paper.studies import STUDIES
    from ..paper.tables import make_table

    if part == "statistics":
        made = [agreement.agreement_table, agreement.errors_table, agreement.paired_table]
    elif part == "claims":
        made = [claims_table]
    elif part in STUDIES:
        made = [STUDIES[part][1]]
    else:
        made = [REFERENCE.get(part, partial(make_table, part))]
    return [one(results, options) for one in made]


def _show(part: str, results: Results, options: Options, form: Format) -> None:
    from ..paper.experiments import FIGURES, SCHEMATICS
    from ..paper.report import say, say_caption
    from ..report.page import html_table, markdown_table

    if part in (*FIGURES, *SCHEMATICS):
        tell = say if part in FIGURES else say_caption
        print_rich(text(f"{part}: {tell(part, results, options)}"))
        print()
        return
    for table in _tables(part, results, options):
        if form == Format.text:
            _print(table)
        elif form == Format.html:
            print(html_table(table))
        else:
            print("\n\n".join([f"**{table.title}**", markdown_table(table), *table.notes]) + "\n")


def _print(table: Table) -> None:
    from rich.table import Table as RichTable

    made = RichTable(box=None, pad_edge=False)
    for place, name in enumerate(table.header):
        made.add_column(text(name), justify="right" if place else "left")
    for row in table.rows:
        made.add_row(*map(_cell, row))
    print(table.title)
    print_rich(made)
    for note in table.notes:
        print_rich(text(note))
    print()


def _cell(lines: tuple[str, ...]) -> Any:
    """Return a cell of several lines, the first in bold."""
    from rich.text import Text

    first, *others = lines
    return Text.assemble((first, "bold"), *((f"\n{line}", "dim") for line in others))
