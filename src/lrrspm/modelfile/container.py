"""A model <-> one safe file: arrays in safetensors, everything else in JSON.

The file is an ordinary safetensors file. Its metadata has one key, ``lrrspm``,
with a JSON object: ``format`` (a whole number), ``library`` (the version that
wrote it) and the description of the classifier. Nothing in it is code, and
the same model gives the same bytes. docs/model-format.md has the details.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .. import __version__
from .._support.files import write_atomically
from .._support.remote import fetch_remote, is_remote, naming
from .format1 import array_name, upgrade

FORMAT = 2
MAX_HEADER = 4 * 2**20
"""Largest header in bytes; one with 10,000 classes of 20 letters takes 0.7 MB."""
MAX_REMOTE = 2**32
"""Most bytes of a model file that are read from an address."""
_KEY = "lrrspm"
_LONGEST_VERSION = 100
_MOST_ARRAYS = 1024


class ModelFileError(ValueError):
    """A file that is not a model we can read; the message names it and the reason."""


def write_model(
    path: str | os.PathLike[str], description: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a model atomically."""
    header = {"format": FORMAT, "library": __version__, **description}
    # One key: safetensors keeps metadata in a hash map, whose order varies.
    metadata = {_KEY: json.dumps(header, sort_keys=True, allow_nan=False)}
    content = save({name: np.ascontiguousarray(a) for name, a in arrays.items()}, metadata)
    length = int.from_bytes(content[:8], "little")
    if length > MAX_HEADER:  # nobody could read it
        raise ValueError(
            f"{path}: the description takes {length:,} bytes, more than {MAX_HEADER:,}; "
            "use fewer classes or shorter names"
        )
    write_atomically(path, content)


class Tensor(NamedTuple):
    """Type ("F32" or the like) and shape of an array, from the header."""

    dtype: str
    shape: tuple[int, ...]


class ModelFile(NamedTuple):
    """An open model file; arrays are in memory only after ``read``."""

    description: dict[str, Any]
    tensors: dict[str, Tensor]
    read: Callable[[], dict[str, NDArray[Any]]]


@contextmanager
def local_model(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a model file; for an address, that of a copy of the same name, for a while.

    Errors of the copy name the address.
    """
    if not is_remote(path):
        yield Path(path)
        return
    with TemporaryDirectory(prefix="lrrspm-") as folder:
        name = re.sub(r"[^\w.-]", "_", path.rstrip("/").rpartition("/")[2])[-100:]
        copy = Path(folder) / (name.lstrip(".") or "model")
        _fetch(path, copy)
        try:
            yield copy
        except ModelFileError as error:
            raise ModelFileError(str(error).replace(str(copy), path)) from None


def _fetch(address: str, copy: Path) -> None:
    try:
        with naming(address), copy.open("xb") as file:
            fetch_remote(address, file, MAX_REMOTE)
    except FileNotFoundError:
        raise ModelFileError(f"{address}: no such model file") from None
    if copy.stat().st_size > MAX_REMOTE:
        raise ModelFileError(f"{address}: more than {MAX_REMOTE:,} bytes, not read")


@contextmanager
def open_model(path: str | os.PathLike[str]) -> Iterator[ModelFile]:
    """Open a model file and check everything that can be checked without its arrays."""
    with local_model(path) as file, _opened(file) as model:
        yield model


@contextmanager
def _opened(path: Path) -> Iterator[ModelFile]:
    if not path.is_file():
        what = "a folder, not a model file" if path.is_dir() else "no such model file"
        raise ModelFileError(f"{path}: {what}")
    _check_header_length(path)
    try:
        with safe_open(path, framework="numpy") as file:
            description = _describe(path, file.metadata() or {})
            # Names of this format, and those that the arrays have in the file.
            old = description["format"] == 1
            stored_names = list(file.keys())
            # Looking one up took old versions of safetensors time in proportion to their number.
            if len(stored_names) > _MOST_ARRAYS:
                raise ModelFileError(
                    f"{path}: damaged: {len(stored_names):,} arrays, at most {_MOST_ARRAYS}"
                )
            names = {array_name(name) if old else name: name for name in stored_names}
            if len(names) < len(stored_names):
                raise ModelFileError(f"{path}: damaged: an array has two names")
            parts = {name: file.get_slice(stored) for name, stored in names.items()}
            tensors = {
                name: Tensor(part.get_dtype(), tuple(part.get_shape()))
                for name, part in parts.items()
            }
            yield ModelFile(
                description,
                tensors,
                lambda: {name: file.get_tensor(stored) for name, stored in names.items()},
            )
    except SafetensorError as error:
        raise ModelFileError(f"{path}: {_guess(path)} ({error})") from None


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the description of a model file."""
    with open_model(path) as file:
        return file.description


def _check_header_length(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        # In another kind of file the number means nothing.
        ours = start.endswith(b"{")
        size = f" (header of {length:,} bytes, at most {MAX_HEADER:,} are read)" if ours else ""
        raise ModelFileError(f"{path}: {_guess(path)}{size}")


def _describe(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    """Parse the JSON object in a file's metadata."""
    if _KEY not in metadata:
        raise ModelFileError(f"{path}: a safetensors file, but not an lrrspm model")
    try:
        description = json.loads(metadata[_KEY], parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: damaged: its description is not JSON ({error})") from None
    check_format(path, description)
    if description["format"] > 1:
        return description
    try:
        return {**upgrade(description), **{key: description[key] for key in ("format", "library")}}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path}: damaged: its parts do not fit ({error!r:.300})") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def check_format(path: Path, description: Any) -> None:
    version = description.get("format") if isinstance(description, dict) else None
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path}: damaged: no format version")
    library = description.get("library")
    if not isinstance(library, str) or len(library) > _LONGEST_VERSION:
        raise ModelFileError(f"{path}: damaged: no library version")
    if version > FORMAT:
        raise ModelFileError(
            f"{path}: format {version} is newer than this lrrspm {__version__} reads "
            f"(up to {FORMAT}); upgrade lrrspm"
        )


def _guess(path: Path) -> str:
    """Guess what a file that is not a safetensors file might be."""
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        return "the file is empty"
    # First, since the length of a header may begin like a pickle.
    if start[8:9] == b"{":
        return "a truncated or damaged model file"
    if start[:1] == b"\x80" or start[:2] == b"PK":
        return "looks like a pickle or an archive, not an lrrspm model; it was not opened"
    if all(byte in b"\t\r\n" or byte >= 32 for byte in start):
        return "a text file, not an lrrspm model"
    return "not an lrrspm model"
