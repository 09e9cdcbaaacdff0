"""What every potential promises: elements refused by name, inputs untouched, torch-sim's own validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from torch_sim.models.interface import validate_model_outputs
from torch_sim.models.lennard_jones import LennardJonesModel

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.potentials.state import to_state
from anchor.potentials.wrap import Wrapped


def test_torch_sim_accepts_it_as_a_model(load):
    validate_model_outputs(load("mattersim-1m"), torch.device("cpu"), torch.float32)


def test_unknown_elements_are_named_before_anything_is_computed(load, crystals):
    potential = load("chgnet")
    strange = Crystals.from_atoms([Atoms("PoRa", positions=[(0, 0, 0), (0, 0, 3)], cell=[6, 6, 6], pbc=True)])
    mixed = Crystals.concatenate([crystals[:1], strange, crystals[1:2]])
    assert potential.supports(mixed).tolist() == [True, False, True]
    with pytest.raises(InputError, match="chgnet does not cover Po, Ra"):
        potential.evaluate(mixed)


def test_outputs_have_the_states_type_and_no_gradient(load, crystals):
    potential = load("mattersim-1m")
    for dtype in (torch.float32, torch.float64):
        state = to_state(crystals, dtype=dtype)
        result = potential(state)
        assert {value.dtype for value in result.values()} == {dtype}
        assert not any(value.requires_grad for value in result.values())
    coarse, fine = potential(to_state(crystals, dtype=torch.float32)), potential(to_state(crystals))
    assert torch.allclose(coarse["forces"].double(), fine["forces"], atol=1e-4)


def test_works_inside_no_grad_and_leaves_the_state_alone(load, crystals):
    state = to_state(crystals)
    before = state.positions.clone(), state.cell.clone()
    with torch.no_grad():
        result = load("mattersim-1m")(state)
    assert torch.isfinite(result["forces"]).all()
    assert torch.equal(state.positions, before[0])
    assert torch.equal(state.cell, before[1])
    assert not state.positions.requires_grad


def test_nothing_in_nothing_out(load):
    result = load("mattersim-1m").evaluate(Crystals.empty())
    assert result.energy.shape == (0,)
    assert result.forces.shape == (0, 3)
    assert result.stress.shape == (0, 3, 3)


def test_moving_and_turning_change_nothing(load, crystals):
    """Rigid motions, in double precision; shifted atoms leave the cell on purpose."""
    potential = load("mattersim-1m", "float64")
    reference = potential.evaluate(crystals)
    shifted = potential.evaluate(crystals.replace(frac=crystals.frac + np.array([0.31, -1.7, 5.2])))
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    turned = potential.evaluate(crystals.replace(lattice=crystals.lattice @ turn))
    assert np.allclose(shifted.energy, reference.energy, atol=1e-9)
    assert np.allclose(turned.energy, reference.energy, atol=1e-9)
    assert np.allclose(turned.forces, reference.forces @ turn, atol=1e-8)
    assert np.allclose(turned.stress, turn.T @ reference.stress @ turn, atol=1e-9)


def test_any_torch_sim_model_can_be_wrapped():
    model = LennardJonesModel(
        sigma=3.4,
        epsilon=0.0104,
        cutoff=8.5,
        compute_forces=True,
        compute_stress=True,
        dtype=torch.float64,
        device=torch.device("cpu"),
    )
    argon = Crystals.from_atoms(
        [
            Atoms(
                "Ar4",
                scaled_positions=[(0, 0, 0), (0.5, 0.52, 0), (0.5, 0, 0.5), (0, 0.5, 0.5)],
                cell=[5.3] * 3,
                pbc=True,
            )
        ]
    )
    potential = Wrapped(
        model, name="lj", elements=frozenset({18}), energies_corrected=False, checkpoint_hash="none"
    )
    result = potential.evaluate(argon)
    expected = model(to_state(argon))
    assert result.energy == pytest.approx(expected["energy"].numpy())
    assert np.allclose(result.forces, expected["forces"])
    assert np.allclose(result.stress, expected["stress"])
    with pytest.raises(InputError, match="lj does not cover Si"):
        potential.evaluate(Crystals.from_atoms([Atoms("Si", cell=[5, 5, 5], pbc=True)]))
    blind = LennardJonesModel(sigma=3.4, epsilon=0.01, cutoff=8.5, device=torch.device("cpu"))
    with pytest.raises(InputError, match="does not compute both forces and stresses"):
        Wrapped(blind, name="lj", elements=frozenset({18}), energies_corrected=False, checkpoint_hash="none")
