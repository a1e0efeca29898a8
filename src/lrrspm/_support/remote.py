"""Remote files: found and read through fsspec, wherever that reaches, such as ``s3://``.

Credentials are fsspec's: its configuration, or the environment. An address that
holds some is refused, so that none gets into a message, a report or a file of rows.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

TRIES, PAUSE = 4, 0.5
"""Attempts to reach a file, and seconds after the first; each later pause is twice as long."""

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]*")
_INSTALL = "pip install 'lrrspm[cloud]'"
# Trying again will not help.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


class RemoteError(OSError):
    """A remote file that cannot be reached; the message says why, without credentials."""


class UnavailableError(ImportError):
    """A package that is needed to read remote files is missing."""


def is_remote(path: object) -> bool:
    """Return True for an address such as ``s3://bucket/name.jpg``, False for a path.

    >>> is_remote("memory://images/1.jpg"), is_remote("images/1.jpg")
    (True, False)
    """
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def without_secrets(text: str) -> str:
    """Remove passwords and queries, which may be signatures, from addresses in a text.

    >>> without_secrets("https://me:secret@host/a.jpg?sig=1 503")
    'https://host/a.jpg 503'
    """
    return _QUERY.sub(r"\1", _PASSWORD.sub("://", text))


def check_address(address: str) -> str:
    """Return an address without a slash at its end; refuse one with a password or a query."""
    parts = urlsplit(address)
    secret = ":" in parts.netloc.rpartition("@")[0]
    if secret or (parts.query and parts.scheme.lower().startswith("http")):
        raise ValueError(
            f"{without_secrets(address)}: a password or query does not belong in an address; "
            "give credentials in the configuration of fsspec or in environment variables"
        )
    return address.rstrip("/")


def list_remote(address: str) -> list[str]:
    """List the files below an address, without hidden ones; it is one itself or has none: []."""
    address = check_address(address)
    files, root = _filesystem(address)
    found = _retried(address, lambda: files.find(root))
    names = (path[len(root) :].lstrip("/") for path in found if path != root)
    shown = (name for name in names if not any(p.startswith(".") for p in name.split("/")))
    return sorted(f"{address}/{name}" for name in shown)


def remote_size(address: str) -> int | None:
    """Return the bytes of a remote file; None if that is not known before reading."""
    files, path = _filesystem(check_address(address))
    about = _retried(address, lambda: files.info(path))
    if about.get("type") == "directory":
        raise IsADirectoryError(f"{address}: a folder")
    size = about.get("size")
    return None if size is None else int(size)


def read_remote(address: str, most: int) -> bytes:
    """Read a remote file whole, but no more than ``most`` bytes and one."""
    files, path = _filesystem(check_address(address))

    def read() -> bytes:
        with files.open(path, "rb") as file:
            content: bytes = file.read(most + 1)
            return content

    return _retried(address, read)


def remote_signature(address: str) -> tuple[int, ...]:
    """Return what changes with a remote file, as far as its store tells; () if there is none."""
    try:
        files, path = _filesystem(check_address(address))
        key = str(_retried(address, lambda: files.ukey(path)))
    except OSError:
        return ()
    return (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"),)


def _filesystem(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UnavailableError(f"{address}: needs fsspec: {_INSTALL}") from None
    try:
        return url_to_fs(address)
    except ImportError as error:  # of the package for this kind of address
        raise UnavailableError(f"{address}: {error}") from None
    except ValueError as error:
        raise RemoteError(f"{without_secrets(str(error))}") from None


def _retried(address: str, call: Callable[[], T]) -> T:
    """Call something that reaches out, again after a pause if it fails for now."""
    for attempt in range(1, TRIES + 1):
        try:
            return call()
        except _FINAL as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise RemoteError(without_secrets(str(error)) or type(error).__name__) from None
        except (ImportError, MemoryError):
            raise
        except Exception as error:  # each package has exceptions of its own
            if attempt == TRIES:
                reason = without_secrets(str(error)) or type(error).__name__
                raise RemoteError(f"{reason} (tried {TRIES} times)") from None
            time.sleep(PAUSE * 2 ** (attempt - 1))
    raise AssertionError(address)
