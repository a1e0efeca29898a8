"""The command that repeats the paper's experiments."""

from __future__ import annotations

import sys
import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import config
from .app import SKIPPED, command
from .options import DataDir, Jobs, Json, Seed
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from .._support.stages import Listener
    from ..paper.experiments import Options
    from ..paper.results import Results
    from ..report.page import Table


_PAUSE = 30
"""Seconds between two lines of progress where there is no terminal."""


class Codebook(StrEnum):
    """Where the codebook comes from."""

    all = "all"
    training = "training"


class Format(StrEnum):
    """How tables are printed."""

    text = "text"
    markdown = "markdown"
    html = "html"


@command
def paper(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="table3, table4, table5, table7, table8, table9, table10, figure1, figure3, "
            "figure4; copies, scaling, factors: why numbers differ; all; or report: the page of "
            "what was run so far.",
        ),
    ],
    results_dir: Annotated[
        Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")
    ] = Path("lrrspm-paper"),
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where all and report write the page, .html or .md; else report.html in "
            "--results.",
        ),
    ] = None,
    data_dir: DataDir = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few images, small codebooks: to see it work in two minutes."),
    ] = False,
    methods: Annotated[
        str | None,
        typer.Option("--methods", help="Methods with commas between them; else all seven."),
    ] = None,
    splits: Annotated[int, typer.Option("--splits", min=1, help="Random splits.")] = config.SPLITS,
    codebook: Annotated[
        Codebook,
        typer.Option(
            "--codebook",
            help="Learnt from all images, test images too, as the authors did, or from the "
            "training images of each split.",
        ),
    ] = Codebook.all,
    normalize_codes: Annotated[
        bool,
        typer.Option(
            "--normalize-codes",
            help="Divide codes by their length, as Algorithm 1 says but the program does not do.",
        ),
    ] = False,
    leave_out_copies: Annotated[
        bool,
        typer.Option(
            "--leave-out-copies", help="Do not test images that are copies of training images."
        ),
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="How tables are printed.")] = Format.text,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Repeat the paper's tables and figures, its numbers beside ours.

    Results are kept as they are made: a run that was stopped goes on where it
    was, and what is there already is not computed again. Data sets that are
    not on this machine are marked "not run"; 'lrrspm datasets' lists them.

    Example: lrrspm paper table4 --quick
    """
    from ..paper.experiments import PARTS, Options
    from ..paper.results import Results
    from ..paper.settings import ALL_IMAGES, TRAINING_IMAGES

    parts = _check_parts(what, PARTS)
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
    failed = _compute(parts, results, data_dir, options, jobs) if parts else []
    written = _write_figures(parts, results, options)
    if paged:
        _warn_of_none(results, options)
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
            print(f"wrote {path}")
        if parts:
            print(f"results are kept in {results.path}")
    if failed:
        raise typer.Exit(SKIPPED)


def _check_parts(what: list[str], known: tuple[str, ...]) -> list[str]:
    """The parts to run; none for "report", which shows what is there."""
    unknown = [name for name in what if name not in (*known, "all", "report")]
    if unknown:
        choices = ", ".join((*known, "all", "report"))
        raise typer.BadParameter(f"{unknown[0]!r} is none of: {choices}", param_hint="WHAT")
    return [part for part in known if part in what or "all" in what]


def _check_output(output: Path | None, paged: bool) -> None:
    if output is None:
        return
    if not paged:
        raise typer.BadParameter("is for 'all' and 'report', which write a page", param_hint="-o")
    if output.suffix not in (".html", ".md"):
        raise typer.BadParameter("the page is a .html or a .md file", param_hint="-o")


def _check_methods(given: str | None) -> tuple[str, ...]:
    from ..methods import METHODS, find_method

    names = tuple(METHODS) if given is None else tuple(name.strip() for name in given.split(","))
    try:
        return tuple(find_method(name).name for name in names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--methods") from None


def _compute(
    parts: list[str], results: Results, data_dir: Path | None, options: Options, jobs: int
) -> list[str]:
    """Compute what is missing; returns what failed."""
    from .._support.stages import Stages
    from ..datasets import data_root, locate
    from ..paper import figures
    from ..paper.experiments import needed
    from ..paper.runner import run

    root = data_root(data_dir)
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root}: no such folder, so there are no data sets; give --data-dir, or get some with "
            "'lrrspm datasets fetch'"
        )
    settings = [setting for part in parts for setting in needed(part, options)]
    absent = [n for n in dict.fromkeys(s.dataset for s in settings) if locate(n, root) is None]
    if absent:
        names = ", ".join(absent)
        print(f"not here, and not run: {names} (see 'lrrspm datasets')", file=sys.stderr)
    drawn = [part for part in ("figure1", "figure3") if part in parts]
    try:
        with progress() as listener:
            stages = Stages(listener or _lines())
            for part in drawn:
                figures.compute(part, results, root, options, jobs, stages)
            run(settings, results, root, jobs, stages)
    except KeyboardInterrupt:
        print(f"what was computed is in {results.path}; run it again to go on", file=sys.stderr)
        raise
    missing = [part for part in drawn if not figures.has_numbers(part, results, options)]
    errors = [r["error"] for part in missing for r in results.figures(part) if "error" in r]
    return list(dict.fromkeys(errors + results.errors(settings)))


def _lines() -> Listener:
    """A listener for where there is no terminal: a line now and then."""
    last = time.monotonic()

    def listen(name: str, done: int, total: int) -> None:
        nonlocal last
        if name == "results" and (done == total or time.monotonic() - last > _PAUSE):
            last = time.monotonic()
            print(f"{done} of {total} results", file=sys.stderr, flush=True)

    return listen


def _write_figures(parts: list[str], results: Results, options: Options) -> list[Path]:
    from ..paper import figures
    from ..paper.experiments import FIGURES

    written = []
    for part in (p for p in parts if p in FIGURES):
        figure = figures.draw(part, results, options)
        if figure is not None:
            written += figures.save(part, figure, results.folder)
    return written


def _warn_of_none(results: Results, options: Options) -> None:
    """Say so if a page will show nothing, and what might be meant."""
    from ..paper.report import shown

    if not shown(results, options):
        count = len(results.records)
        other = f"; it has {count} of others, such as --quick" if count else ""
        warnings.warn(f"{results.path}: no results with these options{other}", stacklevel=2)


def _write_page(results: Results, options: Options, path: Path) -> Path:
    """The page; beside a Markdown file its figures go into a folder."""
    from .._support.files import write_atomically
    from ..paper.report import make_page
    from ..report.page import to_html, to_markdown

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
    """A part as JSON."""
    from dataclasses import asdict

    from ..paper import figures
    from ..paper.studies import STUDY_CELLS
    from ..paper.tables import cells

    if part == "figure4":
        return {
            name: [{"value": v, "mean": m, "std": s} for v, (m, s) in curve.items()]
            for name, curve in figures.curve_points(results, options).items()
        }
    if part in ("figure1", "figure3"):
        record = figures.find(part, results, options)
        return record and record["values"]
    found = (
        STUDY_CELLS[part](results, options)
        if part in STUDY_CELLS
        else cells(part, results, options)
    )
    return {
        row: {
            name: cell and {**asdict(cell), "deviations": cell.deviations}
            for name, cell in line.items()
        }
        for row, line in found.items()
    }


def _show(part: str, results: Results, options: Options, form: Format) -> None:
    from ..paper.experiments import FIGURES, TABLES
    from ..paper.report import say
    from ..paper.studies import STUDY_TABLES
    from ..paper.tables import make_table
    from ..report.page import html_table, markdown_table

    if part in FIGURES:
        print_rich(text(f"{part}: {say(part, results, options)}"))
        print()
        return
    if part in TABLES:
        table = make_table(part, results, options)
    else:
        table = STUDY_TABLES[part](results, options)
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
        made.add_row(*(text_lines(cell) for cell in row))
    print(table.title)
    print_rich(made)
    for note in table.notes:
        print_rich(text(note))
    print()


def text_lines(cell: tuple[str, ...]) -> Any:
    """A cell of several lines, the first in bold."""
    from rich.text import Text

    first, *others = cell
    made = Text(first, style="bold")
    for line in others:
        made.append(f"\n{line}", style="not bold dim")
    return made
