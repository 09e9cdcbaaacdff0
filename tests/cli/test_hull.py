"""`anchor hull` and `anchor energies`."""

import json
from pathlib import Path

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure
from typer.testing import CliRunner, Result

from anchor.cli.hull import _note, _system
from anchor.cli.main import app
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.hull.alex_mp import computed_entry
from anchor.hull.holes import load_knowledge


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rock salt, the same compressed, an element without reference, and a file that is no crystal."""
    path = tmp_path_factory.mktemp("structures")
    salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.69), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    salt.to(str(path / "a-salt.cif"))
    salt.scale_lattice(0.8 * salt.volume)
    salt.to(str(path / "b-squeezed.cif"))
    Structure(Lattice.cubic(3.3), ["Po"], [[0, 0, 0]]).to(str(path / "c-polonium.cif"))
    (path / "d-broken.cif").write_text("data_nothing\n")
    return path


def test_hull_prints_every_structure_with_its_status(folder: Path) -> None:
    result = run("hull", folder, "--potential", "chgnet", "--as-is", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    salt, squeezed, polonium = report["structures"]
    assert [s["formula"] for s in report["structures"]] == ["NaCl", "NaCl", "Po"]
    assert salt["status"] == squeezed["status"] == "scored"
    assert polonium["status"] == "not scored: chgnet does not cover Po"
    assert polonium["energy_above_hull_ev_per_atom"] is None
    assert abs(salt["energy_above_hull_ev_per_atom"]) < 0.05
    assert squeezed["energy_above_hull_ev_per_atom"] > salt["energy_above_hull_ev_per_atom"] + 0.02
    assert set(salt["energy_above_each_hull_ev_per_atom"]) == {"dft", "potential", "oqmd", "mp", "union"}
    assert set(salt["decompositions"]) == {"oqmd", "mp"}
    assert [p["formula"] for p in salt["decomposition"]] == ["NaCl"]
    assert salt["formation_energy_ev_per_atom"] == pytest.approx(-2.0, abs=0.2)  # measured: −2.13
    assert salt["system"]["phases"]["oqmd"] >= 3
    assert salt["system"]["thin"] == ""
    assert not salt["belief"]["suspicious"]
    assert polonium["belief"] is None
    assert len(report["skipped"]) == 1


def test_hull_says_what_not_to_believe() -> None:
    """A system that nobody knows, beside a selenide that OQMD lacks; too deep to be true."""
    row = {
        "belief": {"kind": "3 elements, chalcogenide", "believable_depth_ev_per_atom": 0.238,
                   "suspicious": True},
        "system": _system(load_knowledge(), ["K", "Y", "Se"]),
    }  # fmt: skip
    assert row["system"]["thin"] == "no compound of K-Se-Y in either database"
    assert [hole["formula"] for hole in row["system"]["holes"]] == ["Y2Se3"]
    note = _note(row)
    assert "less than 0.24 deep" in note
    assert "thin: no compound of K-Se-Y" in note
    assert "Y2Se3 (Materials Project only, 0.14)" in note


def test_hull_relaxes_unless_told_not_to(folder: Path) -> None:
    result = run("hull", folder / "b-squeezed.cif", "--potential", "chgnet", "--hull", "dft", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["relaxed"] == "cell"
    assert report["hull"] == "dft"
    assert report["structures"][0]["relaxation"] == "converged"
    assert abs(report["structures"][0]["energy_above_hull_ev_per_atom"]) < 0.05


def test_hull_table_names_competing_phases(folder: Path) -> None:
    result = run("hull", folder, "--potential", "chgnet", "--as-is")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["structure", "formula", "above hull eV/atom"]
    assert "1 NaCl" in lines[1]
    assert "does not cover Po" in lines[3]


def test_hull_against_a_reference_file_of_ones_own(folder: Path, tmp_path: Path) -> None:
    salt = Structure.from_file(folder / "a-salt.cif")
    sodium = Structure(Lattice.cubic(4.2), ["Na"] * 2, [[0, 0, 0], [0.5, 0.5, 0.5]])
    chlorine = Structure(Lattice.cubic(6.0), ["Cl"] * 2, [[0, 0, 0], [0.33, 0, 0]])
    entries = [
        computed_entry(s, e * len(s)).as_dict() for s, e in ((salt, -3.6), (sodium, -1.3), (chlorine, -1.8))
    ]
    (tmp_path / "entries.json").write_text(json.dumps(entries))
    result = run(
        "hull",
        folder / "a-salt.cif",
        "--potential",
        "chgnet",
        "--alex-mp",
        tmp_path / "entries.json",
        "--as-is",
        "--json",
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    found = report["structures"][0]
    assert report["hull"] == "alex-mp"
    per_atom = found["energy_ev"] / len(Crystals.from_structures(salt).numbers)
    assert found["energy_above_hull_ev_per_atom"] == pytest.approx(per_atom + 3.6, abs=1e-6)


def test_energies_list_and_calibrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("energies", "list", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    first = report["energies"][0]
    assert first["single_points"] <= report["crystals"]
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    result = run("energies", "calibrate", "--potential", first["potential"], "--json")
    assert result.exit_code == 0, result.output
    fitted = json.loads(result.stdout)
    assert fitted["held_out_errors_ev_per_atom"]["all"]["median"] == pytest.approx(
        first["held_out_median_ev_per_atom"], abs=1e-4
    )
    assert "Pm" in fitted["loose_elements"]
    assert Path(fitted["file"]).is_relative_to(tmp_path)


def test_energies_build_stops_at_its_limit_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    command = ["energies", "build", "--potential", "chgnet", "--threads", "1", "--json"]
    reports = []
    for hours in ("0", "0.000002"):
        result = run(*command, "--hours", hours)
        assert result.exit_code == 0, result.output
        reports.append(json.loads(result.stdout))
    assert [r["chunks_done"] for r in reports] == [0, 1]
    assert not reports[1]["complete"]
    assert reports[1]["file"] is None
    saved = np.load(tmp_path / "energies-in-progress" / "chgnet.single-points.npz")
    assert 0 < np.isfinite(saved["single_point"]).sum() <= 128


def test_wrong_input_is_named(folder: Path) -> None:
    result = run("hull", folder / "a-salt.cif", "--potential", "mattersim-2m")
    assert isinstance(result.exception, InputError)
    assert "mattersim-2m" in str(result.exception)
    result = run("hull", folder / "d-broken.cif", "--potential", "chgnet")
    assert isinstance(result.exception, InputError)
    assert "d-broken.cif" in str(result.exception)
