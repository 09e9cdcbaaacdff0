"""The names that `import anchor` offers."""

import subprocess
import sys
from pathlib import Path

import pytest
from pymatgen.core import Lattice, Structure

import anchor
from anchor.chemistry.formula import parse_amounts
from anchor.errors import InputError
from anchor.formats import load


def test_every_public_name_exists() -> None:
    for name in anchor.__all__:
        assert getattr(anchor, name) is not None


def test_import_is_light() -> None:
    """`import anchor` and `anchor --help` load neither torch nor pymatgen."""
    code = "import anchor.cli.main, sys; print([m for m in ('torch', 'pymatgen', 'ase') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


@pytest.fixture(scope="module")
def salt() -> Structure:
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.9), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])


def test_relax_takes_what_people_have(salt: Structure, tmp_path: Path) -> None:
    salt.to(filename=str(tmp_path / "salt.cif"))
    atoms = salt.to_ase_atoms()
    one = anchor.relax([salt, atoms, tmp_path / "salt.cif"], workers=1)
    assert len(one) == 3
    assert {row["relaxation"] for row in one} == {"converged"}
    energies = [row["energy_ev_per_atom"] for row in one]
    assert max(energies) - min(energies) < 1e-3
    assert one.to_structures()[0].volume < salt.volume
    assert "NaCl" in repr(one)
    frame = one.to_pandas()
    assert list(frame["formula"]) == ["NaCl"] * 3
    path = one.write(tmp_path / "relaxed.extxyz")
    assert len(load(path).crystals) == 3


def test_a_known_crystal_is_on_the_hull(salt: Structure) -> None:
    (row,) = anchor.energy_above_hull(salt, workers=1)
    assert row["formula"] == "NaCl"
    assert row["spacegroup"] == "Fm-3m"
    assert abs(row["energy_above_hull_ev_per_atom"]) < 0.02
    assert row["energy_above_oqmd_hull_ev_per_atom"] is not None


def test_predict_gives_the_known_structure_first() -> None:
    found = anchor.predict("NaCl", 3, workers=1)
    assert len(found) == 3
    assert found[0]["spacegroup"] == "Fm-3m"
    above = [row["energy_above_hull_ev_per_atom"] for row in found]
    assert above == sorted(above)


def test_evaluate_structures_at_hand(salt: Structure, tmp_path: Path) -> None:
    done = anchor.evaluate(salt, potential="mattersim-1m", out=tmp_path / "eval")
    (row,) = done.rows()
    assert row["valid"]
    assert not row["new_msun"]


def test_verify_says_what_each_survived(salt: Structure, tmp_path: Path) -> None:
    found = anchor.verify(salt, level=1, workers=1, out=tmp_path / "verdicts")
    assert isinstance(found[0]["level"], int)
    assert found.records[0].verdicts[0].level == 0, "it is relaxed first"
    assert found.to_structures()[0].volume < salt.volume
    assert repr(found).startswith("id"), "a table"
    assert list((tmp_path / "verdicts").glob("*.json"))


def test_search_gives_finds_and_the_campaign(tmp_path: Path) -> None:
    found = anchor.search("Li Na Cl F S", n=32, out=tmp_path / "run", finds=2, settings=["run.workers=1"])
    assert found.campaign.ledger.n_candidates >= 32
    assert all(set(parse_amounts(row["formula"])) <= {"Li", "Na", "Cl", "F", "S"} for row in found)
    assert len(found.to_structures()) == len(found)


def test_what_is_no_structure_is_refused() -> None:
    with pytest.raises(InputError, match="cannot make a crystal of a dict"):
        anchor.relax({"Na": 1})
    with pytest.raises(InputError, match="no structure"):
        anchor.relax([])
