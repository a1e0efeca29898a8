"""One page: what was run, on what, every table and figure, and where we differ."""

from __future__ import annotations

from typing import Any

from .. import config
from .._support.environment import short_commit
from ..datasets import DATASETS
from ..report.page import Bullets, Figure, Heading, Page, Table, Text
from . import experiments, figures, notes
from .experiments import FIGURES, PARTS, TABLES, Options, needed
from .published import read_published
from .results import Results
from .settings import ALL_IMAGES
from .studies import (
    copies_table,
    factor_table,
    say_agreement,
    say_factors,
    say_readings,
    scaling_table,
)
from .tables import NOT_RUN, make_table

TITLE = "The paper's tables and figures, ours beside them"


def make_page(results: Results, options: Options) -> Page:
    """Everything that has been computed, as a page."""
    page = Page(TITLE)
    _introduce(page, results, options)
    page.add(Heading("Tables"))
    for table in TABLES:
        page.add(make_table(table, results, options))
    page.add(Heading("Figures"))
    for figure in FIGURES:
        _add_figure(page, figure, results, options)
    page.add(Heading("Copies in 15-Scene"), Text(notes.COPIES), copies_table(results, options))
    _explain(page, results, options)
    page.add(Heading("How long it took"), time_table(results, options))
    return page


def _introduce(page: Page, results: Results, options: Options) -> None:
    page.add(
        Text(
            "*Fast Low Rank Representation based Spatial Pyramid Matching for Image "
            "Classification* (Peng, Yan, Zhao, Tang, Yi, 2015). Made by `lrrspm paper report` from "
            "result rows that name commit, versions and machine. Beneath each of our numbers "
            "stands the paper's in parentheses, and the difference in standard deviations (sd) of "
            "both together."
        )
    )
    if options.quick:
        page.add(Text(f"**{notes.QUICK}**"))
    page.add(Heading("What was run"), Bullets(tuple(_protocol(options))))
    records = shown(results, options)
    machines = "; ".join(_machines(results, records))
    page.add(Text(f"On {machines}." if machines else "Nothing has been run yet."))
    page.add(_datasets_table(records))
    said = say_agreement(results, options)
    if said:
        page.add(Heading("In short"), Bullets(tuple(said)), Text(notes.SHORT))


def _protocol(options: Options) -> list[str]:
    usual = options.setting("OT", 100)
    codebook = (
        "from all images, test images included, as the authors did; one for a data set"
        if options.codebook == ALL_IMAGES
        else "from the training images of each split"
    )
    normalised = (
        "divided by their length, as Algorithm 1 says"
        if options.normalize_codes
        else "not divided by their length, as in the authors' program; Algorithm 1 says otherwise"
    )
    copies = "left out" if options.leave_out_copies else "kept (see below what that does)"
    return [
        f"{options.rounds} random splits: of each class so many images for training, all others "
        f"tested; seed {options.seed}.",
        f"Codebook (k-means, {usual.codebook_size} atoms, {usual.n_samples:,} descriptors) "
        f"{codebook}.",
        f"LrrSPM: epsilon {config.THRESHOLD}, lambda {config.REGULARIZATION} ("
        + ", ".join(f"{value} on {name}" for name, value in experiments.REGULARIZATION.items())
        + f"); codes {normalised}.",
        f"SVM: one against the rest, squared hinge, C = {config.C:g}, no bias; intersection kernel "
        "of unit diagonal for KernelBOF and KernelSPM.",
        f"Test images that are copies of training images: {copies}.",
    ]


def shown(results: Results, options: Options) -> list[dict[str, Any]]:
    """The rows and figures that the page shows."""
    settings = dict.fromkeys(s for part in PARTS for s in needed(part, options))
    drawn = [figures.find(name, results, options) for name in ("figure1", "figure3")]
    return results.rows(settings) + [record for record in drawn if record is not None]


def _machines(results: Results, shown: list[dict[str, Any]]) -> list[str]:
    found: dict[str, None] = {}
    for key in dict.fromkeys(record["environment"] for record in shown):
        environment = results.environments[key]
        packages = environment["packages"]
        found[
            f"{environment['cores']} cores of an {environment['cpu']} ({environment['system']}), "
            f"Python {environment['python']}, NumPy {packages['numpy']}, "
            f"lrrspm {packages['lrrspm']}, commit {short_commit(environment)}"
        ] = None
    return list(found)


def _datasets_table(shown: list[dict[str, Any]]) -> Table:
    counts: dict[str, int] = {}
    for row in (record for record in shown if record["kind"] == "row"):
        name = row["setting"]["dataset"]
        counts[name] = max(counts.get(name, 0), row["images"])
    rows = tuple(
        (
            (name,),
            (data.title,),
            (str(data.images),),
            (str(data.classes),),
            (f"{counts[name]} images" if name in counts else NOT_RUN,),
        )
        for name, data in DATASETS.items()
    )
    return Table("Data sets", ("name", "what", "images", "classes", "run on"), rows)


def _add_figure(page: Page, name: str, results: Results, options: Options) -> None:
    title = read_published()[name]["title"]
    page.add(Heading(f"Figure {name.removeprefix('figure')}. {title}", 3))
    figure = figures.draw(name, results, options)
    if figure is not None:
        caption = _CAPTIONS[name](results, options)[0]
        page.add(Figure(name, figures.to_bytes(figure, "svg"), caption))
    page.add(Text(say(name, results, options)))


