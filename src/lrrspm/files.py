"""Files that have their name only once they are complete."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


def check_target(path: str | os.PathLike[str]) -> None:
    """Fail before the work where a file could not be written after it."""
    path = Path(path).resolve()  # of a link what it leads to
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: is not an ordinary file, and will not be replaced")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: its folder does not exist")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path}: is not to be written to; give another name")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path}: its folder cannot be written to")


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write to a temporary name in the same folder, then rename."""
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
            error.filename = str(path)  # not the temporary name, and not none at all
        raise
