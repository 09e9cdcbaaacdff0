"""Screening in the place of a learner: the ranking from its best formula on, each formula once.

Where a user's limits leave few formulas, all are tried; then they are tried again, and the prior is asked for
its next answers, so that other structures come. What comes next follows from how many were proposed before,
so a campaign that goes on proposes what one would that never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anchor.config import Config
from anchor.errors import InputError
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Proposal, Proposer, Scores, reward_metrics, stack_scores
from anchor.policy.rollout import Context, sample_context
from anchor.random import generator
from anchor.screening.order import screened_order
from anchor.screening.ranking import Ranking


@dataclass
class Screened(Proposer[Proposal]):
    """Proposes a ranking and learns nothing.

    Attributes:
        heard: Compositions whose rewards are known.
        under_way: Further ones that were proposed.
    """

    limits: Limits
    config: Config
    heard: int = 0
    under_way: int = 0

    def update(self, rollout: Proposal, scores: Sequence[Scores]) -> dict[str, float]:
        """Hear the rewards; there is nothing to learn from them."""
        metrics = reward_metrics(*stack_scores(scores, rollout))
        self.heard += len(rollout.compositions)
        self.under_way -= len(rollout.compositions)
        order = self.order(self.heard)
        return metrics | {
            "formulas_tried": min(self.heard, len(order)),
            "formulas_within_limits": len(order) if order.exhausted else sum(order.listed.values()),
            "structures_each": 1 + (self.heard - 1) // len(order),
        }

    def forget(self) -> None:
        self.under_way = 0

    def rollout(self, step: int, *, left: int | None = None) -> Proposal:
        """The next compositions: whole groups, or one group of all that are left."""
        groups, size = self.config.grpo.groups_per_step, self.config.grpo.group_size
        if left is not None and left < groups * size:
            groups, size = 1, left
        contexts = contexts_of(self.limits, self.config, step, groups)
        first = self.heard + self.under_way
        self.under_way += groups * size
        places = np.arange(first, first + groups * size)
        order = self.order(first + groups * size)
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


def contexts_of(limits: Limits, config: Config, step: int, groups: int) -> list[Context]:
    """Weights of each group of a step, without sub-groups: who ranks formulas needs none."""
    return [
        sample_context(
            limits,
            generator(config.run.seed, "context", step, group),
            alpha=config.reward.alpha,
            weights=config.reward.weights,
            subgroup_mask=False,
        )
        for group in range(groups)
    ]
