"""Symmetry that a relaxation keeps.

Forces have the symmetry of the crystal, so a relaxation that starts with a space group keeps it in exact
arithmetic. To know this beforehand is worth having: an invariant network needs to look at one atom of each
orbit only (`anchor.potentials.state.SymmetricState`), less than half of the work for a typical crystal. What
it then gives is a gradient whose part along symmetric displacements is right; `projector` takes that part.

An operation g of the group, x → W x + w in fractional coordinates, takes atom a to atom π(a). In the
generalised coordinates of `anchor.relax.coordinates`, with R = Lᵀ W L⁻ᵀ for the reference cell L, it takes
the displacements δ_a of atoms to R δ_a at π(a), and the deformation X to R X Rᵀ. The mean over all g is the
orthogonal projector on what the group leaves alone; it stays the same while the crystal moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import Operations, find_operations
from anchor.potentials.edges import SymmetricNeighbours

TOLERANCE = 1e-3
"""Å: how far atoms may be from where symmetry wants them. They are put there before the first step."""


@dataclass(frozen=True, eq=False)
class Symmetry:
    """The space group of one crystal of n atoms, translations inside the cell included.

    Attributes:
        crystal: With exactly this symmetry.
        rotations: W, acting on columns of fractional coordinates.  # [g, 3, 3], int64
        images: π: which atom each operation takes each atom to.  # [g, n], int64
        carried: Into which cell.  # [g, n, 3], int64
    """

    crystal: Crystals
    rotations: NDArray[np.int64]
    images: NDArray[np.int64]
    carried: NDArray[np.int64]

    @property
    def orbit(self) -> NDArray[np.int64]:
        """The first of the atoms that are equivalent to each.  # [n], int64"""
        return self.images.min(axis=0)

    def neighbours(self) -> SymmetricNeighbours:
        """Who finds the neighbours while the crystal moves."""
        return SymmetricNeighbours(self.rotations, self.images, self.carried)

    def projector(self) -> NDArray[np.float64]:
        """On symmetric changes of the generalised coordinates (3 cell rows, n atoms).

        # [3 (3 + n), 3 (3 + n)]
        """
        lattice = self.crystal.lattice[0]
        turn = lattice.T @ self.rotations @ np.linalg.inv(lattice.T)  # [g, 3, 3]
        order, n = self.images.shape
        atoms = np.zeros((n, n, 3, 3))
        for rotation, image in zip(turn, self.images, strict=True):
            atoms[image, np.arange(n)] += rotation
        whole = np.zeros((9 + 3 * n, 9 + 3 * n))
        whole[:9, :9] = np.einsum("gac,gbd->abcd", turn, turn).reshape(9, 9)
        whole[9:, 9:] = atoms.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)
        return whole / order


def find_symmetry(crystal: Crystals, tolerance: float = TOLERANCE) -> Symmetry | None:
    """The space group of a single crystal, and the crystal moved onto it.

    Args:
        crystal: One crystal.
        tolerance: Å.

    Returns:
        None where the crystal has no symmetry, or none that it fits within the tolerance.
    """
    found = find_operations(crystal, tolerance)
    if found is None or len(found.rotations) < 2:
        return None
    symmetric = _onto(crystal, found)
    shift = np.abs((symmetric.frac - crystal.frac) @ crystal.lattice[0]).max()
    stretch = np.abs(symmetric.lattice - crystal.lattice).max()
    if max(shift, stretch) > 3 * tolerance:
        return None
    return Symmetry(symmetric, found.rotations, found.images, found.carried)


def _onto(crystal: Crystals, found: Operations) -> Crystals:
    """The crystal with exactly this symmetry that is nearest to one that has it nearly."""
    rotations, images, missed = found.rotations, found.images, found.missed
    lattice, move = crystal.lattice[0], np.zeros_like(crystal.frac)
    # Translations are only as good as the crystal they were found in: what all atoms miss alike is theirs.
    for to, by in zip(images, missed - missed.mean(axis=1, keepdims=True), strict=True):
        move[to] += by
    metric = np.mean(rotations.transpose(0, 2, 1) @ (lattice @ lattice.T) @ rotations, axis=0)
    inverse = np.linalg.inv(lattice)
    squares, axes = np.linalg.eigh(inverse @ metric @ inverse.T)
    strain = axes * np.sqrt(squares) @ axes.T
    return crystal.replace(frac=crystal.frac + move / len(images), lattice=(lattice @ strain)[None])
