"""What one request may cost."""

from __future__ import annotations

from dataclasses import dataclass

from .. import config


@dataclass(frozen=True)
class Limits:
    """What a server takes on; the defaults serve 64 clients at once.

    Parameters
    ----------
    files : int
        Pictures in one request.
    file_bytes, request_bytes : int
        Bytes of one picture and of one request.
    waiting : int
        Requests under way, the waiting ones among them; further ones are
        turned away.
    seconds : float
        From a request's first line to its answer: waiting, sending, work.
    """

    files: int = config.SERVE_FILES
    file_bytes: int = config.SERVE_FILE_MB * 10**6
    request_bytes: int = config.SERVE_REQUEST_MB * 10**6
    waiting: int = config.SERVE_WAITING
    seconds: float = config.SERVE_SECONDS

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be over 0, got {value}")
