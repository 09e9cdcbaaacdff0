"""The judge: what becomes of a crystal, from relaxation to novelty. Everyone who judges crystals uses it.

    judge = Judge(Relaxer(potential), hull, Relaxing(cell=True, max_steps=400, fmax=0.02), checks)
    outcomes = judge(crystals)

    crystals → relaxed → placed on the hulls → checked by the gate → novelty

Each arrow is a method that takes a table of outcomes and gives one with more columns, so that whoever has
stored a part of the way (an evaluation that is placed on another hull) goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.clock import Clock
from anchor.crystals.crystals import Crystals
from anchor.hull.hull import Decomposition, HullIdentity
from anchor.hull.references import HullScores
from anchor.outcomes.checks import Checks
from anchor.outcomes.columns import ABOVE, ENERGY, FORMATION, above
from anchor.outcomes.contest import SINGLE_POINTS, Contest, hold
from anchor.outcomes.second import SecondOpinion
from anchor.outcomes.table import Outcomes
from anchor.potentials.base import Potential
from anchor.relax.engine import Optimizer
from anchor.relax.parallel import Relaxer, Timed
from anchor.relax.result import Relaxation

MACHINE_FAULTS = ("OutOfMemoryError", "MemoryError", "OSError", "ConnectionError", "TimeoutError")
"""Errors of an evaluation that say nothing about the crystal: not scored instead of failed."""

MEASURED, FAILED, NOT_SCORED = "measured", "failed", "not scored"
SINGLE_POINT: dict[str, Any] = {"cell": False, "max_steps": 0, "fmax": 1e9}


class ScoringHull(Protocol):
    """What all hulls have in common."""

    def score(
        self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str
    ) -> HullScores: ...

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None: ...


class SearchHull(ScoringHull, Protocol):
    """A hull that a campaign can search on: `PotentialHull`, `AlexMPHull`."""

    identity: HullIdentity
    elements: frozenset[int]

    @property
    def searchable_elements(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Relaxing:
    """How crystals are relaxed; see `anchor.relax.engine.relax`."""

    cell: bool
    max_steps: int
    fmax: float
    optimizer: Optimizer = "quasi-newton"
    symmetry: bool = False
    chunk_atoms: int = 256


@dataclass(frozen=True, eq=False)
class Judge:
    """Relaxes crystals, places them on hulls and checks them.

    Attributes:
        relaxer: With the potential.
        hull: Made for that potential; None places nothing.
        relaxing: None takes the energies of the crystals as they are.
        checks: Gate and embedding; None checks nothing.
        second: Another potential that has a say where this one says metastable; None: there is none.
        on_progress: Told how many crystals are relaxed, and of how many.
    """

    relaxer: Relaxer
    hull: ScoringHull | None
    relaxing: Relaxing | None
    checks: Checks | None = None
    second: SecondOpinion | None = None
    on_progress: Callable[[int, int], None] | None = None

    @property
    def potential(self) -> Potential:
        return self.relaxer.potential

    @property
    def _settings(self) -> dict[str, Any]:
        return SINGLE_POINT if self.relaxing is None else asdict(self.relaxing)

    def __call__(self, crystals: Crystals) -> Outcomes:
        """The whole way, for whoever needs no embeddings."""
        table = self.placed(self.relaxed([crystals])[0])
        return table if self.checks is None else self.checks(table)[0]

    def relaxed(self, batches: Sequence[Crystals], *, clock: Clock | None = None) -> list[Outcomes]:
        """Tables of relaxed crystals, one per batch; all batches are handed over at once.

        A crystal with an element that the potential does not know is "not scored" and stays as it is.
        """
        covered = [np.flatnonzero(self.potential.supports(batch)) for batch in batches]
        known = [
            batch if len(rows) == len(batch) else batch[rows]
            for batch, rows in zip(batches, covered, strict=True)
        ]
        found = zip(batches, covered, self._relax_all(known, self._settings, clock), strict=True)
        return [self._outcomes(batch, rows, one.relaxation) for batch, rows, one in found]

    def lowest(
        self, crystals: Crystals, owner: NDArray[np.int64], *, clock: Clock | None = None
    ) -> NDArray[np.int64]:
        """Of the crystals of each owner the one of lowest energy per atom as it is, the first among equals.

        Args:
            crystals: Candidates; those without an energy come last.  # n
            owner: Whom each belongs to.  # [n]

        Returns:
            One crystal per owner, owners in ascending order.
        """
        return self.contest(crystals, owner, SINGLE_POINTS, clock=clock).index

    def contest(
        self,
        crystals: Crystals,
        owner: NDArray[np.int64],
        rounds: Sequence[tuple[int, int]],
        *,
        clock: Clock | None = None,
    ) -> Contest:
        """Of the crystals of each owner one, chosen in rounds (`anchor.outcomes.contest`).

        Args:
            crystals: Candidates.  # n
            owner: Whom each belongs to.  # [n]
            rounds: After so many steps so many stay; relaxed as the judge does, as they are without steps.
            clock: Told where the time went.
        """

        def relax(some: Crystals, steps: int) -> Relaxation:
            return self._relax_all([some], {**self._settings, "max_steps": steps}, clock)[0].relaxation

        usable = self.potential.supports(crystals) & crystals.finite
        return hold(crystals, owner, rounds, usable, relax)

    def _relax_all(
        self, batches: Sequence[Crystals], settings: dict[str, Any], clock: Clock | None
    ) -> list[Timed]:
        began = time.perf_counter()
        done = self.relaxer.relax_all(batches, on_progress=self.on_progress, **settings)
        wall, spent = time.perf_counter() - began, sum(one.seconds for one in done)
        if clock is not None:  # with several processes: the same share of the time as of the sum of theirs
            share = sum(one.inside for one in done) / spent if spent else 0.0
            clock.add({"relaxation": wall, "potential": wall * share})
        return done

    def _outcomes(self, given: Crystals, rows: NDArray[np.int64], found: Relaxation) -> Outcomes:
        ended = found.ended & np.isfinite(found.energy)
        table = Outcomes.of(found.crystals).with_columns(
            relaxation=found.status.tolist() if self.relaxing else ["not relaxed"] * len(found),
            relaxation_steps=found.steps,
            evaluations=found.evaluations,
            max_force_ev_per_angstrom=found.max_force,
            **{ENERGY: np.where(ended, found.energy, np.nan)},
            status=[_status(ok, why) for ok, why in zip(ended, found.reason, strict=True)],
            reason=[
                "" if ok else f"relaxation {status}: {why}".removesuffix(": ")
                for ok, status, why in zip(ended, found.status, found.reason, strict=True)
            ],
        )
        if len(rows) == len(given):
            return table
        order = np.arange(len(given))
        order[rows] = len(given) + np.arange(len(rows))
        crystals = Crystals.concatenate([given, found.crystals])[order]
        whole = replace(table.spread(rows, len(given)), crystals=crystals, at=np.arange(len(given)))
        unknown = np.setdiff1d(np.arange(len(given)), rows)
        status, reason = whole["status"].copy(), whole["reason"].copy()
        for i in unknown.tolist():
            missing = set(given[i].numbers.tolist()) - self.potential.elements
            status[i] = NOT_SCORED
            reason[i] = (
                f"{self.potential.name} does not cover {', '.join(SYMBOLS[z] for z in sorted(missing))}"
            )
        return whole.with_columns(status=status, reason=reason)

    def placed(self, table: Outcomes, *, clock: Clock | None = None) -> Outcomes:
        """The table with energies above the hulls; where there is an energy and no hull, "not scored"."""
        if self.hull is None:
            return table
        clock = Clock() if clock is None else clock
        with clock.part("hull"):
            energy = table.numbers(ENERGY)[table.at]
            scores = self.hull.score(table.crystals, energy, checkpoint_hash=self.potential.checkpoint_hash)
        status, reason = table["status"].copy(), table["reason"].copy()
        for row, e, place, why in zip(
            table.at.tolist(), energy, scores.energy_above_hull, scores.status, strict=True
        ):
            if np.isfinite(e):
                scored = bool(np.isfinite(place))
                status[row] = MEASURED if scored else NOT_SCORED
                reason[row] = "" if scored else why.removeprefix("not scored: ")
        placed = table.with_columns(status=status, reason=reason).with_crystal_columns(
            **{FORMATION: scores.formation_energy, ABOVE: scores.energy_above_hull},
            **{above(name): values for name, values in scores.above.items()},
        )
        if self.second is None:
            return placed
        with clock.part("second potential"):
            return self.second(placed, self._settings)

    def decompositions(self, table: Outcomes) -> list[Decomposition | None]:
        """Competing phases of each row on the hull that counts; None where it is not on one.  # n"""
        assert self.hull is not None, "a judge without a hull decomposes nothing"
        found: list[Decomposition | None] = [None] * table.n
        placed = np.isfinite(table.numbers(ABOVE))
        for row, formula in zip(table.at.tolist(), table.crystals.formulas, strict=True):
            if placed[row]:
                found[row] = self.hull.decomposition(formula)
        return found


def _status(ended: bool, reason: str) -> str:
    if ended:
        return MEASURED
    return NOT_SCORED if reason.startswith(MACHINE_FAULTS) else FAILED
