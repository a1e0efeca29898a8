"""Places: folders of a store, on this machine or at an address."""

from __future__ import annotations

import contextlib
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from .._support.remote import (
    check_address,
    delete_remote,
    is_remote,
    list_folder,
    read_remote,
    read_starts,
    write_remote,
)


class Place(ABC):
    """A folder whose files are read and written whole; ``place / name`` is a folder in it."""

    @abstractmethod
    def __truediv__(self, name: str) -> Place:
        """Return a folder in it, which need not exist."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of the folders in it."""

    @abstractmethod
    def files(self) -> dict[str, int]:
        """Return the names and bytes of the regular files in it; none if it does not exist."""

    @abstractmethod
    def starts(self, names: Sequence[str], n: int) -> list[bytes | OSError]:
        """Read up to n bytes from the start of each file; an error for what cannot be read."""

    @abstractmethod
    def read(self, name: str, most: int) -> bytes:
        """Read a file, but no more than ``most`` bytes and one."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file that others see when all of it is there, and make the folder."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there and permissions allow."""

    @abstractmethod
    def leave(self) -> None:
        """Delete the folder if it is empty."""


class LocalPlace(Place):
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> LocalPlace:
        return LocalPlace(self.path / name)

    def folders(self) -> list[str]:
        return [entry.name for entry in self._entries() if entry.is_dir()]

    def files(self) -> dict[str, int]:
        # Regular ones: opening a pipe would wait for a writer.
        found = {}
        for entry in self._entries():
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file():
                    found[entry.name] = entry.stat().st_size
        return found

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as found:
                return sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def starts(self, names: Sequence[str], n: int) -> list[bytes | OSError]:
        return [self._start(name, n) for name in names]

    def _start(self, name: str, n: int) -> bytes | OSError:
        try:
            return self._read(name, n)
        except OSError as error:
            return error

    def read(self, name: str, most: int) -> bytes:
        return self._read(name, most + 1)

    def _read(self, name: str, n: int) -> bytes:
        with open(self.path / name, "rb") as file:
            return file.read(n)

    def write(self, name: str, content: bytes) -> None:
        """Write to a temporary name, then rename.

        Unlike model files, without waiting for the disk: a shard that a power cut
        leaves empty fails its checksum and is computed again.
        """
        try:
            self._write(name, content)
        except FileNotFoundError:  # a new shelf, or another process has just emptied it
            self.path.mkdir(parents=True, exist_ok=True)
            self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        temporary = self.path / f".{secrets.token_hex(8)}.part"
        try:
            temporary.write_bytes(content)
            temporary.replace(self.path / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def delete(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self.path / name).unlink()

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()


class RemotePlace(Place):
    """A folder at an address. A file is seen when all of it is there."""

    def __init__(self, address: str, depth: int = 0) -> None:
        self.address: str = address
        self._depth = depth  # below the folder that was given

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> RemotePlace:
        return RemotePlace(f"{self.address}/{name}", self._depth + 1)

    def folders(self) -> list[str]:
        return sorted(name for name, size in list_folder(self.address).items() if size is None)

    def files(self) -> dict[str, int]:
        found = sorted(list_folder(self.address).items())
        return {name: size for name, size in found if size is not None}

    def starts(self, names: Sequence[str], n: int) -> list[bytes | OSError]:
        return read_starts(self.address, names, n)

    def read(self, name: str, most: int) -> bytes:
        return read_remote(f"{self.address}/{name}", most)

    def write(self, name: str, content: bytes) -> None:
        write_remote(f"{self.address}/{name}", content, folders=self._depth + 1)

    def delete(self, name: str) -> None:
        with contextlib.suppress(OSError):
            delete_remote(f"{self.address}/{name}")

    def leave(self) -> None:
        """Do nothing: object stores have no empty folders, and elsewhere one does no harm."""


def place_of(folder: str | os.PathLike[str]) -> Place:
    """Return the place of a path or an address."""
    if isinstance(folder, str) and is_remote(folder):
        return RemotePlace(check_address(folder))
    return LocalPlace(Path(folder))
