"""The quasi-Newton walk: exact on parabolas, never uphill, and saved by FIRE where energies lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS
from relax_surfaces import Morse, rattled
from torch_sim.state import SimState

from anchor.relax import quasi_newton
from anchor.relax.coordinates import largest_row, start
from anchor.relax.engine import relax
from anchor.relax.one_by_one import AseCalculator
from anchor.relax.quasi_newton import DAMPING, ENERGY_NOISE, LARGEST_RESCALING, QuasiNewtonWalk

CPU = torch.device("cpu")


class LyingMorse(Morse):
    """Right forces, but energies with a deterministic error of up to 0.2 eV."""

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        found = super().compute(state)
        wave = torch.sin(1e4 * state.positions[:, 0])
        error = torch.zeros_like(found["energy"]).index_add(0, state.system_idx, wave)
        return {**found, "energy": found["energy"] + 0.2 * torch.tanh(error)}


@pytest.mark.parametrize("cell", [False, True])
def test_same_minima_as_ase_with_fewer_evaluations(morse: Morse, cell: bool) -> None:
    crystals = rattled(20, n=4)
    found = relax(crystals, morse, cell=cell, max_steps=200, fmax=1e-3)
    evaluations = []
    for i, atoms in enumerate(crystals.to_atoms()):
        atoms.calc = AseCalculator(morse)
        BFGS(FrechetCellFilter(atoms) if cell else atoms, logfile=None).run(fmax=1e-3, steps=400)
        evaluations.append(atoms.calc.evaluations)
        assert found.energy[i] == pytest.approx(atoms.get_potential_energy(), abs=1e-4)
        assert found.crystals.volume[i] == pytest.approx(atoms.get_volume(), rel=2e-3)
    assert found.converged.all()
    assert found.evaluations.sum() < sum(evaluations)


def test_energy_never_rises(morse: Morse) -> None:
    crystals = rattled(21, n=4, amplitude=0.5)
    found = relax(crystals, morse, cell=True, max_steps=80, fmax=0.02)
    for i, path in enumerate(found.path_energy):
        assert (np.diff(path) <= ENERGY_NOISE * crystals.counts[i]).all()


def test_parabola_is_learnt_exactly() -> None:
    """On E = ½ xᵀ A x the inverse Hessian takes A's place, and the walk ends at the minimum."""
    crystals = rattled(22, n=2)
    frame, at = start(crystals, [0, 1], cell=False, size=8, device=CPU)
    rows = at.shape[1] * 3
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(2, rows, rows, generator=generator, dtype=torch.float64) / rows**0.5
    moves = frame.moves.repeat_interleave(3, dim=1)
    stiffness = (
        (root @ root.mT + 0.5 * torch.eye(rows, dtype=torch.float64)) * moves[:, :, None] * moves[:, None]
    )
    target = at.clone()

    def parabola(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        away = (x - target).flatten(1)
        pull = (stiffness @ away[..., None])[..., 0]
        return 0.5 * (away * pull).sum(1), pull.view_as(x)

    begin = (
        at + 0.1 * torch.randn(at.shape, generator=generator, dtype=torch.float64) * frame.moves[..., None]
    )
    walk = QuasiNewtonWalk.begin(frame, begin, *parabola(begin))
    n_undamped = 0
    for _ in range(60):
        before, old_gradient, scale = walk.at, walk.gradient, walk.scale
        trial = walk.trial
        walk.advance(frame, *parabola(trial))
        step, change = (trial - before).flatten(1), (parabola(trial)[1] - old_gradient).flatten(1)
        learnt = (walk.inverse @ change[..., None])[..., 0]  # the secant condition B y = s
        expected = -scale * (old_gradient.flatten(1) * step).sum(1)
        undamped = ((step * change).sum(1) > DAMPING * LARGEST_RESCALING * expected) & (expected > 1e-10)
        np.testing.assert_allclose(learnt[undamped], step[undamped], atol=1e-9)
        n_undamped += int(undamped.sum())
    assert n_undamped > 5
    assert (largest_row(walk.gradient) < 1e-6).all()
    assert (torch.linalg.eigvalsh(walk.inverse) > 0).all()


def test_fire_takes_over_where_energies_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    crystals = rattled(23, n=3)
    found = relax(crystals, LyingMorse(), cell=False, max_steps=200, fmax=0.05)
    assert found.converged.all()
    monkeypatch.setattr(quasi_newton, "FIRE_AFTER", 10**9)
    alone = relax(crystals, LyingMorse(), cell=False, max_steps=200, fmax=0.05)
    assert not alone.converged.all()


def test_a_trial_that_cannot_be_evaluated_is_taken_back() -> None:
    crystals = rattled(24, n=2)
    frame, at = start(crystals, [0, 1], cell=True, size=8, device=CPU)
    gradient = torch.randn(at.shape, generator=torch.Generator().manual_seed(1), dtype=at.dtype)
    gradient = gradient * frame.moves[..., None]
    walk = QuasiNewtonWalk.begin(frame, at, torch.zeros(2, dtype=at.dtype), gradient)
    first = largest_row(walk.trial - at)
    bad = torch.tensor([torch.nan, -1.0], dtype=at.dtype)
    accepted = walk.advance(frame, bad, gradient * torch.tensor([1.0, 0.5])[:, None, None])
    assert accepted.tolist() == [False, True]
    assert torch.equal(walk.at[0], at[0])
    assert largest_row(walk.trial - walk.at)[0] < 0.5 * first[0]
    assert walk.unusable.tolist() == [1, 0]
