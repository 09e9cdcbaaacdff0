"""Level 4, competitors: does a compound that no database lists take the find's place?

For a find, the compounds of its chemical system and all subsystems that could break it are asked for
(`anchor.verify.wanted`), made by templates and relaxed with the cell free under the potential. What passes
the guards of the filling joins the hulls for all claims of the system, and a claim that is then above them
has failed. A competitor is itself a find, if it is on the hull and nobody knows it (`new_claims`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.hull.belief import load_depths
from anchor.hull.hull import Decomposition
from anchor.hull.phases import Phases
from anchor.outcomes.columns import STABLE_BELOW
from anchor.priors.base import Prior
from anchor.priors.registry import load_prior
from anchor.reference.reference import Reference
from anchor.verify.claims import Claim, Context, Verdict, claimed_limit
from anchor.verify.wanted import SHARES, UNLIKELY, Wanted, estimated, wanted
from anchor.verify.workshop import CANDIDATES, Competitor, Workshop

MOST = 16
"""Compounds made for one find. Of 80 known compounds hidden one at a time, the one that a false find needed
gone was among the first 12 and 16 wanted 66 times, among the first 24 68 times."""
TOLERANCE = 0.002
"""eV/atom that a claim may lie above its limit: two relaxations of one crystal differ by less."""
SOURCE = "competitor"
"""Source of these phases in a decomposition."""
SECOND, IF_SAME = "sevennet-0", "mattersim-1m"
"""Potential that has to agree with a competitor deep below a hull, and which if it is the context's own."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a claim is with competitors on the hulls.

    Attributes:
        above: Energy above the hull of each database, eV/atom.
        lowered: By how much the competitors lowered each hull there, eV/atom.
        mixture: What it falls apart into on the hull that counts.
    """

    above: dict[str, float]
    lowered: dict[str, float]
    mixture: Decomposition

    @property
    def above_hull(self) -> float:
        return max(self.above.values())


class Competitors:
    """The level.

    Args:
        most: Compounds made for one find.
        prior: Who proposes their crystals; all templates by default.
        folder: Where they are kept; the cache by default.
    """

    number, name, chunk = 4, "competitors", 4

    def __init__(self, *, most: int = MOST, prior: Prior | None = None, folder: Path | None = None) -> None:
        self.most, self.folder = most, folder
        self._prior = prior
        self._workshop: tuple[Context, Workshop] | None = None
        self._wanted: dict[tuple[str, float], list[Wanted]] = {}

    @property
    def prior(self) -> Prior:
        if self._prior is None:
            self._prior = load_prior("templates-all")
        return self._prior

    def settings(self, context: Context) -> dict[str, Any]:
        """The other claims of the run are part of it: what is made for them joins as well."""
        return {
            "most": self.most,
            "candidates": CANDIDATES,
            "prior": self.prior.hash,
            "second": _second(context),
            "tolerance_ev_per_atom": TOLERANCE,
            "shares": {str(k): share for k, share in SHARES.items()},
            "unlikely": UNLIKELY,
            "claims": sorted(claim.hash for claim in context.claims),
        }

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        try:
            workshop = self._made_for(context)
        except AnchorError as error:  # without the second potential nothing deep can be believed
            return [Verdict(claim.id, self.number, None, str(error)) for claim in claims]
        lists = [self._lists(claim, context) for claim in claims]
        made = workshop([one.formula for both in lists for several in both for one in several])
        return [
            self._verdict(claim, own, shared, made, context)
            for claim, (own, shared) in zip(claims, lists, strict=True)
        ]

    def _made_for(self, context: Context) -> Workshop:
        if self._workshop is None or self._workshop[0] is not context:
            second = context.other(_second(context))
            self._workshop = context, Workshop(context, self.prior, second, self.folder)
        return self._workshop[1]

    def _lists(self, claim: Claim, context: Context) -> tuple[list[Wanted], list[Wanted]]:
        """What is wanted for a claim, and for the other claims inside its chemical system."""
        elements = set(claim.crystal.numbers.tolist())
        inside = [
            other
            for other in context.claims
            if other.id != claim.id and elements.issuperset(other.crystal.numbers.tolist())
        ]
        own = self._list(claim, context)
        there = {one.formula for one in own}
        shared = [one for other in inside for one in self._list(other, context) if one.formula not in there]
        return own, list({one.formula: one for one in shared}.values())

    def _list(self, claim: Claim, context: Context) -> list[Wanted]:
        key = claim.hash, claim.energy
        if key not in self._wanted:
            found: list[Wanted] = []
            if estimated(claim.crystal.numbers.tolist()):
                limits = {name: e - claim.limit - TOLERANCE for name, e in _formation(claim, context).items()}
                hulls = {name: database.union for name, database in context.hull.databases.items()}
                found = wanted(_fractions(claim), limits, hulls, self.most)
            self._wanted[key] = found
        return self._wanted[key]

    def _verdict(
        self,
        claim: Claim,
        own: Sequence[Wanted],
        shared: Sequence[Wanted],
        made: dict[str, Competitor],
        context: Context,
    ) -> Verdict:
        competitors = [made[one.formula] for one in (*own, *shared) if one.formula != claim.formula]
        joined = [one for one in competitors if not one.refused]
        place = place_with(claim, joined, context)
        evidence = {
            "asked": [
                {"chance": round(one.chance, 3), **made[one.formula].evidence()} for one in (*own, *shared)
            ],
            "above_ev_per_atom": {name: round(value, 4) for name, value in place.above.items()},
            "lowered_ev_per_atom": {name: round(value, 4) for name, value in place.lowered.items()},
            "decomposition": str(place.mixture),
            "finds": [_packed(one) for one in joined if _is_new(one, context.reference)],
        }
        passed = place.above_hull <= claim.limit + TOLERANCE
        return Verdict(
            claim.id, self.number, passed, _reason(place, joined, len(competitors), passed=passed), evidence
        )


def place_with(claim: Claim, joined: Sequence[Competitor], context: Context) -> Place:
    """Where a claim is with competitors on the hulls of its system."""
    fractions = _fractions(claim)
    system = tuple(np.flatnonzero(fractions).tolist())
    crystals = Crystals.concatenate(one.crystal for one in joined)
    amounts = crystals.compositions.amounts
    energy = np.array([one.energy for one in joined])
    above, lowered, mixtures = {}, {}, {}
    for name, formation in _formation(claim, context).items():
        database = context.hull.databases[name]
        before = database.union.within(system)
        theirs = database.calibration.formation_energy(amounts, energy)
        parts = [{int(z): float(row[z]) for z in np.flatnonzero(row)} for row in amounts]
        after = before.with_phases(Phases.from_amounts(parts, theirs, SOURCE))
        heights = [float(hull.hull_energy(fractions[None])[0]) for hull in (before, after)]
        above[name], lowered[name] = formation - heights[1], heights[0] - heights[1]
        mixture = after.decomposition(fractions)
        assert mixture is not None, "a claim's elements have references"
        mixtures[name] = mixture
    return Place(above, lowered, mixtures[max(above, key=above.__getitem__)])


def new_claims(verdicts: Sequence[Verdict], context: Context) -> list[Claim]:
    """The competitors on the hull that nobody knows, as claims of their own, each formula once."""
    found: dict[str, Claim] = {}
    for verdict in verdicts:
        for one in verdict.evidence.get("finds", ()):
            above, formula = one["above_ev_per_atom"], one["formula"]
            belief = load_depths().of(formula, above["union"])
            found[formula] = Claim(
                id=f"{SOURCE}:{formula}",
                crystal=Crystals(**{key: np.array(value) for key, value in one["crystal"].items()}),
                energy=one["energy_ev_per_atom"],
                above=above,
                known_in=frozenset(context.reference.known(formula)),
                suspicious=belief.suspicious,
                limit=claimed_limit(above["union"]),
            )
    return list(found.values())


def _second(context: Context) -> str:
    return IF_SAME if context.potential.name == SECOND else SECOND


def _fractions(claim: Claim) -> NDArray[np.float64]:
    """Of the elements, by atomic number.  # [119]"""
    amounts = claim.crystal.compositions.amounts[0]
    return amounts / amounts.sum()


