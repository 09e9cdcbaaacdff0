"""Orbits of edges, against rotations of vectors; and that what is kept in mind is never stale."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.spacegroup import crystal as ase_crystal

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import find_operations
from anchor.potentials.edges import Edges, SymmetricNeighbours, find_edges

CUTOFF = 4.5
EXAMPLES = {
    "rutile": ase_crystal(
        ["Ti", "O"], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136, cellpar=[4.6, 4.6, 2.95, 90, 90, 90]
    ),
    "wurtzite": bulk("CuAg", "wurtzite", a=3.9, c=6.5),
    "supercell": bulk("CuAg", "rocksalt", a=5.2) * (2, 1, 1),
}


def neighbours(atoms: Atoms) -> SymmetricNeighbours:
    found = find_operations(Crystals.from_atoms([atoms]), 1e-3)
    assert found is not None
    return SymmetricNeighbours(found.rotations, found.images, found.carried)


def named(edges: Edges) -> set[tuple[int, ...]]:
    return {
        (i, j, *s) for i, j, s in zip(edges.i.tolist(), edges.j.tolist(), edges.shifts.tolist(), strict=True)
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_orbits_are_those_of_rotated_vectors(name: str) -> None:
    atoms = EXAMPLES[name]
    crystal = Crystals.from_atoms([atoms])
    points, box = crystal.cart, crystal.lattice[0]
    found = find_operations(crystal, 1e-3)
    assert found is not None
    edges = neighbours(atoms)(points, box, CUTOFF)
    turns = box.T @ found.rotations @ np.linalg.inv(box.T)
    bonds = points[edges.j] - points[edges.i] + edges.shifts @ box
    for a in range(len(edges.i)):
        for b in range(len(edges.i)):
            alike = edges.i[a] == edges.i[b] and any(
                image[edges.i[a]] == edges.i[a]
                and image[edges.j[a]] == edges.j[b]
                and np.allclose(turn @ bonds[a], bonds[b], atol=1e-6)
                for turn, image in zip(turns, found.images, strict=True)
            )
            assert alike == (edges.kind[a] == edges.kind[b])
    centers = np.unique(found.images.min(axis=0))
    everyone = find_edges(points, box, CUTOFF)
    assert named(edges) == {edge for edge in named(everyone) if edge[0] in centers}


def test_what_is_kept_in_mind_is_never_stale() -> None:
    """A walk of the oxygen's coordinate and of both cell lengths: the same edges as found anew."""
    rng = np.random.default_rng(0)
    atoms = EXAMPLES["rutile"].copy()
    kept, rebuilt = neighbours(atoms), 0
    for _ in range(25):
        strain = np.diag([a := 1 + rng.uniform(-0.04, 0.04), a, 1 + rng.uniform(-0.04, 0.04)])
        atoms.set_cell(atoms.cell.array @ strain, scale_atoms=True)
        step = rng.uniform(-0.15, 0.15)
        atoms.positions += step * np.sign(EXAMPLES["rutile"].positions - EXAMPLES["rutile"].positions[0])
        before = kept._kept
        edges = kept(atoms.positions, atoms.cell.array, CUTOFF)
        rebuilt += kept._kept is not before
        everyone = find_edges(atoms.positions, atoms.cell.array, CUTOFF)
        centers = set(edges.i.tolist())
        assert named(edges) == {edge for edge in named(everyone) if edge[0] in centers}
    assert 1 < rebuilt < 25
