"""Wyckoff positions and changes of description, against spglib and pymatgen."""

from __future__ import annotations

import numpy as np
import pytest
import spglib

from anchor.crystals.crystals import Crystals
from anchor.crystals.spacegroups import space_group
from anchor.models.wyckoff.cells import FREE_CELL, cell_numbers, crystal_system, full_cell, primitive_cell
from anchor.models.wyckoff.encoding import Encoded, Orbit, decode, renamings
from anchor.models.wyckoff.positions import find_positions, normaliser
from anchor.models.wyckoff.tables import N_GROUPS, positions, tables
from anchor.priors.match_rate import displacement

SOME = [1, 2, 9, 12, 14, 36, 62, 88, 129, 136, 139, 148, 166, 186, 194, 196, 205, 216, 221, 225, 227]
CELL = (5.1, 6.3, 8.7, 0.08, -0.17, 0.11)
FREE = (0.1237, 0.3719, 0.2361)


def crystal_of(number: int, orbits: list[tuple[int, int]]) -> Crystals:
    """A crystal with one orbit of element z at each (z, position), at general coordinates."""
    written = [
        Orbit(z, p, tuple((x + 0.07 * z) % 1 for x in FREE[: positions(number)[p].freedom]))
        for z, p in orbits
    ]
    return decode(Encoded(number, tuple(written), full_cell(number, CELL)))


def test_there_are_as_many_as_in_the_international_tables():
    known = tables()
    assert len(known.multiplicity) == 1731
    assert (np.diff(known.first) >= 1).all()
    general = known.first[1:] - 1
    assert (known.freedom[general] == 3).all()
    orders = [len(space_group(number).rotations) for number in range(1, N_GROUPS + 1)]
    np.testing.assert_array_equal(known.multiplicity[general], orders)


@pytest.mark.parametrize("number", [12, 62, 166, 225])
def test_the_shipped_ones_are_the_found_ones(number):
    for shipped, found in zip(positions(number), find_positions(number), strict=True):
        assert (shipped.multiplicity, shipped.freedom) == (found.multiplicity, found.freedom)
        np.testing.assert_allclose(shipped.point, found.point)
        np.testing.assert_allclose(shipped.directions, found.directions)
        np.testing.assert_allclose(shipped.projector, found.projector)


@pytest.mark.parametrize("number", SOME)
def test_spglib_gives_each_position_a_letter_of_its_own(number):
    general = len(positions(number)) - 1
    letters = []
    for p in range(len(positions(number))):
        # Two orbits in general position make sure that the symmetry is no higher.
        crystal = crystal_of(number, [(1, general), (2, general), (9, p)])
        cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
        found = spglib.get_symmetry_dataset(cell, symprec=1e-4)
        assert found.number == number
        mine = {found.wyckoffs[i] for i in np.flatnonzero(crystal.numbers == 9)}
        assert len(mine) == 1
        assert (crystal.numbers == 9).sum() == positions(number)[p].multiplicity
        letters.append((mine.pop(), positions(number)[p].multiplicity))
    # spglib may choose another origin for each crystal, which exchanges letters of equal kind only.
    assert letters[-1] == max(letters, key=lambda pair: pair[0])
    assert len(letters) == ord(letters[-1][0].lower()) - ord("a") + 1 + 26 * letters[-1][0].isupper()


@pytest.mark.parametrize("number", SOME)
def test_free_coordinates_return(number):
    group = space_group(number)
    for position in positions(number):
        u = np.array(FREE[: position.freedom])
        orbit = group.orbit(position.place(u))
        assert len(orbit) == position.multiplicity
        found = position.coordinates(orbit)
        gaps = found - u
        assert (np.abs(gaps - np.rint(gaps)).max(axis=1, initial=0.0) < 1e-6).any()


@pytest.mark.parametrize("number", [2, 12, 36, 62, 139, 166, 186, 194, 216, 225])
def test_changes_of_description_describe_the_same_crystal(number):
    change, table = normaliser(number), renamings(number)
    np.testing.assert_allclose(change.rotations[0], np.eye(3))
    np.testing.assert_array_equal(table[0], np.arange(table.shape[1]))
    crystal = crystal_of(number, [(11, 0), (17, len(positions(number)) - 1)])
    for i in range(len(change.rotations)):
        assert sorted(table[i]) == list(range(table.shape[1]))  # only names change
        frac = crystal.frac @ change.rotations[i] + change.translations[i]
        lattice = np.linalg.inv(change.rotations[i]) @ crystal.lattice[0]
        moved = Crystals(crystal.counts, crystal.numbers, frac % 1.0, lattice[None])
        assert displacement(moved, crystal) < 1e-6
        # And it still has the symmetry of the group in its own setting: every orbit is complete.
        group = space_group(number)
        for z in (11, 17):
            points = frac[crystal.numbers == z]
            images = group.images(points).reshape(-1, 3)
            gaps = images[:, None] - points[None]
            assert (np.abs(gaps - np.rint(gaps)) < 1e-5).all(axis=2).any(axis=1).all()


@pytest.mark.parametrize("number", SOME)
def test_cells_obey_their_group(number):
    group = space_group(number)
    cell = full_cell(number, CELL)
    primitive = primitive_cell(group, cell)
    metric = primitive @ primitive.T
    np.testing.assert_allclose(group.symmetrise(metric), metric, atol=1e-9)
    np.testing.assert_allclose(cell_numbers(np.linalg.inv(group.basis) @ primitive), cell, atol=1e-9)
    free = FREE_CELL[crystal_system(number)]
    assert len(free) == {"triclinic": 6, "monoclinic": 4, "orthorhombic": 3, "cubic": 1}.get(
        crystal_system(number), 2
    )
