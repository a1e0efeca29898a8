"""A report from top to bottom: numbers, classes, mistakes, costs, data, how to repeat it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from .. import config
from .._support.environment import describe_environment, short_commit
from .._support.files import write_atomically
from .._support.stages import Stages
from ..evaluation.mistakes import Measured
from ..images import KINDS, Finding
from .matrix import NUMBERED, confused_pairs, confusion_matrix, pairs_table
from .page import (
    Block,
    Details,
    Heading,
    Markup,
    Page,
    Plain,
    Table,
    Text,
    escape,
    html_table,
    to_html,
)
from .pictures import show_mistakes
from .style import STYLE

_PAIRS = 15
# Classes from which on the table of them scrolls on a screen.
_TALL = 30
# Findings of a kind, paths of a finding, and skipped pictures that are listed.
_FINDINGS, _PATHS, _SKIPPED = 10, 4, 50

_STAGES = {
    "restart": "begun in vain, with pictures that cannot be read",
    "store": "looking up what --cache keeps",
    "read": "reading and decoding pictures",
    "sift": "describing their patches",
    "codebook": "learning codebooks",
    "encode": "coding and pooling",
    "train": "training support vector machines",
    "test": "testing",
}
# Work that is done for the report alone.
_EXTRA = {
    "audit": "looking at the pictures, for this report",
    "explain": "evidence of mistakes, for this report",
}

_TWO = (
    " Of two classes, what speaks for one speaks as much against the other: the second map is the "
    "first with its colours exchanged."
)


class Run(NamedTuple):
    """What a report says about a run as a whole."""

    title: str
    about: str
    """How it was measured, in a sentence or two."""
    command: str
    parameters: dict[str, dict[str, Any]]
    """Of each method."""
    stages: Stages
    audit: dict[str, Any]
    """What :func:`lrrspm.audit.audit` found."""
    classes: Mapping[str, int]
    """Pictures of each class that were used."""
    skipped: Sequence[dict[str, str]]
    """``path`` and ``reason`` of pictures that were left out."""


def write_report(path: str | os.PathLike[str], run: Run, measured: Mapping[str, Measured]) -> None:
    """Write a report to one HTML file, which has its name only once it is complete."""
    write_atomically(path, to_html(make_report(run, measured)).encode())


def make_report(run: Run, measured: Mapping[str, Measured]) -> Page:
    """The report on one or several methods by name, or on none where nothing was tested."""
    page = Page(run.title, style=STYLE)
    ranked = sorted(measured.items(), key=lambda item: -item[1].result["accuracy"]["mean"])
    body: list[Block] = []
    for place, (name, one) in enumerate(ranked):
        blocks = tuple(_measured(one, run.stages, 2 if len(ranked) == 1 else 3))
        if len(ranked) == 1:
            body += blocks
        elif place == 0:
            body += [Heading("Methods", 2, "methods"), _comparison(ranked)]
            body += [Heading(f"{name}, the best of them", 2, "best"), *blocks]
            body.append(Heading("The other methods", 2, "others"))
        else:
            body.append(Details(f"{name}: {_accuracy(one.result)} %", blocks))
    if not ranked:
        body.append(_facts([_pictures_fact(run)]))
    body += [*_costs(run.stages), *_data(run), *_making(run)]
    page.add(Text(Plain(run.about)), _contents(body), *body)
    return page


def _contents(blocks: Iterable[Block]) -> Markup:
    """Links to the headings that have anchors."""
    links = "".join(
        f'<li><a href="#{block.anchor}">{escape(block.text)}</a></li>'
        for block in blocks
        if isinstance(block, Heading) and block.anchor
    )
    return Markup(f"<nav><ul>{links}</ul></nav>")


def _measured(one: Measured, stages: Stages, level: int) -> Iterator[Block]:
    """What there is to see of one method."""
    result = one.result
    splits = len(result["accuracy"]["splits"])

    def heading(text: str, anchor: str) -> Heading:
        return Heading(text, level, anchor if level == 2 else "")

    yield _facts(_headline(result))
    yield heading("Classes, the weakest first", "classes")
    yield _classes(result)
    pairs = confused_pairs(result, _PAIRS)
    if pairs:
        yield heading("Most confused pairs", "pairs")
        yield pairs_table(pairs)
    yield Markup('<section class="keep">')  # on one printed page
    yield heading("Confusion matrix", "matrix")
    yield Text(_matrix_words(result, splits))
    yield confusion_matrix(result)
    yield Markup("</section>")
    yield heading("Most confident mistakes", "mistakes")
    if not one.mistakes:
        yield Text("There are none: every test picture was recognised.")
        return
    yield Text(
        f"Pictures whose predicted class was furthest ahead of the true one ({len(one.mistakes)}), "
        "by their scores: margins of the support vector machine, above 0 means yes to that class "
        "alone. Beside each picture stands what spoke for and against either class, patch by "
        "patch, as the model saw it that made the mistake. Both maps of a picture have one scale."
        + (_TWO if result["classes"] == 2 else "")
    )
    yield Markup(
        '<p><span class="key" style="background:var(--for)"></span>speaks for the class &emsp;'
        '<span class="key" style="background:var(--against)"></span>speaks against it</p>'
    )
    with stages.timed("explain"):
        tracked = stages.track("explaining mistakes", one.mistakes, len(one.mistakes))
        yield show_mistakes(tracked, splits > 1)


def _accuracy(result: dict[str, Any]) -> str:
    accuracy = result["accuracy"]
    spread = "" if accuracy["std"] is None else f" ± {accuracy['std']:.2f}"
    return f"{accuracy['mean']:.2f}{spread}"


_Fact = tuple[str, str, str]  # what, its value, and a remark


def _facts(facts: Iterable[_Fact]) -> Markup:
    """Numbers that should be seen first."""
    cards = "".join(
        f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd><dd>{escape(remark)}</dd></div>"
        for what, value, remark in facts
    )
    return Markup(f'<dl class="facts">{cards}</dl>')


def _headline(result: dict[str, Any]) -> Iterator[_Fact]:
    splits, counts = result["accuracy"]["splits"], np.array(result["confusion"])
    several, answers = len(splits) > 1, int(counts.sum())
    if several:
        basis = f"mean and standard deviation of {len(splits)} splits"
    else:
        basis = f"it rests on {answers:,} test pictures" + (
            ", so few that it is a rough guess" if answers < config.FEW_TESTED * len(counts) else ""
        )
    yield "accuracy", f"{_accuracy(result)} %", f"mean of the classes' accuracies; {basis}"
    if several:
        yield (
            "from split to split",
            f"{min(splits):.1f} to {max(splits):.1f} %",
            ", ".join(f"{value:.2f}" for value in splits),
        )
    right = int(np.trace(counts))
    yield (
        "right answers",
        f"{right:,} of {answers:,}",
        f"{100 * right / answers:.2f} % of all" + (", splits together" if several else ""),
    )
    per_class = result["per_class"]
    weakest = min(per_class, key=per_class.__getitem__)
    if per_class[weakest] < max(per_class.values()):
        yield "weakest class", f"{per_class[weakest]:.1f} %", str(weakest)


def _pictures_fact(run: Run) -> _Fact:
    return "pictures", f"{sum(run.classes.values()):,}", f"in {_counted(run.classes)}"


def _counted(classes: Mapping[str, int]) -> str:
    """How many classes there are, of how many pictures."""
    if len(classes) == 1:
        return "1 class"
    sizes = sorted(classes.values())
    if sizes[0] == sizes[-1]:
        return f"{len(sizes)} classes of {sizes[0]:,} each"
    middle = f", median {int(np.median(sizes)):,}" if len(sizes) > 2 else ""
    return f"{len(sizes)} classes of {sizes[0]:,} to {sizes[-1]:,}{middle}"


def _bar(percent: float) -> Markup:
    return Markup(f'<span class="bar"><i style="width:{percent:.1f}%"></i></span>')


def _classes(result: dict[str, Any]) -> Block:
    """Accuracy of each class, the lowest first."""
    names, counts = result["class_names"], np.array(result["confusion"])
    splits = len(result["accuracy"]["splits"])
    rows = []
    for i in sorted(range(len(names)), key=lambda i: result["per_class"].get(names[i], 101)):
        name, total = Plain(names[i]), int(counts[i].sum())
        if not total:
            rows.append(((name,), ("not tested",), ("",), ("0",), ("",)))
            continue
        percent = result["per_class"][names[i]]
        others = counts[i].copy()
        others[i] = 0
        worst = int(others.argmax())
        taken = f"{names[worst]} ({100 * others[worst] / total:.1f} %)" if others[worst] else ""
        rows.append(
            ((name,), (f"{percent:.1f}",), (_bar(percent),), (str(total // splits),),
             (Plain(taken),))
        )  # fmt: skip
    tested = "test pictures" + (" a split" if splits > 1 else "")
    table = Table(
        "",
        ("class", "accuracy %", "", tested, "most often taken for"),
        tuple(rows),
        words=(4,),
        spare=(2, 3),
    )
    if len(names) <= _TALL:
        return table
    return Markup(f'<div class="scroll" tabindex="0">{html_table(table)}</div>')


def _matrix_words(result: dict[str, Any], splits: int) -> str:
    together = "over all splits together, " if splits > 1 else ""
    colours = "blue what was recognised, orange what was not; the stronger the colour, the more"
    if result["classes"] <= NUMBERED:
        return f"Rows are the true classes, columns what they were taken for: {together}" + (
            f"percent of the row; {colours}."
        )
    return (
        f"Rows are the true classes, columns what they were taken for, {together}coloured by the "
        f"share of the row: {colours}. Point at a square to read it, or enlarge the page: the "
        "names stay sharp. The largest orange squares are the pairs listed above."
    )


def _comparison(ranked: Sequence[tuple[str, Measured]]) -> Table:
    rows = []
    for name, one in ranked:
        accuracy, seconds = one.result["accuracy"], one.result["seconds"]
        own = (seconds[stage] for stage in ("encode", "train", "test"))
        rows.append(
            ((name,), (_accuracy(one.result),), (_bar(accuracy["mean"]),),
             (" ".join(f"{value:.1f}" for value in accuracy["splits"]),),
             *((f"{value:.1f}",) for value in own))
        )  # fmt: skip
    return Table(
        "",
        ("method", "accuracy %", "", "each split", "coding s", "training s", "testing s"),
        tuple(rows),
        ("All were measured on the same splits; reading, SIFT and codebooks are shared.",),
        words=(3,),
        spare=(2, 3, 5, 6),
    )


def _costs(stages: Stages) -> Iterator[Block]:
    everything = sum(stages.seconds.values())

    def row(name: str, what: str) -> tuple[tuple[str, ...], ...]:
        seconds = stages.seconds[name]
        memory = ((f"{amount:,.0f}" if amount else "not known",) for amount in stages.memory[name])
        return (name,), (what,), (f"{seconds:.1f}",), (_bar(100 * seconds / everything),), *memory

    work = [name for name in stages.seconds if name not in _EXTRA]
    rows = [row(name, _STAGES.get(name, "")) for name in work]
    whole = sum(stages.seconds[name] for name in work)
    rows.append((("all",), ("",), (f"{whole:.1f}",), ("",), ("",), rows[-1][-1]))
    rows += [row(name, what) for name, what in _EXTRA.items() if name in stages.seconds]
    yield Heading("Seconds and memory", 2, "costs")
    yield Table(
        "",
        ("stage", "what", "seconds", "", "memory MB", "peak MB"),
        tuple(rows),
        (
            "Seconds of the clock; stages that run at once share them by the work they did. "
            "Memory is that of the whole process when the stage last ended, and its peak the most "
            "that it had held until then, earlier stages included.",
        ),
        words=(1,),
        spare=(3, 4),
    )


def _data(run: Run) -> Iterator[Block]:
    audit = run.audit
    yield Heading("The pictures", 2, "pictures")
    yield Text(f"{sum(run.classes.values()):,} pictures in {_counted(run.classes)}.")
    if run.skipped:
        rows = tuple(
            ((Plain(each["path"]),), (Plain(each["reason"]),)) for each in run.skipped[:_SKIPPED]
        )
        more = len(run.skipped) - _SKIPPED
        notes = (f"And {more} more.",) if more > 0 else ()
        title = f"Left out, as if they were not there: {len(run.skipped)}"
        yield Table(title, ("picture", "why"), rows, notes, words=(1,))
    if not audit["findings"]:
        yield Text(
            "Nothing wrong was found with them: no copies or near copies, no broken, misnamed or "
            "tiny files, no class that is far larger than another."
        )
        return
    kinds = {kind: count for kind, count in audit["counts"].items() if count}
    yield Table(
        "What an audit found",
        ("what", "meaning", "findings"),
        tuple(((kind,), (KINDS[kind],), (str(count),)) for kind, count in kinds.items()),
        ("A picture that has a copy may have been trained on and tested, which flatters the "
         "accuracy. `lrrspm audit` lists everything.",),
        words=(1,),
    )  # fmt: skip
    first = [finding for kind in kinds for finding in _first(audit["findings"], kind)]
    listed = Table("", ("what", "in", "pictures"), tuple(map(_finding, first)), words=(1, 2))
    all_of_them = len(first) == len(audit["findings"])
    yield Details("The findings" if all_of_them else "Some of the findings", (listed,))


def _first(findings: Sequence[Finding], kind: str) -> list[Finding]:
    return [finding for finding in findings if finding.kind == kind][:_FINDINGS]


def _finding(finding: Finding) -> tuple[tuple[str, ...], ...]:
    more = len(finding.paths) - _PATHS
    paths = [Plain(path) for path in finding.paths[:_PATHS]] or [Plain("")]
    return (
        (finding.kind,),
        (Plain(finding.detail),),
        (paths[0], *paths[1:], *([f"and {more} more"] if more > 0 else [])),
    )


def _making(run: Run) -> Iterator[Block]:
    yield Heading("How it was made", 2, "made")
    yield Markup(f"<pre><code>{escape(run.command)}</code></pre>")
    seeds = sorted({str(given.get("seed")) for given in run.parameters.values()})
    yield Text(
        f"The same command with the same versions and the same pictures gives the same numbers "
        f"(seed {', '.join(seeds)}), whatever the number of threads; seconds and memory differ."
    )
    yield _parameters(run.parameters)
    environment = describe_environment()
    packages = environment["packages"]
    facts = {
        "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": short_commit(environment),
        "Python": environment["python"],
        **packages,
        "BLAS": "; ".join(environment["blas"]),
        "system": environment["system"],
        "processor": environment["cpu"],
        "cores": environment["cores"],
    }
    rows = tuple(((Plain(name),), (Plain(value),)) for name, value in facts.items())
    yield Table("Versions and machine", ("what", "which"), rows, words=(1,))


def _parameters(parameters: dict[str, dict[str, Any]]) -> Table:
    """A row a parameter, a column a method."""
    names = dict.fromkeys(name for given in parameters.values() for name in given)
    rows = tuple(
        ((name,), *((Plain(_value(given.get(name, ""))),) for given in parameters.values()))
        for name in names
        if name != "method"
    )
    return Table("Parameters", ("parameter", *parameters), rows)


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
