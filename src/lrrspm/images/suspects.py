"""Suspects: files whose first and last bytes are not those of a whole image."""

from __future__ import annotations

import os

from .._support.files import open_regular
from .._support.remote import is_remote

# Cameras add data behind the end of a JPEG.
_TAIL = 2**16


def looks_damaged(path: str | os.PathLike[str]) -> bool:
    """Return True if a file is most likely not an image, or truncated.

    A look at both ends, 40 us; decoding decides. Damage in the middle, and that
    of TIFF and PNM files, is not seen.
    """
    if isinstance(path, str) and is_remote(path):
        return False  # reading it twice takes longer than decoding
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(16)
            file.seek(max(0, size - _TAIL))
            tail = file.read(_TAIL)
    except OSError:
        return True
    if head.startswith(b"\xff\xd8\xff"):
        return b"\xff\xd9" not in tail
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return b"IEND" not in tail
    if head.startswith(b"GIF8"):
        return b";" not in tail[-8:]
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return int.from_bytes(head[4:8], "little") + 8 > size
    if head.startswith(b"BM"):
        return int.from_bytes(head[2:6], "little") > size
    others = (b"II*\0", b"MM\0*", *(b"P%d" % kind for kind in range(1, 7)))
    return not (head.startswith(others) or head[4:8] == b"ftyp")
