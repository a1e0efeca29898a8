"""Names that the API can send and people can tell apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Direction marks reverse what follows: "gnp.exe" displays as "exe.png".
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escape(text: str) -> str:
    """Return text with direction marks and what JSON cannot encode escaped."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return _DIRECTION_MARKS.sub(lambda mark: ascii(mark[0])[1:-1], text)


def escape_all(names: Iterable[object]) -> list[str]:
    """Escape names that differ; those that would become equal are numbered."""
    escaped: dict[str, None] = {}
    for name in names:
        base = label = escape(str(name))
        number = 1
        while label in escaped:
            number += 1
            label = f"{base} ({number})"
        escaped[label] = None
    return list(escaped)
