"""The report's numbers, in the order in which ``templates/report.html`` shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .. import config
from .._support.environment import describe_environment, short_commit
from .._support.files import write_atomically
from .._support.stages import Stages
from .._support.text import plural
from ..evaluation.certainty import Certainty
from ..evaluation.results import Evaluation, Skipped
from ..images import KINDS, Finding
from .draw import AGAINST, FOR
from .matrix import confused_pairs, lay_out
from .mistakes import show
from .page import render, script
from .plots import calibration_plot, confidence_rows, risk_plot

_PAIRS = 15
# How many findings of a kind, paths of a finding, and skipped images are listed.
_FINDINGS, _PATHS, _SKIPPED = 10, 4, 50

_STAGES = {
    "compare": "looking for near copies",
    "restart": "lost when unreadable images turned up",
    "store": "looking up results in the cache",
    "read": "reading and decoding images",
    "describe": "computing descriptors",
    "codebook": "learning codebooks",
    "encode": "coding and pooling",
    "train": "training support vector machines",
    "test": "testing",
}
# Work that is done for the report alone.
_EXTRA = {
    "audit": "auditing the images, for this report",
    "explain": "explaining mistakes, for this report",
}

_HEADINGS = {
    "methods": "Methods",
    "best": "Best method",
    "others": "Other methods",
    "classes": "Classes, weakest first",
    "pairs": "Most confused pairs",
    "matrix": "Confusion matrix",
    "confidence": "Answering only when sure",
    "mistakes": "Most confident mistakes",
    "costs": "Time and memory",
    "images": "Images",
    "reproduce": "How to reproduce it",
}


class Run(NamedTuple):
    """What a report says about a run as a whole."""

    title: str
    about: str
    """How the numbers were measured, in a sentence or two."""
    command: str
    parameters: Mapping[str, Mapping[str, Any]]
    """Of each method; values may be nested."""
    stages: Stages
    audit: dict[str, Any]
    """Result of :func:`lrrspm.images.audit`."""
    classes: Mapping[str, int]
    """Number of images of each class, without skipped ones."""
    skipped: Sequence[Skipped]


def write_report(
    path: str | os.PathLike[str], run: Run, evaluations: Mapping[str, Evaluation]
) -> None:
    """Write a report to one HTML file, atomically."""
    write_atomically(path, make_report(run, evaluations).encode())


def make_report(run: Run, evaluations: Mapping[str, Evaluation]) -> str:
    """Return a report as HTML.

    Parameters
    ----------
    run : Run
    evaluations : mapping of str to Evaluation
        By name of the method; the best is shown first. Empty if nothing was
        tested.
    """
    ranked = sorted(evaluations.items(), key=lambda item: -item[1].mean)
    shown = [_evaluation(name, found, run.stages) for name, found in ranked]
    headings = dict(_HEADINGS)
    if len(ranked) > 1:
        headings["best"] = _best(ranked)
        contents = ["methods", "best", "others"]
    else:
        parts = ["classes", "confidence", "pairs", "matrix", "mistakes"]
        # A report without mistakes says so.
        contents = [name for name in parts if shown and (name == "mistakes" or shown[0][name])]
    counts = run.audit["counts"]
    return render(
        "report.html",
        title=run.title,
        run=run,
        headings=headings,
        contents=[*contents, "costs", "images", "reproduce"],
        evaluations=shown,
        comparison=[_compare(*each) for each in ranked] if len(ranked) > 1 else [],
        costs=_costs(run.stages),
        n_images=sum(run.classes.values()),
        classes=_class_sizes(run.classes),
        skipped=[(each.path, each.reason) for each in run.skipped[:_SKIPPED]],
        kinds=[(kind, KINDS[kind], count) for kind, count in counts.items() if count],
        copies=_about_copies(run.audit, evaluations),
        findings=[_finding(each) for kind in counts for each in _first(run.audit, kind)],
        seeds=sorted({str(given["seed"]) for given in run.parameters.values() if "seed" in given}),
        parameters=_parameters(run.parameters),
        environment=_environment(),
        color_for=FOR,
        color_against=AGAINST,
        **script("sort.js"),
    )


def _about_copies(audit: Mapping[str, Any], evaluations: Mapping[str, Evaluation]) -> str:
    """Say what copies among the images do to the accuracy; nothing where there are none."""
    copies = {path for one in audit["findings"] if "copy" in one.kind for path in one.paths}
    if not copies or not evaluations:
        return ""

    def apart(found: Evaluation) -> bool:
        if found.parameters.get("split") == "given":
            return not audit["counts"]["leak"]
        kept = found.kept_together
        return kept is not None and kept.by == "near copy" and kept.images >= len(copies)

    if all(map(apart, evaluations.values())):
        return "No image was used for testing while a copy of it was used for training."
    return (
        "An image with a copy may have been used for both training and testing, which makes the "
        "accuracy look better than it is."
    )


def _best(ranked: Sequence[tuple[str, Evaluation]]) -> str:
    """Name the best method, and those whose accuracy is shown as the same number."""
    most = f"{ranked[0][1].mean:.2f}"
    first, *others = [name for name, found in ranked if f"{found.mean:.2f}" == most]
    if not others:
        return f"Best method: {first}"
    return f"Best methods: {', '.join([first, *others])} are equal; this is {first}"


def _evaluation(name: str, found: Evaluation, stages: Stages) -> dict[str, Any]:
    """Return what is shown of one method."""
    return {
        "name": name,
        "accuracy": _accuracy(found),
        "several": len(found.confusions) > 1,
        "facts": list(_facts(found)),
        "classes": list(_classes(found)),
        "confidence": _confidence(found.certainty),
        "calibrated": found.certainty is None or found.certainty.calibrated,
        "pairs": [
            (pair.label, pair.predicted, f"{pair.share:.1f}", pair.n_images)
            for pair in confused_pairs(found, _PAIRS)
        ],
        "matrix": lay_out(found),
        "mistakes": _mistakes(found, stages) if found.mistakes else [],
    }


def _confidence(certainty: Certainty | None) -> dict[str, Any] | None:
    """Return how right answers are from some confidence on, and how far probabilities are off."""
    if certainty is None:
        return None
    return {
        "rows": confidence_rows(certainty),
        "risk": risk_plot(certainty),
        "calibration": calibration_plot(certainty) if certainty.calibrated else None,
        "off": f"{100 * certainty.calibration_error:.1f}",
    }


def _mistakes(found: Evaluation, stages: Stages) -> list[dict[str, Any]]:
    with stages.timed("explain"):
        tracked = stages.track("explaining mistakes", found.mistakes, len(found.mistakes))
        return [show(mistake) for mistake in tracked]


def _accuracy(found: Evaluation) -> str:
    spread = "" if found.std is None else f" ± {found.std:.2f}"
    return f"{found.mean:.2f}{spread}"


def _facts(found: Evaluation) -> Iterator[tuple[str, str, str]]:
    """Yield the numbers to see first: a name, a value and a remark."""
    splits, counts = found.accuracies, found.confusion
    several, tested = len(splits) > 1, int(counts.sum())
    if several:
        basis = f"mean and standard deviation over {len(splits)} splits"
    else:
        few = tested < config.FEW_TESTED * len(counts)
        low, high = found.interval
        basis = f"95 % interval {low:.1f} to {high:.1f}, from {plural(tested, 'test image')}" + (
            ", so a rough estimate" if few else ""
        )
    yield "accuracy", f"{_accuracy(found)} %", f"mean of the per-class accuracies; {basis}"
    if several:
        each = ", ".join(f"{value:.2f}" for value in splits)
        yield "lowest to highest split", f"{min(splits):.1f} to {max(splits):.1f} %", each
    correct = int(np.trace(counts))
    together = ", all splits together" if several else ""
    share = f"{100 * correct / tested:.2f} % of the test images{together}"
    yield "correct predictions", f"{correct:,} of {tested:,}", share
    means = f"{found.precision:.1f} / {found.f1:.1f} %"
    yield "precision and F1", means, "means over the classes"
    per_class = found.per_class
    weakest = min(per_class, key=per_class.__getitem__)
    if per_class[weakest] < max(per_class.values()):
        yield "weakest class", f"{per_class[weakest]:.1f} %", str(weakest)


def _classes(found: Evaluation) -> Iterator[tuple[str | float, ...]]:
    """Yield a row per class, lowest accuracy first, classes that were not tested last."""
    names, counts, metrics = found.class_names, found.confusion, found.class_metrics
    per_class = found.per_class
    for i in sorted(range(len(names)), key=lambda i: per_class.get(names[i], 101)):
        name, total = str(names[i]), int(counts[i].sum())
        if not total:
            yield name, "not tested", "", "", "", "0", ""
            continue
        recall = per_class[names[i]]
        precision, f1 = (f"{value:.1f}" for value in metrics[names[i]][1:3])
        others = counts[i].copy()
        others[i] = 0
        worst = int(others.argmax())
        share = 100 * others[worst] / total
        confused = f"{names[worst]} ({share:.1f} %)" if others[worst] else ""
        n_images = str(total // len(found.confusions))
        yield name, f"{recall:.1f}", recall, precision, f1, n_images, confused


def _compare(name: str, found: Evaluation) -> tuple[str | float, ...]:
    """Return a method's row of the comparison."""
    splits = " ".join(f"{value:.1f}" for value in found.accuracies)
    own = (f"{found.seconds[stage]:.1f}" for stage in ("encode", "train", "test"))
    return name, _accuracy(found), found.mean, splits, *own


