"""Text that people read: names made safe to print."""

from __future__ import annotations


def printable(value: object) -> str:
    """Return text with control and invisible characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))


def plural(count: int, word: str) -> str:
    """Return a number with its word: "1 image", "2 images", "1,200 classes"."""
    ending = "" if count == 1 else "es" if word.endswith("s") else "s"
    return f"{count:,} {word}{ending}"
