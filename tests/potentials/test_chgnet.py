"""CHGNet with split layers against the package's own, and its bonds and angles against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anchor.potentials.chgnet import CHGNet, angles, undirected
from anchor.potentials.graph import neighbour_graph
from anchor.potentials.registry import fetch_weights, find
from anchor.potentials.state import to_state
from anchor.potentials.weights import verified


@pytest.fixture
def graph(crystals):
    state = to_state(crystals)
    return neighbour_graph(state, state.positions, torch.zeros_like(state.cell), cutoff=6.0)


@pytest.mark.parametrize(
    ("dtype", "energy", "forces", "stress"),
    [(torch.float64, 1e-9, 1e-9, 1e-9), (torch.float32, 1e-5, 1e-4, 1e-5)],
    ids=["float64", "float32"],
)
def test_split_layers_and_the_packages_agree(dtype, energy, forces, stress, crystals):
    fetch_weights("chgnet")
    path = verified(find("chgnet").weights, hint="")
    fast, package = CHGNet(path, dtype=dtype), CHGNet(path, dtype=dtype, split=False)
    assert fast.split
    assert not package.split
    ours, theirs = fast.evaluate(crystals), package.evaluate(crystals)
    assert np.abs((ours.energy - theirs.energy) / crystals.counts).max() < energy
    assert np.abs(ours.forces - theirs.forces).max() < forces
    assert np.abs(ours.stress - theirs.stress).max() < stress
    assert np.abs(theirs.forces).max() > 0.1


def test_each_bond_is_two_opposite_edges(graph):
    bond, first = undirected(graph)
    assert torch.equal(torch.bincount(bond), torch.full((len(first),), 2))
    assert torch.equal(bond[first], torch.arange(len(first)))
    ends = torch.stack([torch.nonzero(bond == k).view(-1) for k in range(len(first))])
    there, back = ends.T
    assert torch.equal(graph.edges[:, there], graph.edges[:, back].flip(0))
    assert torch.equal(graph.shifts[there], -graph.shifts[back])


def test_angles_are_all_ordered_pairs_of_short_edges_at_an_atom(graph):
    short = graph.vectors.norm(dim=1) < 3.0
    left, right = angles(graph, short)
    start = graph.edges[0].tolist()
    rows = torch.nonzero(short).view(-1).tolist()
    expected = {(a, b) for a in rows for b in rows if a != b and start[a] == start[b]}
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == expected
    assert len(left) == len(expected)
