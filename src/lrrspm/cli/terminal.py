"""What the commands show on a terminal: tables, progress bars, warnings."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import config
from .._support.text import printable as printable

if TYPE_CHECKING:
    from .._support.stages import Listener


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show the library's warnings as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        # Pillow's remarks on damaged tags and palettes name no file.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            print(f"warning: {printable(message)}", file=sys.stderr)

        warnings.showwarning = show
        yield


@contextlib.contextmanager
def progress() -> Iterator[Listener | None]:
    """A listener that draws progress bars on a terminal, or None where there is none."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>8}"),
        TextColumn("took"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def listen(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total, rate="")
            elif done == 0:
                bars.reset(tasks[name])
            elapsed = bars.tasks[tasks[name]].elapsed or 0
            rate = f"{done / elapsed:.0f}/s" if elapsed > 0 and done / elapsed >= 1 else ""
            # What is done goes, so that a long job does not fill the screen.
            bars.update(tasks[name], completed=done, total=total, rate=rate, visible=done < total)

        yield listen


def print_evaluation(result: dict[str, Any]) -> None:
    """Tables of an evaluation on standard output."""
    from rich.table import Table

    accuracy = result["accuracy"]
    spread = "" if accuracy["std"] is None else f" ± {accuracy['std']:.2f}"
    count = len(accuracy["splits"])
    of_what = f"{result['images']} pictures, {result['classes']} classes"
    splits = f"{count} splits, " if count > 1 else ""
    print(f"accuracy {accuracy['mean']:.2f}{spread} %   ({splits}{of_what})")
    table = Table("class", "accuracy %", "most often taken for", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    names = result["class_names"]
    for row, name in enumerate(names):
        if name not in result["per_class"]:
            table.add_row(text(name), "", "not tested")
            continue
        counts = list(result["confusion"][row])
        total, counts[row] = sum(counts), 0
        worst = max(range(len(names)), key=counts.__getitem__)
        taken = f"{names[worst]} ({100 * counts[worst] / total:.1f} %)" if counts[worst] else ""
        table.add_row(text(name), f"{result['per_class'][name]:.1f}", text(taken))
    print_rich(table)
    print_seconds(result["seconds"])


def print_methods(results: dict[str, dict[str, Any]]) -> None:
    """One line a method: accuracy, and the seconds that were its own."""
    from rich.table import Table

    from ..evaluation.protocol import SHARED_STAGES

    table = Table("method", box=None, pad_edge=False)
    for name in ("accuracy %", "coding s", "training s", "testing s"):
        table.add_column(name, justify="right")
    for name, result in results.items():
        accuracy, seconds = result["accuracy"], result["seconds"]
        spread = "" if accuracy["std"] is None else f" ± {accuracy['std']:.2f}"
        table.add_row(
            name,
            f"{accuracy['mean']:.2f}{spread}",
            *(f"{seconds[stage]:.1f}" for stage in ("encode", "train", "test")),
        )
    print_rich(table)
    parts = ", ".join(f"{stage} {seconds[stage]:.1f}" for stage in SHARED_STAGES)
    print(f"seconds for all together: {parts}")


def print_estimate(summary: dict[str, Any]) -> None:
    """The held-out accuracy of a model's summary, with a caution where it rests on little."""
    held_out = summary["held_out"]
    few = held_out["images"] < config.FEW_TESTED * len(summary["images_per_class"])
    caution = "; so few that it is a rough guess" if few else ""
    print(
        f"estimated accuracy {held_out['accuracy']:.1f} %, "
        f"on {held_out['images']} pictures kept aside{caution}"
    )


def print_confusion(result: dict[str, Any]) -> None:
    """Confusion matrix in percent of each true class."""
    from rich.table import Table

    table = Table("true class, taken for (%)", box=None, pad_edge=False)
    for name in result["class_names"]:
        table.add_column(text(name), justify="right")
    for name, row in zip(result["class_names"], result["confusion"], strict=True):
        table.add_row(text(name), *(f"{100 * count / sum(row):.1f}" for count in row))
    print_rich(table)


def print_json(**values: Any) -> None:
    print(json.dumps(values, indent=2, allow_nan=False))


def text(value: str) -> Any:
    """Text as it is: file and class names may hold brackets that Rich would read."""
    from rich.text import Text

    return Text(printable(value))


def print_rich(content: Any) -> None:
    """A table or text of Rich."""
    from rich.console import Console

    # A pipe has no width; rows must not be folded there.
    width = None if sys.stdout.isatty() else 10_000
    Console(width=width, highlight=False).print(content)


def print_seconds(seconds: dict[str, float]) -> None:
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    print(f"seconds: {sum(seconds.values()):.1f} ({parts})")
