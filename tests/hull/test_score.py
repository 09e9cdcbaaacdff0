"""Scoring crystals end to end, with a real potential and a small hull."""

import numpy as np
import pytest
from ase.build import bulk

from anchor.crystals.crystals import Crystals
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.phases import Phases
from anchor.hull.score import score_crystals
from anchor.potentials import Potential, load_potential


@pytest.fixture(scope="module")
def potential() -> Potential:
    return load_potential("chgnet")


@pytest.fixture(scope="module")
def crystals() -> Crystals:
    return Crystals.from_atoms(
        [
            bulk("NaCl", "rocksalt", a=5.6),
            bulk("Po", "sc", a=3.3),
            bulk("NaCl", "cesiumchloride", a=3.4),
            bulk("MgO", "rocksalt", a=4.2),
        ]
    )


@pytest.fixture(scope="module")
def hull(potential: Potential) -> AlexMPHull:
    return AlexMPHull(Phases.from_formulas(["Na", "Cl", "NaCl"], [-1.3, -1.8, -3.4]), potential)


def test_one_bad_crystal_harms_nobody(crystals: Crystals, potential: Potential, hull: AlexMPHull) -> None:
    found = score_crystals(crystals, potential, hull)
    assert found.scores.status == [
        "scored",
        "not scored: chgnet does not cover Po",
        "scored",
        "not scored: no reference for O, Mg",
    ]
    assert found.relaxation == ["not relaxed"] * 4
    alone = potential.evaluate(crystals[0]).energy[0]
    assert found.energy[0] == pytest.approx(alone, abs=1e-4)
    assert found.scores.energy_above_hull[0] == pytest.approx(alone / 2 + 3.4, abs=1e-4)
    assert found.scores.energy_above_hull[2] > found.scores.energy_above_hull[0]
    assert found.decompositions[1] is None
    assert found.decompositions[3] is None
    assert found.decompositions[0] is not None
    assert found.decompositions[0].formulas == ("NaCl",)


def test_relaxed_crystals_are_lower_and_in_order(
    crystals: Crystals, potential: Potential, hull: AlexMPHull
) -> None:
    plain = score_crystals(crystals, potential, hull)
    found = score_crystals(crystals, potential, hull, relax="cell", max_steps=60, fmax=0.05)
    assert found.relaxation[0] == "converged"
    assert found.relaxation[1] == "not relaxed"
    assert found.crystals.formulas == crystals.formulas
    assert found.energy[0] < plain.energy[0]
    assert found.crystals.volume[0] != pytest.approx(crystals.volume[0], rel=1e-4)
    assert np.array_equal(found.crystals.lattice[1], crystals.lattice[1])
    after = potential.evaluate(found.crystals[2]).energy[0]
    assert found.energy[2] == pytest.approx(after, abs=1e-3)
