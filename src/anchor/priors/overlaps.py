"""Crystals in which atoms are too close: how much, and how to give them room."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.crystals.lattices import minkowski_reduce
from anchor.reference.bonds import radius_floor
from anchor.reference.reference import Reference

_IMAGES = np.array(list(product((-1, 0, 1), repeat=3)), dtype=float)  # [27, 3]
_STEP = 0.5  # share of an overlap removed per step; each of the two atoms moves half of it
ROOMY = 0.85
"""A crystal is good when every distance is at least this share of the shortest bond in the reference."""
LARGEST_SWELLING = 1.3
"""Most that a volume may grow for the sake of distances."""


def shortest_bonds(reference: Reference) -> NDArray[np.float64]:
    """Shortest distance of each pair of elements in the reference, or from radii, Å.  # [119, 119]"""
    shortest = reference.bonds.minimum.copy()
    unseen = np.isnan(shortest)
    shortest[unseen] = radius_floor()[unseen]
    return shortest


def room(crystals: Crystals, shortest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least ratio of a distance to the shortest bond of its elements, periodic images included.  # [n]"""
    contacts = minimum_image_distances(crystals, self_images=True)
    allowed = shortest[crystals.numbers[contacts.first], crystals.numbers[contacts.second]]
    least = np.full(len(crystals), np.inf)
    np.minimum.at(least, contacts.crystal, contacts.distance / allowed)
    return least


def make_room(crystals: Crystals, shortest: NDArray[np.float64]) -> Crystals:
    """Roomy crystals unchanged; in others atoms are pushed apart, then the cell grows as far as allowed."""
    tight = room(crystals, shortest) < ROOMY
    if not tight.any():
        return crystals
    return Crystals.concatenate(
        _more_room(crystal, shortest) if is_tight else crystal
        for crystal, is_tight in zip(crystals, tight, strict=True)
    )


def _more_room(crystal: Crystals, shortest: NDArray[np.float64]) -> Crystals:
    crystal = push_apart(crystal, shortest)
    growth = ROOMY / max(float(room(crystal, shortest)[0]), 1e-6)
    if growth <= 1:
        return crystal
    return crystal.replace(lattice=crystal.lattice * min(growth, LARGEST_SWELLING ** (1 / 3)))


def push_apart(crystal: Crystals, shortest: NDArray[np.float64], *, steps: int = 40) -> Crystals:
    """Move atoms until no two are closer than `shortest` allows, or `steps` are done. The cell is kept.

    Every pair of images that overlaps pushes along its line, so equivalent atoms move alike and symmetry is
    kept (an atom between two images of one neighbour stays where it is).

    Args:
        crystal: A batch of one.
        shortest: Least distance of each pair of elements by atomic number, Å.  # [119, 119]
    """
    reduced, transform = minkowski_reduce(crystal.lattice)
    cell = reduced[0]
    frac = crystal.frac @ np.rint(np.linalg.inv(transform[0].astype(float)))
    back = np.linalg.inv(cell)
    first, second = np.triu_indices(crystal.n_atoms, k=1)
    target = shortest[crystal.numbers[first], crystal.numbers[second], None]  # [pairs, 1]
    images = _IMAGES @ cell
    for _ in range(steps):
        gap = frac[second] - frac[first]
        vectors = ((gap - np.rint(gap)) @ cell)[:, None, :] + images  # [pairs, 27, 3]
        distance = np.sqrt((vectors**2).sum(axis=2))
        overlap = np.maximum(target - distance, 0.0)
        if not overlap.any():
            break
        # Atoms on top of each other have no direction to part in; they stay, and the caller sees the overlap.
        push = (overlap / np.maximum(distance, 1e-6))[:, :, None] * vectors
        push = 0.5 * _STEP * push.sum(axis=1)  # [pairs, 3]
        shift = np.zeros((crystal.n_atoms, 3))
        np.add.at(shift, second, push)
        np.subtract.at(shift, first, push)
        frac = frac + shift @ back
    moved = frac @ transform[0].astype(float)
    return crystal.replace(frac=moved)
