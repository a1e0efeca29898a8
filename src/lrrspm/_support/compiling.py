"""Compiling: who is told when loops are compiled, which takes seconds where none are kept."""

from __future__ import annotations

from collections.abc import Callable

_listener: Callable[[], object] | None = None


def listen_to_compiling(listener: Callable[[], object] | None) -> None:
    """Have a function called once, when the next loop is compiled."""
    global _listener
    _listener = listener


def tell_of_compiling() -> None:
    """Call the listener, if there is one that was not called yet."""
    global _listener
    listener, _listener = _listener, None
    if listener is not None:
        listener()