def _costs(stages: Stages) -> list[tuple[str | float, ...]]:
    """Return a row per stage, their sum, and rows of the report's own work."""
    everything = sum(stages.seconds.values()) or 1.0

    def row(name: str, what: str) -> tuple[str | float, ...]:
        seconds = stages.seconds[name]
        memory = (f"{amount:,.0f}" if amount else "unknown" for amount in stages.memory[name])
        return name, what, f"{seconds:.1f}", 100 * seconds / everything, *memory

    work = [name for name in stages.seconds if name not in _EXTRA]
    rows = [row(name, _STAGES.get(name, "")) for name in work]
    total = sum(stages.seconds[name] for name in work)
    rows.append(("all", "", f"{total:.1f}", "", "", rows[-1][-1] if rows else ""))
    return rows + [row(name, what) for name, what in _EXTRA.items() if name in stages.seconds]


def _class_sizes(classes: Mapping[str, int]) -> str:
    """Describe how many classes there are, and of which sizes."""
    sizes = sorted(classes.values())
    if len(sizes) < 2:
        return plural(len(sizes), "class")
    if sizes[0] == sizes[-1]:
        return f"{plural(len(sizes), 'class')}, {sizes[0]:,} each"
    median = f", median {int(np.median(sizes)):,}" if len(sizes) > 2 else ""
    return f"{plural(len(sizes), 'class')}, {sizes[0]:,} to {sizes[-1]:,} each{median}"


