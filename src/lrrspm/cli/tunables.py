"""Options that reach into the parts of a method, each named once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .. import config

if TYPE_CHECKING:
    from ..classifier import ImageClassifier

_PANEL = "Method"
_LEVELS = ",".join(map(str, config.LEVELS))
_METAVARS = {int: "N", float: "X", str: "N,N,..."}


class Tunable(NamedTuple):
    """An option, and the parameter of a channel that it sets.

    With ``only``, parts of that class alone have it. ``shown`` is LrrSPM's value,
    ``balanced`` that of the default method, None where it has no such parameter.
    """

    flag: str
    parameter: str
    kind: Any
    help: str
    shown: str
    least: float | None = None
    only: str | None = None
    balanced: str | None = None

    @property
    def text(self) -> str:
        """Help that names the defaults."""
        if self.balanced is None:
            return f"{self.help} Default: {self.shown} in LrrSPM; not in {config.METHOD}."
        return f"{self.help} Default: {self.balanced} in {config.METHOD}, {self.shown} in LrrSPM."


TUNABLES = (
    Tunable(
        "--codebook-size", "encoder__codebook_size", int, "Atoms in the codebook.",
        str(config.CODEBOOK_SIZE), 1, balanced=str(config.BALANCED_ATOMS),
    ),
    Tunable(
        "--lambda", "encoder__regularization", float, "Regularization of low-rank codes.",
        str(config.REGULARIZATION), 0, "LRREncoder",
    ),
    Tunable(
        "--threshold", "encoder__threshold", float,
        "Entries of a low-rank code below this share of their mean become 0; 0 keeps all.",
        str(config.THRESHOLD), 0, "LRREncoder",
    ),
    Tunable(
        "--normalize-codes", "encoder__normalize_codes", bool,
        "Divide each low-rank code by its length, as in the paper's Algorithm 1 but not in its "
        "program.", "off", None, "LRREncoder",
    ),
    Tunable(
        "--step", "descriptor__step", int, "Distance between patches in pixels.",
        str(config.STEP), 1,
    ),
    Tunable(
        "--patch-size", "descriptor__patch_size", int,
        "Side of a patch in pixels, a multiple of 4.", str(config.PATCH_SIZE), 4,
    ),
    Tunable(
        "--levels", "levels", str, "Cells along each side of each pyramid level.", _LEVELS,
        balanced=",".join(map(str, config.REGIONS)),
    ),
)  # fmt: skip


def tunable(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all tunables; it gets those that were given as ``tuned``."""
    added = [
        inspect.Parameter(
            _name(one),
            inspect.Parameter.KEYWORD_ONLY,
            default=False if one.kind is bool else None,
            annotation=Annotated[
                bool if one.kind is bool else one.kind | None,
                typer.Option(
                    one.flag,
                    min=one.least,
                    metavar=_METAVARS.get(one.kind),
                    help=one.text,
                    show_default=False,
                    rich_help_panel=_PANEL,
                ),
            ],
        )
        for one in TUNABLES
    ]

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        tuned = {one: kwargs.pop(_name(one)) for one in TUNABLES}
        command(
            *args,
            tuned={o: v for o, v in tuned.items() if v is not None and v is not False},
            **kwargs,
        )

    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.name != "tuned"]
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    wrapped.__signature__ = signature.replace(parameters=[*named, *added])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in [*own, *added]}
    return wrapped


def _name(one: Tunable) -> str:
    return one.flag.removeprefix("--").replace("-", "_").replace("lambda", "lambda_")


Tuned = dict[Tunable, Any]
"""Tunables that were given, and their values."""


def make_classifiers(
    names: list[str], tuned: Tuned, **parameters: Any
) -> dict[str, ImageClassifier]:
    """Make a classifier per method; an option that none of them has is refused."""
    from ..classifier import ImageClassifier
    from ..methods import find_method

    for name in names:
        find_method(name)  # fail before the images are looked at
    made = {name: ImageClassifier(method=name, **parameters) for name in names}
    for one, value in tuned.items():
        parsed = _parse_levels(value) if one.parameter == "levels" else value
        used = [_set(classifier, one, parsed) for classifier in made.values()]
        if not any(used):
            raise typer.BadParameter(
                f"{', '.join(names)} has no such option; leave it out, or use --method LrrSPM",
                param_hint=one.flag,
            )
    for classifier in made.values():
        try:
            classifier.new_features().check_parameters()
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return made


def _set(classifier: ImageClassifier, one: Tunable, value: Any) -> bool:
    """Set a tunable in every channel that has it; returns whether any does."""
    from ..methods import find_method

    assert classifier.method is not None
    part, _, parameter = one.parameter.rpartition("__")
    if parameter in find_method(classifier.method).fixed:
        return False
    used = False
    for place, channel in enumerate(classifier.new_channels()):
        owner = getattr(channel, part) if part else channel
        right = one.only is None or any(c.__name__ == one.only for c in type(owner).__mro__)
        if right and parameter in owner.get_params(deep=False):
            classifier.set_params(**{f"channels__{place}__{one.parameter}": value})
            used = True
    return used


def _parse_levels(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in given.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"expected whole numbers and commas, such as {_LEVELS}, got {given!r}",
            param_hint="--levels",
        ) from None
