"""Exports: the same selection of a campaign and of a catalogue, in files that other programs read."""

import json
from pathlib import Path

import ase.db
import numpy as np
import pytest
from monty.serialization import loadfn
from pymatgen.entries.computed_entries import ComputedStructureEntry
from pymatgen.io.vasp import Incar, Poscar
from typer.testing import CliRunner

from anchor.catalogue.catalogue import Catalogue, save_catalogue
from anchor.cli.main import app
from anchor.errors import InputError, MissingDependencyError
from anchor.exports.chosen import Chosen, choose, of_catalogue
from anchor.exports.writers import EXPORTS, export, export_kind, optimade_structures
from anchor.formats import load
from anchor.hull.references import load_hull
from anchor.reference.reference import load_reference
from anchor.selecting import everything, parse

N = 6


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    """Small known crystals with made-up energies."""
    whole = load_reference().crystals
    crystals = whole[np.flatnonzero(whole.counts == 2)[:N]]
    above = np.linspace(-0.05, 0.1, N)
    return Catalogue(
        crystals=crystals,
        number=np.arange(1, N + 1),
        formulas=crystals.formulas,
        spacegroups=["P1"] * N,
        why=[""] * N,
        thin=["", "no ternary is known"] * (N // 2),
        above_hull=above,
        above_oqmd=above,
        above_mp=np.full(N, np.nan),
        above_with_finds=above + 0.01,
        formation_energy=np.full(N, -1.0),
        level=np.array([3, 3, 3, 0, 0, 0]),
        card={"potential": {"name": "mattersim-1m"}},
    )


@pytest.fixture
def chosen(catalogue: Catalogue) -> Chosen:
    return of_catalogue(catalogue, parse("e_hull < 0.05"))


def test_a_selection_of_a_catalogue(catalogue: Catalogue) -> None:
    assert of_catalogue(catalogue, parse("level >= 3 and not thin")).rows[-1]["id"] == 3
    element = catalogue.crystals[0].compositions[0].elements[0]
    found = of_catalogue(catalogue, parse(f"elements has {element}"))
    assert catalogue.formulas[0] in found.crystals.formulas
    assert all(element in c.elements for c in found.crystals.compositions)
    assert len(of_catalogue(catalogue, everything())) == N


@pytest.mark.parametrize("kind", ["cif", "extxyz", "ase-db", "parquet", "csv", "json"])
def test_files_come_back(chosen: Chosen, kind: str, tmp_path: Path) -> None:
    place = export(chosen, kind, tmp_path / f"out{EXPORTS[kind].ending}")
    back = load([place])
    assert sorted(back.crystals.formulas) == sorted(chosen.crystals.formulas)
    assert np.sort(back.properties["e_above_hull"]) == pytest.approx(
        np.linspace(-0.05, 0.1, N)[: len(chosen)]
    )
    assert np.isfinite(back.properties["e_above_oqmd_hull"]).all()
    assert "e_above_mp_hull" not in back.properties, "nobody asked that hull"


def test_ase_reads_its_database(chosen: Chosen, tmp_path: Path) -> None:
    export(chosen, "ase-db", tmp_path / "out.db")
    assert len(list(ase.db.connect(tmp_path / "out.db").select("level=3"))) == 3


def test_entries_carry_the_potentials_energies(chosen: Chosen, tmp_path: Path) -> None:
    entries = loadfn(export(chosen, "entries", tmp_path / "entries.json"))
    assert all(isinstance(entry, ComputedStructureEntry) for entry in entries)
    calibration = load_hull("mattersim-1m").calibration
    energies = np.array([entry.energy_per_atom for entry in entries])
    formation = calibration.formation_energy(chosen.crystals.compositions.amounts, energies)
    known = np.isfinite(formation)
    assert known.any()
    assert formation[known] == pytest.approx(-1.0)


def test_optimade_accepts_the_structures(chosen: Chosen, tmp_path: Path) -> None:
    models = pytest.importorskip("optimade.models")
    documents = optimade_structures(chosen, "2026-11-15T12:00:00Z")
    for document in documents:
        models.StructureResource(**document)
    assert documents[0]["attributes"]["_anchor_energy_above_hull_ev_per_atom"] == pytest.approx(-0.05)
    lines = export(chosen, "optimade", tmp_path / "out.jsonl").read_text().splitlines()
    assert len(lines) == 1 + len(chosen)
    assert "x-optimade" in json.loads(lines[0])


def test_inputs_are_those_of_the_codes(chosen: Chosen, tmp_path: Path) -> None:
    folder = export(chosen, "vasp", tmp_path / "vasp")
    inputs = [path for path in folder.iterdir() if path.is_dir()]
    assert len(inputs) == len(chosen)
    assert Incar.from_file(inputs[0] / "INCAR")["ENCUT"] == 520
    assert Poscar.from_file(inputs[0] / "POSCAR").structure.num_sites
    assert "POTCAR" in (folder / "README.txt").read_text()
    folder = export(chosen, "qe", tmp_path / "qe")
    assert len(list(folder.glob("*/pw.in"))) == len(chosen)


def test_atomate2_is_asked_for_by_name(chosen: Chosen, tmp_path: Path) -> None:
    try:
        import atomate2  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(MissingDependencyError, match="atomate2"):
            export(chosen, "atomate2", tmp_path / "flows.json")
    else:
        assert len(json.loads(export(chosen, "atomate2", tmp_path / "flows.json").read_text())) == len(chosen)


def test_a_name_and_an_ending_must_agree() -> None:
    assert export_kind(None, None) == "cif"
    assert export_kind(None, Path("x.db")) == "ase-db"
    assert export_kind("cif", Path("x.zip")) == "cif"
    assert export_kind("entries", Path("x.json")) == "entries"
    for kind, out in (("extxyz", "x.cif"), ("vasp", "x.zip"), ("csv", "folder")):
        with pytest.raises(InputError, match="contradict"):
            export_kind(kind, Path(out))
    with pytest.raises(InputError) as misspelt:
        export_kind("extxy", None)
    assert "did you mean 'extxyz'" in str(misspelt.value)
    with pytest.raises(InputError, match="ending"):
        export_kind(None, Path("x.docx"))


def test_the_command(catalogue: Catalogue, tmp_path: Path) -> None:
    save_catalogue(tmp_path / "mine.npz", catalogue)
    place = str(tmp_path / "mine.npz")
    run = CliRunner().invoke
    out = str(tmp_path / "a.extxyz")
    done = run(app, ["export", place, "--where", "level >= 3", "--out", out, "--json"])
    assert json.loads(done.stdout)["crystals"] == 3
    wrong = run(app, ["export", place, "--where", "levle >= 3", "--out", out])
    assert "did you mean 'level'?" in str(wrong.exception)
    none = run(app, ["export", place, "--where", "e_hull > 5", "--as", "cif", "--out", str(tmp_path / "b")])
    assert "within: e_hull > 5" in str(none.exception)
    assert "e_hull" in run(app, ["export", "--fields"]).stdout
    with pytest.raises(InputError, match="it is all finds"):
        choose(place, everything(), which="valid")
