"""Primitive cells, and meshes that keep the symmetry."""

import itertools

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.dft.cells import primitive
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def salt() -> Structure:
    sites = [[0, 0, 0], [0.5, 0.5, 0.5]]
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.69), ["Na", "Cl"], sites)


def test_any_cell_of_a_crystal_gives_one_primitive_cell(salt: Structure) -> None:
    found = primitive(Crystals.from_structures(salt)).crystal
    assert found.n_atoms == 2
    larger = salt.copy()
    larger.make_supercell([[2, 0, 0], [0, 1, 1], [0, 0, 1]])
    again = primitive(Crystals.from_structures(larger)).crystal
    np.testing.assert_allclose(again.lattice, found.lattice)
    np.testing.assert_allclose(again.frac, found.frac)


def test_a_crystal_a_little_off_is_made_symmetric(salt: Structure) -> None:
    moved = salt.copy()
    moved.perturb(0.002)
    assert len(primitive(Crystals.from_structures(moved)).rotations) == 48


@pytest.mark.parametrize("number", [12, 43, 70, 79, 129, 141, 166, 194, 225])
def test_every_rotation_maps_the_mesh_onto_itself(number: int) -> None:
    """By brute force, on k-points; space groups with oblique primitive cells among them."""
    reference = load_reference()
    row = int(np.flatnonzero((reference.spacegroup == number) & (reference.crystals.counts <= 12))[0])
    cell = primitive(reference.crystals[[row]])
    mesh = cell.mesh(300.0)
    assert np.prod(mesh) * cell.crystal.n_atoms >= 300.0
    grid = np.array(list(itertools.product(*map(range, mesh)))) / np.array(mesh)
    for rotation in cell.rotations:
        turned = grid @ np.linalg.inv(rotation) * np.array(mesh)  # rows: k R⁻¹
        np.testing.assert_allclose(turned, np.rint(turned), atol=1e-9)


def test_uneven_meshes_only_where_symmetry_allows() -> None:
    layered = Structure(Lattice.tetragonal(3.0, 9.0), ["Po"], [[0, 0, 0]])
    assert primitive(Crystals.from_structures(layered)).mesh(1000.0) == (15, 15, 5)
    sites = [[0, 0, 0]]
    oblique = Structure.from_spacegroup("Fmmm", Lattice.orthorhombic(4.0, 6.0, 14.0), ["Po"], sites)
    n = primitive(Crystals.from_structures(oblique)).mesh(1000.0)
    assert n[0] == n[1] == n[2] == 10
