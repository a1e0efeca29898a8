"""Text that people read: safe names, singular and plural."""

from __future__ import annotations


def printable(value: object) -> str:
    """Return text with control and invisible characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))


def plural(count: int, noun: str) -> str:
    """Return a count and its noun: "1 image", "2 images", "3 classes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun[-1] == 's' else 's'}"
