"""Strict: Pillow without tolerance and without messages, while images are decoded."""

from __future__ import annotations

import ctypes
import re
import threading
import warnings
from functools import cache
from typing import Any

from PIL import ImageFile, _imaging

# They name no file, and would refuse an image where warnings are errors.
_IGNORED = ("ignore", None, UserWarning, re.compile(r"PIL\."), 0)


@cache
def _error_handler_setter() -> Any:
    """Return libtiff's function that replaces its error handler, in the copy that Pillow uses.

    A handle of Pillow's extension also finds the symbols of the libraries that
    it was linked with. None where this fails.
    """
    try:
        setter = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
    except (AttributeError, OSError):
        return None
    setter.restype, setter.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return setter


class Strict:
    """Make Pillow refuse truncated files silently while any thread is inside.

    These switches are global to the process, and other libraries flip them:
    Pillow's tolerance of truncated files, libtiff's messages on stderr, and
    the filters of warnings. What was found is restored by the last thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._tolerant = False
        self._handler: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self._tolerant |= ImageFile.LOAD_TRUNCATED_IMAGES
            ImageFile.LOAD_TRUNCATED_IMAGES = False
            # Filters may be replaced meanwhile. Inserting by hand keeps Python's record of warnings
            # already shown, which warnings.filterwarnings would clear.
            if _IGNORED not in warnings.filters[:1]:
                warnings.filters.insert(0, _IGNORED)  # type: ignore[attr-defined]
            if self._inside == 1 and (set_handler := _error_handler_setter()) is not None:
                self._handler = set_handler(None)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside:
                return
            ImageFile.LOAD_TRUNCATED_IMAGES |= self._tolerant
            self._tolerant = False
            while _IGNORED in warnings.filters:
                warnings.filters.remove(_IGNORED)  # type: ignore[attr-defined]
            if (set_handler := _error_handler_setter()) is not None:
                set_handler(self._handler)


strict: Strict = Strict()
