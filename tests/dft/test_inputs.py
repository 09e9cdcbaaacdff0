"""Inputs for other codes, read back by the packages that own their formats."""

import json
from pathlib import Path

import numpy as np
import pytest
from ase.io import read as ase_read
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.io.vasp import Incar, Kpoints, Poscar

from anchor.crystals.crystals import Crystals
from anchor.dft.inputs import WHAT_TO_ADD, write_inputs
from anchor.dft.jobs import Job
from anchor.dft.rules import settings_for
from anchor.errors import InputError
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def oxide() -> Job:
    reference = load_reference()
    rows = np.flatnonzero(reference.formulas == "NiO")
    return Job.of(reference.crystals[[int(rows[0])]], settings_for(["NiO"]))


def test_vasp(tmp_path: Path, oxide: Job, salt: Crystals) -> None:
    plain = Job.of(salt, settings_for(["NaCl"]))
    folders = write_inputs([("nio", oxide), ("salt", plain)], "vasp", tmp_path)
    incar = Incar.from_file(folders[0] / "INCAR")
    symbols = Poscar.from_file(folders[0] / "POSCAR").site_symbols
    assert dict(zip(symbols, incar["LDAUU"], strict=True)) == {"O": 0, "Ni": 6.4}
    assert incar["ISPIN"] == 2
    assert sorted(incar["MAGMOM"]) == [0, 2]
    assert tuple(Kpoints.from_file(folders[0] / "KPOINTS").kpts[0]) == oxide.mesh
    assert (folders[0] / "POTCAR.spec").read_text().split() == ["O", "Ni_pv"]
    assert not (folders[0] / "POTCAR").exists()
    quiet = Incar.from_file(folders[1] / "INCAR")
    assert quiet["ISPIN"] == 1
    assert not quiet["LDAU"]
    written = Poscar.from_file(folders[1] / "POSCAR").structure
    assert StructureMatcher(scale=False).fit(written, salt.to_structures()[0])
    assert WHAT_TO_ADD["vasp"] in (tmp_path / "README.txt").read_text()


def test_quantum_espresso(tmp_path: Path, oxide: Job) -> None:
    (folder,) = write_inputs([("nio", oxide)], "qe", tmp_path)
    atoms = ase_read(folder / "pw.in", format="espresso-in")
    np.testing.assert_allclose(atoms.cell.array, oxide.cell, atol=1e-5)
    assert sorted(atoms.numbers.tolist()) == sorted(oxide.numbers)
    text = (folder / "pw.in").read_text()
    assert "nspin" in text
    assert "U Ni-3d 6.4" in text
    assert " ".join(map(str, oxide.mesh)) in text


def test_gpaw(tmp_path: Path, oxide: Job) -> None:
    (folder,) = write_inputs([("nio", oxide)], "gpaw", tmp_path)
    stored = json.loads((folder / "job.json").read_text())
    assert Job.from_dict({name: stored[name] for name in oxide.to_dict()}) == oxide
    assert (folder / "gpaw_process.py").exists()


def test_nothing_is_written_over(tmp_path: Path, oxide: Job) -> None:
    write_inputs([("nio", oxide)], "gpaw", tmp_path)
    with pytest.raises(InputError, match="is there already"):
        write_inputs([("nio", oxide)], "gpaw", tmp_path)
