"""Level 4: a find that lives in a hole of the hull is caught, one that does not is left alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anchor.errors import AnchorError
from anchor.executors import Inline
from anchor.hull.energies import load_energies
from anchor.hull.references import PotentialHull
from anchor.outcomes.judge import Judge
from anchor.priors.base import Prior
from anchor.priors.registry import load_prior
from anchor.reference.reference import load_reference
from anchor.verify.claims import Claim, Context, Verdict
from anchor.verify.competitors import SECOND, Competitors, new_claims, place_with
from anchor.verify.loading import load_judge
from anchor.verify.workshop import Workshop


@pytest.fixture(scope="module")
def judge() -> Judge:
    return load_judge("mattersim-1m", Inline())


@pytest.fixture(scope="module")
def prior() -> Prior:
    return load_prior("templates-all")


def context_without(judge: Judge, *hidden: str) -> Context:
    """A context whose hulls do not know these compounds. No competitor here needs the second potential."""
    whole = judge.hull
    assert isinstance(whole, PotentialHull)
    databases = {}
    for name, database in whole.databases.items():
        union = database.union.without(hidden)
        databases[name] = replace(database, dft=union, potential=union, union=union)
    identity = replace(whole.identity, reference_hash=f"without {hidden}")
    hull = PotentialHull(databases, identity)
    own = replace(judge, hull=hull)
    return Context(own, hull, load_reference(), Inline(), others={SECOND: own})


def known(formula: str, context: Context) -> Claim:
    """The lowest reference crystal of a formula, as a claim."""
    reference = load_reference()
    energies = load_energies(context.potential.name, reference.crystals).lowest
    rows = np.flatnonzero(reference.formulas == formula)
    row = rows[np.nanargmin(energies[rows])]
    crystal = reference.crystals[row]
    total = energies[[row]] * crystal.n_atoms
    scores = context.hull.score(crystal, total, checkpoint_hash=context.potential.checkpoint_hash)
    above = {name: float(values[0]) for name, values in scores.above.items()}
    return Claim(formula, crystal, float(energies[row]), above)


@pytest.fixture(scope="module")
def hole(judge: Judge) -> Context:
    return context_without(judge, "Zr5Ga3", "Zr3Ga2")


def test_a_find_in_a_hole_is_caught(hole: Context, judge: Judge, prior: Prior, tmp_path: Path) -> None:
    """Zr5Ga3 is stable only where nobody knows Zr3Ga2."""
    claim = known("Zr5Ga3", hole)
    assert claim.above_hull <= 0
    (verdict,) = Competitors(prior=prior, folder=tmp_path).attack([claim], hole)
    assert verdict.passed is False
    assert "Zr3Ga2" in verdict.reason
    asked = {one["formula"]: one for one in verdict.evidence["asked"]}
    assert asked["Zr3Ga2"]["refused"] == ""
    above = verdict.evidence["above_ev_per_atom"]
    # About as high as with the compound that was hidden, where it is.
    true = known("Zr5Ga3", context_without(judge, "Zr5Ga3"))
    assert max(above.values()) == pytest.approx(true.above_hull, abs=0.01)
    assert verdict.evidence["finds"] == []  # Zr3Ga2 is known
    json.dumps(verdict.evidence, allow_nan=False)

    # What was made is kept: another run makes nothing, and says the same.
    class Nobody:
        hash = prior.hash

        def realise(self, *_: object, **__: object) -> None:
            pytest.fail("it was made before")

    (again,) = Competitors(prior=Nobody(), folder=tmp_path).attack([claim], hole)  # type: ignore[arg-type]
    assert again.evidence == verdict.evidence
    assert again.reason == verdict.reason


def test_competitors_of_one_claim_join_for_all(hole: Context, prior: Prior, tmp_path: Path) -> None:
    claim = known("Zr5Ga3", hole)
    deep = replace(claim, id="deep", energy=claim.energy - 0.3)  # asks for nothing itself
    alone = Competitors(prior=prior, folder=tmp_path)
    (verdict,) = alone.attack([deep], hole)
    assert verdict.passed
    assert "Zr3Ga2" not in {one["formula"] for one in verdict.evidence["asked"]}
    together = replace(hole, claims=(claim, deep))
    (verdict,) = Competitors(prior=prior, folder=tmp_path).attack([deep], together)
    assert verdict.passed
    assert "Zr3Ga2" in {one["formula"] for one in verdict.evidence["asked"]}
    assert max(verdict.evidence["lowered_ev_per_atom"].values()) > 0


def test_a_true_find_passes(judge: Judge, prior: Prior, tmp_path: Path) -> None:
    context = context_without(judge, "KIn4")
    (verdict,) = Competitors(prior=prior, folder=tmp_path).attack([known("KIn4", context)], context)
    assert verdict.passed
    assert verdict.evidence["asked"]


def test_without_competitors_a_claim_is_where_it_was(hole: Context) -> None:
    claim = known("Zr5Ga3", hole)
    place = place_with(claim, [], hole)
    assert place.above_hull == pytest.approx(claim.above_hull, abs=1e-8)
    assert set(place.lowered.values()) == {0.0}


def test_without_the_second_potential_nothing_is_judged(
    hole: Context, prior: Prior, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object, name: str) -> Judge:
        raise AnchorError(f"{name} is not installed")

    monkeypatch.setattr(Context, "other", missing)
    (verdict,) = Competitors(prior=prior).attack([known("Zr5Ga3", hole)], hole)
    assert verdict.passed is None
    assert "not installed" in verdict.reason


def test_a_competitor_is_a_claim_of_its_own(hole: Context, prior: Prior, tmp_path: Path) -> None:
    made = Workshop(hole, prior, hole.judge, tmp_path)(["Zr3Ga2"])["Zr3Ga2"]
    one = {
        "formula": made.formula,
        "energy_ev_per_atom": made.energy,
        "above_ev_per_atom": made.above,
        "crystal": {name: values.tolist() for name, values in vars(made.crystal).items()},
    }
    verdicts = [Verdict("a", 4, True, "", {"finds": [one]}), Verdict("b", 4, True, "", {"finds": [one]})]
    (claim,) = new_claims(verdicts, hole)
    assert claim.formula == "Zr3Ga2"
    assert claim.above_hull < 0
    assert np.array_equal(claim.crystal.frac, made.crystal.frac)
