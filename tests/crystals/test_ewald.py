"""Electrostatic energies against pymatgen's Ewald sum."""

import numpy as np
import pytest
from ase.build import bulk
from pymatgen.analysis.ewald import EwaldSummation

from anchor.crystals.crystals import Crystals
from anchor.crystals.ewald import coulomb_matrix
from anchor.reference.reference import load_reference


@pytest.mark.parametrize("row", [10, 4000, 16000])
def test_any_charges_on_any_crystal_as_pymatgen(row: int) -> None:
    crystal = load_reference().crystals[row]
    charges = np.random.default_rng(row).normal(size=crystal.n_atoms)
    charges -= charges.mean()
    structure = crystal.to_structures()[0]
    structure.add_site_property("charge", charges.tolist())
    structure.add_oxidation_state_by_site(charges.tolist())
    theirs = EwaldSummation(structure, acc_factor=14).total_energy
    assert 0.5 * charges @ coulomb_matrix(crystal) @ charges == pytest.approx(theirs, abs=1e-3)


def test_madelung_constant_of_rock_salt() -> None:
    salt = Crystals.from_atoms(bulk("NaCl", "rocksalt", a=2.0))  # nearest neighbours at 1 Å
    charges = np.array([1.0, -1.0])
    assert 0.5 * charges @ coulomb_matrix(salt) @ charges == pytest.approx(-1.747565 * 14.399645, rel=1e-6)
