"""From proposals to judged crystals: prior, relaxation, hulls, gate. The costly part of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.asking import asked_for
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import SYMBOLS
from anchor.clock import Clock
from anchor.config import Config
from anchor.config import Prior as PriorSettings
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError
from anchor.gates.paper import NOT_NEUTRAL, check_charges
from anchor.models.ddpo import Way
from anchor.models.finished import usable_cells
from anchor.outcomes.contest import Contest
from anchor.outcomes.judge import FAILED, NOT_SCORED, Judge
from anchor.outcomes.table import Outcomes
from anchor.priors.base import Prior

DRAWN, NOT_REALISED = "drawn", "not realised"


@dataclass(frozen=True, eq=False)
class Realised:
    """What became of one group of G compositions.

    Attributes:
        outcomes: A row per composition; its crystals are the relaxed ones.  # G rows, m crystals
        generated: The crystals as they were made.  # m
        embeddings: RDF embeddings of the relaxed crystals.  # [m, n_bins]
        ways: How the prior sampled, owned by rows, where it records that; of all crystals that were made.
    """

    outcomes: Outcomes
    generated: Crystals
    embeddings: NDArray[np.float64]
    ways: Sequence[Way] = ()

    def keep_crystals(self, where: NDArray[np.bool_]) -> Realised:
        """The same rows; crystals only where `where` is true.  # [G] bool"""
        kept = np.flatnonzero(where[self.outcomes.at])
        return replace(
            self,
            outcomes=self.outcomes.keep_crystals(where),
            generated=self.generated[kept],
            embeddings=self.embeddings[kept],
        )


