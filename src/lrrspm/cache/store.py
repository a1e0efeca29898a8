"""Computed features on disk: a second run takes seconds, an interrupted one resumes.

A store is a folder, or an address that fsspec reaches, with a marker file. It
holds codebooks and the other arrays of fitted channels, samples (descriptors
drawn for a codebook that is not learned yet), vectors, brightness patterns that
tell near copies, and the reasons why images could not be read. Each kind lies on
shelves: folders named by a hash of everything that changes their content. A
shelf's files, the shards, hold up to 64 named arrays each and are named by the
SHA-256 of their bytes. So damage is noticed, and several processes may write at
the same time: nothing is ever changed or appended, which object stores cannot do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from .._support.files import file_digest, file_signature, write_atomically
from .._support.leftovers import OWNER, abandoned
from .._support.shards import PREFIX
from .._support.stages import Stages
from .keys import FORMAT, digest_array, hash_of
from .places import LocalPlace, Place, place_of
from .shelf import Form, Shelf, read_headers, shards, unfinished

KINDS = ("codebooks", "patterns", "samples", "unreadable", "vectors")

TRAINING = ".training"
"""Folder of a store where vectors are while a machine is trained on more than memory."""

_MARKER = "lrrspm-store.json"
_MARKER_BYTES = 1000
_SHELF_NAME = re.compile(r"[0-9a-f]{64}")


_PAUSE = 20
"""Times what listing a shelf again took, before the next time."""

Mapped = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""``map``, or something that does the same on threads or on other machines."""

Known = tuple[tuple[int, ...], str | None]
"""The signature of a file when its digest was computed, and the digest."""


class StoreError(ValueError):
    """A folder or address that cannot serve as a store; the message names it and the reason."""


