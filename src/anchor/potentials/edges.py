"""Edges of a crystal that keeps its symmetry: one atom of each orbit, and which of its edges are alike.

An operation g, x → W x + w, that leaves atom i where it is takes the edge from i to (j, in the cell S) to the
edge from i to (π(j), in the cell S'):

    S' = W S + t(j) − t(i),    with W x_a + w = x_π(a) + t(a).

All of these are whole numbers that stay the same while the crystal moves, so edges are sorted into orbits
once and not at every step. A network whose features are scalars has the same ones on all edges of an orbit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from vesin import NeighborList

SKIN = 0.6
"""Å beyond the cutoff up to which neighbours are kept in mind: a relaxation moves atoms by less than half of
it for several steps."""
_BASE = 1 << 10
"""Cells are numbered from −512 to 511 in each direction; no neighbour is that far."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of one crystal, sorted by their first atoms.

    Attributes:
        i, j: Atoms.  # [n_edges], int64
        shifts: Cell of the second.  # [n_edges, 3], int64
        vectors: From the first to the second, Å.  # [n_edges, 3]
        kind: Number of the orbit of edges; not all numbers need be there.  # [n_edges], int64
    """

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    shifts: NDArray[np.int64]
    vectors: NDArray[np.float64]
    kind: NDArray[np.int64]


def find_edges(points: NDArray[np.float64], box: NDArray[np.float64], cutoff: float) -> Edges:
    """All edges of a crystal, each an orbit of its own.  # [n, 3], [3, 3] (rows)"""
    find = NeighborList(cutoff=float(cutoff), full_list=True, sorted=True).compute
    i, j, shifts, vectors = find(points=points, box=box, periodic=True, quantities="ijSD")
    return Edges(i.astype(np.int64), j.astype(np.int64), shifts.astype(np.int64), vectors, np.arange(len(i)))


class SymmetricNeighbours:
    """Edges of one atom of each orbit, sorted into orbits of edges, while a crystal moves.

    Args:
        rotations: W.  # [g, 3, 3], int64
        images: π.  # [g, n], int64
        carried: t.  # [g, n, 3], int64
    """

    def __init__(
        self, rotations: NDArray[np.int64], images: NDArray[np.int64], carried: NDArray[np.int64]
    ) -> None:
        self._rotations, self._images, self._carried = rotations, images, carried
        self._centers = np.flatnonzero(images.min(axis=0) == np.arange(images.shape[1]))
        self._kept: tuple[NDArray[np.float64], NDArray[np.float64], float, Edges] | None = None

    def __call__(self, points: NDArray[np.float64], box: NDArray[np.float64], cutoff: float) -> Edges:
        """Edges shorter than the cutoff, from atoms that stand for their orbits.  # [n, 3], [3, 3] (rows)"""
        if not self._valid(points, box, cutoff):
            found = self._sorted(find_edges(points, box, cutoff + SKIN))
            self._kept = points.copy(), box.copy(), cutoff, found
        assert self._kept is not None
        found = self._kept[3]
        bonds = points[found.j] - points[found.i] + found.shifts @ box
        near = np.flatnonzero(np.einsum("ea,ea->e", bonds, bonds) < cutoff**2)
        return Edges(found.i[near], found.j[near], found.shifts[near], bonds[near], found.kind[near])

    def _valid(self, points: NDArray[np.float64], box: NDArray[np.float64], cutoff: float) -> bool:
        """Whether no pair can have come within the cutoff that is not among those in mind.

        Atoms move by u beside the deformation D of the cell, which shortens nothing by more than its least
        singular value: what is closer than the cutoff now was closer than (cutoff + 2 u) / σ.
        """
        if self._kept is None or self._kept[2] != cutoff:
            return False
        first, old = self._kept[:2]
        if np.array_equal(box, old):
            moved, least = points - first, 1.0
        else:
            change = np.linalg.solve(old, box)
            moved, least = points - first @ change, float(np.linalg.norm(change, -2))
        u = float(np.sqrt(np.square(moved).sum(axis=1).max()))
        return (cutoff + 2 * u) / least <= cutoff + SKIN

    def _sorted(self, found: Edges) -> Edges:
        """Those from atoms that stand for their orbits, with the orbits of edges."""
        parts: list[Edges] = []
        orbits = 0
        for center in self._centers.tolist():
            a, b = np.searchsorted(found.i, [center, center + 1])
            j, shifts = found.j[a:b], found.shifts[a:b]
            stay = np.flatnonzero(self._images[:, center] == center)
            turned = shifts @ self._rotations[stay].transpose(0, 2, 1)  # [s, e, 3]
            turned = turned + self._carried[stay][:, j] - self._carried[stay, center][:, None]
            place = ((turned + _BASE // 2) @ np.array([1, _BASE, _BASE**2])) * self._images.shape[1]
            labels = (place + self._images[stay][:, j]).min(axis=0)  # the least of all places in the orbit
            different, kind = np.unique(labels, return_inverse=True)
            parts.append(Edges(found.i[a:b], j, shifts, found.vectors[a:b], kind + orbits))
            orbits += len(different)
        names = ("i", "j", "shifts", "vectors", "kind")
        return Edges(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
