"""Corrections: images whose right class a person has named, one folder per class."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from fastapi import HTTPException
from pydantic import BaseModel, Field

from .. import config
from .._support.files import write_atomically
from ..images import walk_images
from .errors import print_error

_FORBIDDEN = re.compile(r'[/\\:*?"<>|]')
# Names that Windows gives to devices, whatever follows the dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
LONGEST_NAME = 60
"""Letters of a class; a folder's name has room for 255 bytes."""


class Correction(BaseModel):
    """A saved correction."""

    label: str = Field(description="Class that the image was saved under.")
    images: int = Field(description="Images that the folder holds now.")


class Corrections:
    """A folder of corrected images: ``FOLDER/CLASS/DIGEST.SUFFIX``.

    Names of files are the SHA-256 of their content, never a client's. Saved
    again, an image moves to its last class.

    Parameters
    ----------
    folder : path
        Made if it does not exist.
    most_images, most_bytes : int
        What the folder may hold.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        most_images: int = config.COLLECT_IMAGES,
        most_bytes: int = config.COLLECT_MB * 10**6,
    ) -> None:
        self.folder: Path = Path(folder)
        self._most_images, self._most_bytes = most_images, most_bytes
        self._turn = asyncio.Lock()
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(f"{self.folder}: folder is read-only")

    async def save(self, content: bytes, suffix: str, label: str) -> Correction:
        """Save a decodable image under a class that :func:`check_class` has returned."""
        async with self._turn:
            try:
                images = await asyncio.to_thread(self._save, content, suffix, label)
            except OSError as error:
                print_error(f"cannot save corrections: {error}")
                raise HTTPException(507, "The server cannot save corrections") from None
        return Correction(label=label, images=images)

    def _save(self, content: bytes, suffix: str, label: str) -> int:
        digest = hashlib.sha256(content).hexdigest()
        target = self.folder / label / f"{digest}{suffix}"
        earlier = set(self.folder.glob(f"*/{digest}.*"))
        # Counted each time: a person may empty the folder meanwhile.
        others = {Path(path) for path in walk_images(self.folder)} - earlier
        size = len(content) + sum(path.stat().st_size for path in others)
        if len(others) >= self._most_images or size > self._most_bytes:
            raise HTTPException(507, "The folder of corrections is full; add its images to a model")
        target.parent.mkdir(exist_ok=True)
        write_atomically(target, content)
        for path in earlier - {target}:
            path.unlink()
        return len(others) + 1


def check_class(label: str, known: Sequence[str]) -> str:
    """Return the name of a class, one of the model's or a new one, if it can name a folder."""
    name = label if label in known else unicodedata.normalize("NFC", label)
    wrong = (
        not 0 < len(name) <= LONGEST_NAME
        or not name.isprintable()
        or _FORBIDDEN.search(name)
        or _DEVICES.fullmatch(name)
        or name[0] in ". "
        or name[-1] in ". "
    )
    if wrong:
        raise HTTPException(
            422,
            f"A class has 1 to {LONGEST_NAME} letters, digits or other signs, except "
            '/ \\ : * ? " < > |, no dot or blank at its ends, and no name of a device',
        )
    for one in known:
        if name != one and _folded(name) == _folded(one):
            raise HTTPException(422, f"There is a class {one!r}; use its name")
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
