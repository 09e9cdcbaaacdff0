"""SevenNet on pairs of atoms against the same network with the package's own convolutions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anchor.potentials.registry import fetch_weights, find
from anchor.potentials.sevennet import SevenNet
from anchor.potentials.weights import verified


@pytest.mark.parametrize("name", ["sevennet-0", "sevennet-l3i5"])
@pytest.mark.parametrize(
    ("dtype", "energy", "forces", "stress"),
    [(torch.float64, 1e-9, 1e-9, 1e-9), (torch.float32, 1e-5, 1e-4, 1e-5)],
    ids=["float64", "float32"],
)
def test_pairs_and_edges_agree(name, dtype, energy, forces, stress, crystals):
    fetch_weights(name)
    path = verified(find(name).weights, hint="")
    fast = SevenNet(path, dtype=dtype)
    package = SevenNet(path, dtype=dtype, on_pairs=False)
    assert fast.on_pairs
    assert not package.on_pairs
    ours, theirs = fast.evaluate(crystals), package.evaluate(crystals)
    assert np.abs((ours.energy - theirs.energy) / crystals.counts).max() < energy
    assert np.abs(ours.forces - theirs.forces).max() < forces
    assert np.abs(ours.stress - theirs.stress).max() < stress
    assert np.abs(theirs.forces).max() > 0.1
