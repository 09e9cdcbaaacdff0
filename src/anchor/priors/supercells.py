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
    matrices = hermite_normal_forms(times)
    cells, transforms = minkowski_reduce(matrices @ crystal.lattice[0])
    spread = (cells**2).sum(axis=(1, 2))
    chosen = rng.choice(np.flatnonzero(spread < spread.min() * (1 + 1e-6)))
    matrix = transforms[chosen] @ matrices[chosen]
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
