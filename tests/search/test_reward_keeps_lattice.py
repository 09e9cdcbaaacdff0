"""The reward relaxes atoms and keeps the lattice (app. D.3); whoever changes that changes the method."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.config import PRESETS, load_config
from anchor.search.environment import Environment
from anchor.search.realise import Realised

CELLS = Compositions.from_list(["Na2Cl2", "Mg2O2", "Ti2O4", "MgF2", "Na2O", "Al2O3"])


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment.load(load_config(overrides=["run.workers=1"]).config)


def realise(environment: Environment, **relax: Any) -> Realised:
    judge = environment.judge
    assert judge.relaxing is not None
    judge = replace(judge, relaxing=replace(judge.relaxing, **{"max_steps": 4, **relax}))
    (group,) = replace(environment.realiser, judge=judge)([CELLS], step=0)
    assert len(group.generated) == len(CELLS)
    return group


@pytest.mark.parametrize("optimizer", ["quasi-newton", "fire", "ase-bfgs"])
def test_lattices_are_those_of_the_prior_to_the_bit(environment: Environment, optimizer: str) -> None:
    group = realise(environment, optimizer=optimizer, symmetry=False)
    np.testing.assert_array_equal(group.outcomes.crystals.lattice, group.generated.lattice)
    assert not np.array_equal(group.outcomes.crystals.frac, group.generated.frac)  # atoms do move


def test_kept_symmetry_makes_lattices_exact_and_keeps_them(environment: Environment) -> None:
    """Made exactly symmetric once (1e-3 Å at most), before the first step; the steps change no bit of it."""
    start, end = realise(environment, max_steps=0), realise(environment)
    np.testing.assert_array_equal(end.outcomes.crystals.lattice, start.outcomes.crystals.lattice)
    np.testing.assert_allclose(end.outcomes.crystals.lattice, end.generated.lattice, atol=1e-3)


def test_a_free_cell_would_be_noticed(environment: Environment) -> None:
    for symmetry in (False, True):
        group = realise(environment, cell=True, symmetry=symmetry)
        change = np.abs(group.outcomes.crystals.lattice - group.generated.lattice).max(axis=(1, 2))
        assert (change > 1e-3).any()


@pytest.mark.parametrize("preset", PRESETS)
def test_no_preset_frees_the_cell(preset: str) -> None:
    assert load_config(preset=preset).config.relax.cell is False
