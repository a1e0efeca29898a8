"""Routes: the page, the API, and the API's documentation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from functools import partialmethod
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, File, HTTPException, Query, Request, Response, UploadFile
from fastapi.routing import APIRoute
from pydantic.json_schema import SkipJsonSchema
from starlette.formparsers import MultiPartParser
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from .. import __version__
from .corrections import Correction, Corrections, check_class
from .errors import add_handlers
from .middleware import LOOPBACK, SPOOL_BYTES, GuardMiddleware
from .schemas import Error, ErrorItem, Evidence, ModelCard, Predictions
from .worker import Worker

_STATIC = Path(__file__).parent / "static"
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "Malformed form"},
    403: {"model": Error, "description": "Request from another site's page"},
    408: {"model": Error, "description": "Upload too slow"},
    413: {"model": Error, "description": "File or request too large"},
    415: {"model": Error, "description": "Charset other than UTF-8"},
    421: {"model": Error, "description": "Unknown host name"},
    422: {"model": Error, "description": "Unusable image or parameter"},
    503: {"model": Error, "description": "Server busy; try again"},
    507: {"model": Error, "description": "No disk space for uploads"},
}
_BINARY = {"type": "string", "format": "binary"}


def create_app(
    worker: Worker,
    hosts: Collection[str] = LOOPBACK,
    any_address: bool = False,
    corrections: Corrections | None = None,
) -> GuardMiddleware:
    """Return an ASGI application that serves a model.

    Parameters
    ----------
    worker : Worker
    hosts, any_address
        See :class:`lrrspm.serve.middleware.GuardMiddleware`.
    corrections : Corrections or None
        Where to save images that people correct; None for nowhere.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await worker.workers.start()
        yield
        await worker.workers.finish()

    app = FastAPI(
        title="lrrspm",
        description="Classify images, and show the evidence.",
        version=__version__,
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
    )
    add_handlers(app)
    _add_api(app, worker)
    if corrections is not None:
        _add_corrections(app, worker, corrections)

    app.get("/", include_in_schema=False)(lambda: FileResponse(_STATIC / "index.html"))
    app.get("/docs", include_in_schema=False)(lambda: FileResponse(_STATIC / "docs.html"))
    app.mount("/static", StaticFiles(directory=_STATIC))
    return GuardMiddleware(app, worker.limits, hosts, any_address)


def _limited_route(max_files: int) -> type[APIRoute]:
    """Return a route class that rejects a form at its first file too many.

    FastAPI reads forms whole, in memory up to a size, so counting afterwards is too late.
    """

    class LimitedRequest(Request):
        form = partialmethod(
            Request.form, max_files=max_files, max_fields=max_files, max_part_size=SPOOL_BYTES
        )

    class LimitedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def limited(request: Request) -> Response:
                return await handle(LimitedRequest(request.scope, request.receive))

            return limited

    return LimitedRoute


def _add_api(app: FastAPI, worker: Worker) -> None:
    max_files = worker.limits.files
    app.router.route_class = _limited_route(max_files)
    MultiPartParser.spool_max_size = SPOOL_BYTES
    several = {"minItems": 1, "maxItems": max_files, "items": _BINARY}

    @app.post("/api/predict", responses=_ERRORS)
    async def predict(
        files: Annotated[list[UploadFile], File(description="Images.", json_schema_extra=several)],
        top: Annotated[int, Query(ge=1, description="Number of classes to return.")] = 5,
    ) -> Predictions:
        """Classify images.

        The entry of a file that cannot be read has the reason; if no file can be read, the
        response is an error.
        """
        found = await asyncio.gather(*(worker.predict(file, top) for file in files))
        failed = [entry for entry in found if isinstance(entry, ErrorItem)]
        if len(failed) == len(found):
            raise HTTPException(422, "; ".join(f"{item.name}: {item.error}" for item in failed))
        return Predictions(predictions=found)

    @app.post("/api/explain", responses=_ERRORS)
    async def explain(
        file: Annotated[UploadFile, File(description="Image.", json_schema_extra=_BINARY)],
        label: Annotated[
            str | SkipJsonSchema[None],
            Query(
                description="Class to explain; default: the best one.",
                json_schema_extra={"enum": worker.labels},
            ),
        ] = None,
        preview: Annotated[bool, Query(description="Return the image as well.")] = False,
        patches: Annotated[bool, Query(description="Return the numbers behind the map.")] = False,
    ) -> Evidence:
        """Return scores, and a map of the evidence for a class."""
        if label is not None and label not in worker.labels:
            some = ", ".join(worker.labels[:20]) + (", ..." if len(worker.labels) > 20 else "")
            raise HTTPException(422, f"No class {label!r}; the classes are: {some}")
        return await worker.explain(file, label, preview, patches)

    @app.get("/api/model")
    async def model() -> ModelCard:
        """Return the model's classes, method, parameters and accuracy, and the server's limits."""
        return worker.card


def _add_corrections(app: FastAPI, worker: Worker, corrections: Corrections) -> None:
    @app.post("/api/corrections", responses=_ERRORS)
    async def correct(
        file: Annotated[UploadFile, File(description="Image.", json_schema_extra=_BINARY)],
        label: Annotated[str, Query(description="Its class: one of the model's, or a new one.")],
    ) -> Correction:
        """Save an image under its right class, for `lrrspm add`."""
        name = check_class(label, worker.labels)
        suffix = await worker.identify(file)
        await file.seek(0)
        return await corrections.save(await file.read(), suffix, name)
