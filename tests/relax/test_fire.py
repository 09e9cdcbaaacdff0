"""Batched FIRE follows ASE's FIRE step by step."""

from __future__ import annotations

import numpy as np
import pytest
from ase.filters import FrechetCellFilter
from ase.optimize import FIRE
from relax_surfaces import Morse, rattled

from anchor.relax.engine import relax
from anchor.relax.one_by_one import AseCalculator


@pytest.mark.parametrize("cell", [False, True])
def test_same_path_as_ase(morse: Morse, cell: bool) -> None:
    crystals = rattled(10, n=2)
    found = relax(crystals, morse, cell=cell, max_steps=40, fmax=0.02, optimizer="fire")
    for i, atoms in enumerate(crystals.to_atoms()):
        atoms.calc = AseCalculator(morse)
        moves = FIRE(FrechetCellFilter(atoms) if cell else atoms, logfile=None)
        path = [atoms.get_potential_energy() for _ in moves.irun(fmax=0.02, steps=40)]
        np.testing.assert_allclose(found.path_energy[i], path, atol=1e-7)
        assert found.steps[i] == moves.nsteps
        assert (found.status[i] == "converged") == bool(moves.converged())
