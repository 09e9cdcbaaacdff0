"""Binary novelty and creativity on small known crystals."""

import pytest
from pymatgen.core import Lattice, Structure

from anchor.matching.flags import StructureFlags, amd_distance

ROCK_SALT = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.6), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
CSCL = Structure.from_spacegroup("Pm-3m", Lattice.cubic(3.4), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
FLAGS = StructureFlags(lambda formula: [ROCK_SALT] if formula == "NaCl" else [])


def test_binary_flag() -> None:
    assert FLAGS.binary("NaCl", CSCL, []) == 1.0
    assert FLAGS.binary("NaCl", ROCK_SALT.get_primitive_structure(), []) == 0.0  # known, in another cell
    assert FLAGS.binary("NaCl", CSCL, [CSCL]) == 0.0  # an earlier sibling
    assert FLAGS.binary("KCl", ROCK_SALT, []) == 1.0  # a formula without reference cannot fail


def test_creativity() -> None:
    assert FLAGS.creativity("NaCl", CSCL, []) == 1.0
    assert FLAGS.creativity("NaCl", ROCK_SALT, [ROCK_SALT]) == 0.0
    stretched = ROCK_SALT.copy()
    stretched.apply_strain([0.02, 0.0, 0.0])  # matches the reference, so not novel, but first in its group
    expected = amd_distance(stretched, ROCK_SALT)
    assert 0 < expected < 1
    assert FLAGS.creativity("NaCl", stretched, []) == pytest.approx(expected)


def test_amd_does_not_see_the_choice_of_cell() -> None:
    assert amd_distance(ROCK_SALT, ROCK_SALT.get_primitive_structure()) == pytest.approx(0, abs=1e-6)
