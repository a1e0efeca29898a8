"""The application: how a command is registered, and how it fails."""

from __future__ import annotations

import codecs
import inspect
import io
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from .._support.compiling import listen_to_compiling
from .._support.files import machine_fault
from .._support.text import plural, printable
from .terminal import warnings_as_lines

if TYPE_CHECKING:
    from ..evaluation import Skipped

_SETTINGS = {"help_option_names": ["-h", "--help"]}

_TYPED = "lrrspm.typed"
_FRAMED = 80  # columns that help in frames needs
_ORDER = (
    "train", "add", "predict", "explain", "evaluate", "score", "info", "methods", "tune", "audit",
    "review", "serve", "demo", "cache", "datasets", "paper",
)  # fmt: skip


# Typer brings a click of its own, or uses the one that is installed.
_UsageError: Any = typer.BadParameter.__base__
_ClickError: Any = _UsageError.__base__


# What typer says of values that it cannot take, in our words.
_REWORDED = (
    (r"Value error, ", ""),
    (r"Input should be a valid number.*", "expected a number"),
    (r"Input should be a valid integer.*", "expected a whole number"),
    (r"Input should be greater than or equal to (\S+)", r"must be at least \1"),
    (r"Input should be less than or equal to (\S+)", r"must be at most \1"),
    (r"Input should be greater than (\S+)", r"must be above \1"),
    (r"Input should be less than (\S+)", r"must be below \1"),
)


class _ShortHelp:
    """Help without the types of arguments and flags, and without braces in the usage line."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in params:
            if one.param_type_name == "argument" or one.is_flag:
                one.display_type_rich = _no_type
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [re.sub(r"^\{(.*)\}(\.\.\.)?$", r"\1", piece) for piece in pieces]


def _reworded(message: str) -> str:
    for pattern, words in _REWORDED:
        message = re.sub(pattern, words, message)
    return message


def _no_type(ctx: Any) -> None:
    return None


class _Subgroup(_ShortHelp, TyperGroup):
    """A command that has commands of its own."""


class _Group(_ShortHelp, TyperGroup):
    """The commands; keeps the command line for reports, and prints errors on one line."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands in the order in which people need them."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = shlex.join(["lrrspm", *args])
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; wrong usage is one line, and one JSON object with --json."""
        _open_streams()
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **extra, standalone_mode=False)  # type: ignore[misc]
        try:
            code = super().main(*args, **extra, standalone_mode=False)  # type: ignore[misc]
        except _ClickError as error:
            message = _reworded(error.format_message())
            if message:  # a call without arguments has printed the help instead
                print(f"error: {printable(message)}", file=sys.stderr)
                if isinstance(error, _UsageError) and error.ctx is not None:
                    print(f"see: {error.ctx.command_path} --help", file=sys.stderr)
                given = args[0] if args else extra.get("args")
                if "--json" in (sys.argv if given is None else given):
                    print(json.dumps({"error": message}))
            sys.exit(error.exit_code)
        except OSError as error:  # of help on a full disk, or that nobody reads to its end
            _abandon_output()
            if not isinstance(error, BrokenPipeError):
                print(f"error: standard output: {error.strerror or error}", file=sys.stderr)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


class _Command(_ShortHelp, TyperCommand):
    """A command whose help has no frames where they would cut the names of options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if shutil.get_terminal_size().columns >= _FRAMED:
            super().format_help(ctx, formatter)
            return
        self.rich_markup_mode = None
        super().format_help(ctx, formatter)
        # Backslashes keep Rich from reading brackets as markup.
        formatter.buffer = [words.replace("\\[", "[") for words in formatter.buffer]


