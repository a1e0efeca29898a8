"""The application: how a command is registered, and how it fails."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import __version__
from .terminal import printable, warnings_as_lines

_SETTINGS = {"help_option_names": ["-h", "--help"]}

_TYPED = "lrrspm.typed"


class _Group(TyperGroup):
    """The commands; what was typed is kept for those who write it down."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = shlex.join(["lrrspm", *args])
        return super().parse_args(ctx, args)


def typed(context: typer.Context) -> str:
    """The command line that a command was started with."""
    return str(context.meta[_TYPED])


app = typer.Typer(
    name="lrrspm",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
    help=(
        "Train an image classifier from a folder of pictures, in seconds, on a CPU.\n\n"
        "Put the pictures of each class into a folder of its own, then:\n\n"
        "  lrrspm train pictures -o my.lrrspm\n\n"
        "  lrrspm predict my.lrrspm new.jpg\n\n"
        "Try [bold]lrrspm demo[/bold] for a tour on real pictures."
    ),
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but some files were skipped.",
)

SKIPPED = 3


def group(name: str, about: str) -> typer.Typer:
    """A command that has commands of its own."""
    made = typer.Typer(no_args_is_help=True, context_settings=_SETTINGS, help=about)
    app.add_typer(made, name=name)
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"lrrspm {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options that come before the command."""


Command = Callable[..., None]


def command(function: Command) -> Command:
    """Register a command; what the library raises becomes a message and exit code 1."""
    return command_of(app)(function)


def command_of(owner: typer.Typer, **settings: Any) -> Callable[[Command], Command]:
    """Register a command of the application or of a group, as :func:`command` does."""

    def register(function: Command) -> Command:
        guarded = _guard(function)
        owner.command(**settings)(guarded)
        return guarded

    return register


def _guard(function: Command) -> Command:

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        as_json = kwargs.get("as_json", False)
        # File names need not be text; they leave as the bytes they came as.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="surrogateescape")
        try:
            with warnings_as_lines(), _terminated_as_interrupted():
                function(*args, **kwargs)
                sys.stdout.flush()  # a full disk should be noticed here, not after us
        except KeyboardInterrupt:
            _fail("stopped", as_json)
        except BrokenPipeError:  # whoever read our output has had enough of it
            _abandon_output()
            raise typer.Exit(1) from None
        except OSError as error:
            named = error.filename is not None and error.strerror is not None
            _fail(f"{error.filename}: {error.strerror}" if named else str(error), as_json)
        except (ValueError, ImportError) as error:
            _fail(str(error), as_json)
        except MemoryError:
            _fail("out of memory; try fewer pictures, a smaller codebook or fewer jobs", as_json)

    return guarded


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Have SIGTERM end the work as Ctrl-C does: threads joined, temporary files removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, as_json: bool) -> NoReturn:
    print(f"error: {printable(message)}", file=sys.stderr)
    try:
        if as_json:
            print(json.dumps({"error": message}))
        sys.stdout.flush()
    except OSError:  # it was standard output that failed
        _abandon_output()
    raise typer.Exit(1)


def _abandon_output() -> None:
    """Let go of a standard output that takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def list_skipped(paths: list[str], skipped: dict[int, str] | None) -> list[dict[str, str]]:
    """What was skipped and why, for --json."""
    return [{"path": paths[i], "reason": reason} for i, reason in sorted((skipped or {}).items())]


def report_skipped(paths: list[str], skipped: dict[int, str] | None) -> None:
    """Say what was skipped and why, and end with the exit code for that."""
    if not skipped:
        return
    for index in sorted(skipped):
        print(f"skipped {printable(paths[index])}: {printable(skipped[index])}", file=sys.stderr)
    if len(skipped) == len(paths):
        print("error: none of the files could be read", file=sys.stderr)
        raise typer.Exit(1)
    print(f"{len(skipped)} of {len(paths)} files were skipped", file=sys.stderr)
    raise typer.Exit(SKIPPED)
