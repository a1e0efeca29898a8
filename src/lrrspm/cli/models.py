"""lrrspm info and lrrspm methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._support.text import natural_key, plural, printable
from .app import command
from .options import Json, ModelPath
from .terminal import print_estimate, print_json, print_rich


@command
def info(model: ModelPath, as_json: Json = False) -> None:
    """Summarize a model file: classes, estimated accuracy, parameters.

    Example: lrrspm info my.lrrspm
    """
    from ..loading import load_model
    from ..modelfile import describe_model
    from ..modelfile.container import local_model

    with local_model(model) as file:  # once, if it is at an address
        facts = {**describe_model(file, load_model(file)), "model": str(model)}
    if as_json:
        print_json(**facts)
        return
    summary = facts["summary"]
    size = f"{facts['bytes'] / 1e3:,.0f} kB"
    library = printable(facts["library"])
    print(f"{printable(model)}: {size}, format {facts['format']}, lrrspm {library}")
    images, classes = plural(summary["images"], "image"), plural(len(facts["classes"]), "class")
    print(f"trained on {images} of {classes}:")
    counts = summary["images_per_class"].items()
    for name, count in sorted(counts, key=lambda item: natural_key(item[0])):
        print(f"  {printable(name)}: {count}")
    if "estimate" in summary:
        print_estimate(summary)
    print("parameters:")
    for name, value in _flatten(facts["parameters"]):
        print(f"  {name}: {printable(value)}")


def _flatten(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over nested parameters under names such as channels.0.encoder.threshold."""
    nested = isinstance(values, list) and any(isinstance(value, dict) for value in values)
    if not isinstance(values, dict) and not nested:
        yield prefix, values
        return
    for name, value in values.items() if isinstance(values, dict) else enumerate(values):
        yield from _flatten(value, f"{prefix}.{name}" if prefix else str(name))


@command
def methods(as_json: Json = False) -> None:
    """List the presets and methods for --method, and when to use each.

    Pick a preset by need: fast, balanced (the default) or best. Their accuracies
    were measured on 15 scenes (LS, 100 training images per class) and Caltech101
    (30 per class), images per second on two threads. Your images may differ:
    'lrrspm tune' measures on them. The other methods are the paper's seven and
    those beyond it.

    Example: lrrspm train images -o my.lrrspm --method best
    """
    from rich.table import Table

    from ..methods import PRESETS, find_method, measured, method_names

    found = {name: find_method(name).summary for name in method_names()}
    numbers = measured()
    if as_json:
        uses = {name: method.use for name, method in PRESETS.items()}
        print_json(
            methods=found,
            presets={name: {"use": uses[name], **numbers[name]} for name in PRESETS},
        )
        return
    sets = list(next(iter(numbers.values()))["accuracy"])
    table = Table("preset", "use it when", box=None, pad_edge=False)
    for title in (*(f"{one} %" for one in sets), "images/s"):
        table.add_column(title, justify="right")
    for name, method in PRESETS.items():
        shares = (numbers[name]["accuracy"][one] for one in sets)
        cells = ("" if share is None else f"{share:.1f}" for share in shares)
        table.add_row(name, method.use, *cells, str(numbers[name]["images_per_second"]))
    print_rich(table)
    print()
    table = Table("method", "what it does", box=None, pad_edge=False)
    for name, summary in found.items():
        table.add_row(name, summary)
    table.add_row("all", "the paper's seven methods, one after another; only for evaluate")
    print_rich(table)
