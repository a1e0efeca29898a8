"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import config
from .._support.text import printable

if TYPE_CHECKING:
    Place = Path | str
    """A file of this machine, or at an address."""
else:
    Place = type("path", (), {})  # typer takes no unions, and shows the name of this


def as_place(text: str) -> Any:
    """Return a path; an address, such as s3://bucket/images, as it is."""
    from .._support.remote import is_remote

    return text if is_remote(text) else Path(text)


def as_file(text: Any) -> Place:
    """Return a path, or an address that a file may have, of a model or an output."""
    from .._support.remote import check_address, is_remote

    try:
        return text if is_remote(text) and check_address(text) else Path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def as_local(text: Any) -> Path:
    """Return a path; refuse an address, of which a folder ``s3:`` would be made."""
    from .._support.remote import is_remote

    if is_remote(text):
        raise typer.BadParameter("must be on this machine, not at an address")
    return Path(text)


ImageFolder = Annotated[
    Any,  # a path, or the text of an address, which no path can hold
    typer.Argument(
        metavar="DIR",
        parser=as_place,
        help="A folder with one subfolder of images per class; a folder with train/ and test/ (or "
        "val/), each with such subfolders; a CSV file of paths and labels; or a folder of images "
        "with such a file in it.",
    ),
]
PathColumn = Annotated[
    str | None,
    typer.Option(
        "--path-column",
        metavar="NAME",
        help="CSV column with the paths, if its name is not recognized.",
        rich_help_panel="Folder",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="NAME",
        help="CSV column with the labels, if its name is not recognized.",
        rich_help_panel="Folder",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COLUMN|REGEX",
        help="Keep images of the same group, such as a person or a video, on the same side of "
        "every split. Give a CSV column, or a regular expression that captures the group in the "
        "path: '(.*)_' captures sign/track7 in sign/track7_012.png.",
        rich_help_panel="Folder",
    ),
]
NearCopies = Annotated[
    bool,
    typer.Option(
        "--near-copies/--no-near-copies",
        help="Keep near copies, such as an image saved twice, on the same side of every split.",
        rich_help_panel="Folder",
    ),
]
ModelPath = Annotated[
    Place,
    typer.Argument(metavar="MODEL", parser=as_file, help="A model file written by train."),
]
CacheFolder = Annotated[
    Place | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        parser=as_file,
        help="Keep intermediate results in this folder or at this address, and reuse them in "
        "later runs. Affects only the speed.",
    ),
]


def _check_probability(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:  # neither is NaN
        hint = f"; {value:g} % is {value / 100:g}" if 1 < value <= 100 else ""
        raise typer.BadParameter(f"expected a probability from 0 to 1, got {value:g}{hint}")
    return value


MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        metavar="P",
        callback=_check_probability,
        help="Call an image unknown if the probability of its best class is below P (0 to 1), or "
        "if it is unlike the training images.",
    ),
]


class OnError(StrEnum):
    """What to do with an image that cannot be read."""

    SKIP = "skip"
    FAIL = "fail"


# Besides images: files that other options name, which a slip must not make a model of.
_NO_MODELS = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".html", ".htm")
_ON_ERROR = "Skip unreadable images, or fail at the first one."
OnErrorSkip = Annotated[OnError, typer.Option("--on-error", help=_ON_ERROR)]
OnErrorLimited = Annotated[
    OnError | None,
    typer.Option(
        "--on-error",
        help=f"{_ON_ERROR} By default, up to {100 * config.MAX_SKIPPED:g} % are skipped.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
ReportPath = Annotated[
    Place | None,
    typer.Option(
        "--report",
        metavar="HTML",
        parser=as_file,
        help="Write an HTML report: accuracy per class, confused classes, the most confident "
        "mistakes with their evidence, time, memory, problems with the images, and how to repeat "
        "the run. Reads every image once more.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        parser=as_local,
        help="Folder of the data sets. Default: LRRSPM_DATA if set, else your user data folder.",
    ),
]


def _known_method(name: str) -> str:
    """Return the method's own spelling; other letter cases are accepted."""
    from ..methods import method_names

    known = [*method_names(), ALL]
    for one in known:
        if one.casefold() == name.casefold():
            return one
    raise typer.BadParameter(f"no method {printable(name)!r}; choose from: {', '.join(known)}")


def _some_threads(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise typer.BadParameter(f"expected a number of threads, or -1 for all cores, got {jobs}")
    return jobs


def _positive(penalty: float) -> float:
    if not 0 < penalty < float("inf"):
        raise typer.BadParameter(f"C must be positive, got {penalty}")
    return penalty


ALL = "all"
"""What ``evaluate --method`` takes for all methods of the paper."""

MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        callback=_known_method,
        help="fast, balanced or best, or any other method listed by 'lrrspm methods'.",
        rich_help_panel="Method",
    ),
]
Penalty = Annotated[
    float,
    typer.Option(
        "--C",
        metavar="X",
        callback=_positive,
        help="Penalty of the SVM.",
        rich_help_panel="Method",
    ),
]
ClassWeights = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        metavar="balanced|CLASS=WEIGHT",
        help="Weight of a class in training; 'balanced' helps classes with few images. "
        "CLASS=WEIGHT can be repeated.",
        rich_help_panel="Method",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, metavar="N", help="Random seed; the same seed gives the same result."
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        metavar="N",
        callback=_some_threads,
        help="Number of threads or processes; -1 uses all cores. Affects only the speed.",
    ),
]


