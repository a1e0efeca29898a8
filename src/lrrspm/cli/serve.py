"""The command that serves a model."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from .. import config
from .app import command
from .options import Jobs, Json, ModelPath

_LIMITS = "Limits"


@command
def serve(
    model: ModelPath,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help=f"Address to listen on; else {config.SERVE_HOST}, for this machine alone. "
            "0.0.0.0 lets everybody in who can reach this machine: there is no password.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 is any that is free.")
    ] = config.SERVE_PORT,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name", metavar="NAME", help="A further host name that browsers may use for it."
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    max_files: Annotated[
        int,
        typer.Option("--max-files", min=1, help="Pictures in a request.", rich_help_panel=_LIMITS),
    ] = config.SERVE_FILES,
    max_file_mb: Annotated[
        int,
        typer.Option("--max-file-mb", min=1, help="MB of a picture.", rich_help_panel=_LIMITS),
    ] = config.SERVE_FILE_MB,
    max_request_mb: Annotated[
        int,
        typer.Option("--max-request-mb", min=1, help="MB of a request.", rich_help_panel=_LIMITS),
    ] = config.SERVE_REQUEST_MB,
    max_waiting: Annotated[
        int,
        typer.Option(
            "--max-waiting",
            min=1,
            help="Requests at once, waiting or not.",
            rich_help_panel=_LIMITS,
        ),
    ] = config.SERVE_WAITING,
    max_seconds: Annotated[
        float,
        typer.Option("--max-seconds", min=1, help="Time of a request.", rich_help_panel=_LIMITS),
    ] = config.SERVE_SECONDS,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Serve a model: a page to drop pictures on, and an API for programs.

    The page shows the classes of each picture and the evidence for them. It, and the
    API beside it (its description is at /docs), ask no other host for anything. Ends
    with Ctrl-C. With --json it prints one line of JSON once it answers.

    Needs the extra: pip install 'lrrspm\\[serve]'.

    Example: lrrspm serve my.lrrspm
    """
    try:
        import python_multipart  # noqa: F401  (FastAPI notices too late)

        from ..serve.run import canonical, is_loopback, run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "python_multipart", "starlette", "pydantic"):
            raise
        raise ImportError(f"{error.name} is missing: pip install 'lrrspm[serve]'") from None
    from ..serve.limits import Limits

    if host is not None and host.split() != [host]:
        raise typer.BadParameter("an address is needed, such as 127.0.0.1", param_hint="--host")
    host = canonical(config.SERVE_HOST if host is None else host)
    if not is_loopback(host):
        print(
            f"warning: whoever can reach {host} can use this server; there is no password",
            file=sys.stderr,
        )

    def ready(url: str) -> None:
        if as_json:
            print(json.dumps({"url": url, "model": str(model)}), flush=True)
        else:
            print(f"{model}: ready at {url} (Ctrl-C ends it)", flush=True)
        if open_page:
            import threading
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    limits = Limits(
        max_files, max_file_mb * 10**6, max_request_mb * 10**6, max_waiting, max_seconds
    )
    run(model, host, port, limits, jobs, names or (), ready)
