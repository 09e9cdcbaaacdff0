"""The paper's untrained composition sources (app:composition_ladder) in the place of a learner.

A campaign that draws from one of them differs from a learned one in nothing but where compositions come from:
same contexts w, same prior, relaxation, reward, ledger and report. Nothing is updated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.chemistry.spaces import sample_neutral, sample_random
from anchor.config import Config
from anchor.errors import InputError
from anchor.policy.actions import to_actions
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Proposal, Proposer, Scores, reward_metrics, stack_scores
from anchor.policy.rollout import sample_context
from anchor.random import generator

HOPELESS_DRAWS = 200_000
"""Draws without any inside the limits after which a source is given up."""

UntrainedName = Literal["random", "neutral"]
"""Their measures are the defaults of `sample_random` and `sample_neutral`."""


@dataclass(frozen=True)
class Untrained(Proposer[Proposal]):
    """Proposes compositions and learns nothing.

    Attributes:
        source: "random" (k, elements, T and rho each uniform) or "neutral" (uniform among the charge-neutral
            reduced formulas of a uniform k).
    """

    source: UntrainedName
    limits: Limits
    config: Config

    def update(self, rollout: Proposal, scores: Sequence[Scores]) -> dict[str, float]:
        """Hear the rewards; there is nothing to learn from them."""
        return reward_metrics(*stack_scores(scores, rollout))

    def rollout(self, step: int, *, left: int | None = None) -> Proposal:
        """Contexts as a learner would have them, but without sub-groups, and G compositions for each."""
        del left  # the same groups as a learner's
        seed, reward, size = self.config.run.seed, self.config.reward, self.config.grpo.group_size
        contexts, drawn = [], []
        for group in range(self.config.grpo.groups_per_step):
            context = sample_context(
                self.limits,
                generator(seed, "context", step, group),
                alpha=reward.alpha,
                weights=reward.weights,
                subgroup_mask=False,
            )
            contexts.append(context)
            drawn.append(draw_within(self.source, size, self.limits, generator(seed, "actions", step, group)))
        return Proposal(step, contexts, Compositions.concatenate(drawn), size)

    def state(self) -> bytes:
        """Nothing to remember."""
        return b""


def draw_within(source: UntrainedName, n: int, limits: Limits, rng: np.random.Generator) -> Compositions:
    """n compositions of a source, given that they lie within the limits (others are drawn again).

    Raises:
        InputError: None of many draws lies within.
    """
    elements = [e for e, ok in zip(VOCABULARY, limits.allowed.tolist(), strict=True) if ok]
    sample = sample_random if source == "random" else sample_neutral
    found, missing, tried = list[Compositions](), n, 0
    while missing:
        drawn = sample(max(4 * missing, 64), rng, elements=elements)
        tried += len(drawn)
        inside = drawn[np.flatnonzero(within(drawn, limits))[:missing]]
        found.append(inside)
        missing -= len(inside)
        if missing == n and tried >= HOPELESS_DRAWS:
            raise InputError(
                f"none of {tried} compositions of the source '{source}' is within the limits",
                "relax the limits, or let the policy search: its limits are masks",
            )
    return Compositions.concatenate(found)


def within(compositions: Compositions, limits: Limits) -> NDArray[np.bool_]:
    """Which compositions of allowed elements satisfy the other limits.  # [n]"""
    elements, counts = to_actions(compositions)
    present, index = elements >= 0, np.maximum(elements, 0)
    lower, upper = limits.lower.cpu().numpy()[index], limits.upper.cpu().numpy()[index]
    bounded = (~present | ((lower <= counts) & (counts <= upper))).all(axis=1)
    required = limits.required.cpu().numpy()
    complete = (required[index] & present).sum(axis=1) == required.sum()
    atoms = counts.sum(axis=1)
    sized = (limits.min_atoms <= atoms) & (atoms <= limits.max_atoms)
    return bounded & complete & sized & np.isin(present.sum(axis=1), limits.k)
