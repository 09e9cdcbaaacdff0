"""The judge with a real potential and a small hull: the whole way, and each part of it."""

from dataclasses import replace

import numpy as np
import pytest
from ase.build import bulk

from anchor.clock import Clock
from anchor.config import Config
from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts
from anchor.crystals.rdf import rdf_embedding
from anchor.gates.base import Verdicts
from anchor.gates.paper import check_bonds
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.phases import Phases
from anchor.outcomes import checks as checks_module
from anchor.outcomes.checks import Checks
from anchor.outcomes.columns import ABOVE, ENERGY
from anchor.outcomes.judge import Judge, Relaxing
from anchor.potentials import Potential, load_potential
from anchor.reference.bonds import passes_by_floor_only
from anchor.reference.reference import load_reference
from anchor.relax.parallel import Relaxer


@pytest.fixture(scope="module")
def crystals() -> Crystals:
    """Rock salt, an element without potential, a salt that must move, an element without reference."""
    return Crystals.from_atoms(
        [
            bulk("NaCl", "rocksalt", a=5.6),
            bulk("Po", "sc", a=3.3),
            bulk("NaCl", "cesiumchloride", a=3.4),
            bulk("MgO", "rocksalt", a=4.2),
        ]
    )


@pytest.fixture(scope="module")
def judge() -> Judge:
    potential: Potential = load_potential("chgnet")
    hull = AlexMPHull(Phases.from_formulas(["Na", "Cl", "NaCl"], [-1.3, -1.8, -3.4]), potential)
    return Judge(Relaxer(potential), hull, None, Checks.from_config(Config(), load_reference()))


def test_one_bad_crystal_harms_nobody(crystals: Crystals, judge: Judge) -> None:
    found = judge(crystals)
    assert found.texts("status") == ["measured", "not scored", "measured", "not scored"]
    assert found.texts("reason") == ["", "chgnet does not cover Po", "", "no reference for O, Mg"]
    assert found.texts("relaxation") == ["not relaxed", "", "not relaxed", "not relaxed"]
    alone = judge.potential.evaluate(crystals[0]).energy[0]
    assert found.numbers(ENERGY)[0] == pytest.approx(alone, abs=1e-4)
    above = found.numbers(ABOVE)
    assert above[0] == pytest.approx(alone / 2 + 3.4, abs=1e-4)
    assert above[2] > above[0]
    assert found.flags("valid").tolist() == [True, False, True, True]  # not scored is not invalid
    decompositions = judge.decompositions(found)
    assert decompositions[1] is decompositions[3] is None
    assert decompositions[0] is not None
    assert decompositions[0].formulas == ("NaCl",)


def test_relaxed_crystals_are_lower_and_in_order(crystals: Crystals, judge: Judge) -> None:
    as_given = judge(crystals)
    relaxing = replace(judge, relaxing=Relaxing(cell=True, max_steps=60, fmax=0.05))
    found = relaxing(crystals)
    assert found.texts("relaxation")[0] == "converged"
    assert found.crystals.formulas == crystals.formulas
    np.testing.assert_array_equal(found.crystals[1].lattice, crystals[1].lattice)
    for i in (0, 2, 3):
        assert found.numbers(ENERGY)[i] <= as_given.numbers(ENERGY)[i] + 1e-6
    assert found.numbers("relaxation_steps")[2] > 0


def test_several_batches_at_once_give_the_same_numbers(crystals: Crystals, judge: Judge) -> None:
    clock = Clock()
    one, other = judge.relaxed([crystals[:1], crystals[2:]], clock=clock)
    np.testing.assert_array_equal(
        np.concatenate([one.numbers(ENERGY), other.numbers(ENERGY)]),
        [judge.relaxed([crystals[i]])[0].numbers(ENERGY)[0] for i in (0,)]
        + judge.relaxed([crystals[2:]])[0].numbers(ENERGY).tolist(),
    )
    assert 0 < clock["potential"] <= clock["relaxation"]


def test_the_lowest_of_each_owner(judge: Judge) -> None:
    salts = Crystals.from_atoms([bulk("NaCl", "rocksalt", a=a) for a in (6.4, 5.6, 5.0, 5.7, 4.6)])
    salts = Crystals.concatenate([salts, Crystals.from_atoms(bulk("Po", "sc", a=3.3))])
    assert judge.lowest(salts, np.array([0, 0, 1, 1, 1, 2])).tolist() == [1, 3, 5]
    broken = salts.replace(frac=np.where(np.arange(salts.n_atoms)[:, None] == 2, np.nan, salts.frac))
    assert judge.lowest(broken, np.array([0, 0, 1, 1, 1, 2])).tolist() == [0, 3, 5]


def test_neighbours_are_looked_for_once(
    crystals: Crystals, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    find = checks_module.minimum_image_distances

    def counting(*args: object, **kwargs: object) -> object:
        calls.append(args)
        return find(*args, **kwargs)  # type: ignore[arg-type]

    for module in (
        "anchor.outcomes.checks",
        "anchor.gates.paper",
        "anchor.reference.bonds",
        "anchor.crystals.rdf",
    ):
        monkeypatch.setattr(f"{module}.minimum_image_distances", counting)
    assert judge.checks is not None
    table, embeddings = judge.checks(judge.relaxed([crystals])[0])
    assert len(calls) == 1
    reference = load_reference()
    np.testing.assert_array_equal(embeddings, rdf_embedding(crystals))
    bonds = check_bonds(crystals, judge.checks.paper.thresholds)
    np.testing.assert_array_equal(table.numbers("bond_ratio"), bonds.tightest)
    by_floor = passes_by_floor_only(crystals, reference.bonds)
    assert table.flags("bonds_by_floor").tolist() == by_floor.tolist()


def test_another_gate_decides_and_the_papers_checks_stay(crystals: Crystals, judge: Judge) -> None:
    class Never:
        label = "never"

        def verdicts(self, crystals: Crystals, _contacts: Contacts) -> Verdicts:
            return Verdicts(np.zeros(len(crystals), dtype=bool), ["no"] * len(crystals))

    assert judge.checks is not None
    strict = replace(judge, checks=replace(judge.checks, gate=Never()))
    found = strict(crystals)
    assert not found.flags("valid").any()
    assert set(found.texts("gate_reason")) == {"no"}
    assert found.flags("bonds_ok").all()
