"""Temporary folders that killed runs left: known by a lock that nobody holds any more."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path
from typing import BinaryIO

from .files import lock_file

OWNER = ".owner"
"""Name of the file that is locked while a folder is in use."""


def own(folder: Path) -> BinaryIO | None:
    """Lock a new temporary folder for as long as the file that is returned is open.

    None where the disk has no locks; nobody deletes such a folder then.
    """
    new = folder / f"{OWNER}.new"
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(new.open("wb"))
        file.write(socket.gethostname().encode())
        file.flush()
        try:
            lock_file(file)
        except OSError:
            new.unlink()
            return None
        new.rename(folder / OWNER)  # whoever sees it sees it locked
        stack.pop_all()
    return file


def abandoned(parent: Path, prefix: str) -> list[Path]:
    """List the folders below one, named with a prefix, whose owner was a dead process here.

    Locks of other machines may not be seen, so their folders are not listed.
    """
    try:
        found = sorted(path for path in parent.iterdir() if path.name.startswith(prefix))
    except OSError:
        return []
    return [path for path in found if _is_abandoned(path)]


def sweep(parent: Path, prefix: str) -> None:
    """Delete such folders, as far as permissions allow."""
    for path in abandoned(parent, prefix):
        delete(path)


def delete(folder: Path) -> None:
    """Delete a temporary folder, as far as permissions allow.

    The owner's file goes last, and comes back if something else is left: a folder that
    a worker is late to write into is found by the next :func:`sweep`.
    """
    owner = folder / OWNER
    said = None
    with contextlib.suppress(OSError):
        said = owner.read_bytes()
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path != owner:
                with contextlib.suppress(OSError):
                    path.unlink()
    try:
        owner.unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        if said is not None:
            with contextlib.suppress(OSError):
                owner.write_bytes(said)


def _is_abandoned(folder: Path) -> bool:
    if os.name != "posix":  # no locks
        return False
    with contextlib.suppress(OSError), (folder / OWNER).open("rb") as file:
        if file.read(300) == socket.gethostname().encode():
            lock_file(file)
            return True
    return False
