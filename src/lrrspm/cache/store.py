"""Computed features on disk: a second run takes seconds, and a killed one goes on.

A store is a folder with a marker file. Below it lie codebooks, samples (the
descriptors drawn for a codebook that is not learnt yet), vectors, and the
reasons why pictures could not be read, each kind on shelves: folders named by
a hash over everything that changes their content. A shelf's files, the shards,
hold up to 64 named arrays each and are themselves named by the SHA-256 of their
bytes. So a damaged shard is known as such, and several processes may write at
the same time without asking each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import platform
import re
import secrets
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from .. import __version__
from .._support.files import file_digest, write_atomically
from .._support.parallel import ordered_map
from .._support.stages import Stages

FORMAT = 1
KINDS = ("codebooks", "samples", "unreadable", "vectors")
SHARD = 64
"""Arrays in a shard; what a killed run may have to compute again."""

_MARKER = "lrrspm-store.json"
_ABOUT = "lrrspm"
_SHARD_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_UNFINISHED_NAME = re.compile(r"\.[0-9a-f]{16}\.part")
_SHELF_NAME = re.compile(r"[0-9a-f]{64}")


class StoreError(ValueError):
    """A folder that cannot serve as a store; the message names it and says why."""


class FeatureStore:
    """Codebooks, samples and vectors in a folder that several processes may share.

    Parameters
    ----------
    folder : path or None
        A store, or a folder that is empty or does not exist yet. None is a
        store that knows nothing and keeps nothing.

    Notes
    -----
    What cannot be written (a full disk, a folder without permission) is not
    kept: a warning says so once, and the work goes on.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = None if folder is None else _claim(Path(folder))
        self._digests: dict[str, tuple[tuple[int, ...], str | None]] = {}
        self._full = False

    @property
    def active(self) -> bool:
        """Whether there is a folder."""
        return self._folder is not None

    def digests(self, images: Iterable[Any], executor: Executor | None) -> list[str | None]:
        """The :meth:`digest` of each image."""
        return list(ordered_map(self.digest, images, executor))

    def digest(self, image: Any) -> str | None:
        """SHA-256 of a file, or of an array with its type and shape.

        None without a folder, and for what :func:`lrrspm.files.file_digest`
        does not read. A file is read again only if its size, times or inode
        have changed.
        """
        if self._folder is None:
            return None
        if isinstance(image, np.ndarray):
            return _digest_array(image)
        signature = _signature(image)
        known = self._digests.get(os.fspath(image))
        if known is None or known[0] != signature:
            known = signature, file_digest(image)
            self._digests[os.fspath(image)] = known
        return known[1]

    def unchanged(self, image: Any, digest: str | None) -> bool:
        """Whether a file has not been touched since it had the digest; an array never is.

        Its content alone would not tell: a file may have been another one
        while it was read, and be the old one again.
        """
        if isinstance(image, np.ndarray):
            return True
        known = self._digests.get(os.fspath(image))
        return digest is not None and known == (_signature(image), digest)

    def shelf(self, kind: str, about: dict[str, Any] | None) -> Shelf:
        """The shelf for what ``about`` describes; None has one that keeps nothing."""
        if self._folder is None or about is None:
            return Shelf(None, {}, self._write)
        return Shelf(self._folder / kind / hash_of(about), about, self._write)

    @contextlib.contextmanager
    def timed(self, stages: Stages) -> Iterator[None]:
        """Add the time spent inside to the stage "store", where there is a folder."""
        with contextlib.nullcontext() if self._folder is None else stages.timed("store"):
            yield

    def _write(self, path: Path, content: bytes) -> None:
        """Write a shard, unless an earlier one could not be written."""
        if self._full:
            return
        try:
            try:
                _write_quickly(path, content)
            except FileNotFoundError:  # a new shelf, or another process has just emptied it
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_quickly(path, content)
        except OSError as error:
            self._full = True
            warnings.warn(
                f"{self._folder}: cannot be written to ({error.strerror or error}); "
                "going on without keeping results there",
                stacklevel=2,
            )


