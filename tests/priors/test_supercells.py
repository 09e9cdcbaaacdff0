"""Supercells are the same crystal in a larger cell."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.priors.supercells import hermite_normal_forms, supercell
from anchor.reference.reference import load_reference


def test_number_of_sublattices():
    # Sublattices of index n: sum over divisors a of n of a times the sum of divisors of n / a (OEIS A001001).
    assert [len(hermite_normal_forms(n)) for n in (1, 2, 3, 4, 5, 6)] == [1, 7, 13, 35, 31, 91]
    np.testing.assert_allclose(np.linalg.det(hermite_normal_forms(6)), 6)


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5])
def test_same_crystal(times):
    rng = np.random.default_rng(times)
    for crystal in load_reference().crystals[[10, 4000, 16000]]:
        large = supercell(crystal, times, rng)
        assert large.n_atoms == times * crystal.n_atoms
        np.testing.assert_allclose(large.volume, times * crystal.volume)
        assert large.formulas == crystal.formulas
        fits = StructureMatcher(ltol=0.01, stol=0.01, angle_tol=0.5, scale=False)
        assert fits.fit(large.to_structures()[0], crystal.to_structures()[0])


def test_compact():
    crystal = load_reference().crystals[10]
    large = supercell(crystal, 4, np.random.default_rng(0))
    longest = np.linalg.norm(large.lattice[0], axis=1).max()
    stretched = np.diag([1, 1, 4]) @ crystal.lattice[0]
    assert longest <= np.linalg.norm(stretched, axis=1).max()
