"""What is found in a folder, and that nothing outside of it can be named."""

import shutil
from pathlib import Path

import pytest
from page_folder import make_campaign
from starlette.testclient import TestClient

from anchor.errors import InputError
from anchor.server.folder import Folder


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one") / "campaign"
    make_campaign(folder, 8, refined=0).close()
    return folder


def test_campaigns_evaluations_and_studies(tmp_path: Path, campaign: Path) -> None:
    shutil.copytree(campaign, tmp_path / "runs" / "a b")
    shutil.copytree(campaign, tmp_path / "studies" / "searches" / "0123456789ab")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "evaluation.json").write_text("{}")
    (tmp_path / "studies" / "searches" / "0123456789ab.txt").write_text("laptop: search\n" + 1000 * "x")
    (tmp_path / "runs" / "a b.txt").write_text("somebody's notes")
    folder = Folder(tmp_path)
    about = {place.name: place.about for place in folder.places("campaign")}
    assert list(about) == ["runs/a b", "studies/searches/0123456789ab"]
    assert about["runs/a b"] == "", "only cells of studies have words beside them"
    assert about["studies/searches/0123456789ab"].startswith("laptop: search")
    assert len(about["studies/searches/0123456789ab"]) == 300
    assert [place.name for place in folder.places("study")] == ["studies"]
    assert [place.key for place in folder.places("evaluation")] == ["e"]
    for place in folder.places("campaign"):
        assert folder.place("campaign", place.key) == place
        assert "/" not in place.key


def test_a_campaign_itself_can_be_served(campaign: Path) -> None:
    (place,) = Folder(campaign).places("campaign")
    assert (place.key, place.name) == ("here", ".")


def test_links_that_lead_out_are_not_followed(tmp_path: Path, campaign: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(campaign)
    (inside / "file").mkdir()
    (inside / "file" / "ledger.db").symlink_to(campaign / "ledger.db")
    assert Folder(inside).places("campaign") == []


def test_hidden_folders_are_left_alone(tmp_path: Path, campaign: Path) -> None:
    shutil.copytree(campaign, tmp_path / ".hidden")
    assert Folder(tmp_path).places("campaign") == []


@pytest.mark.parametrize(
    "key",
    ["..", ".", "", "/etc", "../../etc/passwd", "runs/first", "runs~..~..", "%2e%2e", "runs~first\0", "here"],
)
def test_keys_are_not_paths(root: Path, key: str) -> None:
    with pytest.raises(InputError, match="there is no campaign"):
        Folder(root).place("campaign", key)


@pytest.mark.parametrize(
    "path",
    ["/api/campaigns/..%2f..%2fetc", "/api/campaigns/%2fetc%2fpasswd", "/api/campaigns/runs%2ffirst",
     "/api/evaluations/..", "/api/studies/%2e%2e", "/static/page/..%2fapp.py", "/static/page/%2fetc%2fpasswd",
     "/static/..%2f..%2fapp.py/x", "/static/page/app.py", "/static/report/..%2fhtml.py", "/static/x/x.js"],
)  # fmt: skip
def test_no_address_leads_out(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text


@pytest.mark.parametrize("name", ["..", "a/b", "/tmp/x", ".hidden", "a b", "a\nb", "ä", "", "first"])
def test_names_of_new_campaigns_are_plain_and_free(root: Path, name: str) -> None:
    with pytest.raises(InputError):
        Folder(root).new_campaign(name)


def test_a_new_campaign_is_not_put_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "runs").symlink_to(tmp_path)
    with pytest.raises(InputError, match="leads out"):
        Folder(tmp_path / "served").new_campaign("mine")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a folder"):
        Folder(tmp_path / "file")
