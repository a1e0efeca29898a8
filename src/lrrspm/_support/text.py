"""Text that people read: names made safe to print, counts, probabilities."""

from __future__ import annotations

import re


def printable(value: object) -> str:
    """Return text with control and invisible characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 image", "1,200 images", "2 classes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def natural_key(name: object) -> tuple[object, ...]:
    """Return a key that sorts names as people do: s2 before s10, letters without case."""
    pieces = re.split("([0-9]+)", str(name))
    # Longer numbers are larger, once their zeros are gone; int() refuses very long ones.
    numbers = [(len(digits.lstrip("0")), digits.lstrip("0")) for digits in pieces[1::2]]
    letters = [piece.casefold() for piece in pieces[::2]]
    return tuple(zip(letters, [*numbers, (-1, "")], strict=True)), str(name)


def percent(probability: float) -> str:
    """Return a probability in percent; neither 0 nor 100 unless it is."""
    if 0 < probability < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= probability < 1:
        return "> 99.9 %"
    return f"{100 * probability:.1f} %"
