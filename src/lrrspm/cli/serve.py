"""The command that serves a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import config
from .._support.text import printable
from .app import command
from .options import Jobs, Json, MinConfidence, ModelPath, as_local


def _limit(name: str, help: str) -> Any:
    return typer.Option(name, min=1, metavar="N", help=help, rich_help_panel="Limits")


@command
def serve(
    model: ModelPath,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help=f"Address to listen on. Default: {config.SERVE_HOST}, this machine only. "
            "0.0.0.0 admits anyone who can reach this machine; there is no password.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, metavar="N", help="Port to listen on; 0 is any free port."
        ),
    ] = config.SERVE_PORT,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name", metavar="NAME", help="Another host name to answer to. Can be repeated."
        ),
    ] = None,
    min_confidence: MinConfidence = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    collect: Annotated[
        Path | None,
        typer.Option(
            "--collect",
            metavar="DIR",
            parser=as_local,
            help="Let the page ask for corrections, and save corrected images in this folder for "
            "'lrrspm add'.",
        ),
    ] = None,
    max_files: Annotated[int, _limit("--max-files", "Images per request.")] = config.SERVE_FILES,
    max_file_mb: Annotated[
        int, _limit("--max-file-mb", "Megabytes per image.")
    ] = config.SERVE_FILE_MB,
    max_request_mb: Annotated[
        int, _limit("--max-request-mb", "Megabytes per request.")
    ] = config.SERVE_REQUEST_MB,
    max_waiting: Annotated[
        int, _limit("--max-waiting", "Concurrent requests, queued ones included.")
    ] = config.SERVE_WAITING,
    max_seconds: Annotated[
        float, _limit("--max-seconds", "Seconds per request.")
    ] = config.SERVE_SECONDS,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Serve a model: a web page to drop images on, and an API for programs.

    The page shows the classes of each image and the evidence for them; /docs documents
    the API. Neither loads anything from other hosts. Press Ctrl-C to stop. With --json,
    one line of JSON is printed once the server is ready.

    Needs an extra: pip install 'lrrspm\\[serve]'.

    Example: lrrspm serve my.lrrspm
    """
    try:
        import python_multipart  # noqa: F401  (FastAPI notices too late)

        from ..serve.runner import canonical, is_loopback, run
        from ..serve.schemas import Limits
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "python_multipart", "starlette", "pydantic"):
            raise
        raise ImportError(f"{error.name} is missing: pip install 'lrrspm[serve]'") from None

    if host is not None and host.split() != [host]:
        raise typer.BadParameter(
            f"expected an address such as 127.0.0.1, got {host!r}", param_hint="--host"
        )
    host = canonical(config.SERVE_HOST if host is None else host)
    if not is_loopback(host):
        print(
            f"warning: anyone who can reach {host} can use this server; there is no password",
            file=sys.stderr,
        )

    def ready(url: str) -> None:
        if as_json:
            print(json.dumps({"url": url, "model": str(model)}), flush=True)
        else:
            print(f"{printable(model)}: ready at {url} (Ctrl-C to stop)", flush=True)
        if open_page:
            import threading
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    limits = Limits(
        files=max_files,
        file_bytes=max_file_mb * 10**6,
        request_bytes=max_request_mb * 10**6,
        waiting=max_waiting,
        seconds=max_seconds,
    )
    run(model, host, port, limits, jobs, names or (), min_confidence, ready, collect)
