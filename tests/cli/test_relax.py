"""`anchor relax` on real files with a real potential."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ase.build import bulk
from ase.io import read, write
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.errors import InputError
from anchor.potentials.registry import availability

runner = CliRunner()
needs_chgnet = pytest.mark.skipif(not availability("chgnet").ok, reason="CHGNet is not installed")


@pytest.fixture
def structures(tmp_path: Path) -> list[str]:
    salt = bulk("NaCl", "rocksalt", a=5.9)
    salt.positions[1] += [0.1, 0.05, 0]
    lonely = bulk("Cu", "sc", a=20.0)
    write(tmp_path / "salt.cif", salt)
    write(tmp_path / "lonely.vasp", lonely)
    (tmp_path / "broken.cif").write_text("data_nothing\n")
    return [str(tmp_path / name) for name in ("salt.cif", "lonely.vasp", "broken.cif")]


@needs_chgnet
def test_relax_writes_what_worked_and_names_what_did_not(structures: list[str], tmp_path: Path) -> None:
    out = tmp_path / "relaxed.extxyz"
    command = [
        "relax",
        *structures,
        "--potential",
        "chgnet",
        "--fmax",
        "0.05",
        "--out",
        str(out),
        "--json",
    ]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    salt, lonely = document["structures"]
    assert salt["status"] == "converged"
    assert salt["max_force_ev_per_angstrom"] < 0.05
    assert salt["evaluations"] == salt["steps"] + 1
    assert lonely["status"] == "failed"
    assert "isolated" in lonely["reason"]
    assert lonely["energy_ev"] is None
    assert "broken.cif" in document["skipped"][0]["source"]
    assert document["written"] == 1
    relaxed = read(out, index=":")
    assert len(relaxed) == 1
    assert 100 * (relaxed[0].get_volume() / read(structures[0]).get_volume() - 1) == pytest.approx(
        salt["volume_change_percent"], abs=0.01
    )


@needs_chgnet
def test_table_for_people(structures: list[str]) -> None:
    result = runner.invoke(app, ["relax", structures[0], "--potential", "chgnet", "--max-steps", "1"])
    assert result.exit_code == 0, result.output
    assert "NaCl" in result.stdout
    assert "capped" in result.stdout


def test_existing_results_are_not_replaced(structures: list[str], tmp_path: Path) -> None:
    out = tmp_path / "there.extxyz"
    out.write_text("precious")
    result = runner.invoke(app, ["relax", structures[0], "--out", str(out)])
    assert isinstance(result.exception, InputError)
    assert out.read_text() == "precious"


def test_nothing_to_read_is_an_input_error(structures: list[str]) -> None:
    result = runner.invoke(app, ["relax", structures[2], "--potential", "chgnet"])
    assert isinstance(result.exception, InputError)
    assert "broken.cif" in str(result.exception)
