"""The engine: order, outcomes, budgets, batches, and one bad crystal among good ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS, FIRE
from relax_surfaces import Morse, rattled
from torch_sim.models.lennard_jones import LennardJonesModel
from torch_sim.state import SimState

from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.potentials.registry import availability, load_potential
from anchor.relax.engine import fixed_chunks, relax
from anchor.relax.one_by_one import AseCalculator


def same_bits(a, b) -> bool:
    return (
        a.energy.tobytes() == b.energy.tobytes()
        and a.crystals.frac.tobytes() == b.crystals.frac.tobytes()
        and a.crystals.lattice.tobytes() == b.crystals.lattice.tobytes()
    )


@pytest.mark.parametrize("chunk_atoms", [9, 20, 1000])
def test_order_and_results_do_not_depend_on_the_batch(morse: Morse, chunk_atoms: int) -> None:
    crystals = rattled(0, n=6)
    alone = [relax(one, morse, cell=True, max_steps=60, fmax=0.02) for one in crystals]
    found = relax(crystals, morse, cell=True, max_steps=60, fmax=0.02, chunk_atoms=chunk_atoms)
    np.testing.assert_array_equal(found.crystals.numbers, crystals.numbers)
    np.testing.assert_array_equal(found.steps, [one.steps[0] for one in alone])
    np.testing.assert_allclose(found.energy, [one.energy[0] for one in alone], atol=1e-10)
    np.testing.assert_allclose(
        found.crystals.frac, np.concatenate([one.crystals.frac for one in alone]), atol=1e-9
    )


def test_fixed_chunks_give_the_same_bits_whoever_else_is_there(morse: Morse) -> None:
    crystals = rattled(1, n=6)
    chunks = fixed_chunks(crystals.counts, range(6), 16)
    assert [i for chunk in chunks for i in chunk] == list(range(6))
    assert all(crystals.counts[chunk].sum() <= 16 for chunk in chunks)
    settings = {"cell": True, "max_steps": 60, "fmax": 0.02, "chunk_atoms": 16, "in_flight": False}
    whole = relax(crystals, morse, **settings)
    assert same_bits(whole, relax(crystals, morse, **settings))
    first = relax(crystals[chunks[0]], morse, **settings)
    assert first.energy.tobytes() == whole.energy[chunks[0]].tobytes()


@pytest.mark.parametrize("cell", [False, True])
@pytest.mark.parametrize(("optimizer", "method"), [("ase-bfgs", BFGS), ("ase-fire", FIRE)])
def test_paper_mode_is_plain_ase(morse: Morse, cell: bool, optimizer: str, method: type) -> None:
    crystals = rattled(2, n=2)
    found = relax(crystals, morse, cell=cell, max_steps=12, fmax=0.02, optimizer=optimizer)
    for i, atoms in enumerate(crystals.to_atoms()):
        atoms.calc = AseCalculator(morse)
        moves = method(FrechetCellFilter(atoms) if cell else atoms, logfile=None)
        moves.run(fmax=0.02, steps=12)
        assert found.energy[i] == atoms.get_potential_energy()
        assert found.steps[i] == moves.nsteps
        assert found.evaluations[i] == atoms.calc.evaluations == moves.nsteps + 1
        np.testing.assert_array_equal(found.crystals[i].frac, Crystals.from_atoms(atoms).frac)


@pytest.mark.parametrize("optimizer", ["quasi-newton", "fire", "ase-bfgs"])
def test_a_short_budget_can_be_read_off_a_long_run(morse: Morse, optimizer: str) -> None:
    crystals = rattled(3, n=3)
    settings = {"cell": True, "fmax": 0.02, "optimizer": optimizer}
    long = relax(crystals, morse, max_steps=200, **settings)
    short = relax(crystals, morse, max_steps=8, **settings)
    assert long.converged.all()
    np.testing.assert_array_equal(long.first_converged_step, long.steps)
    np.testing.assert_allclose(long.energy_after(8), short.energy, atol=1e-9)
    np.testing.assert_array_equal(
        (long.first_converged_step >= 0) & (long.first_converged_step <= 8), short.converged
    )
    assert (short.first_converged_step[~short.converged] == -1).all()
    np.testing.assert_array_equal(long.evaluations, [len(path) for path in long.path_energy])
    np.testing.assert_allclose(long.energy, [path[-1] for path in long.path_energy])


def test_caps_are_per_crystal_and_no_step_is_a_single_point(morse: Morse) -> None:
    crystals = rattled(4, n=3)
    found = relax(crystals, morse, cell=False, max_steps=[0, 3, 200], fmax=0.01)
    assert found.status.tolist() == ["capped", "capped", "converged"]
    assert found.steps[:2].tolist() == [0, 3]
    assert found.energy[0] == pytest.approx(morse.evaluate(crystals).energy[0], abs=1e-12)
    np.testing.assert_allclose(found.crystals[0].cart, crystals[0].cart, atol=1e-12)


def test_trajectory_holds_every_evaluation(morse: Morse) -> None:
    found = relax(rattled(5, n=2), morse, cell=True, max_steps=30, fmax=0.02, trajectory=True)
    assert found.trajectories is not None
    for i, film in enumerate(found.trajectories):
        assert len(film.crystals) == len(film.energy) == found.evaluations[i]
        np.testing.assert_allclose(morse.evaluate(film.crystals).energy, film.energy, atol=1e-10)
        assert film.max_force[-1] == pytest.approx(found.max_force[i])
        assert film.accepted[0]
        np.testing.assert_allclose(film.crystals[-1].lattice[0], found.crystals[i].lattice[0], atol=1e-12)


def test_nothing_to_do(morse: Morse) -> None:
    empty = relax(Crystals.empty(), morse, cell=True, max_steps=10, fmax=0.1)
    assert len(empty) == 0
    assert empty.status.tolist() == []
    perfect = relax(Crystals.from_atoms(bulk("Cu", "fcc", a=3.6)), morse, cell=False, max_steps=10, fmax=0.02)
    assert perfect.status[0] == "converged"
    assert (perfect.steps[0], perfect.evaluations[0], perfect.first_converged_step[0]) == (0, 1, 0)


@pytest.mark.parametrize(
    "change",
    [{"optimizer": "bfgs"}, {"fmax": 0.0}, {"chunk_atoms": 0}, {"max_steps": -1}, {"max_steps": [1, 2]}],
)
def test_bad_arguments_are_refused(morse: Morse, change: dict) -> None:
    settings = {"cell": False, "max_steps": 5, "fmax": 0.1, **change}
    with pytest.raises(InputError):
        relax(rattled(6, n=1), morse, **settings)


def test_any_torch_sim_model_will_do() -> None:
    model = LennardJonesModel(
        sigma=2.3, epsilon=0.4, cutoff=6.0, dtype=torch.float64, compute_forces=True, compute_stress=False
    )
    crystals = rattled(6, n=3)
    found = relax(crystals, model, cell=False, max_steps=200, fmax=0.01)
    bfgs = relax(crystals, model, cell=False, max_steps=200, fmax=0.01, optimizer="ase-bfgs")
    assert found.converged.all()
    np.testing.assert_allclose(found.energy, bfgs.energy, atol=1e-3)


# Guards


class Moody(Morse):
    """A potential with bad days: raises or gives NaN for silver, runs out of memory for large batches."""

    def __init__(self, *, raises: bool = False, nan: bool = False, memory_atoms: int | None = None) -> None:
        super().__init__()
        self.raises, self.nan, self.memory_atoms = raises, nan, memory_atoms
        self.largest = 0

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        silver = bool((state.atomic_numbers == 47).any())
        if self.memory_atoms is not None and state.n_atoms > self.memory_atoms:
            raise torch.OutOfMemoryError("CUDA out of memory: tried to allocate everything")
        self.largest = max(self.largest, state.n_atoms)
        if self.raises and silver:
            raise ValueError("no silver please")
        found = super().compute(state)
        if self.nan:
            bad = state.system_idx[state.atomic_numbers == 47].unique()
            found["energy"][bad] = torch.nan
        return found


def with_silver() -> tuple[Crystals, Crystals]:
    """Five crystals of which the third holds silver, and the four others alone."""
    crystals = rattled(7, n=5)
    numbers = crystals.numbers.copy()
    numbers[crystals.offsets[2]] = 47
    mixed = Crystals(crystals.counts, numbers, crystals.frac, crystals.lattice)
    return mixed, crystals[[0, 1, 3, 4]]


@pytest.mark.parametrize("optimizer", ["quasi-newton", "fire", "ase-bfgs"])
@pytest.mark.parametrize(
    ("potential", "reason"),
    [
        (Moody(raises=True), "ValueError: no silver please"),
        (Moody(nan=True), "not finite"),
        (Morse(elements=frozenset({29})), "morse does not cover Ag"),
    ],
)
def test_one_bad_crystal_does_not_harm_the_others(potential: Morse, reason: str, optimizer: str) -> None:
    mixed, others = with_silver()
    settings = {"cell": False, "max_steps": 15, "fmax": 0.05, "optimizer": optimizer}
    found = relax(mixed, potential, **settings)
    alone = relax(others, Morse(), **settings)
    assert found.status[2] == "failed"
    assert reason in found.reason[2]
    assert np.isnan(found.energy[2])
    np.testing.assert_array_equal(found.crystals[2].numbers, mixed[2].numbers)
    good = [0, 1, 3, 4]
    np.testing.assert_allclose(found.energy[good], alone.energy, atol=1e-8)
    np.testing.assert_array_equal(found.status[good], alone.status)


def test_out_of_memory_halves_the_batch_and_goes_on(morse: Morse) -> None:
    crystals = rattled(8, n=8)
    small = Moody(memory_atoms=15)
    found = relax(crystals, small, cell=False, max_steps=10, fmax=0.05, chunk_atoms=1000)
    plain = relax(crystals, morse, cell=False, max_steps=10, fmax=0.05, chunk_atoms=1000)
    assert small.largest <= 15
    np.testing.assert_allclose(found.energy, plain.energy, atol=1e-9)
    hopeless = relax(crystals, Moody(memory_atoms=5), cell=False, max_steps=10, fmax=0.05)
    fits = crystals.counts <= 5
    assert (hopeless.status[~fits] == "failed").all()
    assert all("out of memory" in hopeless.reason[i] for i in np.flatnonzero(~fits))
    np.testing.assert_allclose(hopeless.energy[fits], plain.energy[fits], atol=1e-9)


def test_hopeless_starts_are_refused_without_an_evaluation(morse: Morse) -> None:
    good = bulk("Cu", "fcc", a=3.6, cubic=True)
    twins = good.copy()
    twins.positions[1] = twins.positions[0] + 1e-3
    lonely = Atoms("Cu", cell=[20, 20, 20], pbc=True)
    dense = Atoms("Cu2", scaled_positions=[[0, 0, 0], [0.5, 0.5, 0.5]], cell=[1, 1, 1], pbc=True)
    crystals = Crystals.from_atoms([good, twins, lonely, dense, good])
    frac = crystals.frac.copy()
    frac[-1] = np.nan
    found = relax(crystals.replace(frac=frac), morse, cell=True, max_steps=20, fmax=0.05)
    assert found.status.tolist() == ["converged", "failed", "failed", "failed", "failed"]
    for word, reason in zip(
        ("one place", "isolated", "collapsed", "not finite"), found.reason[1:], strict=True
    ):
        assert word in reason
    assert found.evaluations[1:].tolist() == [0, 0, 0, 0]


class Pushing(Morse):
    """Adds an energy p·V (p in eV/Å³): a large positive p crushes cells, a negative one blows them up."""

    def __init__(self, pressure: float) -> None:
        super().__init__()
        self.pressure = pressure

    def compute(self, state: SimState) -> dict[str, torch.Tensor]:
        found = super().compute(state)
        silver = torch.zeros_like(found["energy"]).index_add(
            0, state.system_idx, (state.atomic_numbers == 47).to(found["energy"].dtype)
        )
        pressure = self.pressure * (silver > 0)
        volume = torch.linalg.det(state.cell).abs()
        stress = pressure[:, None, None] * torch.eye(3, dtype=volume.dtype)
        return {**found, "energy": found["energy"] + pressure * volume, "stress": found["stress"] + stress}


@pytest.mark.parametrize(("pressure", "word"), [(300.0, "collapsing"), (-3.0, "exploding")])
@pytest.mark.parametrize("optimizer", ["quasi-newton", "ase-fire"])
def test_cells_that_collapse_or_explode_end_alone(pressure: float, word: str, optimizer: str) -> None:
    mixed, others = with_silver()
    settings = {"cell": True, "fmax": 0.05, "optimizer": optimizer}
    found = relax(mixed[[1, 2]], Pushing(pressure), max_steps=400, **settings)
    alone = relax(others[[1]], Morse(), max_steps=400, **settings)
    assert found.status.tolist() == ["converged", "diverged"]
    assert word in found.reason[1]
    assert found.energy[0] == pytest.approx(alone.energy[0], abs=1e-8)


def test_fused_atoms_are_not_a_crystal() -> None:
    """A potential that attracts without end converges to nonsense; the outcome says so."""

    class Glue(Morse):
        def compute(self, state: SimState) -> dict[str, torch.Tensor]:
            found = super().compute(state)
            return {key: torch.zeros_like(value) for key, value in found.items()}

    atoms = bulk("Cu", "fcc", a=3.6, cubic=True)
    atoms.positions[1] = atoms.positions[0] + [0.3, 0, 0]
    found = relax(Crystals.from_atoms(atoms), Glue(), cell=False, max_steps=5, fmax=0.05)
    assert found.status[0] == "diverged"
    assert "0.30 Å apart" in found.reason[0]
    assert found.first_converged_step[0] == -1


def test_watchdog_and_progress(morse: Morse) -> None:
    calls: list[tuple[int, int]] = []
    crystals = rattled(9, n=4)
    relax(
        crystals,
        morse,
        cell=False,
        max_steps=5,
        fmax=0.05,
        on_progress=lambda *x: calls.append(x),
        in_flight=False,
    )
    assert calls[-1] == (4, 4)
    assert calls == sorted(calls)
    stopped = relax(crystals, morse, cell=False, max_steps=50, fmax=1e-6, watchdog_seconds=0.0)
    assert set(stopped.status) == {"capped"}
    assert "watchdog" in stopped.reason[0]
    assert (stopped.evaluations == 1).all()


# A real potential


@pytest.mark.skipif(not availability("chgnet").ok, reason="CHGNet is not installed")
@pytest.mark.parametrize("cell", [False, True])
def test_real_crystals_reach_the_minima_of_ase(cell: bool) -> None:
    potential = load_potential("chgnet")
    rng = np.random.default_rng(0)
    cells = [bulk("NaCl", "rocksalt", a=5.7), bulk("ZnS", "zincblende", a=5.5), bulk("Si", "diamond", a=5.5)]
    for atoms in cells:
        shape = rng.uniform(-0.03, 0.03, (3, 3))
        atoms.set_cell(atoms.cell.array @ (np.eye(3) + (shape + shape.T) / 2), scale_atoms=True)
        atoms.positions += rng.normal(0, 0.08, atoms.positions.shape)
    crystals = Crystals.from_atoms(cells)
    settings = {"cell": cell, "max_steps": 100, "fmax": 0.02}
    found = relax(crystals, potential, **settings)
    fire = relax(crystals, potential, optimizer="fire", **settings)
    bfgs = relax(crystals, potential, optimizer="ase-bfgs", **settings)
    assert found.converged.all()
    best = np.fmin(fire.energy_per_atom, bfgs.energy_per_atom)
    assert (found.energy_per_atom - best < 1e-3).all()
    assert found.evaluations.sum() <= bfgs.evaluations.sum()


def test_an_endless_cell_and_a_huge_crystal_cost_the_others_nothing(
    morse: Morse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell of 1e8 Å overflows the integers of neighbour searches, which ends the process."""
    good = rattled(0, n=1)
    endless = good.replace(lattice=good.lattice * np.array([1e8, 1, 1])[:, None])
    monkeypatch.setattr("anchor.relax.guards.MOST_ATOMS", int(good.counts[0]))
    huge = Crystals.from_atoms(good.to_atoms()[0].repeat((2, 1, 1)))
    found = relax(Crystals.concatenate([endless, good, huge]), morse, cell=True, max_steps=20, fmax=0.02)
    assert found.status[0] == found.status[2] == "failed"
    assert "endless cell" in found.reason[0]
    assert "atoms" in found.reason[2]
    alone = relax(good, morse, cell=True, max_steps=20, fmax=0.02)
    assert found.energy[1] == pytest.approx(alone.energy[0], abs=1e-10)


def test_large_crystals_have_no_dense_hessian(morse: Morse, monkeypatch: pytest.MonkeyPatch) -> None:
    crystals = rattled(0, n=2)
    by_fire = relax(crystals[1], morse, cell=True, max_steps=5, fmax=1e-6, optimizer="fire")
    large = Crystals.from_atoms(crystals.to_atoms()[0].repeat((2, 1, 1)))
    monkeypatch.setattr("anchor.relax.engine.DENSE_ATOMS", int(crystals.counts[1]) - 1)
    found = relax(crystals[1], morse, cell=True, max_steps=5, fmax=1e-6)
    assert same_bits(found, by_fire)
    monkeypatch.setattr("anchor.relax.engine.DENSE_ATOMS", int(crystals.counts[0]))
    found = relax(Crystals.concatenate([large, crystals[0]]), morse, cell=True, max_steps=5, fmax=1e-6)
    alone = relax(crystals[0], morse, cell=True, max_steps=5, fmax=1e-6)
    assert found.energy[1] == pytest.approx(alone.energy[0], abs=1e-10)
    assert found.evaluations.min() > 1
