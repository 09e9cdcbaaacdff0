"""A campaign that goes on while it is watched."""

import json
from pathlib import Path

import httpx
from page_folder import Page, add_candidates, make_campaign

from anchor.outcomes.tally import TALLY_COLUMNS, Tally
from anchor.paths import alone
from anchor.search.ledger import Ledger
from anchor.server.live import Watch, changed, is_running


def test_a_snapshot_counts_as_if_read_anew(tmp_path: Path) -> None:
    ledger = make_campaign(tmp_path / "c", 40, refined=3)
    watch = Watch(Ledger.open(tmp_path / "c"))
    first = watch.snapshot()
    assert (first["structures"], first["steps"], first["refined"]) == (40, 2, 3)
    add_candidates(ledger, 40)
    second = watch.snapshot()
    tally = Tally().add_all(Ledger.open(tmp_path / "c").rows(TALLY_COLUMNS))
    assert second["structures"] == 80
    assert second["counts"] == tally.counts
    assert second["latest"][0]["id"] == 78, "79 is invalid"


def test_who_holds_the_lock_is_running(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with alone(tmp_path / "ledger.lock", "searching"):
        assert is_running(tmp_path)
    assert not is_running(tmp_path)


def test_a_written_ledger_is_changed(tmp_path: Path) -> None:
    ledger = make_campaign(tmp_path, 4, refined=0)
    before = changed(tmp_path)
    assert before == changed(tmp_path)
    add_candidates(ledger, 4)
    assert changed(tmp_path) != before


def test_events_come_as_it_happens(served: Page) -> None:
    folder = served.app.state.shop.folder.root / "runs" / "second"
    with httpx.stream("GET", f"{served.base}/api/campaigns/runs~second/events", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = (line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: "))
        before = json.loads(next(lines))["structures"]
        add_candidates(Ledger.open(folder), 32)
        assert json.loads(next(lines))["structures"] == before + 32


def test_nobody_waits_for_an_unknown_campaign(served: Page) -> None:
    assert httpx.get(f"{served.base}/api/campaigns/nobody/events", timeout=60).status_code == 404
