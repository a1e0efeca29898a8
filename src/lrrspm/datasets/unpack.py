"""Unpack the images of an archive that may be hostile into class folders."""

from __future__ import annotations

import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from lzma import LZMAError
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, NamedTuple, cast

from .._support.stages import Stages

# Long names and other attributes of a member of a tar file.
_MAX_HEADER = 2**20

# A member, and how to open it. Members of zip files are described as those of tar files are.
_Member = tuple[tarfile.TarInfo, Callable[[], Any]]


class Limits(NamedTuple):
    """Most files and bytes that an archive may hold."""

    files: int
    bytes: int


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
    """Unpack the images of an archive as ``target/class/file``.

    Each member is checked before it or any later one is written. The archive
    is refused for paths that are absolute or lead outside, links, devices, two
    files in one place, and more files or bytes than the limits. Only paths
    that ``label_of`` assigns to a class are written.

    Parameters
    ----------
    archive : Path
        A zip or tar file, compressed or not.
    target : Path
        An existing folder.
    label_of : callable
        Returns the class of a path in the archive, or None.
    inner : str or None
        Name of an archive inside the archive, which is unpacked too.
    expected : int
        Number of images, for the progress display.

    Returns
    -------
    int
        The number of images.
    """
    stages = stages or Stages()
    written = files = size = 0
    try:
        for info, opener in _members(archive, inner):
            files, size = files + 1, size + info.size
            if files > limits.files or size > limits.bytes:
                raise _refusal(archive, f"more than {limits.files} files or {limits.bytes:,} bytes")
            path = _safe_path(info, target, archive)
            label = label_of(path) if info.isreg() else None
            if label is not None:
                _write(opener, target / label / path.name, archive)
                written += 1
                stages.tell("unpack", written, max(written, expected))
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, LZMAError) as error:
        raise ValueError(f"{archive}: not an archive, or damaged ({error})") from None
    except (RuntimeError, NotImplementedError) as error:  # zipfile: encrypted, unknown method
        raise ValueError(f"{archive}: cannot be unpacked ({error})") from None
    return written


def _refusal(archive: Path, reason: str) -> HostileArchiveError:
    return HostileArchiveError(f"{archive}: {reason}; refused")


def _write(opener: Callable[[], Any], path: Path, archive: Path) -> None:
    if re.search(r"[:\x00-\x1f]", path.name):
        raise _refusal(archive, f"{path.name!r} is not a valid image name")
    path.parent.mkdir(exist_ok=True)
    try:
        with opener() as source, path.open("xb") as file:
            shutil.copyfileobj(source, file)
    except FileExistsError:
        raise _refusal(archive, f"{path.name} appears twice in class {path.parent.name}") from None


def _safe_path(info: tarfile.TarInfo, target: Path, archive: Path) -> PurePosixPath:
    """Return the path of a member; refuse all but files and folders below the target."""
    name = info.name.replace("\\", "/")
    try:
        filtered = tarfile.data_filter(info.replace(name=name, deep=False), str(target))
    except (tarfile.FilterError, ValueError, OSError) as error:  # or not a path at all
        raise _refusal(archive, str(error)) from None
    # The filter strips leading slashes, allows links inside, and knows this system's drives only.
    plain = info.isreg() or info.isdir()
    if not plain or filtered.name != name or re.match("[A-Za-z]:", name):
        raise _refusal(archive, f"{info.name!r} is a link or an absolute path")
    return PurePosixPath(name)


def _members(archive: Path, inner: str | None) -> Iterator[_Member]:
    """Iterate over an archive; the members of the inner one follow it."""
    with archive.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        reader = _zip_members if start == b"PK\x03\x04" else _tar_members
        for info, opener in reader(file):
            yield info, opener
            if info.isreg() and PurePosixPath(info.name).name == inner:
                with opener() as packed:
                    yield from _tar_members(packed)


def _zip_members(file: IO[bytes]) -> Iterator[_Member]:
    with zipfile.ZipFile(file) as content:
        for member in content.infolist():
            info = tarfile.TarInfo(member.filename)
            info.size = member.file_size
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                info.type = tarfile.FIFOTYPE  # links and devices alike: the filter refuses it
            elif member.is_dir():
                info.type = tarfile.DIRTYPE
            yield info, partial(content.open, member)


def _tar_members(file: IO[bytes]) -> Iterator[_Member]:
    with _BoundedTar.open(fileobj=file, mode="r|*") as content:
        for info in content:
            cast("_Bounded", content.fileobj).left = info.size + _MAX_HEADER
            yield info, partial(content.extractfile, info)


class _Bounded:
    """A stream from which only so many bytes are read; skipped bytes do not count."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.tell, self.seek, self.close = stream.tell, stream.seek, stream.close
        self.left = _MAX_HEADER

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise tarfile.ReadError(f"a header of more than {_MAX_HEADER:,} bytes")
        content: bytes = self._stream.read(size)
        return content


class _BoundedTar(tarfile.TarFile):
    """A tar file with a limit on headers, which are read into memory whole."""

    def __init__(self, name: Any, mode: Any, fileobj: Any, **options: Any) -> None:
        super().__init__(name, mode, _Bounded(fileobj), **options)  # type: ignore[arg-type]
