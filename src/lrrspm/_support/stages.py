"""Stages of a long job: seconds and memory of each, and progress for a listener."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from .environment import held_memory, peak_memory

T = TypeVar("T")

Listener = Callable[[str, int, int], None]
"""Called with a stage's name, the items done and the items in total."""


class Memory(NamedTuple):
    """Memory of the process in MB: now, and at most since it started; None if unknown."""

    held: float | None
    peak: float | None


class Stages:
    """Wall-clock seconds per stage, and the memory at its end.

    Parameters
    ----------
    listener : callable or None
        Called as ``listener(name, done, total)``, at most once per item.

    Attributes
    ----------
    seconds : dict of str to float
    memory : dict of str to Memory
        Of the process, when the stage last ended.
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
        """Add seconds to a stage that has just ended or paused."""
        self.add_all([(name, seconds)])

    def add_all(self, spent: Iterable[tuple[str, float]]) -> None:
        """Add seconds to several stages that have just ended together."""
        memory = Memory(held_memory(), peak_memory())
        for name, seconds in spent:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.memory[name] = memory

    def set_apart(self, before: dict[str, float], name: str) -> None:
        """Move all seconds added since ``before``, an earlier ``seconds``, to one stage."""
        lost = sum(self.seconds.values()) - sum(before.values())
        for stage in self.seconds.keys() - before.keys():
            del self.memory[stage]
        self.seconds = dict(before)
        self.add(name, lost)

    def track(self, name: str, items: Iterable[T], total: int) -> Iterator[T]:
        """Yield items and tell the listener how many are done."""
        self.tell(name, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            self.tell(name, done, total)

    def tell(self, name: str, done: int, total: int) -> None:
        """Report progress to the listener, if there is one."""
        if self._listener is not None:
            self._listener(name, done, total)
