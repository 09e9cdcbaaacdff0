"""Crystals to torch-sim states and back."""

from __future__ import annotations

import numpy as np
import torch
from torch_sim.io import atoms_to_state

from anchor.potentials.state import from_state, geometry_dtype, to_state


def test_state_equals_torch_sims_own_conversion(solids, crystals):
    ours = to_state(crystals)
    theirs = atoms_to_state(solids, torch.device("cpu"), torch.float64)
    assert torch.allclose(ours.positions, theirs.positions)
    assert torch.allclose(ours.cell, theirs.cell)
    assert torch.allclose(ours.masses, theirs.masses)
    assert torch.equal(ours.atomic_numbers.long(), theirs.atomic_numbers.long())
    assert torch.equal(ours.system_idx, theirs.system_idx)


def test_there_and_back(crystals):
    back = from_state(to_state(crystals))
    assert np.array_equal(back.counts, crystals.counts)
    assert np.array_equal(back.numbers, crystals.numbers)
    assert np.allclose(back.frac, crystals.frac, atol=1e-12)
    assert np.array_equal(back.lattice, crystals.lattice)


def test_a_broken_cell_leaves_the_others_readable(crystals):
    state = to_state(crystals)
    state.cell[1] = torch.nan
    state.cell[2] = 0.0
    back = from_state(state)
    broken = np.isin(back.owner, [1, 2])
    assert np.isnan(back.frac[broken]).all()
    assert np.allclose(back.frac[~broken], crystals.frac[~broken], atol=1e-12)


def test_double_precision_wherever_the_device_has_it():
    assert geometry_dtype("cpu") == geometry_dtype("cuda:1") == torch.float64
    assert geometry_dtype("mps") == torch.float32
