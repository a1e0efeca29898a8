"""Text that people read: names made safe to print."""

from __future__ import annotations


def printable(value: object) -> str:
    """Return text with control and invisible characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))
