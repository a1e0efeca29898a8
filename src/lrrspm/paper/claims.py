"""The paper's sentences with numbers: do its own tables say so, and do ours?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..datasets import DATASETS
from ..report.page import Table
from . import claims_of_accuracy as accuracy
from . import claims_of_speed as speed
from .experiments import Options
from .findings import Finding
from .published import read_published
from .results import Results


class Claim(NamedTuple):
    """A sentence of the paper, and what became of it."""

    where: str
    quote: str
    finding: Finding


Check = Callable[[Sequence[str], Results, Options], Finding]


def claims(results: Results, options: Options) -> dict[str, Claim]:
    """Return every claim by name, in the order of the paper."""
    return {
        name: Claim(said["where"], said["quote"], _CHECKS[name](said["values"], results, options))
        for name, said in read_published()["claims"].items()
    }


def describe(results: Results, options: Options) -> dict[str, dict[str, str]]:
    """Return the claims as JSON, by name."""
    return {
        name: {"where": claim.where, "quote": claim.quote, **claim.finding._asdict()}
        for name, claim in claims(results, options).items()
    }


def claims_table(results: Results, options: Options, names: Sequence[str] | None = None) -> Table:
    """Return the claims with what the paper's tables and ours say, or those of some names."""
    rows = []
    for name, (where, quote, found) in claims(results, options).items():
        if names is None or name in names:
            theirs, ours = (found.right, found.paper), (found.holds, found.ours)
            rows.append(((f'"{quote}" ({where})',), _lines(theirs), _lines(ours)))
    return Table(
        "Claims of the paper",
        ("claim", "by the paper's own tables", "by ours"),
        tuple(rows),
        (
            "Seconds are those of coding, training and testing, as in tables 4, 5 and 10.",
            *results.remarks(DATASETS),
        ),
    )


def _lines(said: tuple[str, str]) -> tuple[str, ...]:
    verdict, reason = said
    return (verdict,) if reason in ("", verdict) else (verdict, reason)


_CHECKS: dict[str, Check] = {
    "competitive": accuracy.check_competitive,
    "low rank": accuracy.check_energy,
    "ScSPM": partial(speed.check_speed_up, "ScSPM"),
    "LLC": partial(speed.check_speed_up, "LLC"),
    "lambda": partial(accuracy.check_robust, "lambda"),
    "epsilon": partial(accuracy.check_robust, "epsilon"),
    "codebooks": accuracy.check_codebooks,
    "scenes": partial(accuracy.check_best, ("table4",)),
    "OT and LS": speed.check_scenes_speed,
    "Caltech101": accuracy.check_caltech,
    "CPU time": speed.check_cpu_time,
    "17flowers": accuracy.check_flowers,
    "literature": accuracy.check_literature,
    "table 10": speed.check_coding,
    "best": partial(accuracy.check_best, ("table7", "table8", "table9")),
    "all right": partial(accuracy.check_perfect, ("COIL20", "COIL100")),
    "faces": accuracy.check_faces,
    "both": speed.check_both_stages,
    "shares": partial(speed.check_coding, inverse=True),
}
