"""`anchor potentials list|fetch|check`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anchor.cli.potentials import app
from anchor.errors import InputError
from anchor.potentials.registry import REGISTRY, fetch_weights

runner = CliRunner()


def test_list_shows_every_potential_and_what_is_missing():
    result = runner.invoke(app, ["list"])
    assert result.exit_code == 0
    for name in REGISTRY:
        assert name in result.stdout
    assert "huggingface.co/facebook/UMA" in result.stdout


def test_list_as_json():
    rows = json.loads(runner.invoke(app, ["list", "--json"]).stdout)
    assert [row["name"] for row in rows] == list(REGISTRY)
    for row in rows:
        assert row["available"] == (row["how_to_get"] == "")


def test_fetch_takes_several_names_and_is_idempotent():
    first = runner.invoke(app, ["fetch", "mattersim-1m", "chgnet", "--json"])
    second = runner.invoke(app, ["fetch", "mattersim-1m", "chgnet", "--json"])
    assert first.exit_code == second.exit_code == 0
    rows = json.loads(second.stdout)
    assert rows[0]["sha256"] == REGISTRY["mattersim-1m"].weights.sha256
    assert rows[1]["path"].endswith(".pth.tar")


def test_fetch_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "some.model"
    file.write_bytes(b"mine")
    result = runner.invoke(app, ["fetch", "mace", "--from", str(file), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)[0]["path"] == str(tmp_path / "cache/potentials/mace-mpa-0-medium.model")
    refused = runner.invoke(app, ["fetch", "mace", "orb", "--from", str(file)])
    assert isinstance(refused.exception, InputError)


def test_an_unknown_name_downloads_nothing():
    result = runner.invoke(app, ["fetch", "mattersim-1m", "mattersim-2m"])
    assert isinstance(result.exception, InputError)
    assert result.exception.hint.startswith("did you mean 'mattersim-")


def test_check_passes_and_prints_a_table():
    fetch_weights("mattersim-1m")
    result = runner.invoke(app, ["check", "mattersim-1m"])
    assert result.exit_code == 0
    assert result.stdout.count("yes") == 4
    document = json.loads(
        runner.invoke(app, ["check", "mattersim-1m", "--dtype", "float32", "--json"]).stdout
    )
    assert document["checkpoint_hash"] == REGISTRY["mattersim-1m"].weights.sha256
    assert [row["formula"] for row in document["checks"]] == ["NaCl", "Si", "Cu", "TiO2"]


@pytest.mark.parametrize("command", ["list", "fetch", "check"])
def test_help_has_an_example(command):
    assert f"anchor potentials {command}" in runner.invoke(app, [command, "--help"]).stdout
