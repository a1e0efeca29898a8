"""Error responses, the exception handlers that make them, and messages on stderr."""

from __future__ import annotations

import errno
import sys
import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from .escaping import escape

# Seconds before the same message is printed again, and when each was last printed.
_REPEAT_SECONDS = 60.0
_printed: dict[str, float] = {}
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
RETRY = {"Retry-After": "1"}
# What the frameworks say, in our words.
_REASONS = {
    400: "Malformed form; send multipart/form-data with each image as a file",
    404: "Not found; /docs lists the addresses",
    405: "Method not allowed; /docs lists the addresses",
}


def error_response(status: int, error: str, **headers: str) -> JSONResponse:
    """Return an error response."""
    return JSONResponse({"error": escape(error)}, status, headers)


def print_error(message: str) -> None:
    """Print a message on stderr, the same one at most once per minute."""
    now = time.monotonic()
    if now - _printed.get(message, -_REPEAT_SECONDS) >= _REPEAT_SECONDS:
        _printed[message] = now
        print(f"error: {message}", file=sys.stderr, flush=True)


def add_handlers(app: FastAPI) -> None:
    """Have an application report every error as JSON."""

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, OSError):
            print_error(f"no space for uploads: {error.__cause__}; set TMPDIR to another folder")
            return error_response(507, "The server has no disk space for uploads")
        if str(error.detail).startswith("Too many files"):  # a 400 of the form parser
            return error_response(422, str(error.detail))
        reason = _REASONS.get(error.status_code, str(error.detail))
        return error_response(error.status_code, reason, **dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def _(_: Request, error: RequestValidationError) -> JSONResponse:
        reasons = dict.fromkeys(_reason(**entry) for entry in error.errors())
        return error_response(422, "; ".join(reasons))

    @app.exception_handler(OSError)
    async def _(_: Request, error: OSError) -> JSONResponse:
        if error.errno not in OUT_OF_RESOURCES:
            raise error
        print_error(f"cannot answer requests: {error.strerror}")
        return error_response(503, "The server is out of resources; try again", **RETRY)

    @app.exception_handler(Exception)
    async def _(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, MemoryError):
            return error_response(503, "Out of memory; try again, or with a smaller image")
        return error_response(500, "Internal error; see the server's stderr")


def _reason(loc: tuple[str | int, ...], msg: str, type: str, **_: Any) -> str:
    """Return the reason of a validation error."""
    if loc[0] == "body" and type == "value_error":
        return f"{loc[1]}: not a file; with curl use -F {loc[1]}=@NAME"
    return f"{'.'.join(map(str, loc[1:]))}: {msg}"
