"""Stages of a long job: seconds and memory of each, and a listener that is told how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from .environment import held_memory, peak_memory

T = TypeVar("T")

Listener = Callable[[str, int, int], None]
"""Called with a stage's name, what is done and what there is to do."""


class Memory(NamedTuple):
    """Memory of the process in MB; None where the system does not tell."""

    held: float | None
    """Now."""
    peak: float | None
    """At most, since the process began."""


class Stages:
    """Wall-clock seconds by stage, and the memory that was held at its end.

    Parameters
    ----------
    listener : callable or None
        Called as ``listener(name, done, total)``, at most once an item.

    Attributes
    ----------
    seconds : dict of str to float
    memory : dict of str to Memory
        Of the process, each time the stage ended; the last time counts.
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, Memory] = {}
        self._listener = listener

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add to a stage that has just ended, or ended for now."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.memory[name] = Memory(held_memory(), peak_memory())

    def set_apart(self, before: dict[str, float], name: str) -> None:
        """Count all that was added since the seconds were ``before`` to one stage instead."""
        lost = sum(self.seconds.values()) - sum(before.values())
        for stage in self.seconds.keys() - before.keys():
            del self.memory[stage]
        self.seconds = dict(before)
        self.add(name, lost)

    def track(self, name: str, items: Iterable[T], total: int) -> Iterator[T]:
        """Pass items on and tell the listener how many have gone by."""
        self.tell(name, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            self.tell(name, done, total)

    def tell(self, name: str, done: int, total: int) -> None:
        if self._listener is not None:
            self._listener(name, done, total)
