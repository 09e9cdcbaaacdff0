"""Level 5: what is a minimum passes, what is a saddle falls, and everything comes out the same again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.executors import Inline
from anchor.reference.reference import load_reference
from anchor.verify import dynamics, heating
from anchor.verify.claims import Claim, Context
from anchor.verify.dynamics import NEGLIGIBLE, Dynamics
from anchor.verify.heating import Heating
from anchor.verify.loading import load_judge


@pytest.fixture(scope="module")
def context() -> Context:
    judge = load_judge("mattersim-1m", Inline())
    return Context(judge, judge.hull, load_reference(), Inline())


def claim_of(atoms: Atoms, context: Context) -> Claim:
    crystal = Crystals.from_atoms(atoms)
    table = replace(context.judge, relaxing=replace(context.judge.relaxing, symmetry=True))(crystal)
    energy = float(table.numbers("energy_ev")[0]) / len(atoms)
    return Claim(atoms.get_chemical_formula(), table.crystals, energy, {"union": 0.0})


def perovskite(a: str, b: str, x: str, length: float) -> Atoms:
    sites = [[0, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]]
    return Atoms([a, b, x, x, x], scaled_positions=sites, cell=[length] * 3, pbc=True)


def test_a_minimum_passes_as_it_is(context: Context) -> None:
    (verdict,) = Dynamics().attack([claim_of(bulk("NaCl", "rocksalt", 5.64), context)], context)
    assert verdict.passed
    assert verdict.replacement is None
    (round_,) = verdict.evidence["rounds"]
    assert round_["lowest_thz"] > 0.5
    assert round_["imaginary_modes"] == 0
    json.dumps(verdict.evidence, allow_nan=False)


def test_a_saddle_falls_into_a_minimum(context: Context) -> None:
    """Cubic BaTiO3, whose ferroelectric modes are the best known of all."""
    cubic = claim_of(perovskite("Ba", "Ti", "O", 4.0), context)
    assert space_group(cubic.crystal)[1] == 221
    (verdict,) = Dynamics().attack([cubic], context)
    assert verdict.passed
    assert verdict.replacement is not None
    assert verdict.replacement.energy < cubic.energy - NEGLIGIBLE
    assert verdict.replacement.formula == "BaTiO3"
    assert "union" in verdict.replacement.above
    assert space_group(verdict.replacement.crystal)[1] != 221
    first, *_, last = verdict.evidence["rounds"]
    assert first["lowest_thz"] < -2
    assert first["gain_ev_per_atom"] > NEGLIGIBLE
    assert last["lowest_thz"] > -dynamics.IMAGINARY or last["gain_ev_per_atom"] < NEGLIGIBLE
    json.dumps(verdict.evidence, allow_nan=False)
    (again,) = Dynamics().attack([cubic], context)
    assert again.evidence == verdict.evidence
    assert np.array_equal(again.replacement.crystal.frac, verdict.replacement.crystal.frac)


def test_a_fall_without_end_or_place_fails(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    cubic = claim_of(perovskite("Ba", "Ti", "O", 4.0), context)
    monkeypatch.setattr(dynamics, "ROUNDS", 0)
    (verdict,) = Dynamics().attack([cubic], context)
    assert verdict.passed is False
    assert "no minimum" in verdict.reason
    monkeypatch.setattr(dynamics, "FITS", 4)
    (verdict,) = Dynamics().attack([cubic], context)
    assert verdict.passed is False
    assert "atoms" in verdict.reason
    monkeypatch.setattr(dynamics, "MOST_FOLLOWED", 4)
    (verdict,) = Dynamics().attack([cubic], context)
    assert verdict.passed is False
    assert "too large to follow" in verdict.reason
    json.dumps(verdict.evidence, allow_nan=False)


def test_what_cannot_be_tried_is_not_judged(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    salt = claim_of(bulk("NaCl", "rocksalt", 5.64), context)
    monkeypatch.setattr(dynamics, "MOST_ATOMS", 10)
    (verdict,) = Dynamics().attack([salt], context)
    assert verdict.passed is None
    assert "too large" in verdict.reason


def test_salt_stays_salt_at_room_temperature(context: Context) -> None:
    salt = claim_of(bulk("NaCl", "rocksalt", 5.64), context)
    short = Heating(picoseconds=0.1)
    heated = short(salt.crystal, salt.energy, context, stream=("salt",))
    assert heated.stays
    assert heated.matches
    assert 0.02 < heated.rms < 0.6
    assert abs(heated.gain) < NEGLIGIBLE
    assert short(salt.crystal, salt.energy, context, stream=("salt",)) == heated
    assert short(salt.crystal, salt.energy, context, stream=("other",)) != heated


def test_what_heat_carries_away_does_not_stay(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simple cubic copper, here in eight cells: nothing holds it, and fcc is lower."""
    cubic = claim_of(bulk("Cu", "sc", 2.4), context)
    monkeypatch.setattr(heating, "multiples", lambda _: (2, 2, 2))
    heated = Heating(picoseconds=0.2)(cubic.crystal, cubic.energy, context, stream=("copper",))
    assert not heated.stays
    assert heated.gain > 0.05


def test_without_phonopy_the_level_says_how_to_get_it(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamics, "find_spec", lambda _: None)
    salt = Claim("salt", Crystals.from_atoms(bulk("NaCl", "rocksalt", 5.64)), 0.0, {"union": 0.0})
    (verdict,) = Dynamics().attack([salt], context)
    assert verdict.passed is None
    assert "anchor-crystals[verify]" in verdict.reason
