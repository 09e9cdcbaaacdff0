"""Distances against brute force over many images, pymatgen and ASE, also in extremely skewed cells."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from ase.geometry.geometry import general_find_mic
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import (
    minimum_image_distances,
    shortest_distances,
    shortest_lattice_vectors,
)
from anchor.crystals.lattices import minkowski_reduce

cases = given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([0, 1, 3, 30]))


@settings(max_examples=40, deadline=None)
@cases
def test_pairs_agree_with_pymatgen_and_ase(
    random_crystal: Callable[..., Crystals], seed: int, atoms: int, skew: int
) -> None:
    crystals = random_crystal(seed, atoms=atoms, skew=skew)
    contacts = minimum_image_distances(crystals)
    assert len(contacts) == atoms * (atoms - 1) // 2
    # ASE's public get_distances skips the reduction where the cell is skewed but its vectors are long; in
    # cells sheared 30 times over its own rounding reaches 1e-6 Å, where ours is 1e-10 (the next test)
    _, by_ase = general_find_mic(
        crystals.cart[contacts.second] - crystals.cart[contacts.first], crystals.lattice[0], pbc=[True] * 3
    )
    longest = np.abs(crystals.lattice).max()
    np.testing.assert_allclose(contacts.distance, by_ase, atol=1e-9 * longest + 1e-9)
    by_pymatgen = crystals.to_structures()[0].distance_matrix
    np.testing.assert_allclose(
        contacts.distance, by_pymatgen[contacts.first, contacts.second], atol=1e-11 * longest + 1e-9
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_pairs_in_very_skewed_cells_are_exact(random_crystal: Callable[..., Crystals], seed: int) -> None:
    """Against rational arithmetic on the stored numbers."""
    crystals = random_crystal(seed, atoms=2, skew=30)
    lattice = [[Fraction(x) for x in row] for row in crystals.lattice[0].tolist()]
    change = np.rint(minkowski_reduce(crystals.lattice)[1][0]).astype(int).tolist()
    reduced = [[sum(change[i][m] * lattice[m][j] for m in range(3)) for j in range(3)] for i in range(3)]
    one, other = ([Fraction(x) for x in row] for row in crystals.frac.tolist())
    gap = [sum((other[m] - one[m]) * lattice[m][j] for m in range(3)) for j in range(3)]
    near = np.linalg.solve(np.array(reduced, dtype=float).T, np.array(gap, dtype=float)).round().astype(int)
    squares = []
    for steps in product((-1, 0, 1), repeat=3):
        image = (near + steps).tolist()
        left = [gap[j] - sum(image[i] * reduced[i][j] for i in range(3)) for j in range(3)]
        squares.append(float(sum(x * x for x in left)))
    exact = min(squares)
    assert minimum_image_distances(crystals).distance[0] == pytest.approx(exact**0.5, abs=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.sampled_from([0, 1, 2]))
def test_pairs_and_self_images_agree_with_brute_force(
    random_crystal: Callable[..., Crystals], seed: int, atoms: int, skew: int
) -> None:
    crystals = random_crystal(seed, atoms=atoms, skew=skew)
    reach = 14  # covers every image within the sheared cell's own size
    images = np.array(list(product(range(-reach, reach + 1), repeat=3))) @ crystals.lattice[0]
    contacts = minimum_image_distances(crystals, self_images=True)
    cart = (crystals.frac % 1.0) @ crystals.lattice[0]
    for i, j, distance in zip(contacts.first, contacts.second, contacts.distance, strict=True):
        lengths = np.linalg.norm(cart[j] - cart[i] + images, axis=1)
        expected = lengths.min() if i != j else np.sort(lengths)[1]  # a site's first image is itself
        np.testing.assert_allclose(distance, expected, atol=1e-9)
    np.testing.assert_allclose(shortest_distances(crystals)[0], contacts.distance.min())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_same_crystal_in_another_cell_has_the_same_distances(
    random_crystal: Callable[..., Crystals], seed: int, atoms: int
) -> None:
    crystals = random_crystal(seed, atoms=atoms, skew=0)
    shear = np.array([[1, 1000, 0], [0, 1, -77], [0, 0, 1]])
    lattice = shear @ crystals.lattice[0]
    other = crystals.replace(frac=crystals.frac @ np.linalg.inv(shear) + 5, lattice=lattice[None])
    np.testing.assert_allclose(
        minimum_image_distances(other, self_images=True).distance,
        minimum_image_distances(crystals, self_images=True).distance,
        atol=1e-7,
    )


def test_naive_wrapping_would_be_wrong() -> None:
    """A sheared cubic cell of 4 Å: the wrapped vector is not the shortest."""
    lattice = np.array([[[4.0, 0, 0], [12.0, 4, 0], [0, 0, 4]]])
    crystals = Crystals(np.array([2]), np.array([1, 1]), np.array([[0, 0, 0], [0, 0.5, 0]]), lattice)
    delta = crystals.frac[1] - np.rint(crystals.frac[1])
    assert np.linalg.norm(delta @ lattice[0]) > 6
    np.testing.assert_allclose(minimum_image_distances(crystals).distance, [np.hypot(2, 2)])


def test_batches_keep_crystals_apart(random_crystal: Callable[..., Crystals]) -> None:
    batch = [random_crystal(seed, atoms=1 + seed % 5, skew=2) for seed in range(30)]
    together = minimum_image_distances(Crystals.concatenate(batch), self_images=True)
    for i, single in enumerate(batch):
        expected = minimum_image_distances(single, self_images=True).distance
        np.testing.assert_allclose(np.sort(together.distance[together.crystal == i]), np.sort(expected))
    np.testing.assert_allclose(
        shortest_distances(Crystals.concatenate(batch)),
        [shortest_distances(single)[0] for single in batch],
    )


def test_own_images_decide_in_a_one_atom_cell() -> None:
    crystals = Crystals(np.array([1]), np.array([55]), np.zeros((1, 3)), np.diag([1.0, 6.0, 6.0])[None])
    assert len(minimum_image_distances(crystals)) == 0
    np.testing.assert_allclose(shortest_distances(crystals), [1.0])
    np.testing.assert_allclose(shortest_lattice_vectors(crystals), [1.0])


def test_collapsed_and_broken_cells_have_distance_zero_and_spoil_nothing(
    random_crystal: Callable[..., Crystals],
) -> None:
    good = random_crystal(1, atoms=3, skew=0)
    flat = good.replace(lattice=np.diag([5.0, 5.0, 0.0])[None])
    broken = good.replace(frac=np.where(np.eye(3, dtype=bool), np.nan, 0.1))
    batch = Crystals.concatenate([flat, good, broken])
    shortest = shortest_distances(batch)
    np.testing.assert_array_equal(shortest[[0, 2]], 0.0)
    np.testing.assert_allclose(shortest[1], shortest_distances(good)[0])


def test_empty_batch() -> None:
    assert len(minimum_image_distances(Crystals.empty(), self_images=True)) == 0
    assert shortest_distances(Crystals.empty()).shape == (0,)
