"""The page as one app: interface, files of the page itself, OPTIMADE, and the guard around all of it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from anchor import __version__
from anchor.catalogue.catalogue import Catalogue
from anchor.errors import AnchorError, InputError
from anchor.paths import cache_dir
from anchor.report import assets
from anchor.server.api import Workshop, make_router
from anchor.server.folder import Folder, NotHere
from anchor.server.guard import Guard
from anchor.server.jobs import Jobs
from anchor.server.optimade import Shelf, make_app
from anchor.server.pages import PAGES, page

STATIC = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
OPTIMADE = "/optimade"


def state_folder(root: Path) -> Path:
    """Where the page of a folder keeps its token and logs: in the user's cache, not in the folder."""
    return cache_dir() / "serve" / hashlib.sha256(str(root).encode()).hexdigest()[:16]


def create(folder: Folder, catalogue: Catalogue | None, *, token: str, port: int, state: Path) -> FastAPI:
    """The whole page of a folder.

    Args:
        folder: What to show.
        catalogue: To show beside it.
        token: For everything that changes something.
        port: That it will be served at, for OPTIMADE's links.
        state: Folder for logs.
    """
    jobs = Jobs(state / "logs", folder.root)
    shop = Workshop(folder, jobs, catalogue)
    database = f"anchor-{uuid4().hex}"  # of this app alone
    optimade = make_app(f"http://127.0.0.1:{port}{OPTIMADE}", database=database, logs=state / "logs")
    shelf = Shelf(optimade, folder, catalogue)

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        yield
        shop.closing = True
        jobs.stop_all()

    app = FastAPI(
        title="anchor",
        version=__version__,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=life,
    )
    app.state.shop = shop
    app.state.shelf = shelf

    @app.middleware("http")
    async def fresh(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.url.path.startswith(OPTIMADE) and "/structures" in request.url.path:
            await run_in_threadpool(shelf.refill)
        return await go_on(request)

    _answer_errors(app)
    app.include_router(make_router(shop))
    for path, name in PAGES.items():
        app.add_api_route(path, _shell(name), include_in_schema=False, response_class=HTMLResponse)

    files = {"page": STATIC, "report": assets.STATIC, "viewer": assets.VIEWER.parent}

    @app.get("/static/{part}/{name}", include_in_schema=False)
    def static(part: str, name: str) -> Response:
        held = {file.name: file for file in _files(files.get(part))}
        if name not in held:
            raise HTTPException(404, f"there is no file {name[:60]}")
        return FileResponse(held[name], media_type=TYPES[held[name].suffix])

    app.mount(OPTIMADE, optimade)
    app.add_middleware(Guard, token=token)
    return app


def _shell(name: str) -> Callable[[], HTMLResponse]:
    def answer() -> HTMLResponse:
        return HTMLResponse(page(name, viewer=assets.VIEWER.is_file()))

    return answer


def _files(folder: Path | None) -> list[Path]:
    """Files of the page in one of its own folders."""
    if folder is None or not folder.is_dir():
        return []
    return [file for file in folder.iterdir() if file.suffix in TYPES and file.is_file()]


def _answer_errors(app: FastAPI) -> None:
    """Every error as its cause and its way out."""

    @app.exception_handler(AnchorError)
    async def known(_request: Request, error: AnchorError) -> JSONResponse:
        status = 404 if isinstance(error, NotHere) else 400 if isinstance(error, InputError) else 409
        return JSONResponse({"error": error.message, "hint": error.hint}, status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()[0]
        where = ".".join(str(part) for part in found["loc"][1:])
        return JSONResponse(
            {"error": f"{where}: {found['msg']}"[:500], "hint": "see the limits of the form"}, 422
        )

    @app.exception_handler(HTTPException)
    async def other(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail), "hint": None}, error.status_code)