def _known_device(device: str) -> str:
    """Refuse what no machine has; whether this one has it is known later."""
    if device in (config.DEVICE, "torch") or device.partition(":")[0] == "cuda":
        return device
    raise typer.BadParameter(f"expected cpu, cuda or cuda:NUMBER, got {printable(device)}")


DeviceName = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda",
        callback=_known_device,
        help="Where to compute vectors; cuda is a GPU (needs lrrspm\\[gpu]).",
    ),
]


def _known_engine(engine: str) -> str:
    """Refuse what is neither a name nor an address, before the work."""
    scheme, _, host = engine.partition("://")
    if engine in ("threads", "processes") or (scheme in ("dask", "tls") and host.strip("/")):
        return engine
    raise typer.BadParameter(
        f"expected threads, processes, dask://HOST:PORT or tls://HOST:PORT, got {printable(engine)}"
    )


EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        callback=_known_engine,
        help="What computes images: threads or processes on this machine, or the workers of the "
        "Dask scheduler at dask://HOST:PORT, or tls://HOST:PORT with certificates (needs "
        "lrrspm\\[dask]). The results are the same.",
    ),
]


def parse_weights(given: list[str] | None) -> dict[Any, float] | str | None:
    """Return what --class-weight says, as :class:`lrrspm.LinearSVM` takes it."""
    if not given:
        return None
    if given == ["balanced"]:
        return "balanced"
    weights: dict[Any, float] = {}
    for one in given:
        name, sign, number = one.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            sign = ""
        if not sign or not 0 < weights[name] < float("inf"):
            raise typer.BadParameter(
                f"expected 'balanced', or CLASS=WEIGHT with a weight above 0, got {one!r}",
                param_hint="--class-weight",
            )
    return weights


def check_ending(target: Place, option: str, what: str, *endings: str) -> None:
    """Refuse the name of another kind of file, which may be precious."""
    if Path(target).suffix.lower() not in endings:
        raise typer.BadParameter(
            f"{what}; the name must end in {' or '.join(endings)}, got {printable(target)}",
            param_hint=option,
        )


def check_given(target: Place, option: str, *given: Place) -> None:
    """Refuse an output that would replace what was given."""
    from .._support.files import same_file

    for one in given:
        if same_file(target, one):
            raise typer.BadParameter(
                f"would replace {printable(one)}; give another name", param_hint=option
            )


def check_replaced(output: Place) -> None:
    """Refuse names of images, tables and pages, and to overwrite any file that is no model."""
    from .._support.files import file_size
    from ..modelfile import ModelFileError, open_model

    if Path(output).suffix.lower() in (*config.IMAGE_SUFFIXES, *_NO_MODELS):
        raise typer.BadParameter(
            f"{printable(output)} is not a model name; end it in .lrrspm", param_hint="--output"
        )
    try:
        if file_size(output) == 0:
            return
        with open_model(output):
            pass
    except FileNotFoundError:
        return
    except ModelFileError:
        raise typer.BadParameter(
            f"{printable(output)} exists and is not a model; give another name",
            param_hint="--output",
        ) from None


def most_skipped(on_error: OnError | None) -> float:
    """Return the share of unreadable images that training may leave out."""
    if on_error is None:
        return config.MAX_SKIPPED
    return 1.0 if on_error is OnError.SKIP else 0.0
