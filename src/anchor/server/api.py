"""What the page asks for and tells: a JSON interface, one function per question."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from anchor.catalogue.catalogue import Catalogue
from anchor.chemistry.elements import INDEX
from anchor.errors import AnchorError, InputError
from anchor.exports.chosen import Chosen, of_catalogue, refined_rows
from anchor.report.data import element_table
from anchor.report.summary import SOURCES
from anchor.search.ledger import Ledger
from anchor.server import downloads
from anchor.server.cards import candidate_card, entry_card, listed_entries
from anchor.server.folder import LEDGER, Folder, NotHere, Place
from anchor.server.jobs import Jobs, SearchRequest
from anchor.server.listing import Listing, page_of_candidates, page_of_rows
from anchor.server.live import Watch, changed, is_running
from anchor.server.pictures import Pictures
from anchor.writing import safe_name

TICK = 1.0
"""Seconds between two looks at a running campaign."""
QUIET = 15
"""Looks without a change after which a sign of life is sent, so that a closed page is noticed."""
LARGEST_ID = 2**53
MOST_COMPARED = 8

Number = Annotated[int, Field(ge=0, le=LARGEST_ID)]


class Problem(BaseModel):
    """What went wrong, and the way out."""

    error: str
    hint: str | None = None


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 403, 404, 409, 413, 421, 422, 500)
}


class Started(BaseModel):
    """A search that was started or told to stop."""

    key: str
    state: str


class Workshop:
    """What all answers share.

    Attributes:
        folder: That is served.
        jobs: Searches of this page.
        catalogue: That ships, if it does.
    """

    def __init__(self, folder: Folder, jobs: Jobs, catalogue: Catalogue | None) -> None:
        self.folder, self.jobs, self.catalogue = folder, jobs, catalogue
        self.pictures = Pictures()
        self.closing = False
        self._watches: dict[Path, tuple[int, Watch]] = {}
        self.entries = [] if catalogue is None else listed_entries(catalogue)

    @contextmanager
    def ledger(self, key: str) -> Iterator[Ledger]:
        """Of a campaign."""
        with closing(Ledger.open(self.folder.place("campaign", key).path)) as ledger:
            yield ledger

    def snapshot(self, key: str) -> dict[str, Any]:
        """A campaign now: progress, and the search that this page runs for it."""
        job = self.jobs.get(key)
        try:
            place = self.folder.place("campaign", key)
            progress = self._watch(place.path).snapshot()
            running = is_running(place.path)
        except AnchorError as error:
            if job is None:
                raise
            # it is loading, or ended before there was anything
            progress, running = {"waiting": str(error) if not job.running else ""}, job.running
        return {
            **progress,
            "running": running or (job is not None and job.running),
            "job": None if job is None else job.status(),
        }

    def mark(self, key: str) -> Any:
        """Differs once a snapshot would."""
        job = self.jobs.get(key)
        try:
            place = self.folder.place("campaign", key)
            return changed(place.path), is_running(place.path), job and job.status()
        except InputError:
            return job and job.status()

    def _watch(self, path: Path) -> Watch:
        try:
            inode = (path / LEDGER).stat().st_ino
        except FileNotFoundError:
            raise NotHere(f"there is no campaign '{path.name}' any more", "see the first page") from None
        kept = self._watches.get(path)
        if kept is None or kept[0] != inode:
            kept = self._watches[path] = (inode, Watch(Ledger.open(path)))
        return kept[1]

    def brief(self, place: Place) -> dict[str, Any]:
        """A campaign in the list."""
        head = {"key": place.key, "name": place.name, "about": place.about}
        try:
            with closing(Ledger.open(place.path)) as ledger:
                config, identity = ledger.config, ledger.identity
                return {
                    **head,
                    "structures": ledger.n_candidates,
                    "budget": config["run"]["structures"],
                    "source": SOURCES.get(config.get("policy", {}).get("source", "policy"), "policy"),
                    "potential": identity["potential"]["name"],
                    "limits": limits_in_words(config.get("action_space", {})),
                    "refined": len(ledger.refined()),
                    "running": is_running(place.path) or place.key in running_keys(self.jobs),
                }
        except (AnchorError, KeyError, TypeError) as error:
            return {**head, "problem": str(error)}


def running_keys(jobs: Jobs) -> list[str]:
    """Campaigns that this page is searching in."""
    return [key for key in jobs.keys() if (job := jobs.get(key)) and job.running]  # noqa: SIM118


def limits_in_words(space: dict[str, Any]) -> str:
    """What a search was limited to."""
    words = {"elements": "of", "must_contain": "with", "exclude": "without"}
    given = [f"{word} {', '.join(space[name])}" for name, word in words.items() if space.get(name)]
    k = space.get("k") or []
    return "; ".join([*given, f"{'/'.join(map(str, k))} elements" if k else ""]).strip("; ")


def make_router(shop: Workshop) -> APIRouter:
    """All questions."""
    router = APIRouter(prefix="/api", responses=PROBLEMS)

    @router.get("/folder")
    def folder() -> dict[str, Any]:
        """Everything in the folder."""
        known = shop.folder.places("campaign")
        waiting = [key for key in running_keys(shop.jobs) if key not in {place.key for place in known}]
        here = shop.folder.root.name or "/"
        return {
            "name": here,
            "campaigns": [shop.brief(place) for place in known],
            "starting": [{"key": key} for key in waiting],
            "evaluations": [
                {"key": p.key, "name": p.name, "about": p.about} for p in shop.folder.places("evaluation")
            ],
            "studies": [
                {"key": p.key, "name": here if p.name == "." else p.name} for p in shop.folder.places("study")
            ],
            "catalogue": None if shop.catalogue is None else shop.catalogue.counts(),
        }

    @router.get("/elements")
    def elements() -> dict[str, Any]:
        """Elements as pictures need them, by atomic number; those that a search can use; who proposes."""
        return {"table": element_table(), "searchable": list(INDEX), "sources": SOURCES}

    @router.get("/campaigns/{key}")
    def campaign(key: str) -> dict[str, Any]:
        """A campaign: what it is and how far."""
        snapshot = shop.snapshot(key)
        if "structures" not in snapshot:
            return {"key": key, "name": key.replace("~", "/"), **snapshot}
        return {**snapshot, **shop.brief(shop.folder.place("campaign", key))}

    @router.get("/campaigns/{key}/events", response_class=StreamingResponse)
    async def events(key: str, request: Request) -> StreamingResponse:
        """Server-sent events: a snapshot now and whenever something changed."""
        first = await run_in_threadpool(shop.snapshot, key)  # an unknown key is answered as such
        return StreamingResponse(
            _stream(shop, key, first, request.is_disconnected), media_type="text/event-stream"
        )

    @router.get("/campaigns/{key}/overview")
    def overview(key: str) -> dict[str, Any]:
        """What the report's pictures show."""
        return shop.pictures.of_campaign(shop.folder.place("campaign", key).path)

    @router.get("/campaigns/{key}/candidates")
    def candidates(key: str, listing: Annotated[Listing, Query()]) -> dict[str, Any]:
        """Candidates, page by page."""
        with shop.ledger(key) as ledger:
            total, rows = page_of_candidates(ledger, listing)
        return {"total": total, "rows": rows}

    @router.get("/campaigns/{key}/finds")
    def finds(key: str, listing: Annotated[Listing, Query()]) -> dict[str, Any]:
        """Finds, page by page."""
        with shop.ledger(key) as ledger:
            found = [row for row in refined_rows(ledger) if row["what"] == "find"]
        total, rows = page_of_rows(found, listing)
        return {"total": total, "rows": rows}

    @router.get("/campaigns/{key}/refined")
    def refined(key: str, listing: Annotated[Listing, Query()]) -> dict[str, Any]:
        """All that was relaxed with the cell free, with what each came to, page by page."""
        with shop.ledger(key) as ledger:
            total, rows = page_of_rows(refined_rows(ledger), listing)
        return {"total": total, "rows": rows}

    @router.get("/campaigns/{key}/crystals/{number}")
    def crystal(key: str, number: Number) -> dict[str, Any]:
        """A candidate with its crystal."""
        with shop.ledger(key) as ledger:
            return candidate_card(ledger, number)

    @router.get("/campaigns/{key}/download/{of}/{format}", response_class=Response)
    def download(
        key: str, of: downloads.Of, format: downloads.Format, listing: Annotated[Listing, Query()]
    ) -> Response:
        """A selection of candidates or finds as one file."""
        with shop.ledger(key) as ledger:
            selection = downloads.chosen(ledger, listing, of)
        return _file(selection, format, f"{key}-{of}")

    @router.get("/compare")
    def compare(
        key: Annotated[list[str], Query(min_length=1, max_length=MOST_COMPARED)],
    ) -> dict[str, Any]:
        """Several campaigns beside one another."""
        places = [shop.folder.place("campaign", one) for one in dict.fromkeys(key)]
        return shop.pictures.compared([(place.path, place.name) for place in places])

    @router.get("/catalogue")
    def catalogue(listing: Annotated[Listing, Query()]) -> dict[str, Any]:
        """The catalogue that ships, page by page."""
        total, rows = page_of_rows(shop.entries, listing)
        return {"total": total, "rows": rows}

    @router.get("/catalogue/crystals/{number}")
    def entry(number: Number) -> dict[str, Any]:
        """An entry with its crystal."""
        catalogue = _catalogue(shop)
        if not 1 <= number <= len(catalogue):
            raise NotHere(f"there is no entry {number}", "choose one from the list")
        return entry_card(catalogue[number - 1], catalogue.card)

    @router.get("/catalogue/download/{format}", response_class=Response)
    def catalogue_download(format: downloads.Format, listing: Annotated[Listing, Query()]) -> Response:
        """A selection of the catalogue as one file."""
        return _file(of_catalogue(_catalogue(shop), listing.wanted), format, "catalogue")

    @router.get("/evaluations/{key}")
    def evaluation(key: str) -> dict[str, Any]:
        """An evaluation's metrics."""
        from anchor.server.evaluations import evaluation_page  # loads torch

        return evaluation_page(shop.folder.place("evaluation", key).path)

    @router.get("/studies/{key}")
    def study(key: str) -> dict[str, Any]:
        """Tables of the studies in a folder, as far as they are made."""
        from anchor.server.evaluations import study_page  # loads torch

        return study_page(shop.folder.place("study", key).path)

    @router.post("/searches", status_code=201)
    def start(wish: SearchRequest) -> Started:
        """Start a search."""
        wish.check()
        name = wish.name or datetime.now().strftime("%Y%m%d-%H%M%S")
        place = shop.folder.new_campaign(name)
        key = shop.folder.key(place)
        shop.jobs.start(key, wish.arguments(place))
        return Started(key=key, state="running")

    @router.post("/campaigns/{key}/stop")
    def stop(key: str) -> Started:
        """Ask a search of this page to stop, as Ctrl-C does."""
        shop.jobs.stop(key)
        return Started(key=key, state="stopping")

    @router.post("/campaigns/{key}/resume", status_code=201)
    def resume(key: str, structures: Annotated[int | None, Query(ge=1, le=1_000_000)] = None) -> Started:
        """Go on with a campaign, to its budget or a new one."""
        place = shop.folder.place("campaign", key)
        if is_running(place.path):
            raise AnchorError("this search runs already", "wait for it, or stop it")
        more = [] if structures is None else ["-n", str(structures)]
        shop.jobs.start(key, ["resume", str(place.path), *shop.jobs.wishes(key), *more])
        return Started(key=key, state="running")

    return router


