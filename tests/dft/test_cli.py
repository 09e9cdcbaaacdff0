"""`anchor dft` without GPAW: what is known, what is missing, bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anchor.cli.main import app
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError
from anchor.formats import write


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def file(tmp_path: Path, salt: Crystals, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ANCHOR_GPAW_PYTHON", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    moved = salt.replace(lattice=salt.lattice * 1.01)  # not the one whose energy ships
    write(tmp_path / "salt.cif", moved, ["salt"])
    (tmp_path / "broken.cif").write_text("data_nothing\n")
    return tmp_path / "salt.cif"


def test_known_energies_only(file: Path) -> None:
    result = run("dft", "energy", file, file.with_name("broken.cif"), "--as-is", "--known", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    (row,) = report["structures"]
    assert row["formula"] == "NaCl"
    assert row["status"] == "not calculated: not among the known energies"
    assert row["energy_ev"] is None
    assert len(row["hash"]) == 32
    assert len(report["skipped"]) == 1


def test_without_gpaw_it_says_how_to_get_it(file: Path) -> None:
    result = run("dft", "energy", file, "--as-is")
    assert isinstance(result.exception, MissingDependencyError)
    assert "pip install gpaw" in str(result.exception)


def test_inputs_are_written(file: Path) -> None:
    out = file.parent / "inputs"
    result = run("dft", "inputs", file, "--as-is", "--code", "qe", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert "pseudopotentials" in json.loads(result.stdout)["to_be_added"]
    assert (out / "salt" / "pw.in").exists()


def test_no_crystal_is_bad_input(file: Path) -> None:
    result = run("dft", "energy", file.with_name("broken.cif"), "--as-is")
    assert isinstance(result.exception, InputError)
    assert "none of 1 entries gave a crystal" in str(result.exception)
