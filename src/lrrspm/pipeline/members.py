"""Members: the workers that a scheduler has, which of them are well, and what they run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..cache import makers
from .versions import ClusterError, check_answer, identity, question

if TYPE_CHECKING:
    from distributed import Client

R = TypeVar("R")

SILENT = 5.0
"""Seconds without a sign of life after which a worker counts as hanging."""

ANSWER = 30.0
"""Seconds to wait for the workers to say what they are."""


class SilenceError(ClusterError):
    """A worker that does not answer."""


class Members:
    """The workers of a scheduler, which come and go.

    Attributes
    ----------
    expected : tuple of str
        Version and digest of the sources of the lrrspm that all must have.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self.expected: tuple[str, str] = identity(makers())
        self._checked: set[str] = set()

    def all(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker; some versions list five unless asked."""
        try:
            info = self._client.scheduler_info(n_workers=-1)
        except TypeError:  # of a version that always lists all
            info = self._client.scheduler_info()
        workers: dict[str, Any] = info["workers"]
        return workers

    def well(self, workers: dict[str, Any] | None = None) -> set[str]:
        """Return the workers that have not fallen silent."""
        workers = self.all() if workers is None else workers
        latest = max((one["last_seen"] for one in workers.values()), default=0.0)
        silent = max(SILENT, len(workers) / 25)  # the more there are, the less often they report
        return {w for w, one in workers.items() if latest - one["last_seen"] < silent}

    def ask(
        self,
        workers: set[str],
        function: Callable[..., R],
        *args: Any,
        on_error: Literal["raise", "return"] = "raise",
    ) -> dict[str, R]:
        """Call a function on workers; returns answers by address.

        Not by ``client.run`` alone, which waits for a worker that hangs without an end.
        """
        asked = sorted(workers)
        answers: Queue[dict[str, R] | BaseException] = Queue()

        def ask() -> None:
            try:
                answers.put(self._client.run(function, *args, workers=asked, on_error=on_error))
            except BaseException as error:
                answers.put(error)

        Thread(target=ask, daemon=True).start()
        try:
            found = answers.get(timeout=ANSWER)
        except Empty:
            raise SilenceError(
                f"{self._name}: a worker has not answered for {ANSWER:.0f} seconds; restart "
                f"those that hang, of: {', '.join(asked)}"
            ) from None
        if isinstance(found, BaseException):
            raise found
        return found

    def check_scheduler(self) -> None:
        """Refuse a scheduler with another lrrspm, or with none: it unpickles what tasks are."""
        check_answer(self.expected, self._client.run_on_scheduler(question()), "the scheduler")

    def check_new(self, present: set[str]) -> None:
        """Check the workers that were not there when this was last asked."""
        self._checked &= present  # who comes back may be another
        if new := present - self._checked:
            new &= self.well()
            try:
                self.check_workers(new)
            except SilenceError:  # it does not hold up the others, and each chunk asks again
                self._checked |= new

    def check_workers(self, workers: set[str]) -> None:
        """Refuse workers with another lrrspm, and warn of those with another processor.

        One that dies before it answers is not asked again: it computes nothing. SilenceError
        for one that is there, and that the scheduler cannot reach.
        """
        ours = makers()
        different: dict[str, str] = {}
        answers = self.ask(workers, question(), on_error="return") if workers else {}
        unreached = {w: answer for w, answer in answers.items() if isinstance(answer, OSError)}
        for address, answer in answers.items():
            if address in unreached:
                continue
            if isinstance(answer, BaseException):
                raise answer
            theirs = check_answer(self.expected, answer, f"worker {address}")
            for name, value in ours.items():
                if theirs.get(name) != value and address not in self._checked:
                    different[name] = f"{name} {theirs.get(name)!s:.60} on {address}"
        self._checked |= workers - set(unreached)
        if different:
            warnings.warn(
                "workers differ from this machine, so the last bits of results may too: "
                + "; ".join(different.values()),
                stacklevel=2,
            )
        if still_there := sorted(unreached.keys() & self.all()) if unreached else []:
            raise SilenceError(
                f"{self._name}: cannot reach {', '.join(still_there)} "
                f"({unreached[still_there[0]]}); open the workers' ports to the scheduler"
            )
