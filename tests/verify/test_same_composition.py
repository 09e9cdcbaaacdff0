"""Level 2: a lower structure takes the find's place; a saddle falls; the same draws give the same verdict."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from ase.build import bulk

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.executors import Inline
from anchor.outcomes.columns import ENERGY
from anchor.verify import same_composition
from anchor.verify.claims import Claim, Context
from anchor.verify.same_composition import RATTLE, Lowest, SameComposition, rattled, structures

Make = Callable[..., Claim]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_composition, "ASKED", 3)
    monkeypatch.setattr(same_composition, "RELAXED", 2)


def real_claim(crystal: Crystals, context: Context) -> Claim:
    """Relaxed with its symmetry kept, with its own energy."""
    assert context.judge.relaxing is not None
    judge = replace(context.judge, relaxing=replace(context.judge.relaxing, symmetry=True, fmax=0.005))
    table = judge.relaxed([crystal])[0]
    energy = float(table.numbers(ENERGY)[0]) / crystal.n_atoms
    return context.moved(Claim("x", crystal, energy, {}, limit=0.1), table.crystals, energy)


@pytest.fixture(scope="module")
def wrong(mattersim: Context) -> Claim:
    """Sodium chloride as caesium chloride has it."""
    return real_claim(Crystals.from_atoms(bulk("NaCl", "cesiumchloride", 3.4)), mattersim)


def test_a_lower_structure_takes_its_place(mattersim: Context, wrong: Claim) -> None:
    (verdict,) = SameComposition().attack([wrong], mattersim)
    assert verdict.passed, verdict.reason
    assert verdict.replacement is not None
    assert space_group(verdict.replacement.crystal)[1] == 225  # rock salt
    assert verdict.replacement.energy < wrong.energy - 0.05
    assert verdict.replacement.above_hull < wrong.above_hull - 0.05
    assert verdict.evidence["distinct"] >= 2
    assert verdict.cpu_seconds > 0


def test_the_lowest_stays(mattersim: Context) -> None:
    salt = real_claim(Crystals.from_atoms(bulk("NaCl", "rocksalt", 5.6)), mattersim)
    (verdict,) = SameComposition().attack([salt], mattersim)
    assert verdict.passed
    assert verdict.replacement is None
    assert "fewer than 20" in verdict.reason  # it was told to ask for three


def test_a_claim_that_only_a_saddle_held_fails_if_its_heir_does(mattersim: Context, wrong: Claim) -> None:
    """The rock salt that takes its place is known: the oracle says so of the heir."""
    known = replace(wrong, known_in=frozenset({"icsd"}))
    (verdict,) = SameComposition().attack([known], mattersim)
    assert verdict.passed is False
    assert "takes its place and fails: a rediscovery" in verdict.reason


def test_what_collapsed_takes_nobodys_place_but_its_own(mattersim: Context) -> None:
    """Impossible bonds are a hole of the potential, not a lower crystal; a rattled find is the find."""
    salt = real_claim(Crystals.from_atoms(bulk("NaCl", "rocksalt", 5.6)), mattersim)
    crushed = Crystals.from_atoms(bulk("NaCl", "rocksalt", 2.6))
    both = Crystals.concatenate([salt.crystal, crushed])
    energy = np.array([salt.energy, salt.energy - 1.0])
    found = Lowest(both, energy, ["rattled find", "omatg"], {"omatg": 1}, 2, 0.0)
    verdict = SameComposition()._verdict(salt, found, mattersim)
    assert verdict.passed
    assert verdict.replacement is None
    assert verdict.evidence["collapsed"] == 1
    fallen = replace(found, crystals=both[np.array([1, 0])], energy=energy[::-1].copy())
    verdict = SameComposition()._verdict(salt, fallen, mattersim)
    assert verdict.passed is False
    assert "takes its place and fails: a bond shorter" in verdict.reason


def test_company_changes_nothing(mattersim: Context, wrong: Claim, claim_at: Make) -> None:
    context = replace(mattersim, executor=Inline())
    other = claim_at("LiF", 0.0, limit=0.1)
    together = SameComposition().attack([other, wrong], context)[1]
    (alone,) = SameComposition().attack([wrong], context)
    assert together.evidence == alone.evidence
    assert together.replacement is not None
    assert alone.replacement is not None
    assert together.replacement.crystal.hash == alone.replacement.crystal.hash


def test_structures_come_in_several_sizes(mattersim: Context) -> None:
    crystals, made_by = structures("KYSe2", mattersim.priors, seed=0, stream=("t",))
    assert set(crystals.counts.tolist()) == {4, 8, 16}
    assert set(crystals.formulas) == {"KYSe2"}
    assert made_by == ["templates-all"] * len(crystals)
    large, _ = structures("K2Y4Se13", mattersim.priors, seed=0, stream=("t",))
    assert set(large.counts.tolist()) == {19}


def test_rattling_is_small_and_the_same_again(wrong: Claim) -> None:
    one, two = (rattled(wrong.crystal, 0, "stream") for _ in range(2))
    assert one.hash == two.hash
    assert rattled(wrong.crystal, 0, "other").hash != one.hash
    moved = (one.frac - wrong.crystal.frac) @ one.lattice[0]
    assert 0.2 * RATTLE < np.abs(moved).mean() < 3 * RATTLE
    assert space_group(one)[1] < 10  # of 221