class FeatureStore:
    """Codebooks, samples and vectors in a folder that several processes may share.

    Parameters
    ----------
    folder : path, address or None
        A store, or a folder that is empty or does not exist yet; an address such as
        ``s3://bucket/store`` too. With None nothing is found and nothing kept.

    Attributes
    ----------
    found : Counter of str
        Arrays of each kind that were found, so that nobody takes the seconds of a run
        for those of computing them.
    trouble : str or None
        Why nothing more is written.

    Notes
    -----
    If the folder cannot be written to or listed (a full disk, no permission, a
    server that does not answer), a warning says so once, and the work goes on.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._place = None if folder is None else _claim(place_of(folder))
        self._digests: dict[str, Known] = {}
        self._shelves: dict[str, Shelf] = {}
        self._due: dict[str, float] = {}  # when each is listed again
        self.trouble: str | None = None
        self.found: Counter[str] = Counter()

    @property
    def folder(self) -> Path | str | None:
        """Where it is: a path, or an address as text."""
        place = self._place
        if place is None:
            return None
        return place.path if isinstance(place, LocalPlace) else str(place)

    @property
    def active(self) -> bool:
        """True if there is a folder."""
        return self._place is not None

    def digests(self, images: Sequence[Any], mapped: Mapped = map) -> list[str | None]:
        """Return what :meth:`identify` does; None for each without a folder."""
        return [None] * len(images) if self._place is None else self.identify(images, mapped)

    def identify(self, images: Sequence[Any], mapped: Mapped = map) -> list[str | None]:
        """Return the SHA-256 of each file, or of an array with its type and shape.

        None for files that cannot be read. A file is read again only if its size,
        times or inode have changed. ``mapped`` is a ``map`` that may use threads or
        other machines.
        """
        files = [None if isinstance(image, np.ndarray) else os.fspath(image) for image in images]
        before = [None if file is None else self._digests.get(file) for file in files]
        # No digest travels: engines take any string for a path, and make it absolute.
        asked = [(image, known and known[0]) for image, known in zip(images, before, strict=True)]
        digests = []
        for file, known, new in zip(files, before, mapped(_identify, asked), strict=True):
            found = new or known
            assert found is not None
            if file is not None:
                self._digests[file] = found
            digests.append(found[1])
        return digests

    def unchanged(self, image: Any, digest: str | None) -> bool:
        """True if a file was not touched since it had the digest; arrays never are.

        Comparing content would not do: a file may be replaced while it is read,
        and restored afterwards.
        """
        if isinstance(image, np.ndarray):
            return True
        known = self._digests.get(os.fspath(image))
        return digest is not None and known == (file_signature(image), digest)

    def shelf(self, kind: str, about: dict[str, Any] | None, form: Form) -> Shelf:
        """Return the shelf for what ``about`` describes; for None one that keeps nothing.

        It is listed again where that takes little of the time: each block of a long run asks
        for its shelf, and has added to it.
        """

        def count() -> None:
            self.found[kind] += 1

        if self._place is None or about is None:
            return Shelf(None, {}, form, self._write, count)
        name = hash_of(about)
        key = f"{kind}/{name}"
        if key not in self._shelves:
            self._shelves[key] = Shelf(self._place / kind / name, about, form, self._write, count)
        begin = time.monotonic()
        if begin >= self._due.get(key, begin):
            try:
                self._shelves[key].look_again()  # at new shards only, where it was opened before
            except OSError as error:
                self._give_up("list", error)
            now = time.monotonic()
            # The first time takes longer: it reads the headers of all shards.
            self._due[key] = now + _PAUSE * (now - begin) if key in self._due else now
        return self._shelves[key]

    def forget_files(self) -> None:
        """Drop the digests of files; a long run would keep those of all it has met."""
        self._digests.clear()

    @contextlib.contextmanager
    def timed(self, stages: Stages) -> Iterator[None]:
        """Add the time spent inside to the stage "store", where there is a folder."""
        with contextlib.nullcontext() if self._place is None else stages.timed("store"):
            yield

    def _write(self, place: Place, name: str, content: bytes) -> None:
        """Write a shard, unless an earlier one failed."""
        if self.trouble is not None:
            return
        try:
            place.write(name, content)
        except OSError as error:
            self._give_up("write", error)

    def _give_up(self, verb: str, error: OSError) -> None:
        """Write nothing more, and say so once."""
        if self.trouble is not None:
            return
        self.trouble = (
            f"{self._place}: cannot {verb} ({error.strerror or error}); "
            "going on without caching results"
        )
        warnings.warn(self.trouble, stacklevel=3)


def _identify(asked: tuple[Any, tuple[int, ...] | None]) -> Known | None:
    """Compute the digest of an image; None for a file that still has the signature given."""
    image, known = asked
    if isinstance(image, np.ndarray):
        return (), digest_array(image)
    signature = file_signature(image)
    return None if signature == known else (signature, file_digest(image))


def contents(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """List the shelves of a store: kind, about, arrays, files, bytes, current.

    A shelf that is not ``current`` was made by another version or on another
    processor, and is not used.
    """
    root = _check_marker(place_of(folder))
    shelves = []
    for kind, name in _shelves(root):
        about: dict[str, Any] = {}
        place = root / kind / name
        sizes, arrays, files = shards(place), 0, 0
        for _, header in read_headers(place, sizes):
            about = header.about
            arrays += len(header.names)
            files += 1
        shelves.append(
            {"kind": kind, "about": about, "arrays": arrays, "files": files,
             "bytes": sum(sizes.values()), "current": name == hash_of(about)}
        )  # fmt: skip
    return [shelf for shelf in shelves if shelf["files"]]


def clear(folder: str | os.PathLike[str]) -> tuple[int, int]:
    """Delete what a store wrote and nothing else. Returns numbers of files and bytes.

    Of vectors that are kept for training, those of killed runs; at an address all, since
    it does not tell whether their run is still alive.
    """
    root = _check_marker(place_of(folder))
    files = size = 0
    for place, found in [*_shelved(root), *_left(root)]:
        for file in found:
            place.delete(file)
        left = place.files()
        files += sum(file not in left for file in found)
        size += sum(n for file, n in found.items() if file not in left)
        place.leave()  # what is not ours stays
    return files, size


def _shelved(root: Place) -> Iterator[tuple[Place, dict[str, int]]]:
    """Yield the shelves with the files that a store wrote to them."""
    for kind, name in _shelves(root):
        place = root / kind / name
        yield place, shards(place) | unfinished(place)


def _left(root: Place) -> Iterator[tuple[Place, dict[str, int]]]:
    """Yield the folders with vectors that killed runs left, with their files."""
    training = root / TRAINING
    if isinstance(training, LocalPlace):
        names = [path.name for path in abandoned(training.path, PREFIX)]
    else:
        names = [name for name in training.folders() if name.startswith(PREFIX)]
    for name in names:
        files = (training / name).files()
        # The owner's file last: a folder that cannot be emptied is found again.
        yield training / name, dict(sorted(files.items(), key=lambda file: file[0] == OWNER))


def _shelves(root: Place) -> list[tuple[str, str]]:
    """Kind and name of each shelf."""
    return [
        (kind, name)
        for kind in KINDS
        for name in (root / kind).folders()
        if _SHELF_NAME.fullmatch(name)
    ]


def _claim(place: Place) -> Place:
    """Turn an empty or new folder into a store; any other must be one already."""
    if isinstance(place, LocalPlace) and place.path.exists() and not place.path.is_dir():
        raise StoreError(f"{place}: not a folder")
    try:
        if isinstance(place, LocalPlace):
            place.path.mkdir(parents=True, exist_ok=True)
            os.listdir(place.path)  # an error where it may not be read
        names = [*place.files(), *place.folders()]
        strangers = sorted(name for name in names if not name.startswith("."))
        # Checked last: another process may be making the same store now.
        if _MARKER not in names and _MARKER not in place.files():
            if strangers:
                raise StoreError(
                    f"{place}: not a feature store, and not empty ({strangers[0]}); "
                    "give an empty or new folder"
                )
            content = json.dumps({"format": FORMAT}).encode()
            if isinstance(place, LocalPlace):  # waits for the disk
                write_atomically(place.path / _MARKER, content)
            else:
                place.write(_MARKER, content)
    except OSError as error:
        raise StoreError(
            f"{place}: cannot become a feature store ({error.strerror or error}); "
            "give another folder"
        ) from error
    return _check_marker(place)


def _check_marker(place: Place) -> Place:
    """Return a folder if it is a store of our format."""
    if isinstance(place, LocalPlace) and not place.path.is_dir():
        raise StoreError(f"{place}: no such folder")
    if _MARKER not in place.files():
        raise StoreError(f"{place}: not a feature store (it has no {_MARKER})")
    try:
        found = json.loads(place.read(_MARKER, _MARKER_BYTES))["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{place / _MARKER}: damaged ({error}); delete the folder") from None
    if found != FORMAT:
        raise StoreError(
            f"{place}: a feature store of format {found!s:.20}, this lrrspm {__version__} has "
            f"format {FORMAT}; give another folder"
        )
    return place
