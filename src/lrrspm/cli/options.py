"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .. import config
from .terminal import printable

Pictures = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        readable=False,  # what cannot be read is a failure, not wrong usage
        help="A folder with one sub-folder of pictures a class, or a CSV file of path,label rows.",
    ),
]
ModelPath = Annotated[
    Path,
    typer.Argument(metavar="MODEL", readable=False, help="A model file made by train."),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        help="Keep what is computed in this folder, and use what is there. Changes the speed only.",
    ),
]


class OnError(StrEnum):
    """What is to happen to a picture that cannot be read."""

    SKIP = "skip"
    FAIL = "fail"


_ON_ERROR = "Leave out pictures that cannot be read, or stop at the first one."
OnErrorSkip = Annotated[OnError, typer.Option("--on-error", help=_ON_ERROR)]
OnErrorLimited = Annotated[
    OnError | None,
    typer.Option(
        "--on-error",
        help=f"{_ON_ERROR} If not given, up to {100 * config.MAX_SKIPPED:g} % are left out.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
ReportPath = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="HTML",
        help="Write what a person wants to see to one file for any browser: accuracy of each "
        "class, what is taken for what, the surest mistakes with their evidence, time, memory, "
        "what is wrong with the pictures, how to repeat it. Looks at every picture once more.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the data sets are; else LRRSPM_DATA, else your own data folder.",
    ),
]

_METHOD = "Method"
MethodName = Annotated[
    str,
    typer.Option(
        "--method", help="One of those that 'lrrspm methods' lists.", rich_help_panel=_METHOD
    ),
]
CodebookSize = Annotated[
    int,
    typer.Option("--codebook-size", min=1, help="Atoms in the codebook.", rich_help_panel=_METHOD),
]
Lambda = Annotated[
    float,
    typer.Option(
        "--lambda", min=0, help="Regularization of the codes (LrrSPM).", rich_help_panel=_METHOD
    ),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        min=0,
        help="Entries of a code below this share of their mean become 0; 0 keeps all (LrrSPM).",
        rich_help_panel=_METHOD,
    ),
]
NormalizeCodes = Annotated[
    bool,
    typer.Option(
        "--normalize-codes",
        help="Divide each code by its length, as the paper's Algorithm 1 says but its program does "
        "not do (LrrSPM).",
        rich_help_panel=_METHOD,
    ),
]
Penalty = Annotated[float, typer.Option("--C", help="Penalty of the SVM.", rich_help_panel=_METHOD)]
Step = Annotated[
    int,
    typer.Option("--step", min=1, help="Pixels between patches.", rich_help_panel=_METHOD),
]
PatchSize = Annotated[
    int,
    typer.Option(
        "--patch-size",
        min=4,
        help="Side of a patch in pixels, a multiple of 4.",
        rich_help_panel=_METHOD,
    ),
]
Levels = Annotated[
    str,
    typer.Option("--levels", help="Cells a side of each pyramid level.", rich_help_panel=_METHOD),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same result.")]
Jobs = Annotated[
    int, typer.Option("--jobs", help="Threads; -1 is all cores. Changes the speed only.")
]
LEVELS = ",".join(map(str, config.LEVELS))


def check_ending(target: Path, option: str, what: str, *endings: str) -> None:
    """Refuse a name of another kind of file, which may be one that is not to be lost."""
    if target.suffix.lower() not in endings:
        raise typer.BadParameter(
            f"{what}; end the name in {' or '.join(endings)}, got {printable(target)}",
            param_hint=option,
        )
