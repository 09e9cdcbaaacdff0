"""What all attacks share: the claim, the verdict on it, the level that attacks, and what a level may use.

    verdicts = level.attack(claims, context)

A find is a claim: this crystal, at this formula, lies on (or near) the hull. A level tries to break it and
says what came of it. Levels run cheapest first; a claim goes on to the next only if it passed, and a claim
that was answered by a lower crystal of the same formula goes on as that crystal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from anchor.crystals.crystals import Crystals
from anchor.executors import Executor
from anchor.hull.energies import load_energies
from anchor.hull.hull import Hull
from anchor.hull.merit import strict_hulls
from anchor.hull.references import PotentialHull
from anchor.outcomes.columns import METASTABLE_BELOW, STABLE_BELOW
from anchor.outcomes.judge import Judge
from anchor.potentials.base import Potential
from anchor.priors.base import Prior
from anchor.reference.reference import Reference
from anchor.verify.loading import load_judge, load_priors


@dataclass(frozen=True, eq=False)
class Claim:
    """A find that says: I am on the hull (or near it).

    Attributes:
        id: Of the candidate in its campaign, or of the crystal in its file.
        crystal: Relaxed; a batch of one.
        energy: Of the context's potential, eV/atom.
        above: Energy above each hull by its name ("oqmd", "mp", "union", …), eV/atom, signed; "union", the
            largest of those that count, is the one that is claimed.
        known_in: Lists that have the formula; empty: known nowhere.
        suspicious: Deeper below the hull than 99 % of the known compounds of its kind.
        limit: What is claimed: at most this above the hull, eV/atom; 0 stable, 0.1 metastable.
        refined: Whether the crystal is relaxed with the cell free; if not, that comes first.
    """

    id: str
    crystal: Crystals
    energy: float
    above: Mapping[str, float]
    known_in: frozenset[str] = frozenset()
    suspicious: bool = False
    limit: float = STABLE_BELOW
    refined: bool = True

    @property
    def formula(self) -> str:
        """Reduced formula."""
        return self.crystal.formulas[0]

    @property
    def above_hull(self) -> float:
        """Energy above the hull that counts, eV/atom, signed."""
        return self.above["union"]

    @property
    def hash(self) -> str:
        """Of what is claimed: the crystal, to the bit, and the limit."""
        return hashlib.sha256(f"{self.crystal.hash} {self.limit}".encode()).hexdigest()

    def moved(self, crystal: Crystals, energy: float, above: Mapping[str, float]) -> Claim:
        """The same claim made by another crystal of its formula."""
        return replace(self, crystal=crystal, energy=energy, above=dict(above), refined=True)


def claimed_limit(above_hull: float) -> float:
    """What a find at this distance claims: stable where it is on the hull, else metastable."""
    return STABLE_BELOW if above_hull <= STABLE_BELOW else METASTABLE_BELOW


@dataclass(frozen=True, eq=False)
class Verdict:
    """What one level says about one claim.

    Attributes:
        claim: Its id.
        level: Number of the level.
        passed: Whether the claim survived; None: the attack could not be tried (what is missing: `reason`).
        reason: In plain words, one line: why it failed, why it could not be tried, or what it survived.
        evidence: Plain JSON values that another person could check it by.
        replacement: The claim as it goes on, if a lower crystal of the formula was found (`Claim.moved`).
        cpu_seconds: Filled in by the runner, where the level does not know better.
    """

    claim: str
    level: int
    passed: bool | None
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    replacement: Claim | None = None
    cpu_seconds: float | None = None


class Level(Protocol):
    """One kind of attack. A verdict is a function of claim, context and settings alone.

    Nothing else that is attacked at the same time may change it: hand the crystals of each claim to the judge
    as a batch of their own (`judge.relaxed([of the first claim, of the second, …])`), and draw random numbers
    from streams named after the claim's hash.

    Attributes:
        number: 1 is the cheapest.
        name: For people.
        chunk: Claims that are attacked together; their verdicts are stored together.
    """

    number: int
    name: str
    chunk: int

    def settings(self, context: Context) -> dict[str, Any]:
        """Plain JSON values that verdicts depend on, beside claim, context's identity and code."""

    def attack(self, claims: Sequence[Claim], context: Context) -> list[Verdict]:
        """One verdict per claim, in order."""


@dataclass(frozen=True)
class Competition:
    """Everything else that a campaign found below a hull: finds compete with one another.

    Attributes:
        formulas: Reduced.
        above: Energy above each hull by its name, eV/atom, signed.
    """

    formulas: tuple[str, ...] = ()
    above: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Context:
    """What a level may use. All claims of a run have the same.

    Attributes:
        judge: Of the potential that made the claims: cell free, no imposed symmetry, on `hull`.
        hull: Of both databases and the filling; the larger distance counts.
        reference: Known crystals and lists.
        executor: Where relaxations are made; judges share it.
        claims: All claims of the run.
        competition: What else the campaign found.
        prior_names: Who may propose other structures.
        seed: Of every draw.
        others: Judges with other potentials, loaded when first asked for.
    """

    judge: Judge
    hull: PotentialHull
    reference: Reference
    executor: Executor
    claims: tuple[Claim, ...] = ()
    competition: Competition = Competition()
    prior_names: tuple[str, ...] = ()
    seed: int = 0
    others: dict[str, Judge] = field(default_factory=dict, repr=False)

    @property
    def potential(self) -> Potential:
        return self.judge.potential

    @cached_property
    def priors(self) -> dict[str, Prior]:
        """By name, those of `prior_names` that can be loaded here."""
        return load_priors(self.prior_names)

    @cached_property
    def strict(self) -> dict[str, Hull]:
        """The hulls with the elements where the potential has them (`anchor.hull.merit`)."""
        energies = load_energies(self.potential.name, self.reference.crystals)
        return strict_hulls(self.hull.databases, self.reference, energies)

    def other(self, potential: str) -> Judge:
        """A judge with another potential and its own hulls, the same relaxation.

        Raises:
            AnchorError: It is not installed, or has no energies of the reference.
        """
        if potential not in self.others:
            self.others[potential] = load_judge(potential, self.executor)
        return self.others[potential]

    def moved(self, claim: Claim, crystal: Crystals, energy: float) -> Claim:
        """The claim made by another crystal of its formula, placed on the hulls; energy in eV/atom."""
        total = np.array([energy * crystal.n_atoms])
        scores = self.hull.score(crystal, total, checkpoint_hash=self.potential.checkpoint_hash)
        return claim.moved(crystal, energy, {name: float(v[0]) for name, v in scores.above.items()})

    def identity(self) -> dict[str, str]:
        """What verdicts of any level depend on, beside claim, settings and code."""
        return {
            "potential": self.potential.checkpoint_hash,
            "hull": self.hull.identity.hash,
            "reference": self.reference.hash,
            "seed": str(self.seed),
        }
