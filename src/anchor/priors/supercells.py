"""Supercells that are as compact as possible."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.lattices import minkowski_reduce


def supercell(crystal: Crystals, times: int, rng: np.random.Generator) -> Crystals:
    """The crystal in a cell `times` as large: the one with the shortest vectors, ties drawn at random.

    Args:
        crystal: A batch of one.
        times: How many cells make the new one.
    """
    if times == 1:
        return crystal
    matrices, spread = _shortest(crystal, times)
    chosen = rng.choice(np.flatnonzero(spread < spread.min() * (1 + 1e-6)))
    return _enlarged(crystal, matrices[chosen])


def distinct_supercells(
    crystal: Crystals, times: int, rotations: NDArray[np.int64], most: int
) -> list[Crystals]:
    """Supercells on sublattices that no rotation connects, at most so many, shortest vectors first.

    Args:
        crystal: A batch of one.
        times: How many cells make each.
        rotations: Of its point group, acting on columns of fractional coordinates.  # [g, 3, 3]
        most: How many.
    """
    if times == 1:
        return [crystal]
    matrices, spread = _shortest(crystal, times)
    own = np.flatnonzero(_first_of_kind(times, rotations))
    order = np.argsort(np.rint(spread[own] / spread.min() * 1e6), kind="stable")  # rounded: ties in order
    return [_enlarged(crystal, matrix) for matrix in matrices[own[order[:most]]]]


def _first_of_kind(times: int, rotations: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of `hermite_normal_forms` no rotation takes to an earlier one.  # [m]"""
    points = np.array(list(product(range(times), repeat=3)))  # `times` cells along an axis lie in all of them
    inverses = np.linalg.inv(hermite_normal_forms(times).astype(float)) * times
    held = ((np.rint(points @ inverses) % times) == 0).all(axis=2)  # [m, points]
    number = {row.tobytes(): i for i, row in enumerate(held)}
    least = np.arange(len(held))
    for rotation in np.unique(rotations, axis=0):
        image = (points @ rotation.T) % times
        turned = held[:, np.ravel_multi_index(tuple(image.T), (times,) * 3)]
        least = np.minimum(least, [number[row.tobytes()] for row in turned])
    return least == np.arange(len(held))


def _shortest(crystal: Crystals, times: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each sublattice by its shortest vectors, and the sum of their squares, Å².  # [m, 3, 3], [m]"""
    matrices = hermite_normal_forms(times)
    cells, transforms = minkowski_reduce(matrices @ crystal.lattice[0])
    return transforms @ matrices, (cells**2).sum(axis=(1, 2))


def _enlarged(crystal: Crystals, matrix: NDArray[np.int64]) -> Crystals:
    """The crystal in the cell whose vectors are the rows of `matrix` times the old ones."""
    times = round(abs(np.linalg.det(matrix)))
    inverse = np.linalg.inv(matrix.astype(float))
    # The `times` lattice points of the small cell inside the large one, by integers in units of 1/times.
    points = np.array(list(product(range(times), repeat=3)))
    exact = np.rint(points @ inverse * times).astype(np.int64) % times
    shifts = np.unique(exact, axis=0) / times
    frac = (crystal.frac @ inverse)[:, None, :] + shifts[None]
    return Crystals(
        np.array([crystal.n_atoms * times]),
        np.repeat(crystal.numbers, times),
        (frac - np.floor(frac)).reshape(-1, 3),
        (matrix @ crystal.lattice[0])[None],
    )


@cache
def hermite_normal_forms(times: int) -> NDArray[np.int64]:
    """One matrix for each sublattice of index `times`.  # [m, 3, 3]"""
    forms = [
        [[a, b, c], [0, d, e], [0, 0, times // (a * d)]]
        for a in range(1, times + 1)
        if times % a == 0
        for d in range(1, times // a + 1)
        if (times // a) % d == 0
        for b in range(d)
        for c in range(times // (a * d))
        for e in range(times // (a * d))
    ]
    return np.array(forms, dtype=np.int64)
