"""Screening that learns: after every block, the estimate hears what became of it, and ranks the rest anew.

The beginning is what labels teach. Then the formulas that are most likely near the hulls and on them, given
all outcomes so far, come next (`anchor.screening.learning`), under the rule of screening that no family and
no element takes more than its share. A step ends with its block, so that what comes next follows from the
outcomes before the block alone: a campaign that goes on from its ledger proposes what one would that never
stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.config import Config
from anchor.errors import InputError
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Proposal, Proposer, Scores, reward_metrics, stack_scores
from anchor.screening.diverse import diverse_order
from anchor.screening.estimate import load_estimate
from anchor.screening.learning import BLOCK, learn, lesson, portraits
from anchor.screening.order import places_that_ship, screened_order
from anchor.screening.ranking import Ranking
from anchor.search.heard import energies_heard, visits_before
from anchor.search.screened import contexts_of

SMALLEST_POOL = 16_384
"""Formulas among which is chosen at first: the best of the screened order."""
SPARE, WIDE = 2, 16
"""They are doubled while there are fewer than SPARE for each that was tried, for which an order may have to
be made, and while there are fewer than WIDE and the order that ships has more."""


@dataclass
class Adaptive(Proposer[Proposal]):
    """Proposes what is worth most, given what came of all before.

    Attributes:
        tried: Reduced formulas proposed so far, in order.
        above: What came of them: eV/atom above the hulls, NaN where nothing valid came, infinite where it was
            not the composition's fault.
    """

    limits: Limits
    config: Config
    tried: list[str] = field(default_factory=list)
    above: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.config.search.staleness:
            raise InputError(
                "the source 'adaptive' hears every outcome before it goes on",
                "leave out search.staleness, or take --source screened or policy",
            )
        self._pool: _Pool | None = None
        self._worth: tuple[tuple[int, int], NDArray[np.float64]] | None = None
        self._block: tuple[int, NDArray[np.int64]] = (-1, np.zeros(0, dtype=np.int64))

    @classmethod
    def resume(cls, limits: Limits, config: Config, outcomes: Iterable[tuple[str, float]]) -> Adaptive:
        """After these formulas and what came of them."""
        known = list(outcomes)
        return cls(limits, config, [formula for formula, _ in known], [above for _, above in known])

    def update(self, rollout: Proposal, scores: Sequence[Scores]) -> dict[str, float]:
        """Hear what became of the compositions."""
        self.above += energies_heard(scores)
        self.tried += rollout.compositions.formulas
        pool = self.pool()
        return reward_metrics(*stack_scores(scores, rollout)) | {
            "formulas_tried": len(set(self.tried)),
            "formulas_within_limits": pool.within_limits,
            "structures_each": 1 + (len(self.tried) - 1) // len(pool.order),
        }

    def rollout(self, step: int, *, left: int | None = None) -> Proposal:
        """The next compositions: whole groups, or one group of all that are left of budget or block."""
        groups, size = self.config.grpo.groups_per_step, self.config.grpo.group_size
        place = len(self.tried) % BLOCK
        room = BLOCK - place if left is None else min(left, BLOCK - place)
        if room < groups * size:
            groups, size = 1, room
        contexts = contexts_of(self.limits, self.config, step, groups)
        rows = self.block()[place : place + groups * size]
        compositions = self.pool().order.compositions[rows]
        return Proposal(
            step, contexts, compositions, size, visits=visits_before(compositions.formulas, self.tried)
        )

    def block(self) -> NDArray[np.int64]:
        """Rows of the pool that are tried in this block, from what was known when it began.  # [BLOCK]"""
        began = len(self.tried) - len(self.tried) % BLOCK
        if self._block[0] != began:
            self._block = (began, self._chosen(self.tried[:began], np.array(self.above[:began])))
        return self._block[1]

    def _chosen(self, tried: list[str], above: NDArray[np.float64]) -> NDArray[np.int64]:
        pool = self.pool()
        rows = np.array([pool.row.get(formula, -1) for formula in tried], dtype=np.int64)
        worth = self._expected(rows, above)
        visits = np.bincount(rows[rows >= 0], minlength=len(pool.order))
        elsewhere = Compositions.from_list([tried[i] for i in np.flatnonzero(rows < 0)])
        before = Compositions.concatenate([pool.order.compositions[rows[rows >= 0]], elsewhere])
        chosen: list[int] = []
        # Formulas that were tried least, and again from the beginning in a small pool
        while len(chosen) < BLOCK:
            least = np.flatnonzero(visits == visits.min())
            ranked = least[np.lexsort((least, -worth[least].round(6)))]
            best = diverse_order(
                pool.order.compositions[ranked],
                BLOCK - len(chosen),
                required=np.flatnonzero(self.limits.required.cpu().numpy()),
                allowed=self.limits.n_allowed,
                taken=Compositions.concatenate([before, pool.order.compositions[chosen]]),
            )
            chosen += ranked[best].tolist()
            visits[ranked[best]] += 1
        return np.array(chosen, dtype=np.int64)

    def _expected(self, rows: NDArray[np.int64], above: NDArray[np.float64]) -> NDArray[np.float64]:
        """What formulas of the pool are worth by the outcomes of these rows, but for the last ones, for which
        no lesson was held.  # [places]"""
        n, pool = lesson(len(rows)), self.pool()
        if self._worth is None or self._worth[0] != (n, pool.places):  # what resumes has this pool alone
            heard = np.flatnonzero(rows[:n] >= 0)
            run = self.config.run
            lessons = learn(pool.portraits[rows[heard]], above[heard], seed=run.seed, threads=run.workers)
            self._worth = (n, pool.places), lessons.worth(pool.portraits)
        return self._worth[1]

    @cached_property
    def _at_hand(self) -> int:
        return places_that_ship(self.limits)

    def pool(self) -> _Pool:
        """Formulas among which is chosen now; they only depend on how many were tried."""
        places, tried = SMALLEST_POOL, len(self.tried) - len(self.tried) % BLOCK
        while places < SPARE * tried or places < min(WIDE * tried, self._at_hand):
            places *= 2
        if self._pool is None or self._pool.places != places:
            self._pool = _Pool(self.limits, places)
        return self._pool

    def state(self) -> bytes:
        """Nothing to remember: the ledger knows what was tried and what came of it."""
        return b""


class _Pool:
    """The best formulas of the screened order, and what the estimate promises of them."""

    def __init__(self, limits: Limits, places: int) -> None:
        whole = screened_order(limits, places)
        self.order: Ranking = whole[:places]
        if not len(self.order):
            raise InputError(
                "no unknown charge-neutral formula is within the limits",
                "relax them; anchor screen --include-known shows the known ones",
            )
        self.places = places
        self.within_limits = len(whole) if whole.exhausted else sum(whole.listed.values())
        estimates = load_estimate()(self.order.compositions, hull_energy=self.order.hull_energy)
        self.portraits = portraits(self.order.compositions, estimates)
        self.row = {formula: row for row, formula in enumerate(self.order.compositions.formulas)}
