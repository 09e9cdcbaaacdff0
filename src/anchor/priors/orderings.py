"""Ways to put several elements on the sites of one role, each once up to symmetry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.ewald import coulomb_matrix
from anchor.crystals.symmetry import find_operations

MOST_ARRANGEMENTS = 10_000
"""Arrangements that are listed before symmetry; a cell with more of them is not ordered at all."""
SYMPREC = 0.05
"""Å; templates are relaxed crystals."""
_SAME_ENERGY = 1e-3  # eV/atom; below it electrostatics does not tell two orderings apart


def n_arrangements(counts: Sequence[int]) -> int:
    """Ways to place `counts` atoms of each element on as many sites, symmetry not considered."""
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


def arrangements(counts: Sequence[int]) -> NDArray[np.int64]:
    """All of them in lexicographic order: which element each site takes.  # [n_arrangements, sites]"""
    rows = np.zeros((1, 0), dtype=np.int64)
    left = np.array([counts])
    for _ in range(sum(counts)):
        row, element = np.nonzero(left)  # in order of rows, then of elements
        rows = np.column_stack([rows[row], element])
        left = left[row]
        left[np.arange(len(row)), element] -= 1
    return rows


def distinct(labels: NDArray[np.int64], images: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray]:
    """Which rows are the first of their kind up to symmetry, and how many operations leave each unchanged.

    Args:
        labels: Arrangements.  # [m, sites]
        images: Which site each operation takes each site to.  # [g, sites]
    """
    base = int(labels.max(initial=0)) + 1
    codes = labels @ (base**images).T  # [m, g]: an arrangement as a number, after each operation
    own = labels @ base ** np.arange(labels.shape[1])
    _, first = np.unique(codes.min(axis=1), return_index=True)
    first = np.sort(first)
    return first, (codes[first] == own[first, None]).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Ordering:
    """Elements on the sites of a crystal.

    Attributes:
        crystal: A batch of one.
        energy: Of the point charges, eV/atom.
        symmetry: Permutations of sites that the elements allow.
    """

    crystal: Crystals
    energy: float
    symmetry: int

    @property
    def rank(self) -> tuple[float, int]:
        """Lowest energy first; where charges do not tell orderings apart, most symmetry first."""
        return round(self.energy / _SAME_ENERGY), -self.symmetry


def orderings(
    crystal: Crystals, mixed: dict[int, dict[int, int]], charges: NDArray[np.float64]
) -> list[Ordering]:
    """All distinct orderings, best first; none where there are too many to list.

    Args:
        crystal: A batch of one; its numbers are roles.
        mixed: For each role that several elements share: how many atoms of each. At least one.
        charges: By atomic number, e.  # [119]
    """
    if math.prod(n_arrangements(list(c.values())) for c in mixed.values()) > MOST_ARRANGEMENTS:
        return []
    roles = crystal.numbers
    rows = roles[None]
    for role, counts in mixed.items():
        own = np.array(list(counts))[arrangements(list(counts.values()))]
        n = len(rows)
        rows = np.repeat(rows, len(own), axis=0)
        rows[:, roles == role] = np.tile(own, (n, 1))
    sites = np.flatnonzero(np.isin(roles, list(mixed)))
    found = find_operations(crystal, SYMPREC)
    images = np.arange(len(roles))[None] if found is None else np.unique(found.images, axis=0)
    _, labels = np.unique(rows[:, sites], return_inverse=True)
    first, kept = distinct(labels.reshape(len(rows), -1), np.searchsorted(sites, images[:, sites]))
    q = charges[rows[first]]
    energy = 0.5 * (q @ coulomb_matrix(crystal) * q).sum(axis=1) / crystal.n_atoms
    every = [
        Ordering(Crystals(crystal.counts, rows[i], crystal.frac, crystal.lattice), float(e), int(g))
        for i, e, g in zip(first, energy, kept, strict=True)
    ]
    return sorted(every, key=lambda one: one.rank)
