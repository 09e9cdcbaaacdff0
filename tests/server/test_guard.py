"""Who may ask: hosts, origins, the token, and what answers allow."""

import stat
from pathlib import Path

import pytest
from page_folder import TOKEN
from starlette.testclient import TestClient

from anchor.server.guard import HEADERS, TOKEN_HEADER, new_token


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "localhost@evil.example", "", "a:b:c",
     "127.0.0.1:x", "[::1", "127.0.0.1/evil", "2130706433"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/folder", "/optimade/v1/info", "/static/page/style.css"])
def test_foreign_hosts_get_nothing(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "not a name of this machine" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:9999", "LOCALHOST", "[::1]:8321"])
def test_names_of_this_machine_on_any_port(client: TestClient, host: str) -> None:
    assert client.get("/api/folder", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8321", "http://127.0.0.1:1"]
)
def test_other_pages_may_not_even_read(client: TestClient, origin: str) -> None:
    assert client.get("/api/folder", headers={"origin": origin}).status_code == 403
    answer = client.post("/api/searches", headers={"origin": origin, TOKEN_HEADER: TOKEN}, json={})
    assert answer.status_code == 403
    assert "another page" in answer.json()["error"]


def test_what_a_browser_says_of_the_site_is_believed(client: TestClient) -> None:
    told = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/api/folder", headers=told).status_code == 403
    assert client.get("/", headers={**told, "sec-fetch-mode": "navigate"}).status_code == 200
    assert client.get("/api/folder", headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + " ", TOKEN[:-1], "ä"])
@pytest.mark.parametrize(
    "path", ["/api/searches", "/api/campaigns/runs~first/stop", "/api/campaigns/runs~first/resume"]
)
def test_nothing_changes_without_the_token(client: TestClient, token: str | None, path: str) -> None:
    headers = {} if token is None else {TOKEN_HEADER: token.encode()}
    answer = client.post(path, headers=headers, json={})
    assert answer.status_code == 403
    assert "token" in answer.json()["error"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST", "TRACE", "QUERY"])
def test_unknown_methods_need_it_too(client: TestClient, method: str) -> None:
    assert client.request(method, "/api/folder").status_code == 403


def test_a_token_in_the_address_is_no_token(client: TestClient) -> None:
    assert client.post(f"/api/searches?token={TOKEN}", json={}).status_code == 403


def test_long_requests_are_not_read(client: TestClient) -> None:
    answer = client.post("/api/searches", headers={TOKEN_HEADER: TOKEN}, content=b"[" * 200_000)
    assert answer.status_code == 413


def test_every_answer_forbids_other_origins(client: TestClient) -> None:
    for path in ("/", "/api/folder", "/api/nothing", "/optimade/v1/info", "/static/page/style.css"):
        headers = client.get(path).headers
        assert {name: headers.get(name) for name in HEADERS} == HEADERS
        assert not [name for name in headers if name.startswith("access-control-")]
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "*" not in policy
    assert "'unsafe-eval'" not in policy
    assert "script-src 'self' 'wasm-unsafe-eval'" in policy, "no script in the text of a page"


def test_the_token_is_new_each_time_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "serve" / "token"
    first = new_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() == first
    path.chmod(0o644)
    assert new_token(path) != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "token").symlink_to(victim)
    new_token(tmp_path / "token")
    assert victim.read_text() == "mine"
