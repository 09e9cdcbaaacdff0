"""Random crystals: exact atoms, the symmetry they were drawn with, room for every atom."""

from __future__ import annotations

import numpy as np
import pytest
import spglib

from anchor.crystals.spacegroups import sites, space_group
from anchor.priors.overlaps import room
from anchor.priors.random_crystals import RandomCrystals, fill_sites, random_cell


@pytest.fixture(scope="module")
def prior() -> RandomCrystals:
    return RandomCrystals()


def test_atoms_room_and_repeatability(prior):
    cells = [{"Na": 2, "Cl": 2}, {"Li": 3, "Fe": 5, "O": 7}]
    crystals = prior.sample(cells, 3, seed=1)  # `sample` itself checks the atoms
    assert room(crystals, prior.shortest).min() > 0.8
    again = prior.sample(cells[:1], 3, seed=1)
    np.testing.assert_array_equal(again.frac, crystals[:3].frac)
    expected = [prior.volumes.additive(c.numbers) for c in crystals]
    assert ((crystals.volume / expected > 0.999) & (crystals.volume / expected < 1.31)).all()


def test_symmetry_is_real(prior):
    rng = np.random.default_rng(3)
    for number in (62, 139, 166, 221):
        crystal = None
        while crystal is None:
            crystal = prior._attempt(space_group(number), np.array([8, 22]), np.array([4, 4]), rng)
        found = spglib.get_symmetry_dataset((crystal.lattice[0], crystal.frac, crystal.numbers), symprec=1e-4)
        # The atoms may have more symmetry than was asked for, never less.
        assert len(np.unique(found.rotations, axis=0)) >= len(space_group(number).rotations)


def test_fill_sites_is_exact_or_nothing():
    rng = np.random.default_rng(0)
    assert fill_sites(sites(225), [1, 1, 1], rng) is None, "two sites of one atom cannot hold three elements"
    for _ in range(50):
        filled = fill_sites(sites(166), [2, 3, 6], rng)
        if filled is None:
            continue
        assert [sum(site.multiplicity for site in chosen) for chosen in filled] == [2, 3, 6]
        points = [id(site) for chosen in filled for site in chosen if site.freedom == 0]
        assert len(points) == len(set(points)), "an isolated point holds one atom"


@pytest.mark.parametrize("number", [1, 14, 166, 194, 225])
def test_random_cell_has_the_symmetry(number):
    group = space_group(number)
    cell = random_cell(group, np.random.default_rng(0))
    metric = cell @ cell.T
    for rotation in group.rotations:
        np.testing.assert_allclose(rotation @ metric @ rotation.T, metric, atol=1e-9)
