"""Remote files: found, read and written through fsspec, wherever that reaches, such as ``s3://``.

Credentials are fsspec's: its configuration, or the environment. An address that
holds some is refused, so that none gets into a message, a report or a file of rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TypeGuard, TypeVar

T = TypeVar("T")

TRIES, PAUSE = 4, 0.5
"""Attempts to reach a file, and seconds after the first; each later pause is twice as long."""

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
# After a colon before the first slash, all up to the last @ may be a password.
_USER = re.compile(r"://(?:[^/\s:]*:\S*|[^/\s]*)@")
_QUERY = re.compile(r"([a-z][a-z0-9+.-]+://[^\s?'\"]+)\?[^\s'\"]*", re.IGNORECASE)
# Packages also tell of a query behind a path alone, and of what they were configured with.
_LOOSE_QUERY = re.compile(r"\?[^\s?'\"=]*=[^\s'\"]*")
_SECRET = re.compile(
    r"((?:[\w-]*(?:token|secret|password|passwd|signature|credential)|[\w-]*key|sig|delegation)"
    r"['\"]?\s*[=:]\s*['\"]?)[^\s&;,'\"]+",
    re.IGNORECASE,
)
_CONTAINERS = ("abfs", "abfss")
"""Kinds of addresses that begin with a container and an account: no user."""
_INSTALL = "pip install 'lrrspm[cloud]'"
_PIECE = 2**24
# Trying again will not help.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


class RemoteError(OSError):
    """A remote file that cannot be reached; the message says why, without credentials."""


class UnavailableError(ImportError):
    """A package that is needed to reach remote files is missing."""


def is_remote(path: object) -> TypeGuard[str]:
    """Return True for an address such as ``s3://bucket/name.jpg``, False for a path.

    >>> is_remote("memory://images/1.jpg"), is_remote("images/1.jpg")
    (True, False)
    """
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def without_secrets(text: str) -> str:
    """Remove passwords and queries, which may be signatures, from a text.

    >>> without_secrets("https://me:secret@host/a.jpg?sig=1 503")
    'https://host/a.jpg 503'
    >>> without_secrets("/v1/a.jpg?delegation=1 refused: AccountKey=abc")
    '/v1/a.jpg refused: AccountKey=...'
    """
    text = _QUERY.sub(r"\1", _USER.sub("://", text))
    return _SECRET.sub(r"\1...", _LOOSE_QUERY.sub("", text))


def check_address(address: str) -> str:
    """Return an address without a slash at its end; refuse one with a user or a query.

    So names may hold ``@``, but none with a question mark is taken, nor one with ``@`` where
    there is a port: digits and a slash may begin a password as well. A file of this machine is
    refused too: a path is checked more carefully.
    """
    scheme, _, rest = address.partition("://")
    scheme, host = scheme.lower(), rest.partition("/")[0]
    port = host.rpartition(":")[2] if ":" in host else "0"
    user = "@" in (rest if ":" in host else host)
    if scheme in _CONTAINERS and host.count("@") == 1 and ":" not in host:
        user = False  # container@account
    if user or not port.isdecimal() or "?" in rest:
        raise ValueError(
            f"{without_secrets(address)}: a user, password or query does not belong in an address; "
            "give credentials in the configuration of fsspec or in environment variables"
        )
    if scheme in ("file", "local"):
        raise ValueError(f"{address}: give the path alone, without {scheme}://")
    return f"{scheme}://{rest.rstrip('/')}"


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


def read_range(address: str, start: int, stop: int) -> bytes:
    """Read some bytes of a remote file; fewer where it ends before."""
    files, path = _filesystem(check_address(address))
    return _retried(address, lambda: bytes(files.cat_file(path, start=start, end=stop)))


def remote_signature(address: str) -> tuple[int, ...]:
    """Return what changes with a remote file, as far as its store tells; () if there is none."""
    try:
        files, path = _filesystem(check_address(address))
        files.invalidate_cache(files._parent(path))  # a listing may be of long ago
        key = str(_retried(address, lambda: files.ukey(path)))
    except (OSError, ValueError):  # an address that is refused
        return ()
    return (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"),)


def write_remote(address: str, content: bytes, folders: int = 0) -> None:
    """Write a remote file whole, and make up to ``folders`` folders that it lies in.

    Others see it when all of it is there. Object stores have no folders to make. A bucket is
    never made.
    """
    files, path = _filesystem(check_address(address))

    def write() -> None:
        try:
            _put(files, path, content)
        except FileNotFoundError:
            parents = [path.rsplit("/", up)[0] for up in range(folders, 0, -1)]
            # In an object store a name without a slash is a bucket.
            parents = [parent for parent in parents if "/" in parent]
            if not parents:
                raise
            for parent in parents:
                with contextlib.suppress(FileExistsError):
                    files.mkdir(parent, create_parents=False)
            _put(files, path, content)

    _retried(address, write)


def _put(files: Any, path: str, content: bytes) -> None:
    """Write a file at once; by way of a hidden name where others would see it grow."""
    from fsspec import AbstractFileSystem

    # What has no way of its own to write a whole file opens it, and writes in place.
    if getattr(files.pipe_file, "__func__", None) is not AbstractFileSystem.pipe_file:
        files.pipe_file(path, content)
        return
    hidden = f"{path[: path.rfind('/') + 1]}.{secrets.token_hex(8)}.part"
    try:
        files.pipe_file(hidden, content)
        with contextlib.suppress(Exception):
            files.mv(hidden, path)
        # Not every store renames over a file, nor says that it did not.
        if _about(files, hidden) is not None:
            with contextlib.suppress(FileNotFoundError):
                files.rm_file(path)
            files.mv(hidden, path)
    except BaseException:
        with contextlib.suppress(Exception):
            files.rm_file(hidden)
        raise


def read_starts(address: str, names: Sequence[str], n: int) -> list[bytes | OSError]:
    """Read up to n bytes from the start of each named file below an address, many at a time.

    An error stands for what cannot be read.
    """
    files, root = _filesystem(check_address(address))
    if not names:
        return []
    paths = [f"{root}/{name}" for name in names]
    ends = [n] * len(paths)
    found = _retried(
        address, lambda: files.cat_ranges(paths, [0] * len(paths), ends, on_error="return")
    )
    return [
        _start_again(f"{address}/{name}", n) if isinstance(one, Exception) else bytes(one)
        for name, one in zip(names, found, strict=True)
    ]


def _start_again(address: str, n: int) -> bytes | OSError:
    files, path = _filesystem(address)
    try:
        return bytes(_retried(address, lambda: files.cat_file(path, start=0, end=n)))
    except OSError as error:
        return error


def list_folder(address: str) -> dict[str, int | None]:
    """Return the names in a remote folder as they are now, and bytes; None for folders in it.

    There is nothing in a folder that is not there.
    """
    files, root = _filesystem(check_address(address))

    def entries() -> Any:
        files.invalidate_cache(root)
        try:
            return files.ls(root, detail=True)
        except FileNotFoundError:
            return []

    found = _retried(address, entries)
    names = ((one["name"].rstrip("/").rpartition("/")[2], one) for one in found)
    return {
        name: None if one.get("type") == "directory" else int(one.get("size") or 0)
        for name, one in names
        if one["name"].strip("/") != root.strip("/")
    }


def delete_remote(address: str) -> None:
    """Delete a remote file; one that is gone already is no error."""
    files, path = _filesystem(check_address(address))
    with contextlib.suppress(FileNotFoundError):
        _retried(address, lambda: files.rm_file(path))


def check_remote_target(address: str) -> None:
    """Fail early if a remote file could not be written; a refusal to read says nothing."""
    with naming(address):
        files, path = _filesystem(check_address(address))
        top, _, rest = path.partition("/")
        about = _retried(address, lambda: _about(files, path)) if rest else None
    if not rest:
        raise IsADirectoryError(f"{address}: is not a file name; add one")
    # In an object store the first part is a bucket, which is never made.
    if about is None and top and "://" not in path and _is_missing(files, top):
        raise FileNotFoundError(f"{address}: there is no {top}; create it first")
    if about and about.get("type") == "directory":
        raise IsADirectoryError(f"{address}: is a folder; give a file name")


def _about(files: Any, path: str) -> dict[str, Any] | None:
    """Return what a store tells of a file; None if there is none, {} if it does not tell."""
    try:
        return dict(files.info(path))
    except FileNotFoundError:
        return None
    except PermissionError:
        return {}


def _is_missing(files: Any, path: str) -> bool:
    try:
        return _about(files, path) is None
    except Exception:  # not every store can tell
        return False


def fetch_remote(address: str, target: BinaryIO, most: int) -> None:
    """Copy a remote file into an open one, but no more than ``most`` bytes and one."""
    files, path = _filesystem(check_address(address))

    def copy() -> None:
        target.seek(0)
        target.truncate()
        left = most + 1
        with files.open(path, "rb") as file:
            while left and (piece := file.read(min(left, _PIECE))):
                target.write(piece)
                left -= len(piece)

    _retried(address, copy)


def same_remote(one: str, other: str) -> bool:
    """Return True if two addresses are of one file, however they are written."""
    files, path = _filesystem(check_address(one))
    others, its = _filesystem(check_address(other))
    return bool(files == others and path.rstrip("/") == its.rstrip("/"))


@contextlib.contextmanager
def naming(address: str) -> Iterator[None]:
    """Name the address in errors of its store."""
    try:
        yield
    except OSError as error:
        kind = FileNotFoundError if isinstance(error, FileNotFoundError) else RemoteError
        reason = without_secrets(str(error)) or type(error).__name__
        raise kind(f"{address}: {reason}") from None


def _filesystem(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UnavailableError(f"{address}: needs fsspec: {_INSTALL}") from None
    try:
        # Some connect already here. An unknown kind of address is a ValueError.
        found: tuple[Any, str] = _retried(
            address, lambda: url_to_fs(address), (*_FINAL, ValueError)
        )
    except ImportError as error:  # of the package for this kind of address
        raise UnavailableError(f"{address}: {without_secrets(str(error))}") from None
    return found


def _retried(address: str, call: Callable[[], T], final: tuple[type[Exception], ...] = _FINAL) -> T:
    """Call something that reaches out, again after a pause if it fails for now."""
    for attempt in range(1, TRIES + 1):
        try:
            return call()
        except final as error:
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
