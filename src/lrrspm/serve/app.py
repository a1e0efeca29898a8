"""The addresses: the page, the API, the description of the API."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, File, HTTPException, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic.json_schema import SkipJsonSchema
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.formparsers import MultiPartParser
from starlette.responses import FileResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from .. import __version__
from .answers import Card, Evidence, Predictions, Problem, Refusal
from .gate import LOOPBACK, Gate, complain, problem
from .work import Worker

_STATIC = Path(__file__).parent / "static"
# Bytes from which on a part of a form is on disk.
_SPOOL = 2**18
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is no form of files"},
    403: {"model": Problem, "description": "A page of another site asks"},
    408: {"model": Problem, "description": "The upload took too long"},
    413: {"model": Problem, "description": "Too many bytes"},
    421: {"model": Problem, "description": "Asked under a name that is not the server's"},
    422: {"model": Problem, "description": "What was sent cannot be used"},
    503: {"model": Problem, "description": "Too much to do; try again"},
    507: {"model": Problem, "description": "No room for uploads"},
}


def create_app(
    worker: Worker, hosts: Collection[str] = LOOPBACK, any_address: bool = False
) -> Gate:
    """An ASGI application that serves a model.

    Parameters
    ----------
    worker : Worker
    hosts, any_address
        See :class:`lrrspm.serve.gate.Gate`.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with worker:
            yield
            await asyncio.to_thread(worker.finish)  # others hear meanwhile that it ends

    app = FastAPI(
        title="lrrspm",
        description="Says what is on pictures, and why.",
        version=__version__,
        docs_url=None,  # theirs asks other hosts for its scripts
        redoc_url=None,
        lifespan=lifespan,
    )
    app.exception_handler(StarletteHTTPException)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(Exception)(_failed)
    _add_api(app, worker)
    for address, page in (("/", "index.html"), ("/docs", "docs.html")):
        app.add_api_route(address, _page(page), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_STATIC))
    return Gate(app, worker.limits, hosts, any_address)


def _limited_forms(most: int) -> type[APIRoute]:
    """Routes whose forms are refused as soon as they have more files than they may have.

    Parts of forms are in memory until they are large, so it is too late to count them afterwards.
    """

    class Limited(Request):
        def form(self, **_: Any) -> Any:
            return super().form(max_files=most, max_fields=most, max_part_size=_SPOOL)

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def limited(request: Request) -> Response:
                try:
                    return await handle(Limited(request.scope, request.receive))
                except StarletteHTTPException as error:
                    if not str(error.detail).startswith("Too many files"):
                        raise
                    raise HTTPException(422, f"more than {most} pictures; send fewer") from None

            return limited

    return Route


def _add_api(app: FastAPI, worker: Worker) -> None:
    most = worker.limits.files
    app.router.route_class = _limited_forms(most)
    MultiPartParser.spool_max_size = _SPOOL
    some = {"minItems": 1, "maxItems": most, "items": {"type": "string", "format": "binary"}}
    # The names of the classes, so that whoever reads the schema knows which there are.
    labels = {"enum": worker.labels}

    @app.post("/api/predict", responses=_PROBLEMS)
    async def predict(
        files: Annotated[list[UploadFile], File(description="Pictures.", json_schema_extra=some)],
        top: Annotated[int, Query(ge=1, description="How many classes to name.")] = 5,
    ) -> Predictions:
        """Say what is on pictures.

        A file that cannot be read has an entry with the reason among the others; where none can be
        read the answer is an error.
        """
        found = await asyncio.gather(*(worker.predict(file, top) for file in files))
        refused = [entry for entry in found if isinstance(entry, Refusal)]
        if len(refused) == len(found):
            raise HTTPException(422, "; ".join(f"{r.name}: {r.error}" for r in refused))
        return Predictions(predictions=found)

    @app.post("/api/explain", responses=_PROBLEMS)
    async def explain(
        file: Annotated[
            UploadFile, File(description="A picture.", json_schema_extra={"format": "binary"})
        ],
        label: Annotated[
            str | SkipJsonSchema[None],
            Query(description="Class to explain; else the best one.", json_schema_extra=labels),
        ] = None,
        preview: Annotated[bool, Query(description="Send the picture back, to look at.")] = False,
        patches: Annotated[bool, Query(description="Send the numbers behind the map.")] = False,
    ) -> Evidence:
        """Say why a picture has its score for a class: scores, and a map of the evidence."""
        if label is not None and label not in worker.labels:
            few = ", ".join(worker.labels[:20]) + (", ..." if len(worker.labels) > 20 else "")
            raise HTTPException(422, f"no class {label!r}; there are: {few}")
        return await worker.explain(file, label, preview, patches)

    @app.get("/api/model")
    async def model() -> Card:
        """The model's card: classes, method, parameters, how good it is; and the limits."""
        return worker.card


def _page(name: str) -> Any:
    async def page() -> FileResponse:
        return FileResponse(_STATIC / name)

    return page


# Words of our own for what the frameworks say.
_REASONS = {
    400: "the form cannot be read; send multipart/form-data with each picture as a file",
    404: "there is nothing at this address; /docs lists what there is",
    405: "not with this method; /docs lists what there is",
}


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    if isinstance(error.__cause__, OSError):
        complain(f"no room for uploads: {error.__cause__}; set TMPDIR to a folder that has some")
        return problem(507, "there is no room for uploads on the server")
    reason = _REASONS.get(error.status_code, str(error.detail))
    return problem(error.status_code, reason, **dict(error.headers or {}))


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    reasons = dict.fromkeys(_reason(**entry) for entry in error.errors())
    return problem(422, "; ".join(reasons))


def _reason(loc: tuple[str | int, ...], msg: str, type: str, **_: Any) -> str:
    """What is wrong with a value, and where."""
    if loc[0] == "body" and type == "value_error":
        return f"{loc[1]}: not a file; with curl write -F {loc[1]}=@NAME"
    return f"{'.'.join(map(str, loc[1:]))}: {msg}"


async def _failed(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, MemoryError):
        return problem(503, "out of memory; try again, or with a smaller picture")
    return problem(500, "the server failed; what it printed says more")
