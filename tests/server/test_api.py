"""The interface: lists, cards, downloads, comparisons; and hundreds of requests that nobody thought of.

ANCHOR_API_CASES=2000 python -m pytest tests/server/test_api.py     # as `make faults`
"""

import csv
import io
import os
import re
import zipfile
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from page_folder import TOKEN
from pymatgen.core import Structure
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from anchor.outcomes.columns import ABOVE
from anchor.search.ledger import Ledger
from anchor.server.downloads import table
from anchor.server.guard import TOKEN_HEADER

CASES = int(os.environ.get("ANCHOR_API_CASES", "20"))
"""Requests of each kind."""
HEADERS = {"host": "127.0.0.1:8321", TOKEN_HEADER: TOKEN}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
FIRST = "/api/campaigns/runs~first"


def test_the_folder_lists_what_it_holds(client: TestClient) -> None:
    found = client.get("/api/folder").json()
    assert {one["name"] for one in found["campaigns"]} == {"runs/first", "runs/second"}
    first = next(one for one in found["campaigns"] if one["name"] == "runs/first")
    assert (first["structures"], first["refined"], first["running"]) == (96, 4, False)
    assert [one["name"] for one in found["evaluations"]] == ["evaluations/mine"]
    assert found["catalogue"]["entries"] == 60


def test_a_page_of_candidates_is_what_the_ledger_says(client: TestClient, root: Path) -> None:
    wish = {"where": "e_hull < 0.05 and nelements = 3", "sort": ABOVE, "page": 1, "size": 5}
    found = client.get(f"{FIRST}/candidates", params=wish).json()
    ledger = Ledger.open(root / "runs" / "first")
    expected = [r for r in ledger.rows() if r[ABOVE] < 0.05 and r["n_elements"] == 3]
    expected.sort(key=lambda row: row[ABOVE])
    assert len(expected) > 10
    assert found["total"] == len(expected)
    assert [row["id"] for row in found["rows"]] == [row["id"] for row in expected[5:10]]


def test_the_last_comes_first_when_asked(client: TestClient) -> None:
    rows = client.get(f"{FIRST}/candidates", params={"sort": "novelty", "descending": True}).json()["rows"]
    values = [row["novelty"] for row in rows]
    assert values == sorted(values, reverse=True)


def test_finds_know_more_than_candidates(client: TestClient) -> None:
    found = client.get(f"{FIRST}/finds").json()["rows"]
    assert found
    symbol = re.findall("[A-Z][a-z]?", found[0]["formula"])[0]
    rows = client.get(f"{FIRST}/finds", params={"where": f"elements has {symbol}"}).json()["rows"]
    assert found[0] in rows
    assert all(symbol in row["formula"] and row["spacegroup"] for row in rows)
    assert client.get(f"{FIRST}/candidates", params={"where": "level >= 3"}).status_code == 400


@pytest.mark.parametrize(
    "where", ["e_hull <", "nonsense = 1", "1; drop table candidates", "formula = 'x' --"]
)
def test_a_wrong_filter_says_where(client: TestClient, where: str) -> None:
    answer = client.get(f"{FIRST}/candidates", params={"where": where})
    assert answer.status_code == 400
    assert answer.json()["hint"]
    assert client.get(f"{FIRST}/candidates").json()["total"] == 96


def test_a_card_has_crystal_hulls_and_checks(client: TestClient) -> None:
    row = client.get(f"{FIRST}/finds").json()["rows"][0]
    card = client.get(f"{FIRST}/crystals/{row['id']}").json()
    entry = card["entry"]
    assert entry["formula"] == row["formula"]
    assert entry["refined"] is True
    assert len(entry["crystal"]["frac"]) == 3 * entry["atoms"]
    assert set(entry["above_each"]) >= {"oqmd", "mp"}
    assert "3" in card["levels"]


def test_what_the_gate_refused_is_no_find(client: TestClient) -> None:
    entry = client.get(f"{FIRST}/crystals/7").json()["entry"]
    assert entry["standing"] == "failed"
    assert entry["verdicts"][0]["reason"] == "a bond is too short"


def test_there_is_no_candidate_of_that_number(client: TestClient) -> None:
    assert client.get(f"{FIRST}/crystals/96").status_code == 404
    assert client.get(f"{FIRST}/crystals/-1").status_code == 422


@pytest.mark.parametrize(
    ("listed", "files"),
    [
        ("/api/catalogue", "/api/catalogue/download"),
        (f"{FIRST}/candidates", f"{FIRST}/download/candidates"),
        (f"{FIRST}/finds", f"{FIRST}/download/finds"),
    ],
)
def test_downloads_hold_the_selection(client: TestClient, listed: str, files: str) -> None:
    wish = {"where": "nelements = 3"}
    total = client.get(listed, params=wish).json()["total"]
    assert total > 0
    sheet = client.get(f"{files}/csv", params=wish)
    assert sheet.headers["content-disposition"].startswith("attachment")
    assert len(list(csv.DictReader(io.StringIO(sheet.text)))) == total
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"{files}/cif", params=wish).content))
    assert len(archive.namelist()) == total
    one = Structure.from_str(archive.read(archive.namelist()[0]).decode(), "cif")
    assert len(one.elements) == 3
    assert client.get(f"{files}/extxyz", params=wish).text.count("Lattice=") == total


def test_an_empty_selection_says_so(client: TestClient) -> None:
    answer = client.get("/api/catalogue/download/cif", params={"where": "e_hull > 50"})
    assert answer.status_code == 400
    assert "empty" in answer.json()["error"]


def test_text_of_a_ledger_is_no_formula_of_a_spreadsheet() -> None:
    assert "'=cmd()" in table([{"id": 1, "formula": "=cmd()"}]).decode()


def test_campaigns_are_compared(client: TestClient) -> None:
    found = client.get("/api/compare", params={"key": ["runs~first", "runs~second"]}).json()
    assert [one["proposed"] for one in found["campaigns"]] == [96, 32]
    assert len(found["curves"]["msun"]) == 2
    low, value, high = (found["campaigns"][0]["of_proposed"]["valid"][i] for i in (1, 0, 2))
    assert low < value == 84 / 96 < high
    assert client.get("/api/compare", params={"key": "nobody"}).status_code == 404


def test_overview_counts_what_the_report_counts(client: TestClient) -> None:
    found = client.get(f"{FIRST}/overview").json()
    assert found["proposed"] == 96
    assert sum(found["histogram"]["counts"]) == 84


def test_an_unfinished_evaluation_is_shown_as_such(client: TestClient) -> None:
    found = client.get("/api/evaluations/evaluations~mine").json()
    assert found == {"label": "half an evaluation", "finished": False, "metrics": []}


def test_every_page_has_its_script(client: TestClient) -> None:
    for path in ("/", "/campaign/runs~first", "/compare", "/catalogue", "/new", "/evaluation/x", "/study/x"):
        page = client.get(path)
        assert page.status_code == 200
        for part in page.text.split('src="')[1:]:
            script = client.get(part.partition('"')[0])
            assert (script.status_code, script.headers["content-type"].split(";")[0]) == (
                200,
                "text/javascript",
            )


def test_any_request_is_answered_as_declared(app: FastAPI) -> None:
    """All questions but the one whose answer has no end; searches end at once."""
    app.state.shop.jobs.anchor = ("/bin/true",)
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HEADERS)
    asked = []
    for found in schema.exclude(path_regex="events$").get_all_operations():
        operation = found.ok()
        asked.append(operation.label)

        @given(case=operation.as_strategy())
        @settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def answered(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=HEADERS, checks=CHECKS)

        answered()
    assert len(asked) >= 14
