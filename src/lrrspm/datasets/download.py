"""Download an archive, and go on where an earlier attempt stopped.

pooch looks after the file's checksum, its place and whether it is already there. It cannot
continue a download, so the bytes come through a function of ours.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from .._support.stages import Stages
from .catalogue import Archive

if TYPE_CHECKING:
    import requests

_CHUNK = 1 << 18
_TIMEOUT = (15, 60)
"""Seconds to wait for a connection, and for the next bytes."""
_PAUSE = 1.0
"""Seconds to wait after a broken connection."""


class UnreachableError(ConnectionError):
    """The archive cannot be had from its address now."""


def download(archive: Archive, folder: Path, stages: Stages) -> Path:
    """The archive's file in a folder, downloaded if it is not there.

    What has arrived stays in ``NAME.part`` when the connection breaks or the
    disk is full, and the next call asks for the rest only.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    partial = folder / f"{archive.file_name}.part"

    def resume(address: str, output: str, _: object) -> None:
        _receive_all(address, partial, stages)
        os.replace(partial, output)

    try:
        file = pooch.retrieve(
            archive.address,
            known_hash=archive.checksum,
            fname=archive.file_name,
            path=folder,
            downloader=resume,
        )
    except ValueError:
        raise ValueError(
            f"{archive.address}: what came has not the checksum {archive.checksum}, and was "
            "deleted; try again, or it is not the published file any more"
        ) from None
    return Path(file)


def check_archive(archive: Archive, file: Path) -> None:
    """Refuse a file that is not the published archive."""
    import pooch

    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file")
    if archive.checksum is None:
        return
    algorithm, expected = archive.checksum.split(":")
    found = pooch.file_hash(str(file), alg=algorithm)
    if found != expected:
        raise ValueError(
            f"{file}: not the published {archive.file_name}: {algorithm} {found} instead of "
            f"{expected}; unpack it yourself and use 'lrrspm datasets add'"
        )


def _receive_all(address: str, partial: Path, stages: Stages) -> None:
    """Fetch the rest of a file, over as many connections as bring anything new."""
    import requests
    from urllib3.exceptions import HTTPError

    while True:
        before = _size(partial)
        try:
            _receive(address, partial, stages)
            return
        except (requests.RequestException, HTTPError) as error:
            if _size(partial) <= before:
                raise UnreachableError(f"{address}: {_reason(error)}") from error
            time.sleep(_PAUSE)


def _receive(address: str, partial: Path, stages: Stages) -> None:
    """Append what one connection brings; raise if that is not the rest of the file."""
    import requests

    have = _size(partial)
    # The bytes as they lie on the server: some send a .tgz as if it were packed on the way.
    headers = {"Accept-Encoding": "identity", "User-Agent": f"lrrspm/{__version__}"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(address, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if have and response.status_code == requests.codes.requested_range_not_satisfiable:
            if response.headers.get("Content-Range") != f"bytes */{have}":
                partial.unlink()  # of another file
                _receive(address, partial, stages)
            return
        response.raise_for_status()
        if not _continues(response, have):
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with partial.open("ab" if have else "wb") as file:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                file.write(chunk)
                have += len(chunk)
                stages.tell("download, kB", have // 1000, max(have, total or 0) // 1000)
    if total is not None and have < total:
        raise requests.ConnectionError("the connection was closed early")


def _continues(response: requests.Response, have: int) -> bool:
    """Whether the server sends the rest, and not the whole file again."""
    return response.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    return "no connection"
