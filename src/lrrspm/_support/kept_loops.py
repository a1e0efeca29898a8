"""Kept loops: machine code on disk, run only if it is what was written."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import secrets
import warnings
from pathlib import Path
from typing import Any

import llvmlite
import numba

from .compiling import tell_of_compiling


def guard_cache(dispatcher: Any) -> None:
    """Make a compiled function keep its machine code with checksums.

    Numba's own cache trusts its files: an empty one raises wherever the loop is
    first called, and a flipped bit is run as machine code. Its names are
    private; where they have changed, its own cache stays.
    """
    cache = dispatcher._cache
    with contextlib.suppress(AttributeError):
        locator = cache._impl.locator
        files = _Files(Path(cache._cache_path), cache._impl.filename_base, locator)
        locator.ensure_cache_path = files.make_folder
        cache._cache_file = files


class _Files:
    """Machine code of one function, a file per signature; takes the place of numba's files.

    A file begins with the SHA-256 of everything that it depends on and of the
    rest of it. So one that is damaged, or belongs to another version, source
    or processor, is deleted and written again. Nothing that goes wrong here
    stops a run: the loop is compiled, as if there were no file.
    """

    _warned = False

    def __init__(self, folder: Path, base: str, locator: Any) -> None:
        self._folder, self._base = folder, base
        self._maker = f"{numba.__version__} {llvmlite.__version__} {locator.get_source_stamp()!r}"

    def make_folder(self) -> None:
        """Make the folder; where that fails, ``save`` says so."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)

    def load(self, key: Any) -> Any:
        """Return what was saved under a key, or None."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            tell_of_compiling()
            return None
        size = hashlib.sha256().digest_size
        if content[:size] == self._digest(key, content[size:]):
            with contextlib.suppress(Exception):
                return pickle.loads(content[size:])
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def save(self, key: Any, data: Any) -> None:
        """Write to a temporary name, then rename."""
        from numba.core.serialize import dumps

        content: bytes = dumps(data)  # type: ignore[no-untyped-call]
        path = self._path(key)
        temporary = path.with_name(f"{path.name}.tmp.{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(self._digest(key, content) + content)
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self._warn(error)

    def flush(self) -> None:
        """Delete all files of the function; part of numba's interface."""
        for path in self._folder.glob(f"{self._base}-*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self._folder / f"{self._base}-{name}.nbc"

    def _digest(self, key: Any, content: bytes) -> bytes:
        digest = hashlib.sha256(f"{self._maker} {key!r}".encode())
        digest.update(content)
        return digest.digest()

    def _warn(self, error: OSError) -> None:
        if not _Files._warned:
            _Files._warned = True
            warnings.warn(
                f"{self._folder}: cannot keep compiled loops ({error.strerror or error}); "
                "the next run compiles them again",
                stacklevel=2,
            )
