"""Rounds of a few steps: who stays, who is asked at all, and what it costs."""

import numpy as np
import pytest
from relax_surfaces import Morse, rattled

from anchor.crystals.crystals import Crystals
from anchor.outcomes.judge import Judge, Relaxing
from anchor.relax.parallel import Relaxer

RELAXING = Relaxing(cell=True, max_steps=100, fmax=0.01)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(Relaxer(Morse()), None, RELAXING)


@pytest.fixture(scope="module")
def four() -> Crystals:
    """Four atoms of copper, eight ways."""
    return Crystals.concatenate([rattled(seed, n=1) for seed in range(8)])


def test_rounds_find_what_relaxing_all_finds(judge: Judge, four: Crystals) -> None:
    stretched = Crystals.concatenate([four[:4], four[4:].replace(lattice=1.35 * four[4:].lattice)])
    owner = np.repeat([3, 9], 4)
    (relaxed,) = judge.relaxed([stretched])
    energy = relaxed.numbers("energy_ev") / stretched.counts
    found = judge.contest(stretched, owner, ((0, 3), (5, 2), (100, 1)))
    for owner_energy, index in zip(energy.reshape(2, 4), found.index % 4, strict=True):
        assert owner_energy[index] == pytest.approx(owner_energy.min(), abs=2e-3)
    # The winners go on from where they are: hardly a step is left.
    again = judge.relaxed([found.crystals])[0].numbers("evaluations")
    assert (again <= 3).all()


def test_single_points_leave_crystals_as_they_are(judge: Judge, four: Crystals) -> None:
    found = judge.contest(four, np.zeros(8, dtype=np.int64), ((0, 1),))
    energy = judge.potential.evaluate(four).energy
    assert found.index.tolist() == [int(np.argmin(energy))] == judge.lowest(four, np.zeros(8)).tolist()
    np.testing.assert_array_equal(found.crystals.frac, four[found.index].frac)
    assert found.evaluations.tolist() == [8]


def test_copies_are_asked_once_and_those_alone_not_at_all(judge: Judge, four: Crystals) -> None:
    owner = np.array([0, 0, 0, 1, 2, 2])
    crystals = four[[0, 0, 1, 2, 3, 3]]
    found = judge.contest(crystals, owner, ((0, 2), (4, 1)))
    assert found.evaluations.tolist()[1:] == [0, 0]
    assert found.evaluations[0] == 2 + 2 * 5
    assert found.index.tolist()[1:] == [3, 4]


def test_the_same_crystal_in_another_cell_goes_on_once(judge: Judge, four: Crystals) -> None:
    shifted = four[0].replace(frac=(four[0].frac + 0.3) % 1)
    crystals = Crystals.concatenate([four[0], shifted, four[1]])
    found = judge.contest(crystals, np.zeros(3, dtype=np.int64), ((0, 3), (4, 1)))
    assert found.evaluations.tolist() == [3 + 2 * 5]
    assert found.index[0] in (0, 2)  # of equal ones the first


def test_who_has_no_energy_never_wins_unless_nobody_has(judge: Judge, four: Crystals) -> None:
    unknown = Crystals(four[0].counts, np.full(4, 92), four[0].frac, four[0].lattice)
    crystals = Crystals.concatenate([unknown, four[0], four[1], unknown, unknown, unknown, four[2]])
    found = judge.contest(crystals, np.array([0, 0, 0, 1, 1, 2, 2]), ((0, 2), (4, 1)))
    assert found.index[0] in (1, 2)
    assert found.index.tolist()[1:] == [3, 6]


def test_any_number_of_owners(judge: Judge) -> None:
    found = judge.contest(Crystals.empty(), np.zeros(0, dtype=np.int64), ((0, 1),))
    assert (len(found.index), len(found.crystals)) == (0, 0)
