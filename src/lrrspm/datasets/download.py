"""Download an archive, resuming an interrupted download.

pooch decides whether the file is already there and complete. It cannot resume a download, so
the bytes come through a downloader of ours.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from .. import __version__
from .._support.stages import Stages
from .catalogue import Archive

_CHUNK = 1 << 18
# Seconds to wait for a connection, for the next bytes, and after a broken connection.
_TIMEOUT = (15, 60)
_PAUSE = 1.0
# Connections of one call; the next call resumes.
_MAX_CONNECTIONS = 30


class UnreachableError(ConnectionError):
    """The archive cannot be downloaded from its address now."""


class TooLongError(ValueError):
    """The server sends far more than the data set has."""


def download(archive: Archive, folder: Path, most: int, stages: Stages) -> Path:
    """Download an archive of at most so many bytes, unless it is there, and return its path.

    If the connection breaks or the disk is full, the bytes received so far
    stay in ``NAME.part``, and the next call requests only the rest.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    partial = folder / f"{archive.file_name}.part"

    def resume(address: str, output: str, _: object) -> None:
        _receive_all(address, partial, most, stages)
        found = mismatch(archive, partial)
        if found:
            partial.unlink()
            raise ValueError(
                f"{address}: {found}. The download was deleted; try again. If it fails again, the "
                "publisher has replaced the file"
            )
        os.replace(partial, output)

    file = pooch.retrieve(
        archive.address, archive.checksum, archive.file_name, folder, downloader=resume
    )
    return Path(file)


def mismatch(archive: Archive, file: Path) -> str:
    """Return how a file's checksum differs from the published one; empty if it does not."""
    import pooch

    if archive.checksum is None:
        return ""
    algorithm, expected = archive.checksum.split(":")
    found = pooch.file_hash(str(file), alg=algorithm)
    if found == expected:
        return ""
    return f"Checksum mismatch: expected {archive.checksum}, got {algorithm}:{found}"


def _receive_all(address: str, partial: Path, most: int, stages: Stages) -> None:
    """Download the rest of a file; reconnect as long as each connection brings new bytes."""
    import requests
    from urllib3.exceptions import HTTPError

    for _ in range(_MAX_CONNECTIONS):
        before = _size(partial)
        try:
            _receive(address, partial, most, stages)
            return
        except TooLongError:
            partial.unlink(missing_ok=True)
            raise
        except (requests.RequestException, HTTPError) as error:
            if _size(partial) <= before:
                raise UnreachableError(f"{address}: {_reason(error)}") from error
            time.sleep(_PAUSE)
    raise UnreachableError(
        f"{address}: the connection broke {_MAX_CONNECTIONS} times; run the command again to resume"
    )


def _receive(address: str, partial: Path, most: int, stages: Stages) -> None:
    """Append the bytes of one connection; raise if the file is still incomplete."""
    import requests

    have = _size(partial)
    # The bytes as stored on the server: some serve a .tgz with "Content-Encoding: gzip".
    headers = {"Accept-Encoding": "identity", "User-Agent": f"lrrspm/{__version__}"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(address, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        span = response.headers.get("Content-Range", "")
        if have and response.status_code == requests.codes.requested_range_not_satisfiable:
            if span != f"bytes */{have}":
                partial.unlink()  # part of another file
                _receive(address, partial, most, stages)
            return
        response.raise_for_status()
        if not span.startswith(f"bytes {have}-"):
            have = 0  # the server sends the whole file again
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        _check_length(address, max(have, total or 0), most)
        with partial.open("ab" if have else "wb") as file:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                have += len(chunk)
                _check_length(address, have, most)
                file.write(chunk)
                stages.tell("download, kB", have // 1000, max(have, total or 0) // 1000)
    if total is not None and have < total:
        raise requests.ConnectionError("connection closed early")


def _check_length(address: str, length: int, most: int) -> None:
    if length > most:
        raise TooLongError(
            f"{address}: more than {most:,} bytes, far more than the data set has; the download "
            "was deleted"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server returned {error.response.status_code} {error.response.reason}"
    return "timed out" if isinstance(error, requests.Timeout) else "no connection"
