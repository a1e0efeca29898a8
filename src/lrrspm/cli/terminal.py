"""Terminal output: tables, progress bars, warnings."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import config
from .._support.text import natural_key, plural, printable

if TYPE_CHECKING:
    from .._support.stages import Listener
    from ..cache import FeatureStore
    from ..evaluation import Evaluation, Groups

# Classes that an estimate lists at most, and groups of classes confused with each other.
_WEAKEST, _GROUPS = 10, 5


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings as one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        # Pillow's remarks on damaged tags and on large images name no file; our errors do.
        warnings.filterwarnings("ignore", module=r"PIL\.")

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            print(f"warning: {printable(message)}", file=sys.stderr)

        warnings.showwarning = show
        yield


@contextlib.contextmanager
def progress() -> Iterator[Listener | None]:
    """Yield a listener that draws progress bars, or None where there is no terminal."""
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
        TextColumn("elapsed"),
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
            # A finished bar goes, so that a long job does not fill the screen.
            bars.update(tasks[name], completed=done, total=total, rate=rate, visible=done < total)

        yield listen


def print_evaluation(result: Evaluation) -> None:
    """Print the accuracy, per class too, and the seconds."""
    from rich.table import Table

    splits = plural(len(result.confusions), "split") + ", " if len(result.confusions) > 1 else ""
    classes = plural(len(result.class_names), "class")
    tested = int(result.confusion.sum()) // len(result.confusions)
    trained = f", {tested} tested" if tested < result.images else ""
    basis = f"{splits}{plural(result.images, 'image')}{trained}, {classes}"
    print(f"accuracy {_accuracy(result)} %   ({basis})")
    _print_means(result.precision, result.f1)
    table = Table("class, weakest first", box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for column in ("recall %", "precision %", "F1 %"):
        table.add_column(column, justify="right")
    table.add_column("most often confused with")
    names, metrics = result.class_names, result.class_metrics
    order = sorted(range(len(names)), key=lambda row: natural_key(names[row]))
    for row in sorted(order, key=lambda row: metrics.get(names[row], (101,))[0]):
        name = names[row]
        if name not in metrics:
            table.add_row(text(name), "", "", "", "not tested")
            continue
        counts = result.confusion[row].tolist()
        total, counts[row] = sum(counts), 0
        worst = max(range(len(names)), key=counts.__getitem__)
        confused = f"{names[worst]} ({100 * counts[worst] / total:.1f} %)" if counts[worst] else ""
        shown = (f"{value:.1f}" for value in metrics[name][:3])
        table.add_row(text(name), *shown, text(confused))
    print_rich(table)
    for group in result.confused_groups()[:_GROUPS]:
        members = printable(", ".join(map(str, group.names)))
        share = f"{group.share:.1f} % of their images, mean over classes"
        print(f"confused with each other: {members} ({share})")
    print_kept_together(result.kept_together)
    _print_unknown(result)
    print_seconds(result.seconds)


def print_kept_together(groups: Groups | None) -> None:
    """Say which images were kept on one side of every split."""
    if groups is not None:
        print(f"{groups} kept together")


def print_tested(result: Evaluation) -> None:
    """Print the accuracy on the test images of a folder with train/ and test/."""
    print(f"accuracy {result.mean:.1f} % on {plural(result.images, 'test image')}")
    _print_means(result.precision, result.f1)
    _print_weakest({str(name): found[:3] for name, found in result.class_metrics.items()})
    _print_unknown(result)


def _print_means(precision: float, f1: float) -> None:
    print(f"precision {precision:.1f} %, F1 {f1:.1f} %   (means over classes, like the accuracy)")


def _print_unknown(result: Evaluation) -> None:
    if result.unknown:
        names = sorted(result.unknown, key=natural_key)
        found = ", ".join(f"{printable(name)} ({result.unknown[name]})" for name in names)
        print(f"not tested, because the model does not know these classes: {found}")


def _accuracy(result: Evaluation) -> str:
    spread = "" if result.std is None else f" ± {result.std:.2f}"
    return f"{result.mean:.2f}{spread}"


def print_methods(results: Mapping[str, Evaluation]) -> None:
    """Print one line per method: accuracy, and the seconds that were its own."""
    from rich.table import Table

    from ..evaluation import SHARED_STAGES

    table = Table("method", box=None, pad_edge=False)
    for name in ("accuracy %", "coding s", "training s", "testing s"):
        table.add_column(name, justify="right")
    for name, result in results.items():
        own = (f"{result.seconds[stage]:.1f}" for stage in ("encode", "train", "test"))
        table.add_row(name, _accuracy(result), *own)
    print_rich(table)
    shared = next(iter(results.values())).seconds
    parts = ", ".join(f"{stage} {shared[stage]:.1f}" for stage in SHARED_STAGES)
    print(f"seconds shared by all methods: {parts}")


def print_estimate(summary: dict[str, Any], everything: bool = True) -> None:
    """Print how good a model is expected to be: in all, per class, and by confidence.

    Without ``everything``, in all alone. A caution says where it rests on few images.
    """
    estimate = summary["estimate"]
    few = estimate["images"] < config.FEW_TESTED * len(summary["images_per_class"])
    caution = "; so few that this is a rough guess" if few else ""
    if "low" not in estimate:  # of an older model
        tested = plural(estimate["images"], "held-out image")
        print(f"estimated accuracy {estimate['accuracy']:.1f} %, on {tested}{caution}")
        return
    between = f"{estimate['low']:.1f} to {estimate['high']:.1f}"
    tested = f"{plural(estimate['images'], 'image')} in {plural(estimate['folds'], 'fold')}"
    print(
        f"estimated accuracy {estimate['accuracy']:.1f} % (95 %: {between}), "
        f"by cross-validation of {tested}{caution}"
    )
    if not everything:
        return
    recalls, precisions = estimate["per_class"], estimate.get("precision_per_class")
    if precisions is None:  # of an older model
        _print_weakest({name: (recall,) for name, recall in recalls.items()})
    else:
        _print_means(estimate["precision"], estimate["f1"])
        _print_weakest(
            {
                name: (recall, precisions[name], _harmonic_mean(recall, precisions[name]))
                for name, recall in recalls.items()
            }
        )
    print("predict with --min-confidence, if all classes were equally frequent:")
    for row in estimate["coverage"]:
        if row["right"] is not None:
            print(
                f"  at {row['confidence']:g}: answers {row['answered']:.0f} % of images, "
                f"{row['right']:.0f} % of them right"
            )
    print("  (images of unseen classes: it may answer half of them or more)")


def _harmonic_mean(recall: float, precision: float) -> float:
    """Return F1, percent, of a recall and a precision in percent."""
    return 2 * recall * precision / (recall + precision) if recall else 0.0


def _print_weakest(per_class: Mapping[str, Sequence[float]]) -> None:
    """Print recall, precision and F1 per class, weakest first; of many classes the weakest."""
    from rich.table import Table

    ranked = sorted(per_class.items(), key=lambda item: (item[1][0], natural_key(item[0])))
    many = len(ranked) > _WEAKEST
    table = Table("weakest classes" if many else "class, weakest first", box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for column in ("recall %", "precision %", "F1 %")[: len(ranked[0][1])]:
        table.add_column(column, justify="right")
    for name, found in ranked[:_WEAKEST]:
        table.add_row(text(name), *(f"{value:.1f}" for value in found))
    print_rich(table)
    if many:
        left, least = len(ranked) - _WEAKEST, ranked[_WEAKEST][1][0]
        print(f"and {left} more, each with a recall of {least:.1f} % or better")


def warn_about_rare(summary: dict[str, Any]) -> None:
    """Warn of classes with few images that are hardly ever recognized."""
    counts, per_class = summary["images_per_class"], summary.get("estimate", {}).get("per_class")
    if not per_class:
        return
    usual = sorted(counts.values())[len(counts) // 2]
    mean = summary["estimate"]["accuracy"]
    for name, share in per_class.items():
        if 3 * counts[name] <= usual and 2 * share <= mean:
            print(
                f"warning: class {printable(name)} has {plural(counts[name], 'image')}, others "
                f"about {usual}, and is recognized {share:.0f} % of the time; "
                "add images of it, or train with --class-weight balanced",
                file=sys.stderr,
            )


def print_confusion(result: Evaluation) -> None:
    """Print the confusion matrix in percent of each true class."""
    from rich.table import Table

    table = Table("true class, predicted as (%)", box=None, pad_edge=False)
    order = sorted(enumerate(result.class_names), key=lambda item: natural_key(item[1]))
    for _, name in order:
        table.add_column(text(name), justify="right")
    for i, name in order:
        row = result.confusion[i]
        table.add_row(text(name), *(f"{100 * row[j] / row.sum():.1f}" for j, _ in order))
    print_rich(table)


# Strings in JSON have no line breaks, so this is always a list of whole numbers.
_WHOLE_NUMBERS = re.compile(r"\[\n\s*(-?\d+(?:,\n\s*-?\d+)*)\n\s*\]")


def print_json(**values: Any) -> None:
    """Print values as JSON, indented, but for lists of whole numbers: they may be long."""
    made = json.dumps(values, indent=2, allow_nan=False)
    print(_WHOLE_NUMBERS.sub(lambda found: f"[{''.join(found[1].split())}]", made))


def text(value: str) -> Any:
    """Return text as it is: names may hold brackets that Rich would interpret."""
    from rich.text import Text

    return Text(printable(value))


def print_rich(content: Any) -> None:
    """Print a table or text of Rich."""
    from rich.console import Console

    # A pipe has no width; rows must not be wrapped there, unless COLUMNS asks for it.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    Console(width=width, highlight=False).print(content)


def reused(store: FeatureStore) -> dict[str, Any]:
    """Return how many vectors, and whether codebooks, came from --cache; else nothing."""
    vectors, codebooks = store.found["vectors"], store.found["codebooks"] > 0
    return {"vectors": vectors, "codebooks": codebooks} if vectors or codebooks else {}


def print_reused(store: FeatureStore) -> None:
    """Say that seconds are those of a run with a cache that had something."""
    found = reused(store)
    if found:
        what = [f"{plural(found['vectors'], 'vector')} of channels"] * bool(found["vectors"])
        what += ["the codebooks"] * found["codebooks"]
        print(f"from the cache: {' and '.join(what)}; the seconds cover only the rest")


def print_seconds(seconds: dict[str, float]) -> None:
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    print(f"seconds: {sum(seconds.values()):.1f} ({parts})")