def _first(audit: dict[str, Any], kind: str) -> Iterator[Finding]:
    return islice((each for each in audit["findings"] if each.kind == kind), _FINDINGS)


def _finding(finding: Finding) -> tuple[str, str, list[str]]:
    more = len(finding.paths) - _PATHS
    paths = finding.paths[:_PATHS] + ([f"and {more} more"] if more > 0 else [])
    return finding.kind, finding.detail, paths or [""]


def _parameters(parameters: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return a row per parameter, with a column per method."""
    flat = [_flatten(given) for given in parameters.values()]
    names = dict.fromkeys(name for given in flat for name in given if name != "method")
    return [[name, *(given.get(name, "") for given in flat)] for name in names]


def _flatten(value: Any, name: str = "") -> dict[str, str]:
    """Return nested parameters by dotted names; a list of plain values is one parameter."""
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) for v in value):
        items = list(enumerate(value))
    else:
        listed = isinstance(value, (list, tuple))
        return {name: ", ".join(map(str, value)) if listed else str(value)}
    found: dict[str, str] = {}
    for key, inner in items:
        found |= _flatten(inner, f"{name}.{key}" if name else str(key))
    return found


def _environment() -> list[tuple[str, Any]]:
    """Return versions and machine, row by row."""
    found = describe_environment()
    return [
        ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("commit", short_commit(found)),
        ("Python", found["python"]),
        *found["packages"].items(),
        ("BLAS", "; ".join(found["blas"])),
        ("system", found["system"]),
        ("processor", found["cpu"]),
        ("cores", str(found["cores"])),
    ]
