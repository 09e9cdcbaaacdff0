"""The spring model against finite differences of the springs' energy, and against a real Hessian."""

from __future__ import annotations

import numpy as np
import torch
from ase.data import covalent_radii
from ase.neighborlist import neighbor_list
from relax_surfaces import Morse, rattled

from anchor.relax import model_hessian as model
from anchor.relax.coordinates import geometry, start
from anchor.relax.engine import relax
from anchor.relax.evaluator import Evaluator

CPU = torch.device("cpu")


def test_model_is_the_second_derivative_of_springs_under_tension_zero() -> None:
    """Independent: ASE's neighbour list, and energies of displaced crystals instead of a derivation."""
    crystals = rattled(0, n=1)
    frame, at = start(crystals, [0], cell=True, size=5, device=CPU)
    found = model.model_hessian(frame, at)[0].numpy()
    atoms = crystals.to_atoms()[0]
    i, j, first, shift = neighbor_list("ijDS", atoms, model.CUTOFF)
    length = np.linalg.norm(first, axis=1)
    radii = covalent_radii[atoms.numbers]
    spring = model.STIFFNESS * np.exp(-model.DECAY * (length / (radii[i] + radii[j]) - 1))
    spring = np.minimum(spring, model.STIFFEST)
    along = first / length[:, None]

    def energy(step: np.ndarray) -> float:
        positions, cells = geometry(frame, at + torch.from_numpy(step.reshape(1, -1, 3)))
        change = positions.numpy()[j] - positions.numpy()[i] + shift @ cells[0].numpy() - first
        stretch = (change * along).sum(axis=1) ** 2
        across = (change**2).sum(axis=1)
        springs = 0.25 * (spring * ((1 - model.ACROSS) * stretch + model.ACROSS * across)).sum()  # both ways
        rows = step.reshape(-1, 3)
        return springs + 0.5 * model.FLOOR * ((rows[3:7] ** 2).sum() + (rows[:3] ** 2).sum() / 4)

    h, size = 1e-3, 3 * 7
    rng = np.random.default_rng(0)
    for _ in range(40):  # second derivatives along random directions fix the whole symmetric matrix
        v = np.zeros(3 * 8)
        v[:size] = rng.normal(size=size)
        curvature = (energy(h * v) + energy(-h * v)) / h**2
        np.testing.assert_allclose(v @ found @ v, curvature, rtol=1e-3)


def test_model_is_positive_definite_and_the_identity_where_nothing_moves() -> None:
    crystals = rattled(1, n=3)
    for cell in (True, False):
        frame, at = start(crystals, [0, 1, 2], cell=cell, size=9, device=CPU)
        found = model.model_hessian(frame, at)
        assert (torch.linalg.eigvalsh(found) > 0).all()
        still = (frame.moves.repeat_interleave(3, dim=1) == 0)[0]
        np.testing.assert_array_equal(found[0][still], torch.eye(len(still), dtype=found.dtype)[still])


def test_model_knows_more_than_a_multiple_of_the_identity(morse: Morse) -> None:
    """The condition number of the preconditioned Hessian is what the number of steps depends on."""
    relaxed = relax(rattled(2, n=3), morse, cell=True, max_steps=300, fmax=1e-4)
    assert relaxed.converged.all()
    frame, at = start(relaxed.crystals[[2]], [0], cell=True, size=8, device=CPU)
    evaluate, h = Evaluator(morse, 1000), 1e-4
    size = at[0].numel()
    exact = np.zeros((size, size))
    for k in range(size):
        shift = torch.zeros(size, dtype=torch.float64)
        shift[k] = h
        shift = shift.view_as(at[0])[None]
        exact[k] = ((evaluate(frame, at + shift)[1] - evaluate(frame, at - shift)[1]) / (2 * h)).flatten()
    values, vectors = np.linalg.eigh(model.model_hessian(frame, at)[0].numpy())
    root = vectors / np.sqrt(values) @ vectors.T

    def condition(matrix: np.ndarray) -> float:
        spectrum = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        stiff = spectrum[spectrum > 1e-3 * spectrum.max()]  # without translations and rotations
        return stiff.max() / stiff.min()

    assert condition(root @ exact @ root) < 0.5 * condition(exact)
