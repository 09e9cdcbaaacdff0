"""Atoms that are too close, pushed apart in their cell."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from anchor.data.crystals import Crystals
from anchor.data.lattices import minkowski_reduce

_IMAGES = np.array(list(product((-1, 0, 1), repeat=3)), dtype=float)  # [27, 3]
_STEP = 0.5  # share of an overlap removed per step; each of the two atoms moves half of it


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
