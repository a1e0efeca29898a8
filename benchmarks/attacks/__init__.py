"""Attacks on the command line, the library and the server, with what they cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Attack(NamedTuple):
    """An attack: a number to group it by, a name, and a function that runs it in a folder."""

    item: str
    name: str
    run: Callable[[Path], dict[str, Any]]
