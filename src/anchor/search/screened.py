"""Screening in the place of a learner: the ranking from its best formula on, each formula once.

Where a user's limits leave few formulas, all are tried; then they are tried again, and the prior is asked for
its next answers, so that other structures come. What comes next follows from how many were proposed before,
so a campaign that goes on proposes what one would that never stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anchor.config import Config
from anchor.errors import InputError
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Proposal, Score, reward_metrics, stack_scores
from anchor.policy.rollout import sample_context
from anchor.random import generator
from anchor.screening.order import screened_order
from anchor.screening.ranking import Ranking


@dataclass
class Screened:
    """Proposes a ranking and learns nothing.

    Attributes:
        proposed: Compositions proposed so far.
    """

    limits: Limits
    config: Config
    proposed: int = 0

    def step(self, step: int, score: Score, *, left: int | None = None) -> tuple[Proposal, dict[str, float]]:
        """Propose the next ones, at most `left`, and hear their rewards."""
        proposal = self.rollout(step, left=left)
        metrics = reward_metrics(*stack_scores(score(proposal), proposal))
        self.proposed += len(proposal.compositions)
        order = self.order(self.proposed)
        return proposal, metrics | {
            "formulas_tried": min(self.proposed, len(order)),
            "formulas_within_limits": len(order) if order.exhausted else sum(order.listed.values()),
            "structures_each": 1 + (self.proposed - 1) // len(order),
        }

    def rollout(self, step: int, *, left: int | None = None) -> Proposal:
        """The next compositions: whole groups, or one group of all that are left."""
        grpo, reward, seed = self.config.grpo, self.config.reward, self.config.run.seed
        groups, size = grpo.groups_per_step, grpo.group_size
        if left is not None and left < groups * size:
            groups, size = 1, left
        contexts = [
            sample_context(
                self.limits,
                generator(seed, "context", step, group),
                alpha=reward.alpha,
                weights=reward.weights,
                subgroup_mask=False,
            )
            for group in range(groups)
        ]
        places = np.arange(self.proposed, self.proposed + groups * size)
        order = self.order(self.proposed + groups * size)
        visits, rows = np.divmod(places, len(order))
        return Proposal(step, contexts, order.compositions[rows], size, visits=visits)

    def order(self, n: int) -> Ranking:
        """The first n places, or all there are."""
        order = screened_order(self.limits, n)
        if not len(order):
            raise InputError(
                "no unknown charge-neutral formula is within the limits",
                "relax them; anchor screen --include-known shows the known ones",
            )
        return order

    def state(self) -> bytes:
        """Nothing to remember: the ledger knows how many were proposed."""
        return b""