def _formation(claim: Claim, context: Context) -> dict[str, float]:
    """Formation energy on the scale of each database that covers the elements, eV/atom."""
    amounts, energy = claim.crystal.compositions.amounts, np.array([claim.energy])
    found = {
        name: float(database.calibration.formation_energy(amounts, energy)[0])
        for name, database in context.hull.databases.items()
        if database.covered(database.union).issuperset(claim.crystal.numbers.tolist())
    }
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _is_new(competitor: Competitor, reference: Reference) -> bool:
    return competitor.above["union"] <= STABLE_BELOW and not reference.known(competitor.formula)


def _packed(competitor: Competitor) -> dict[str, Any]:
    crystal = competitor.crystal
    values = {"counts": crystal.counts.tolist(), "numbers": crystal.numbers.tolist()}
    values |= {"frac": crystal.frac.tolist(), "lattice": crystal.lattice.tolist()}
    return {
        "formula": competitor.formula,
        "energy_ev_per_atom": competitor.energy,
        "above_ev_per_atom": competitor.above,
        "crystal": values,
    }


def _reason(place: Place, joined: Sequence[Competitor], made: int, *, passed: bool) -> str:
    """One line for people."""
    where = f"{1000 * abs(place.above_hull):.0f} meV/atom {'below' if place.above_hull <= 0 else 'above'}"
    mixture = place.mixture
    entering = [f for f, source in zip(mixture.formulas, mixture.sources, strict=True) if source == SOURCE]
    if not passed:
        depths = {one.formula: 1000 * one.above["union"] for one in joined}
        names = ", ".join(f"{f} ({depths[f]:+.0f} meV/atom to the hull)" for f in entering)
        return f"{where} the hull with {names or 'competitors'} on it: {mixture}"
    if entering:
        return f"{where} the hull with {', '.join(entering)} on it, {made} competitors made"
    return f"{where} the hull; of {made} competitors {len(joined)} join it, none matters"
