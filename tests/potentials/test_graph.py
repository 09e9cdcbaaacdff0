"""The neighbour graph against ASE's neighbour list."""

from __future__ import annotations

import numpy as np
import torch
from ase import Atoms
from ase.neighborlist import neighbor_list
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anchor.crystals.crystals import Crystals
from anchor.potentials.graph import neighbour_graph, neighbour_pairs
from anchor.potentials.state import to_state

CUTOFF = 5.0


@st.composite
def cells(draw) -> Atoms:
    """One to six atoms, some outside the cell, in skewed cells from 2 to 9 Å."""
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(1, 6))
    lattice = np.diag(rng.uniform(2, 9, 3)) + np.tril(rng.uniform(-3, 3, (3, 3)), -1)
    assume(abs(np.linalg.det(lattice)) > 8 * n)
    return Atoms("H" * n, scaled_positions=rng.uniform(-2, 2, (n, 3)), cell=lattice, pbc=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(cells(), min_size=1, max_size=3))
def test_neighbours_equal_ases(batch):
    state = to_state(Crystals.from_atoms(batch))
    edges, shifts, counts, _, vectors = neighbour_pairs(state, CUTOFF)
    found = {(int(i), int(j), *map(int, s)) for (i, j), s in zip(edges.T, shifts, strict=True)}
    expected, offset = set(), 0
    for atoms in batch:
        i, j, shift = neighbor_list("ijS", atoms, CUTOFF)
        expected |= {
            (a + offset, b + offset, *s)
            for a, b, s in zip(i.tolist(), j.tolist(), shift.tolist(), strict=True)
        }
        offset += len(atoms)
    assert found == expected
    assert int(counts.sum()) == len(expected)
    lattice = state.cell.mT[state.system_idx[edges[0]]]
    images = state.positions[edges[1]] + torch.einsum("ei,eij->ej", shifts.double(), lattice)
    assert torch.allclose(vectors, images - state.positions[edges[0]], atol=1e-9)
    assert bool((edges[0].diff() >= 0).all()), "edges must be sorted by their first atom"


def test_vectors_are_those_between_the_images_and_follow_the_strain(crystals):
    state = to_state(crystals)
    strain = torch.zeros_like(state.cell)
    strain[:, 0, 1] = 0.02  # symmetrised to 0.01 each way
    graph = neighbour_graph(state, state.positions, strain, cutoff=CUTOFF)
    bent = np.eye(3)
    bent[0, 1] = bent[1, 0] = 0.01
    i, j = graph.edges
    straight = crystals.cart[j] - crystals.cart[i]
    straight = straight + np.einsum("ei,eij->ej", graph.shifts.numpy(), crystals.lattice[crystals.owner[i]])
    assert np.allclose(graph.vectors, straight @ bent)
    assert np.allclose(graph.cell, crystals.lattice @ bent)


def test_a_lone_atom_has_no_neighbours():
    state = to_state(Crystals.from_atoms([Atoms("He", cell=[20, 20, 20], pbc=True)]))
    edges, shifts, counts, _, vectors = neighbour_pairs(state, CUTOFF)
    assert edges.shape == (2, 0)
    assert shifts.shape == vectors.shape == (0, 3)
    assert counts.tolist() == [0]
