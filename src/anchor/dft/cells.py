"""Cells and k-point meshes: the symmetric primitive cell of a crystal, and a mesh that keeps its symmetry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import spglib
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals

SYMPREC = 0.02
"""Å. Relaxed crystals are a little off their symmetry; k-points cost several times more without it."""
DECIMALS = 12
"""Of cell vectors (Å) and fractional coordinates: what is calculated is what is written down. Symmetry
operations found on fewer digits form no group to the 1e-10 that GPAW asks for (TiS, Mo5Si3)."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A primitive cell in spglib's standard setting, made exactly symmetric.

    Attributes:
        crystal: A batch of one.
        rotations: Of its point group, in fractional coordinates of positions.  # [m, 3, 3]
    """

    crystal: Crystals
    rotations: NDArray[np.int64]

    def mesh(self, density: float) -> tuple[int, int, int]:
        """Γ-centred mesh with at least `density` k-points times atoms, the same in all directions of space.

        A mesh that a rotation of the crystal does not map onto itself (uneven numbers on oblique cells) loses
        that symmetry; n × n × n never does.
        """
        lengths = np.linalg.norm(np.linalg.inv(self.crystal.lattice[0]).T, axis=1)
        wanted = density / self.crystal.n_atoms
        reciprocal = np.rint(np.linalg.inv(self.rotations)).astype(int).transpose(0, 2, 1)
        for largest in range(1, math.ceil(wanted) + 1):
            even = np.maximum(1, np.rint(largest * lengths / lengths.max())).astype(int)
            kept = (reciprocal * even[None, :, None] % even[None, None, :] == 0).all()
            mesh = even if kept else np.full(3, largest)
            if mesh.prod() >= wanted:
                break
        return int(mesh[0]), int(mesh[1]), int(mesh[2])


def irreducible_points(crystal: Crystals, mesh: tuple[int, int, int]) -> int:
    """k-points of a mesh that the symmetry of a crystal and time reversal leave."""
    cell = (crystal.lattice[0], crystal.frac, crystal.numbers)
    mapping, _ = spglib.get_ir_reciprocal_mesh(mesh, cell, symprec=1e-3)
    return len(np.unique(mapping))


def primitive(crystal: Crystals) -> Cell:
    """The symmetric primitive cell of one crystal."""
    given = (crystal.lattice[0], crystal.frac, crystal.numbers)
    found = spglib.standardize_cell(given, to_primitive=True, no_idealize=False, symprec=SYMPREC)
    lattice, frac, numbers = given if found is None else found
    rounded = np.round(frac % 1.0, DECIMALS) % 1.0
    order = np.lexsort((*rounded.T[::-1], numbers))
    made = Crystals(np.array([len(numbers)]), numbers[order], rounded[order], np.round(lattice, DECIMALS))
    symmetry = spglib.get_symmetry((made.lattice[0], made.frac, made.numbers), symprec=1e-3)
    rotations = np.eye(3, dtype=np.int64)[None] if symmetry is None else symmetry["rotations"]
    return Cell(made, np.unique(rotations, axis=0))
