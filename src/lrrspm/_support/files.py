"""File digests, atomic writes, and faults of the machine."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from .remote import (
    check_remote_target,
    is_remote,
    naming,
    read_remote,
    remote_signature,
    remote_size,
    same_remote,
    write_remote,
)

MAX_BYTES = 2**30
"""Largest image file in bytes. WebP files are read whole before their size is known."""

_FAULTS = {
    errno.EDQUOT: "free some space",
    errno.EIO: "check the disk",
    errno.EMFILE: "raise the limit (ulimit -n) or use fewer --jobs",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "close other programs or use fewer --jobs",
    errno.ENOSPC: "free some space",
}


def machine_fault(error: BaseException) -> str | None:
    """Return what to do about an error of the machine; None for errors of a file.

    No file is to blame for a full disk or too many open files, so the run ends:
    a model without the images that were met meanwhile would be wrong.
    """
    return _FAULTS.get(error.errno or 0) if isinstance(error, OSError) else None


class NotRegularError(OSError):
    """A folder, pipe or device where a file is expected."""


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; raise NotRegularError for anything else.

    The check comes before, because opening a device may act on it, and once
    more after: opening does not wait for a pipe that replaced the file.
    """
    _check_regular(path, os.stat(path))
    file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115, the caller closes it
    try:
        _check_regular(path, os.fstat(file.fileno()))
    except NotRegularError:
        file.close()
        raise
    return file


def _check_regular(path: str | os.PathLike[str], state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularError(f"{os.fspath(path)}: not a regular file")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def file_signature(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return what changes whenever a file is written or replaced; () if there is none."""
    if is_remote(path):
        return remote_signature(path)
    try:
        state = os.stat(path)
    except OSError:
        return ()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def file_digest(path: str | os.PathLike[str]) -> str | None:
    """Return the SHA-256 of a file that may be an image; None for others and unreadable ones.

    Reading a pipe would wait for a writer, and a device, or a file that the
    system generates and reports as empty, may never end. Raises OSError for a
    fault of the machine.
    """
    try:
        if is_remote(path):
            content = read_remote(path, MAX_BYTES)
            known = 0 < len(content) <= MAX_BYTES
            return hashlib.sha256(content).hexdigest() if known else None
        with open_regular(path) as file:
            if not 0 < os.fstat(file.fileno()).st_size <= MAX_BYTES:
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:  # an address that is refused
        if machine_fault(error):
            raise
        return None


def check_target(path: str | os.PathLike[str]) -> None:
    """Fail early if a file, or a remote one, could not be written at the end."""
    if is_remote(path):
        check_remote_target(path)
        return
    path = Path(path).resolve()  # the target of a link
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; give a file name")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: not a regular file; give another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: its folder does not exist; create it first")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path}: file is read-only; give another name")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path}: its folder is read-only; choose another")


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write to a temporary name in the same folder, then rename.

    An object store shows a file when all of it is there, without another name.
    """
    if is_remote(path):
        with naming(path):
            write_remote(path, content)
        return
    check_target(path)
    path = Path(path).resolve()  # a link keeps pointing to the file
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)  # not the temporary name, nor none
        raise


def lock_file(file: IO[bytes]) -> None:
    """Lock an open file for this process, where the system can; raises BlockingIOError."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return True if two paths, or two addresses, are of one file."""
    if is_remote(one) and is_remote(other):
        return same_remote(one, other)
    if is_remote(one) or is_remote(other):
        return False
    return Path(one).resolve() == Path(other).resolve()


def file_size(path: str | os.PathLike[str]) -> int | None:
    """Return the bytes of a file; None for a remote one whose store does not tell."""
    if is_remote(path):
        with naming(path):
            return remote_size(path)
    return os.stat(path).st_size


def absolute_paths(item: Any) -> Any:
    """Return an item with the paths in it made absolute: a worker has a folder of its own."""
    if isinstance(item, Path):
        return item.absolute()
    if isinstance(item, str):
        return item if is_remote(item) else os.path.abspath(item)
    if type(item) is list:
        return [absolute_paths(one) for one in item]
    if isinstance(item, tuple):
        parts = [absolute_paths(one) for one in item]
        return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
    return item
