"""Pushing atoms apart."""

from __future__ import annotations

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import shortest_distances
from anchor.priors.overlaps import LARGEST_SWELLING, ROOMY, make_room, push_apart, room

TWO_ANGSTROM = np.full((119, 119), 2.0)


def test_overlaps_go_and_the_rest_stays():
    rng = np.random.default_rng(0)
    lattice = np.array([[6.0, 0, 0], [11.5, 6.0, 0], [0.5, 0.3, 6.0]])[None]  # skewed on purpose
    crystal = Crystals([8], np.full(8, 14), rng.random((8, 3)), lattice)
    assert shortest_distances(crystal)[0] < 1.5
    apart = push_apart(crystal, TWO_ANGSTROM, steps=300)
    assert shortest_distances(apart)[0] > 1.99
    np.testing.assert_array_equal(apart.lattice, crystal.lattice)
    np.testing.assert_allclose(push_apart(apart, 0.9 * TWO_ANGSTROM).frac, apart.frac, atol=1e-9)


def test_two_atoms_part_along_their_line():
    frac = np.array([[0.0, 0, 0], [0.1, 0, 0]])
    crystal = Crystals([2], [11, 17], frac, 10 * np.eye(3)[None])
    apart = push_apart(crystal, TWO_ANGSTROM)
    np.testing.assert_allclose(apart.frac, [[-0.05, 0, 0], [0.15, 0, 0]], atol=1e-6)


def test_symmetry_is_kept():
    # Four atoms on a square around a fourfold axis stay a square.
    x = 0.05
    frac = 0.5 + np.array([[x, 0, 0], [-x, 0, 0], [0, x, 0], [0, -x, 0]])
    apart = push_apart(Crystals([4], [8] * 4, frac, 8 * np.eye(3)[None]), TWO_ANGSTROM)
    radius = np.linalg.norm(apart.frac - 0.5, axis=1)
    np.testing.assert_allclose(radius, radius[0])
    assert radius[0] > 0.15


def test_room_is_the_worst_ratio():
    crystal = Crystals([2], [11, 17], [[0, 0, 0], [0.5, 0, 0]], np.diag([3.0, 6.0, 6.0])[None])
    lone = Crystals([1], [29], [[0.3, 0.2, 0.1]], np.diag([2.5, 4.0, 4.0])[None])
    both = room(Crystals.concatenate([crystal, lone]), TWO_ANGSTROM)
    np.testing.assert_allclose(both, [0.75, 1.25])  # the lone atom meets its own image


def test_make_room_leaves_good_crystals_alone_and_grows_the_cell_last():
    good = Crystals([2], [11, 17], [[0, 0, 0], [0.5, 0.5, 0.5]], 4 * np.eye(3)[None])
    np.testing.assert_array_equal(make_room(good, TWO_ANGSTROM).frac, good.frac)
    # Fixed by symmetry: pushing cannot help, the cell must grow.
    tight = Crystals([2], [11, 17], [[0, 0, 0], [0.5, 0, 0]], np.diag([3.2, 6.0, 6.0])[None])
    batch = Crystals.concatenate([good, tight])
    np.testing.assert_allclose(room(make_room(batch, TWO_ANGSTROM), TWO_ANGSTROM)[1], ROOMY)
    hopeless = tight.replace(lattice=0.5 * tight.lattice)
    np.testing.assert_allclose(make_room(hopeless, TWO_ANGSTROM).volume, LARGEST_SWELLING * hopeless.volume)
