"""Unpack an archive that may be hostile: pictures of the set, into class folders, no more."""

from __future__ import annotations

import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from lzma import LZMAError
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from .._support.stages import Stages


@dataclass(frozen=True)
class Limits:
    """What an archive may hold at most."""

    files: int
    bytes: int


@dataclass(frozen=True)
class _Member:
    path: PurePosixPath
    size: int
    is_file: bool
    open: Callable[[], IO[bytes]]


class HostileArchiveError(ValueError):
    """An archive that tries something that no data set needs."""


def unpack(
    archive: Path,
    target: Path,
    label_of: Callable[[PurePath], str | None],
    limits: Limits,
    inner: str | None = None,
    expected: int = 0,
    stages: Stages | None = None,
) -> int:
    """Unpack the pictures of an archive as ``target/class/file``.

    Every member is looked at, and the archive refused, before anything that
    comes after it is written: paths that are absolute or lead upwards, links,
    devices, two files in one place, more files or bytes than the limits. Only
    names that ``label_of`` gives a class are written, below ``target``.

    Parameters
    ----------
    archive : Path
        A zip or tar file, packed or not.
    target : Path
        A folder that exists.
    label_of : callable
        Gives the class of a path in the archive, or None.
    inner : str or None
        The name of an archive in the archive, to be unpacked as well.
    expected : int
        How many pictures there will be, for the progress.

    Returns
    -------
    int
        The number of pictures.
    """
    stages = stages or Stages()
    written = files = size = 0
    try:
        for member in _members(archive, inner):
            files, size = files + 1, size + member.size
            if files > limits.files or size > limits.bytes:
                raise HostileArchiveError(
                    f"{archive}: more than {limits.files} files or {limits.bytes:,} bytes; refused"
                )
            label = label_of(member.path) if member.is_file else None
            if label is not None:
                _write(member, target / label / member.path.name, archive)
                written += 1
                stages.tell("unpack", written, max(written, expected))
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, LZMAError) as error:
        raise ValueError(f"{archive}: not an archive, or a damaged one ({error})") from None
    except (RuntimeError, NotImplementedError) as error:  # zipfile: encrypted, unknown packing
        raise ValueError(f"{archive}: an archive that cannot be read ({error})") from None
    return written


def _write(member: _Member, path: Path, archive: Path) -> None:
    if re.search(r"[:\x00-\x1f]", path.name):
        raise HostileArchiveError(f"{archive}: {path.name!r} is no name for a picture; refused")
    path.parent.mkdir(exist_ok=True)
    try:
        with member.open() as source, path.open("xb") as file:
            shutil.copyfileobj(source, file)
    except FileExistsError:
        raise HostileArchiveError(
            f"{archive}: {member.path.name} is twice in class {path.parent.name}; refused"
        ) from None


def _members(archive: Path, inner: str | None) -> Iterator[_Member]:
    """What is in an archive and, in its place, in the archive in it."""
    with archive.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        reader = _zip_members if start == b"PK\x03\x04" else _tar_members
        for member in reader(file, archive):
            yield member
            if member.is_file and member.path.name == inner:
                with member.open() as packed:
                    yield from _tar_members(packed, archive)


def _zip_members(file: IO[bytes], archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as content:
        for info in content.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise HostileArchiveError(
                    f"{archive}: {info.filename!r} is a link or device; refused"
                )
            path = _safe(info.filename, archive)
            yield _Member(path, info.file_size, not info.is_dir(), partial(content.open, info))


def _tar_members(file: IO[bytes], archive: Path) -> Iterator[_Member]:
    with tarfile.open(fileobj=file, mode="r|*") as content:
        for info in content:
            if not (info.isreg() or info.isdir()):
                raise HostileArchiveError(f"{archive}: {info.name!r} is a link or device; refused")
            path = _safe(info.name, archive)
            yield _Member(path, info.size, info.isreg(), partial(_open, content, info))


def _open(content: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = content.extractfile(info)
    assert file is not None  # it is a regular file
    return file


def _safe(name: str, archive: Path) -> PurePosixPath:
    """The path of a member, refused if it could mean a place outside, on any platform."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or re.match("[A-Za-z]:", name):
        raise HostileArchiveError(f"{archive}: {name!r} leads out of its folder; refused")
    return path
