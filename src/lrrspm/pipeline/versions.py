"""Versions: all processes of a cluster run the same lrrspm, or none of a run's chunks."""

from __future__ import annotations

from collections.abc import Callable


class ClusterError(ConnectionError):
    """A cluster that cannot be used; the message names it, the reason and the remedy."""


class VersionError(ClusterError):
    """A scheduler or worker with another lrrspm; the message has both versions."""


def question() -> Callable[[], dict[str, str] | str]:
    """Return what scheduler and workers are asked: a function that travels by value.

    Any other is looked up in their lrrspm, which may not have it.
    """

    def ask() -> dict[str, str] | str:
        try:
            import lrrspm
        except ImportError as error:
            return f"has no lrrspm ({error})"
        try:
            from lrrspm.cache.keys import makers
        except ImportError:
            return f"has lrrspm {lrrspm.__version__}"
        return {**makers(), "lrrspm": lrrspm.__version__}

    return ask


def identity(found: dict[str, str]) -> tuple[str, str]:
    """Return the version of lrrspm and the digest of its source files."""
    return found["lrrspm"], found["sources"]


def check_answer(
    expected: tuple[str, str], found: dict[str, str] | str, who: str
) -> dict[str, str]:
    """Return an answer to the question; VersionError if it tells of another lrrspm."""
    if isinstance(found, str):
        raise VersionError(
            f"{who} {found}, this run lrrspm {expected[0]}; install one version on all machines"
        )
    check_identity(expected, found, who)
    return found


def check_identity(expected: tuple[str, str], found: dict[str, str], who: str) -> None:
    """Raise VersionError where a process has another lrrspm than the run."""
    theirs = identity(found)
    if theirs == expected:
        return
    if theirs[0] != expected[0]:
        raise VersionError(
            f"{who} has lrrspm {theirs[0]}, this run lrrspm {expected[0]}; "
            "install one version on all machines"
        )
    raise VersionError(
        f"{who} has other source files of lrrspm {theirs[0]} ({theirs[1][:10]}) than this run "
        f"({expected[1][:10]}); install the same on all machines"
    )