def _open_streams() -> None:
    """Open what the caller closed (``>&-``), so that no file of ours takes its place."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor < 3:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def typed(context: typer.Context) -> str:
    """Return the command line that a command was started with."""
    return str(context.meta[_TYPED])


app: typer.Typer = typer.Typer(
    name="lrrspm",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
    help=(
        "Train an image classifier from a folder of images, in seconds, on a CPU.\n\n"
        "Put the images of each class in a folder of their own, then run:\n\n"
        "  lrrspm train images -o my.lrrspm\n\n"
        "  lrrspm predict my.lrrspm new.jpg\n\n"
        "Run [bold]lrrspm demo[/bold] for a tour with real images."
    ),
    epilog=(
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done, but some files were skipped, "
        "130 stopped by Ctrl-C."
    ),
)

SKIPPED = 3


def group(name: str, about: str) -> typer.Typer:
    """Add a command that has commands of its own."""
    made = typer.Typer(cls=_Subgroup, no_args_is_help=True, context_settings=_SETTINGS, help=about)
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
    """Take options that come before the command."""


Command = Callable[..., None]


def command(function: Command) -> Command:
    """Register a command; errors of the library become a message and exit code 1."""
    return command_of(app)(function)


def command_of(owner: typer.Typer, **settings: Any) -> Callable[[Command], Command]:
    """Register a command of the application or of a group, as :func:`command` does."""

    def register(function: Command) -> Command:
        guarded = _guard(function)
        owner.command(cls=_Command, help=_paragraphs(function), **settings)(guarded)
        return guarded

    return register


def _paragraphs(function: Command) -> str:
    """Return a docstring with one line per paragraph: the terminal's width breaks them."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


_ESCAPED = "lrrspm.escaped"


def _escape(error: UnicodeError) -> tuple[bytes, int]:
    """Encode what an encoding cannot: bytes of file names as they came, the rest escaped.

    File names need not be valid text, and a terminal may have few letters: what
    was computed must not be lost for want of a letter to print it.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    content = b""
    for letter in error.object[error.start : error.end]:
        raw = 0xDC80 <= ord(letter) <= 0xDCFF
        content += letter.encode("ascii", "surrogateescape" if raw else "backslashreplace")
    return content, error.end


codecs.register_error(_ESCAPED, _escape)


def _guard(function: Command) -> Command:

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        as_json = kwargs.get("as_json", False)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=_ESCAPED)
        try:
            if sys.stderr.isatty():
                listen_to_compiling(_note_compiling)
            with warnings_as_lines(), _terminated_as_interrupted():
                function(*args, **kwargs)
                sys.stdout.flush()  # notice a full disk here, not later
        except KeyboardInterrupt as stop:
            _fail("stopped", as_json, 128 + (stop.args[0] if stop.args else signal.SIGINT))
        except BrokenPipeError:  # the reader of our output has gone
            _abandon_output()
            raise typer.Exit(1) from None
        except OSError as error:
            named = error.filename is not None and error.strerror is not None
            message = f"{error.filename}: {error.strerror}" if named else str(error)
            advice = machine_fault(error)
            _fail(f"{message}; {advice}" if advice else message, as_json)
        except (ValueError, ImportError) as error:
            _fail(str(error), as_json)
        except MemoryError:
            _fail("out of memory; try fewer images, a smaller codebook or fewer jobs", as_json)

    return guarded


def _note_compiling() -> None:
    print(
        "note: compiling for this machine, which takes up to half a minute, once",
        file=sys.stderr,
    )


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM end the work as Ctrl-C does: threads joined, temporary files removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, as_json: bool, code: int = 1) -> NoReturn:
    print(f"error: {printable(message)}", file=sys.stderr)
    try:
        if as_json:
            print(json.dumps({"error": message}))
        sys.stdout.flush()
    except OSError:  # it was standard output that failed
        _abandon_output()
    raise typer.Exit(code)


def _abandon_output() -> None:
    """Discard further output: standard output is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_skipped(skipped: Sequence[Skipped], total: int) -> None:
    """Print what was skipped and why, and end with the exit code for that."""
    if not skipped:
        return
    for one in skipped:
        print(f"skipped {printable(one.path)}: {printable(one.reason)}", file=sys.stderr)
    if len(skipped) == total:
        print("error: none of the files could be read", file=sys.stderr)
        raise typer.Exit(1)
    print(f"skipped {len(skipped)} of {plural(total, 'file')}", file=sys.stderr)
    raise typer.Exit(SKIPPED)
