"""`anchor data convert`, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import ase.io
import pytest
import typer
from ase.build import bulk
from typer.testing import CliRunner

from anchor.cli.convert import convert
from anchor.errors import InputError
from anchor.formats import load

app = typer.Typer()
app.command()(convert)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ase.io.write(tmp_path / "mgo.cif", bulk("MgO", "rocksalt", a=4.2))
    ase.io.write(tmp_path / "mgo.extxyz", [bulk("Si"), bulk("Fe")], format="extxyz")
    (tmp_path / "bad.cif").write_text("data_bad\n")
    (tmp_path / "notes.md").write_text("words")
    return tmp_path


def test_convert_reports_everything_it_met(folder: Path) -> None:
    out = folder / "result" / "all.csv"
    result = CliRunner().invoke(app, [str(folder), "--out", str(out), "--on-error", "skip", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["read"], report["crystals"]) == (4, 3)
    assert [Path(s["source"]).name for s in report["skipped"]] == ["bad.cif"]
    assert [Path(p).name for p in report["ignored_files"]] == ["notes.md"]
    assert load(out).ids == ["mgo", "mgo-1", "mgo-2"]
    again = CliRunner().invoke(app, [str(out), "--out", str(folder / "cifs")])
    assert again.exit_code == 0
    assert "3 crystals of 3 entries read" in again.stdout
    assert sorted(p.name for p in (folder / "cifs").iterdir()) == ["mgo-1.cif", "mgo-2.cif", "mgo.cif"]


def test_convert_refuses_bad_entries_by_default_and_empty_results(folder: Path) -> None:
    result = CliRunner().invoke(app, [str(folder), "--out", str(folder / "a.db")])
    assert isinstance(result.exception, InputError)
    assert "bad.cif" in str(result.exception)
    assert not (folder / "a.db").exists()
    only_bad = [str(folder / "bad.cif"), "--out", str(folder / "a.db"), "--on-error", "skip"]
    result = CliRunner().invoke(app, only_bad)
    assert isinstance(result.exception, InputError)
    assert "none of 1 entries" in str(result.exception)
    assert not (folder / "a.db").exists()
