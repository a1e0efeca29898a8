"""Costs: seconds that candidates of a search took, and those that others will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..methods import find_method, measured
from ..pooling import Level


class Step(NamedTuple):
    """A candidate that is still to be tried."""

    method: str
    levels: tuple[Level, ...]
    C: float


class Costs:
    """Seconds since a search began, and an estimate of those that a step will take.

    A step of another preset than the one that was timed takes::

        fixed + grown * rate / other_rate + gram * other_length / length + dual

    where ``grown`` is what grew with the images, ``fixed`` the rest of the seconds of
    the vectors, such as learning codebooks and compiling, rates are the measured images
    per second of both presets, and lengths those of their vectors.

    Parameters
    ----------
    clock : callable
        Returns the seconds of a clock.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._begin = clock, clock()
        self._last: Step | None = None
        self._seconds = {"vectors": 0.0, "gram": 0.0, "dual": 0.0}
        self._grown = self._whole_gram = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self._clock() - self._begin

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Time the ``vectors``, ``gram`` or ``dual`` of a step."""
        begin = self.elapsed
        yield
        self._seconds[what] = self.elapsed - begin

    def encoded(self, share: float, seconds: float, describing: float) -> None:
        """Note what encoding a share of the images again took, and describing them in it.

        This is warm, so it tells what grows with the images from what does not. Each
        image is read once, described for the codebook and again for its vector, and
        encoded; the share is then encoded again.
        """
        self._grown = (seconds + describing) / share + seconds

    def tried(self, step: Step) -> None:
        """Note that the seconds are those of this step."""
        if self._last is None or step.method != self._last.method:
            self._whole_gram = self._seconds["gram"]
        self._last = step

    def expect(self, step: Step, before: Step | None = None) -> float:
        """Estimate the seconds of a step; 0 for the first.

        The step follows ``before``, or by default the last one that was tried.
        """
        last = self._last
        if last is None:
            return 0.0
        before = before or last
        if step.method == before.method:
            if step.levels == before.levels:
                return self._seconds["dual"]
            if step.method == last.method:
                return self._seconds["dual"] + self._seconds["gram"]
        longer = _length(step.method) / _length(last.method)
        part = self._seconds["dual"] + self._whole_gram * longer
        return part if step.method == before.method else part + self._vectors(step, last)

    def _vectors(self, step: Step, last: Step) -> float:
        # With a store, vectors may have taken less than to compute them.
        grown = min(self._grown, self._seconds["vectors"])
        rates = [measured()[one]["images_per_second"] for one in (last.method, step.method)]
        return self._seconds["vectors"] - grown + grown * float(rates[0] / rates[1])


def _length(method: str) -> int:
    """Return the length of a preset's vectors."""
    return sum(channel.expected_features for channel in find_method(method).channels())