def say(figure: str, results: Results, options: Options) -> str:
    """What a figure shows, in words and numbers."""
    if not figures.has_numbers(figure, results, options):
        errors = [record["error"] for record in results.figures(figure) if "error" in record]
        return f"failed: {errors[-1]}" if errors else NOT_RUN
    return _CAPTIONS[figure](results, options)[1]


def _say_spectrum(results: Results, options: Options) -> tuple[str, str]:
    record = figures.find("figure1", results, options)
    assert record is not None
    setting, values = record["setting"], record["values"]["singular_values"]
    claim = read_published()["figure1"]["claim"]
    top = round(claim["top_share"] * setting["codebook_size"])
    plain, squares = (figures.energy_share(values, top, power) for power in (1, 2))
    ten = figures.energy_share(values, 10, 2)
    caption = (
        f"Singular values of a codebook of {setting['codebook_size']} k-means centres from "
        f"{setting['dataset']}, and how much of their sum the first ones hold."
    )
    said = (
        f"The paper (Caltech101, {claim['codebook_size']} atoms) says that the first "
        f"{claim['top_share']:.0%} of the singular values hold over {claim['energy']:.0%} of the "
        f"energy. Of {setting['codebook_size']} atoms those are {top}, but a matrix of 128 columns "
        f"has no more than 128 singular values that are not 0. Here the first "
        f"{min(top, len(values))} hold {plain:.1%} of the sum and {squares:.2%} of the sum of "
        f"squares; the first 10 hold {ten:.1%} of the squares, which is the better sign of a low "
        "rank."
    )
    return caption, said


def _say_codes(results: Results, options: Options) -> tuple[str, str]:
    record = figures.find("figure3", results, options)
    assert record is not None
    values = record["values"]
    half = len(values["dictionary"]) // 2
    other = {name: sum(map(abs, code[half:])) for name, code in values["codes"].items()}
    whole = {name: sum(map(abs, code)) for name, code in values["codes"].items()}
    shares = ", ".join(f"{name} {100 * other[name] / whole[name]:.0f} %" for name in other)
    caption = (
        f"A face of {values['subjects'][0]} coded over six faces of its own (atoms 1 to 6) and six "
        f"of {values['subjects'][1]} (7 to 12), faces as vectors of pixels of length 1; and the "
        "singular values of the codes of twelve faces."
    )
    nonzero = sum(value != 0 for value in values["codes"]["truncated"][half:])
    said = (
        f"Share of the coefficients' absolute sum that lies on the other person: {shares}. "
        f"The paper shows zeros only there for truncated LRR; in this example (faces drawn at "
        f"random, seed {record['setting']['seed']}) {nonzero} of its six coefficients on the other "
        "person are not zero."
    )
    return caption, said


def _say_curves(results: Results, options: Options) -> tuple[str, str]:
    claims = read_published()["figure4"]["claim"]
    parts = []
    for name, curve in figures.curve_points(results, options).items():
        if not curve:
            continue
        means = {value: mean for value, (mean, _) in curve.items()}
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        span = f"{means[low]:.2f} (at {low:g}) to {means[high]:.2f} (at {high:g})"
        theirs = "" if options.quick else f"; in the paper {claims[name][0]} to {claims[name][1]}"
        parts.append(f"{name} from {min(curve):g} to {max(curve):g}: {span}{theirs}")
    caption = "Accuracy of LrrSPM on OT over lambda and over epsilon: mean and standard deviation."
    said = "Mean accuracy in percent over " + ". Over ".join(parts) + f". {notes.EPSILON}"
    return caption, said


_CAPTIONS = {"figure1": _say_spectrum, "figure3": _say_codes, "figure4": _say_curves}


def _explain(page: Page, results: Results, options: Options) -> None:
    page.add(Heading("Where we differ"))
    page.add(Heading("The paper against itself and its program", 3), Bullets(notes.INCONSISTENCIES))
    page.add(*(Text(said) for said in [say_readings(results, options)] if said))
    page.add(Heading("Our deviations from the paper", 3), Bullets(notes.DEVIATIONS))
    page.add(
        Heading("The histograms of BOF and SPM", 3),
        Text(notes.SCALING),
        scaling_table(results, options),
        Heading("What each factor does to LrrSPM", 3),
        Text(notes.FACTORS),
    )
    said = say_factors(results, options)
    page.add(*([Bullets(tuple(said))] if said else []), factor_table(results, options))


def time_table(results: Results, options: Options) -> Table:
    """Seconds that each part took, its share of what several parts have in common included once."""
    seen: set[str] = set()
    rows = []
    seconds, count = 0.0, 0
    for part in PARTS:
        settings = needed(part, options)
        records = results.rows(s for s in settings if s.key not in seen)
        seen |= {s.key for s in settings}
        if part in ("figure1", "figure3"):
            record = figures.find(part, results, options)
            records = [record] if record else []
        spent = sum(record["wall"] for record in records)
        seconds, count = seconds + spent, count + len(records)
        # Table 10 is made of rows of the tables before it.
        shared = "counted above" if results.rows(settings) else NOT_RUN
        rows.append(((part,), (str(len(records)),), (f"{spent:.0f}" if records else shared,)))
    rows.append((("all",), (str(count),), (f"{seconds:.0f}",)))
    return Table(
        "Seconds by part",
        ("part", "results", "seconds"),
        tuple(rows),
        (
            "Images are read and coded once for all parts that need the codes; that time stands "
            "with the first part of the list that did, table 4 among them.",
        ),
    )