@dataclass(frozen=True, eq=False)
class Realiser:
    """What the policy acts on: a prior and a judge. Neither learns from a reward here."""

    prior: Prior
    judge: Judge
    elements: frozenset[int]
    """Atomic numbers with an energy reference."""
    config: Config

    def __call__(
        self,
        groups: Sequence[Compositions],
        *,
        step: int,
        first: int = 0,
        crystals: Sequence[Crystals] | None = None,
        visits: Sequence[NDArray[np.int64]] | None = None,
        clock: Clock | None = None,
    ) -> list[Realised]:
        """Realise all groups of a step: a pure function of the groups, the step and the campaign's seed.

        Args:
            groups: Compositions.
            step: Names the prior's random numbers, with the number of the group.
            first: Number of the first group.
            crystals: One per composition, where they were proposed as well; else the prior makes them.
            visits: How often each composition was proposed before: the prior goes on with its next answers.
            clock: Told where the time went.
        """
        clock = Clock() if clock is None else clock
        asked = [self._before(compositions) for compositions in groups]
        starts: list[Contest | None] = [None] * len(asked)
        ways: list[Sequence[Way]] = [()] * len(asked)
        for group, (compositions, table) in enumerate(zip(groups, asked, strict=True)):
            rows = np.flatnonzero(table["status"] == DRAWN)
            if crystals is not None:
                asked[group] = _brought(table, crystals[group], rows)
            else:
                stream = ("structure", step, first + group)
                before = None if visits is None else visits[group][rows]
                made = self._made(table, compositions[rows], rows, stream, before, clock)
                asked[group], starts[group], ways[group] = made
        begin = zip(asked, starts, strict=True)
        relaxed = self.judge.relaxed(
            [table.crystals if start is None else start.crystals for table, start in begin], clock=clock
        )
        self._refuse_if_nothing_works(relaxed)
        found = []
        for table, start, how, judged in zip(asked, starts, ways, relaxed, strict=True):
            if start is not None:
                spent = judged["evaluations"].filled(0) + start.evaluations
                judged = judged.with_columns(evaluations=spent)
            placed = self.judge.placed(judged, clock=clock)
            with clock.part("scoring"):
                assert self.judge.checks is not None, "a campaign's judge has a gate"
                checked, embeddings = self.judge.checks(placed)
            outcomes = checked.spread(table.at, table.n).onto(table)
            found.append(Realised(outcomes, table.crystals, embeddings, how))
        return found

    def _before(self, compositions: Compositions) -> Outcomes:
        """What is known of a group before any crystal: which compositions are worth one, and why not."""
        config = self.config
        asked = asked_for(compositions, config.prior.query)
        neutral = check_charges(asked, config.gate.oxidation_bounds)
        skip = config.reward.order == "fast" and config.gate.name == "paper"
        status, reason = [], []
        offsets = compositions.offsets.tolist()
        for (start, end), ok in zip(pairwise(offsets), neutral.tolist(), strict=True):
            missing = [z for z in compositions.numbers[start:end].tolist() if z not in self.elements]
            if missing:
                status.append(NOT_SCORED)
                reason.append(f"no energy reference for {', '.join(SYMBOLS[z] for z in missing)}")
            elif skip and not ok:
                status.append(NOT_REALISED)
                reason.append(NOT_NEUTRAL)
            else:
                status.append(DRAWN)
                reason.append("")
        return Outcomes.blank(len(compositions)).with_columns(
            formula=compositions.formulas,
            cell=compositions.cells,
            n_atoms=compositions.n_atoms,
            charge_ok=neutral,
            valid=np.zeros(len(compositions), dtype=bool),
            status=status,
            reason=reason,
        )

    def _made(
        self,
        table: Outcomes,
        compositions: Compositions,
        rows: NDArray[np.int64],
        stream: tuple[str | int, ...],
        visits: NDArray[np.int64] | None,
        clock: Clock,
    ) -> tuple[Outcomes, Contest | None, Sequence[Way]]:
        """The table with a crystal of the prior in each of the rows, how it was chosen, how all were sampled.

        Where the prior has none, that is a failure.
        """
        query, n = self.config.prior.query, n_candidates(self.prior, self.config.prior)
        first = None
        if visits is not None:  # of whatever step: so a later visit goes on where the one before ended
            stream = ("structure",)
            first = list(zip(compositions.formulas, (n * visits).tolist(), strict=True))
        with clock.part("prior"):
            made = self.prior.realise(
                asked_for(compositions, query),
                n,
                seed=self.config.run.seed,
                stream=stream,
                cell="free" if query == "free" else None,
                first=first,
            )
        owner, chosen, contest = made.request // n, np.arange(len(made.crystals)), None
        if n > 1:
            rounds = self.config.prior.rounds or self.prior.rounds
            contest = self.judge.contest(made.crystals, owner, rounds, clock=clock)
            chosen = contest.index
        at = rows[owner[chosen]]
        status, reason = table["status"].copy(), table["reason"].copy()
        for request, why in made.missing.items():
            if (row := rows[request // n]) not in at:
                status[row], reason[row] = FAILED, why
        table = table.with_columns(status=status, reason=reason).with_crystals(made.crystals[chosen], at)
        table = table.with_crystal_columns(made_by=[made.made_by[i] for i in chosen])
        return table, contest, [way.owned_by(np.repeat(rows, n)) for way in made.ways]

    def _refuse_if_nothing_works(self, groups: Sequence[Outcomes]) -> None:
        """A fault of the machine, not of the crystals: the potential failed for every single one."""
        for table in groups:
            failed = (table["relaxation"] == FAILED).filled(False)
            if table.n >= 4 and failed.all():
                raise AnchorError(
                    f"the potential {self.judge.potential.name} failed for all {table.n} crystals of a "
                    f"group, first: {table.texts('reason')[0]}",
                    f"see: anchor potentials check {self.judge.potential.name}; "
                    "the campaign can be resumed afterwards",
                )


def _brought(table: Outcomes, crystals: Crystals, rows: NDArray[np.int64]) -> Outcomes:
    """The table with the crystals that were proposed for these rows; without a usable cell, a failure."""
    usable = usable_cells(crystals)
    broken = rows[~usable[rows]]
    status, reason = table["status"].copy(), table["reason"].copy()
    status[broken], reason[broken] = FAILED, "it was proposed without a usable cell"
    kept = rows[usable[rows]]
    return table.with_columns(status=status, reason=reason).with_crystals(crystals[kept], kept)


def n_candidates(prior: Prior, settings: PriorSettings) -> int:
    """Crystals to ask of each composition: as many as settings say, and all proposals of a portfolio."""
    return max(settings.candidates, prior.proposals)