async def _stream(
    shop: Workshop, key: str, first: dict[str, Any], gone: Callable[[], Any]
) -> AsyncIterator[str]:
    mark, snapshot, quiet = await run_in_threadpool(shop.mark, key), first, 0
    yield f"data: {json.dumps(snapshot)}\n\n"
    while not shop.closing and not await gone():
        await asyncio.sleep(TICK)
        now = await run_in_threadpool(shop.mark, key)
        quiet += 1
        if now != mark:
            try:
                snapshot = await run_in_threadpool(shop.snapshot, key)
            except AnchorError:  # the folder is gone
                return
            mark, quiet = now, 0
            yield f"data: {json.dumps(snapshot)}\n\n"
        elif quiet >= QUIET:
            quiet = 0
            yield ": still here\n\n"


def _catalogue(shop: Workshop) -> Catalogue:
    if shop.catalogue is None:
        raise NotHere("there is no catalogue here", "make one: anchor catalogue build")
    return shop.catalogue


def _file(selection: Chosen, format: downloads.Format, name: str) -> Response:
    place = safe_name(name + downloads.ENDINGS[format])
    return Response(
        downloads.as_file(selection, format),
        media_type=downloads.TYPES[format],
        headers={"content-disposition": f'attachment; filename="{place}"'},
    )
