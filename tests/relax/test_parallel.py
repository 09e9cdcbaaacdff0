"""Relaxations on several processes: the same numbers, one batch or many."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import bulk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relax_surfaces import Morse, rattled

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.executors import Processes
from anchor.potentials.registry import load_potential
from anchor.relax.engine import relax
from anchor.relax.parallel import Relaxer, deal
from anchor.relax.result import Relaxation, join

SETTINGS = {"cell": False, "max_steps": 4, "fmax": 0.01, "optimizer": "quasi-newton", "symmetry": True}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """So that few crystals are several parts."""
    monkeypatch.setattr("anchor.relax.parallel.PART_ATOMS", 96)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 120))
def test_everybody_is_dealt_once_and_evenly(counts: list[int], atoms: int) -> None:
    parts = deal(counts, atoms)
    assert sorted(i for part in parts for i in part) == list(range(len(counts)))
    assert all(part == sorted(part) for part in parts)
    assert len(parts) <= -(-sum(counts) // atoms)
    loads = [sum(counts[i] for i in part) for part in parts]
    if parts:
        assert max(loads) - min(loads) <= max(counts)


def equal(a: Relaxation, b: Relaxation) -> None:
    for name in ("energy", "steps", "evaluations", "first_converged_step", "max_force", "status"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("counts", "numbers", "frac", "lattice"):
        np.testing.assert_array_equal(getattr(a.crystals, name), getattr(b.crystals, name))
    assert a.reason == b.reason
    assert [path.tolist() for path in a.path_energy] == [path.tolist() for path in b.path_energy]


def test_joined_parts_keep_every_row() -> None:
    crystals = Crystals.concatenate([rattled(0, n=3), Crystals.from_atoms([bulk("Au")])])  # gold: not covered
    whole = relax(crystals, Morse(), cell=True, max_steps=5, fmax=0.01)
    assert whole.status[-1] == "failed"
    order = np.array([3, 1, 0, 2])
    back = join([whole[order[:2]], whole[order[2:]]])[np.argsort(order)]
    equal(back, whole)


def salts() -> Crystals:
    """Enough for several parts, one of them an element that MatterSim does not know."""
    rock = [bulk("MgO", "rocksalt", a=4.1 + 0.02 * k) * (2, 2, 2) for k in range(10)]
    for atoms in rock[5:]:
        atoms.rattle(0.05, seed=len(atoms))
    return Crystals.from_atoms([*rock, bulk("Po", "sc", a=3.3)])


def test_workers_give_the_same_bits_as_this_process() -> None:
    potential = load_potential("mattersim-1m")
    alone = Relaxer(potential)(salts(), **SETTINGS)
    two = Relaxer(potential, workers=2)
    for _ in range(2):  # workers are used again
        together = two(salts(), **SETTINGS)
        equal(together.relaxation, alone.relaxation)
    assert alone.relaxation.status[-1] == "failed"
    assert 0 < together.inside < together.seconds
    assert len(two(Crystals.empty(), **SETTINGS).relaxation) == 0
    with pytest.raises(InputError, match="fmax"):
        two(salts(), **{**SETTINGS, "fmax": -1.0})


def test_batches_handed_over_together_are_as_each_alone() -> None:
    potential = load_potential("mattersim-1m")
    batches = [salts()[[0, 5, 6, 10]], Crystals.empty(), salts(), salts()[:1]]
    alone = [Relaxer(potential)(batch, **SETTINGS).relaxation for batch in batches]
    with Processes(workers=3) as executor:
        heard: list[tuple[int, int]] = []
        relaxer = Relaxer(potential, executor=executor)
        together = relaxer.relax_all(batches, on_progress=lambda *done: heard.append(done), **SETTINGS)
        for timed, expected in zip(together, alone, strict=True):
            equal(timed.relaxation, expected)
        assert [timed.seconds > 0 for timed in together] == [True, False, True, True]
        assert heard[-1] == (16, 16)
        assert [done for done, _ in heard] == sorted(done for done, _ in heard)
        single = relaxer(salts(), **{**SETTINGS, "max_steps": 0}).relaxation  # energies as they are
        np.testing.assert_array_equal(single.evaluations, [1] * 10 + [0])
    assert relaxer.relax_all([], **SETTINGS) == []


def test_trajectories_come_back_from_workers() -> None:
    filmed = {**SETTINGS, "trajectory": True}
    potential = load_potential("mattersim-1m")
    alone, two = (Relaxer(potential, workers=n)(salts(), **filmed).relaxation for n in (1, 2))
    assert alone.trajectories is not None
    assert two.trajectories is not None
    for a, b in zip(alone.trajectories, two.trajectories, strict=True):
        np.testing.assert_array_equal(a.energy, b.energy)
        np.testing.assert_array_equal(a.crystals.frac, b.crystals.frac)


def test_a_worker_with_other_weights_refuses() -> None:
    potential = load_potential("mattersim-1m")
    potential.checkpoint_hash = "another"
    with pytest.raises(AnchorError, match="mattersim-1m: other weights"):
        Relaxer(potential, workers=2)(salts(), **SETTINGS)


def test_forces_of_many_crystals_part_by_part() -> None:
    crystals = salts()[:10]
    potential = load_potential("mattersim-1m")
    whole = potential.evaluate(crystals)
    here = Relaxer(potential).evaluate(crystals)
    np.testing.assert_allclose(here.forces, whole.forces, atol=1e-5)
    np.testing.assert_allclose(here.energy, whole.energy, atol=1e-4)
    assert here.stress.shape == (10, 3, 3)
    with Processes(workers=2, threads=1) as executor:
        elsewhere = Relaxer(potential, executor=executor).evaluate(crystals)
    np.testing.assert_array_equal(elsewhere.forces, here.forces)
    assert Relaxer(potential).evaluate(Crystals.empty()).forces.shape == (0, 3)
