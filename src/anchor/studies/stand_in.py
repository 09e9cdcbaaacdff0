"""A stand-in of the environment: no crystal, no relaxation, an outcome drawn once for every formula.

A campaign needs CPU hours to show whether its settings make the learner climb. Here a formula's energy above
the hull is a random number that is fixed by the formula, and whose law follows from a chance:

    P(E_hull ≤ 0.1 eV/atom) = p(c)    with  logit p = logit chance(c) + Σ over its elements of b_e

b_e are hidden offsets of the elements: what an estimate gets wrong is wrong for whole families, and learning
it from outcomes is what a campaign can do and the estimate cannot. Reward, contexts and learner are the
campaign's own. What is missing: crystals (novelty counts formulas, d_struct is a constant), failures of prior
and relaxation, and everything that makes one formula of a family unlike the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import SYMBOLS
from anchor.config import Config
from anchor.policy.grpo import Proposal, Proposer, Scores
from anchor.policy.rollout import Context
from anchor.random import generator
from anchor.reward.free import free_reward
from anchor.reward.score import Memory
from anchor.reward.stability import stability_score

STABLE_SHARE = 0.35
"""Of formulas within 0.1 eV/atom of both hulls, those on them: 66 of 177 screened ones."""
TAIL = 0.2
"""Mean distance of the others beyond 0.1 eV/atom, eV/atom."""
METASTABLE = 0.1
"""eV/atom."""

Chances = Callable[[Compositions], tuple[NDArray[np.float64], NDArray[np.bool_]]]
"""P(within 0.1 eV/atom) of each composition, and whether its formula is known."""


@dataclass
class StandIn:
    """Scores proposals as a campaign would, without crystals, and remembers what came out.

    Attributes:
        chances: The estimate.
        config: Reward and novelty of the campaign.
        offset_spread: Standard deviation of the elements' hidden offsets, in log-odds.
        seed: Of offsets and outcomes: another seed is another world.
        memory: Formulas found.
        rows: Outcomes in the order of proposals: formula, neutral, known, first of its formula, E_hull.
    """

    chances: Chances
    config: Config
    offset_spread: float = 0.5
    seed: int = 0
    memory: Memory = field(default_factory=Memory)
    rows: list[tuple[str, bool, bool, bool, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._offsets = generator(self.seed, "stand-in", "offsets").normal(
            scale=self.offset_spread, size=len(SYMBOLS)
        )

    def probability(self, compositions: Compositions) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """P(within 0.1 eV/atom) with the hidden offsets, and whether the formula is known.  # two [n]"""
        chance, known = self.chances(compositions)
        shift = np.bincount(
            compositions.owner, self._offsets[compositions.numbers], minlength=len(compositions)
        )
        return expit(logit(np.clip(chance, 1e-9, 1 - 1e-9)) + shift), known

    def energies(self, compositions: Compositions) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Energy above the hull, always the same for a formula, eV/atom, and whether it is known."""
        p, known = self.probability(compositions)
        u = np.array([generator(self.seed, "stand-in", f).random() for f in compositions.formulas])
        depth = METASTABLE / -np.log(STABLE_SHARE)
        within = METASTABLE + depth * np.log(np.maximum(u / p, 1e-12))
        beyond = METASTABLE - TAIL * np.log(np.clip((1 - u) / (1 - p), 1e-12, 1.0))
        return np.where(u < p, within, beyond), known

    def __call__(self, proposal: Proposal) -> list[Scores]:
        return [self._group(*group) for group in proposal.groups()]

    def _group(self, compositions: Compositions, context: Context) -> Scores:
        formulas, neutral = compositions.formulas, is_neutral(compositions)
        energy, known = self.energies(compositions)
        stability = stability_score(energy, self.config.reward.stability_width)
        rewards, first = free_reward(
            compositions, stability, neutral, known, context.weights, self.memory.counts, self.config
        )
        columns = (neutral.tolist(), known.tolist(), first.tolist(), energy.tolist())
        self.rows += zip(formulas, *columns, strict=True)
        return Scores(rewards, above_hull=np.where(neutral, energy, np.nan))


def climb(
    config: Config,
    learner: Proposer[Any],
    world: StandIn,
    *,
    structures: int,
    window: int = 2000,
    on_point: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Let a learner go on in the stand-in; returns the curve by windows."""
    per_step = config.grpo.group_size * config.grpo.groups_per_step
    curve: list[dict[str, Any]] = []
    fractions: list[float] = []
    begun = len(world.rows)
    for step in range(-(-structures // per_step)):
        _, metrics = learner.step(step, world)
        fractions.append(metrics.get("entropy_fraction", np.nan))
        if len(world.rows) - begun >= window or (step + 1) * per_step >= structures:
            point = {"structures": (step + 1) * per_step, **summary(world.rows[begun:])}
            curve.append(point | {"entropy_fraction": round(float(np.mean(fractions)), 4)})
            begun, fractions = len(world.rows), []
            if on_point is not None:
                on_point(curve[-1])
    return curve


def summary(rows: list[tuple[str, bool, bool, bool, float]]) -> dict[str, int]:
    """Counts of a window: n, valid, unique formulas in it, MSUN, SUN."""
    names: dict[str, int] = {}
    for row in rows:
        names[row[0]] = names.get(row[0], 0) + 1
    new = [row[4] for row in rows if row[1] and not row[2] and row[3]]
    return {
        "n": len(rows),
        "valid": sum(row[1] for row in rows),
        "unique": len(names),
        "msun": sum(energy <= METASTABLE for energy in new),
        "sun": sum(energy <= 0 for energy in new),
        "known": sum(row[2] for row in rows),
    }