class Shelf:
    """Named arrays in a folder, up to 64 in a file; safe to use from several threads.

    Parameters
    ----------
    folder : Path or None
        None is a shelf that keeps nothing.
    about : dict
        What the arrays are, for people.
    write : callable
        Called as ``write(path, content)`` for each new shard.
    """

    def __init__(
        self, folder: Path | None, about: dict[str, Any], write: Callable[[Path, bytes], None]
    ) -> None:
        self._folder = folder
        self._about = about
        self._write_shard = write
        self._lock = threading.Lock()
        self._waiting: dict[str, NDArray[Any]] = {}
        self._shards: dict[str, Path] = {}
        for path in _shards(folder):
            for name in _read_header(path)[0]:
                self._shards[name] = path

    def fetch(self, names: Iterable[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
        """Those of the named arrays that are there, a shard after the other."""
        wanted = defaultdict(list)
        for name in names:
            if name in self._shards:
                wanted[self._shards[name]].append(name)
        for path, here in wanted.items():
            arrays = _read_shard(path)
            if arrays is None:
                self._shards = {n: other for n, other in self._shards.items() if other != path}
                continue
            for name in here:
                yield name, arrays[name]

    def put(self, name: str | None, array: NDArray[Any]) -> None:
        """Keep an array, once there are enough for a shard; None is not kept."""
        if self._folder is None or name is None:
            return
        # Whoever fills a shard writes it, and the others wait: a run that is
        # killed loses one shard and what each thread holds in its hands.
        with self._lock:
            if name not in self._shards:
                self._waiting[name] = array
            if len(self._waiting) >= SHARD:
                self._write()

    def flush(self) -> None:
        """Write what waits for its shard to be full."""
        with self._lock:
            if self._waiting:
                self._write()

    def discard(self) -> None:
        """Delete all that is on the shelf, as far as that may be done."""
        self._shards.clear()
        self._waiting.clear()
        with contextlib.suppress(OSError):
            for path in _shards(self._folder):
                path.unlink(missing_ok=True)
            if self._folder is not None:
                self._folder.rmdir()

    def _write(self) -> None:
        assert self._folder is not None
        arrays = {name: np.ascontiguousarray(a) for name, a in self._waiting.items()}
        content = save(arrays, {_ABOUT: json.dumps(self._about, sort_keys=True)})
        path = self._folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
        self._write_shard(path, content)
        self._shards.update(dict.fromkeys(self._waiting, path))
        self._waiting.clear()


def hash_of(description: Any) -> str:
    """SHA-256 over something JSON can hold, and over what makes the numbers here."""
    text = json.dumps([FORMAT, _makers(), description], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def _makers() -> dict[str, str]:
    """Whatever the last bits of a result depend on besides its input.

    Decoders, matrix products and compiled loops differ from version to version
    and from processor to processor; so may any line of this package.
    """
    from llvmlite.binding import get_host_cpu_name

    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        sources.update(path.read_bytes())
    modules = [importlib.import_module(name) for name in ("numba", "numpy", "PIL", "scipy")]
    return {
        "lrrspm": __version__,
        "sources": sources.hexdigest(),
        "processor": f"{platform.machine()} {get_host_cpu_name()}",
        **{module.__name__: module.__version__ for module in modules},
    }


def plain(value: Any) -> Any:
    """A parameter as JSON holds it, arrays as their digest; TypeError for what has no fixed value.

    >>> plain({"levels": (1, 2), "norm": None})
    {'levels': [1, 2], 'norm': None}
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _digest_array(value)
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise TypeError(f"a {type(value).__name__} has no fixed value")


def _signature(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """What changes whenever a file is written to or replaced; nothing where there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return ()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def _digest_array(array: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}:".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def contents(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """What is on each shelf of a store: kind, about, arrays, files, bytes, current.

    What is not ``current`` was made by another version or on another kind of
    processor, and is not used here.
    """
    root = _check_marker(Path(folder))
    shelves = []
    for kind, shelf in _shelves(root):
        about: dict[str, Any] = {}
        arrays = files = size = 0
        for path in _shards(shelf):
            with contextlib.suppress(FileNotFoundError):
                size += path.stat().st_size
                names, about = _read_header(path)
                arrays += len(names)
                files += 1
        shelves.append(
            {"kind": kind, "about": about, "arrays": arrays, "files": files, "bytes": size,
             "current": shelf.name == hash_of(about)}
        )  # fmt: skip
    return [shelf for shelf in shelves if shelf["files"]]


def clear(folder: str | os.PathLike[str]) -> tuple[int, int]:
    """Empty a store: delete what it wrote and nothing else. Returns files and bytes."""
    root = _check_marker(Path(folder))
    files = size = 0
    for _, shelf in _shelves(root):
        for path in [*_shards(shelf), *_files(shelf, _UNFINISHED_NAME)]:
            with contextlib.suppress(FileNotFoundError):
                size += path.stat().st_size
                path.unlink()
                files += 1
        with contextlib.suppress(OSError):  # what is not ours stays
            shelf.rmdir()
    return files, size


def _shelves(root: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each shelf."""
    return [
        (kind, path)
        for kind in KINDS
        if (root / kind).is_dir()
        for path in sorted((root / kind).iterdir())
        if _SHELF_NAME.fullmatch(path.name) and path.is_dir()
    ]


def _shards(folder: Path | None) -> list[Path]:
    return [] if folder is None else _files(folder, _SHARD_NAME)


def _files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
    except FileNotFoundError:
        return []


def _read_header(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Names of a shard's arrays and what they are; of a damaged one nothing, and it is deleted."""
    try:
        with safe_open(path, framework="numpy") as file:
            return list(file.keys()), json.loads((file.metadata() or {})[_ABOUT])
    except FileNotFoundError:
        return [], {}
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        _drop(path, error)
        return [], {}


def _read_shard(path: Path) -> dict[str, NDArray[Any]] | None:
    """A shard's arrays; None if it is gone, or damaged, which has it deleted."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != path.stem:
            raise ValueError("its bytes do not have the checksum in its name")
        return load(content)
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, ValueError) as error:
        _drop(path, error)
        return None


def _drop(path: Path, error: Exception) -> None:
    what = "cannot be read" if isinstance(error, OSError) else "damaged"
    warnings.warn(f"{path}: {what} ({error}); what it held will be computed again", stacklevel=2)
    if not isinstance(error, OSError):
        with contextlib.suppress(OSError):
            path.unlink()


def _write_quickly(path: Path, content: bytes) -> None:
    """Write to a temporary name, then rename.

    Without waiting for the disk, as model files do: a shard that a power cut
    leaves empty fails its checksum and is computed again.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _claim(folder: Path) -> Path:
    """Make an empty or new folder a store; any other must be one already."""
    marker = folder / _MARKER
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder}: is not a folder; give the name of one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        # Asked after looking: another process may be making the same store now.
        if not marker.exists():
            if strangers:
                raise StoreError(
                    f"{folder}: holds other files ({strangers[0]}) and is no feature store; "
                    "give an empty folder, or one that does not exist"
                )
            write_atomically(marker, json.dumps({"format": FORMAT}).encode())
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be made a feature store ({error.strerror or error}); "
            "give another folder"
        ) from error
    return _check_marker(folder)


def _check_marker(folder: Path) -> Path:
    """A folder that is a store of our format."""
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder")
    try:
        found = json.loads((folder / _MARKER).read_bytes())["format"]
    except FileNotFoundError:
        raise StoreError(f"{folder}: is no feature store (it has no {_MARKER})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder / _MARKER}: damaged ({error}); delete the folder") from None
    if found != FORMAT:
        raise StoreError(
            f"{folder}: a feature store of format {found}, this lrrspm {__version__} has format "
            f"{FORMAT}; give another folder"
        )
    return folder
