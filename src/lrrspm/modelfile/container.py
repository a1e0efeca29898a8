"""A model <-> one safe file: arrays in safetensors, everything else in JSON.

The file is an ordinary safetensors file. Its metadata has one key, ``lrrspm``,
with a JSON object: ``format`` (a whole number), ``library`` (the version that
wrote it) and what the classifier says about itself. Nothing in it is code, and
nothing in it changes from one writing to the next. docs/model-format.md says
all of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .. import __version__
from .._support.files import write_atomically

FORMAT = 1
MAX_HEADER = 4 * 2**20
"""Most bytes of a header; one with 10,000 classes of 20 letters takes 0.7 MB."""
_KEY = "lrrspm"
_LONGEST_VERSION = 100


class ModelFileError(ValueError):
    """A file that is not a model we can read; the message names it and says why."""


def write_model(
    path: str | os.PathLike[str], description: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a model; the file has its name only once it is complete."""
    header = {"format": FORMAT, "library": __version__, **description}
    # One key: safetensors keeps metadata in a hash map, whose order varies.
    metadata = {_KEY: json.dumps(header, sort_keys=True, allow_nan=False)}
    content = save({name: np.ascontiguousarray(a) for name, a in arrays.items()}, metadata)
    length = int.from_bytes(content[:8], "little")
    if length > MAX_HEADER:  # nobody could read it
        raise ValueError(
            f"{path}: its description takes {length:,} bytes, at most {MAX_HEADER:,}; "
            "use fewer classes or shorter names"
        )
    write_atomically(path, content)


class Tensor(NamedTuple):
    """What a model file's header says about an array: "F32" or the like, and its shape."""

    dtype: str
    shape: tuple[int, ...]


class ModelFile(NamedTuple):
    """An open model file; its arrays are in memory only once they have been read."""

    description: dict[str, Any]
    tensors: dict[str, Tensor]
    read: Callable[[], dict[str, NDArray[Any]]]


@contextmanager
def open_model(path: str | os.PathLike[str]) -> Iterator[ModelFile]:
    """Open a model file and check everything that can be said without its arrays."""
    path = Path(path)
    if not path.is_file():
        what = "a folder, not a model file" if path.is_dir() else "no such model file"
        raise ModelFileError(f"{path}: {what}")
    _check_header_length(path)
    try:
        with safe_open(path, framework="numpy") as file:
            description = _describe(path, file.metadata() or {})
            names = list(file.keys())
            parts = {name: file.get_slice(name) for name in names}
            tensors = {
                name: Tensor(part.get_dtype(), tuple(part.get_shape()))
                for name, part in parts.items()
            }
            yield ModelFile(
                description, tensors, lambda: {name: file.get_tensor(name) for name in names}
            )
    except SafetensorError as error:
        raise ModelFileError(f"{path}: {_guess(path)} ({error})") from None


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself."""
    with open_model(path) as file:
        return file.description


def _check_header_length(path: Path) -> None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > MAX_HEADER:
        raise ModelFileError(
            f"{path}: {_guess(path)} (its header would take {length:,} bytes, "
            f"at most {MAX_HEADER:,} are read)"
        )


def _describe(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    """The JSON object in a file's metadata."""
    if _KEY not in metadata:
        raise ModelFileError(f"{path}: a safetensors file, but not an lrrspm model")
    try:
        description = json.loads(metadata[_KEY], parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: damaged: its description is not JSON ({error})") from None
    check_format(path, description)
    return description


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def check_format(path: Path, description: Any) -> None:
    version = description.get("format") if isinstance(description, dict) else None
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path}: damaged: no format version")
    library = description.get("library")
    if not isinstance(library, str) or len(library) > _LONGEST_VERSION:
        raise ModelFileError(f"{path}: damaged: it does not say which lrrspm wrote it")
    if version > FORMAT:
        raise ModelFileError(
            f"{path}: format {version} is newer than this lrrspm {__version__} reads "
            f"(up to {FORMAT}); upgrade lrrspm"
        )


def _guess(path: Path) -> str:
    """What a file that is no safetensors file might be."""
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        return "the file is empty"
    if start[:1] == b"\x80" or start[:2] == b"PK":
        return "looks like a pickle or an archive, not an lrrspm model; it was not opened"
    if start[8:9] == b"{":
        return "a truncated or damaged model file"
    return "not an lrrspm model"
