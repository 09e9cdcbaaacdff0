"""A policy that learns mostly from what it imagines: model-based reinforcement learning around the belief.

A campaign affords a few hundred updates on real outcomes, too few for a policy to climb before what it knew
is used up. So outcomes teach the belief (`anchor.screening.learning`), which hears much from each; and the
belief teaches the policy, by free rollouts that cost no crystal:

1. The policy draws many compositions for each that will be realised.
2. The belief says what it expects of them. The best unknown formulas of all draws so far are kept in
   reserve; those worth most, under screening's rule of diversity, are realised.
3. Their outcomes join the belief. Then the new draws are scored by it with the campaign's own reward, and
   GRPO learns from them, minibatch by minibatch (eq:ppo; the ratio is that to the policy that drew them).

Many updates would end in the few formulas that the belief likes best, so the policy is held to the one that
it began with: its reward is r − β ln(π/π_0), whose optimum is the tilt π_0 exp(r/β) of eq:bounded_tilt, broad
where π_0 is.

What comes next follows from the state and the outcomes in the ledger, so resuming changes nothing.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.config import Config
from anchor.errors import InputError
from anchor.policy.actions import from_actions, to_actions
from anchor.policy.constraints import Limits
from anchor.policy.distribution import evaluate
from anchor.policy.grpo import Learner, Proposal, Proposer, Rollout, Scores, reward_metrics, stack_scores
from anchor.policy.network import CompositionPolicy
from anchor.policy.weights import memory_in, save
from anchor.reward.free import free_reward
from anchor.screening.diverse import diverse_order
from anchor.screening.estimate import load_estimate
from anchor.screening.learning import (
    N_EVIDENCE,
    Array,
    Lessons,
    descriptors,
    learn,
    lesson,
    portraits,
)
from anchor.search.heard import energies_heard, visits_before
from anchor.search.screened import contexts_of

MINIBATCH = 8
"""Groups of an update on free draws."""
RESERVE = 16_384
"""Formulas kept for later: those worth most of all that were drawn and not realised."""


@dataclass(frozen=True, eq=False)
class _Draws:
    """A minibatch of free draws and what is believed of them; what is not neutral is nothing.

    Attributes:
        rollout: As the policy drew them.
        moved: ln(π/π_0), nats.  # [n]
        neutral: Rows of the charge-neutral ones.  # [m]
        known: Of these, formulas of a list.  # [m] bool
        seen: Of these, what can be known without a crystal.  # [m, p]
    """

    rollout: Rollout
    moved: NDArray[np.float64]
    neutral: NDArray[np.int64]
    known: NDArray[np.bool_]
    seen: Array


@dataclass(frozen=True, eq=False)
class _Pool:
    """Compositions, each formula once, and what can be known of them without a crystal.  # n, [n, p]"""

    compositions: Compositions
    seen: Array

    @classmethod
    def empty(cls) -> _Pool:
        return cls(nothing := Compositions.from_list([]), portraits(nothing))

    def __getitem__(self, rows: NDArray[np.int64]) -> _Pool:
        return _Pool(self.compositions[rows], self.seen[rows])

    def ranked(self, lessons: Lessons) -> _Pool:
        """Those first that are worth most."""
        return self[np.argsort(-lessons.worth(self.seen).round(6), kind="stable")]


@dataclass
class Imagining(Proposer[Proposal]):
    """Proposes the best of many draws of a policy that learns from a belief.

    Attributes:
        learner: The policy and GRPO.
        anchor: π_0, the policy that it is held to.
        tried: Reduced formulas realised so far, in order.
        above: What came of them: eV/atom above the hulls, NaN where nothing valid came, infinite where it was
            not the composition's fault.
        seen: What was known of them without a crystal.  # [n, p]
        reserve: Drawn and not realised, as they were left by the last step.
    """

    learner: Learner
    anchor: CompositionPolicy
    limits: Limits
    config: Config
    tried: list[str] = field(default_factory=list)
    above: list[float] = field(default_factory=list)
    reserve: _Pool = field(default_factory=_Pool.empty)
    seen: Array = field(default_factory=lambda: _Pool.empty().seen)

    def __post_init__(self) -> None:
        if self.config.search.staleness:
            raise InputError(
                "the source 'imagined' hears every outcome before it goes on",
                "leave out search.staleness, or take --source screened or policy",
            )
        self._lessons: tuple[int, Lessons] | None = None
        self._draws: list[_Draws] = []
        self._pool = self.reserve

    @classmethod
    def start(cls, policy: CompositionPolicy | None, limits: Limits, config: Config) -> Imagining:
        """From a policy on; None: an untrained one."""
        learner = Learner.start(_free(config), limits, policy=policy)
        return cls(learner, copy.deepcopy(learner.policy).requires_grad_(False), limits, config)

    @classmethod
    def resume(
        cls,
        policy: CompositionPolicy | None,
        limits: Limits,
        config: Config,
        state: bytes,
        outcomes: Iterable[tuple[str, float]],
    ) -> Imagining:
        """From a `state` on, after these formulas and what came of them; the policy is that of `start`."""
        began = cls.start(policy, limits, config)
        memory, known = memory_in(state), list(outcomes)
        kept = from_actions(memory["elements"], memory["counts"])
        return cls(
            Learner.resume(_free(config), limits, state),
            began.anchor,
            limits,
            config,
            [formula for formula, _ in known],
            [above for _, above in known],
            _Pool(kept, _portraits(kept, memory["kept"])),
            _portraits(Compositions.from_list([formula for formula, _ in known]), memory["tried"]),
        )

    def state(self) -> bytes:
        """Policy, optimiser, reserve and evidence; the ledger knows what was tried and what came of it."""
        elements, counts = to_actions(self.reserve.compositions)
        memory: dict[str, NDArray[Any]] = {"elements": elements, "counts": counts}
        memory["kept"], memory["tried"] = (
            np.ascontiguousarray(seen[:, -N_EVIDENCE:]) for seen in (self.reserve.seen, self.seen)
        )
        return save(self.learner.policy, self.learner.optimiser, memory=memory)

    def rollout(self, step: int, *, left: int | None = None) -> Proposal:
        """The best of many draws: whole groups, or one group of all that are left."""
        groups, size = self.config.grpo.groups_per_step, self.config.grpo.group_size
        batches = -(-self.config.policy.draws * groups // MINIBATCH)
        if left is not None and left < groups * size:
            groups, size = 1, left
        self._draws = [self._draw(step * batches + i) for i in range(batches)]
        self._pool = self._candidates().ranked(self._taught())
        chosen = self._best(groups * size)
        contexts = contexts_of(self.limits, self.config, step, groups)
        return Proposal(step, contexts, chosen, size, visits=visits_before(chosen.formulas, self.tried))

    def update(self, rollout: Proposal, scores: Sequence[Scores]) -> dict[str, float]:
        """Hear what became of the compositions, then learn from the draws by what is believed now."""
        metrics = reward_metrics(*stack_scores(scores, rollout))
        self._hear(rollout.compositions, scores)
        lessons = self._taught()
        tried = set(self.tried)
        rest = [i for i, f in enumerate(self._pool.compositions.formulas) if f not in tried]
        self.reserve = self._pool[np.array(rest, dtype=np.int64)].ranked(lessons)[
            np.arange(len(rest))[:RESERVE]
        ]
        imagined: dict[str, float] = {}
        for draws in self._draws:
            imagined = self.learner.update(draws.rollout, self._imagine(draws, lessons))
        return (
            imagined
            | metrics
            | {
                "imagined_reward": imagined.get("reward_mean", float("nan")),
                "moved": float(np.mean([draws.moved.mean() for draws in self._draws])),
                "formulas_tried": len(tried),
            }
        )

    def forget(self) -> None:
        self._draws = []

    def _hear(self, compositions: Compositions, scores: Sequence[Scores]) -> None:
        """What came of compositions joins what is known."""
        self.above += energies_heard(scores)
        self.tried += compositions.formulas
        self.seen = np.concatenate([self.seen, portraits(compositions)])

    def _draw(self, batch: int) -> _Draws:
        rollout = self.learner.rollout(batch)
        with torch.no_grad():
            before = evaluate(self.anchor, rollout.actions).log_prob
        moved = (rollout.evaluation.log_prob - before).double().cpu().numpy()
        neutral = np.flatnonzero(is_neutral(rollout.compositions))
        estimates = load_estimate()(rollout.compositions[neutral])
        seen = portraits(rollout.compositions[neutral], estimates)
        return _Draws(rollout, moved, neutral, estimates.known, seen)

    def _candidates(self) -> _Pool:
        """The reserve and what is new among the draws: neutral, unknown, untried, each formula once."""
        seen = {*self.tried, *self.reserve.compositions.formulas}
        parts = [self.reserve]
        for draws in self._draws:
            new: list[int] = []
            neutral = draws.rollout.compositions[draws.neutral]
            for i, formula in enumerate(neutral.formulas):
                if formula not in seen and not draws.known[i]:
                    seen.add(formula)
                    new.append(i)
            rows = np.array(new, dtype=np.int64)
            parts.append(_Pool(neutral[rows], draws.seen[rows]))
        compositions = Compositions.concatenate([part.compositions for part in parts])
        return _Pool(compositions, np.concatenate([part.seen for part in parts]))

    def _best(self, n: int) -> Compositions:
        """The first n candidates as the rule of diversity has them.

        Where there are fewer (a small space), other draws come: the least visited neutral ones, then any.
        """
        best = diverse_order(
            self._pool.compositions,
            n,
            required=np.flatnonzero(self.limits.required.cpu().numpy()),
            allowed=self.limits.n_allowed,
            taken=Compositions.from_list(self.tried) if self.tried else None,
        )
        chosen = self._pool.compositions[best]
        if len(chosen) == n:
            return chosen
        drawn = Compositions.concatenate([draws.rollout.compositions for draws in self._draws])
        visits, charged = visits_before(drawn.formulas, self.tried), ~is_neutral(drawn)
        again = np.lexsort((visits, charged))[: n - len(chosen)]
        return Compositions.concatenate([chosen, drawn[again]])

    def _imagine(self, draws: _Draws, lessons: Lessons) -> list[Scores]:
        """Rewards of free draws, the campaign's own: a chance in the place of what nobody has relaxed."""
        n = len(draws.rollout.compositions)
        stability, valid, known = np.zeros(n), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        stability[draws.neutral] = lessons.worth(draws.seen)
        valid[draws.neutral], known[draws.neutral] = True, draws.known
        counts = Counter(self.tried)
        scores: list[Scores] = []
        for compositions, context in draws.rollout.groups():
            part = slice(len(scores) * len(compositions), (len(scores) + 1) * len(compositions))
            rewards, _ = free_reward(
                compositions, stability[part], valid[part], known[part], context.weights, counts, self.config
            )
            scores.append(Scores(rewards - self.config.policy.kl * draws.moved[part]))
        return scores

    def _taught(self) -> Lessons:
        """What outcomes taught, but for the last ones, for which no lesson was held."""
        n = lesson(len(self.tried))
        if self._lessons is None or self._lessons[0] != n:
            run = self.config.run
            above = np.array(self.above[:n])
            self._lessons = n, learn(self.seen[:n], above, seed=run.seed, threads=run.workers)
        return self._lessons[1]


def _free(config: Config) -> Config:
    """The configuration with the groups of an update on free draws."""
    grpo = config.grpo.model_copy(update={"groups_per_step": MINIBATCH})
    return config.model_copy(update={"grpo": grpo})


def _portraits(compositions: Compositions, known: Array) -> Array:
    """Of compositions whose evidence is stored: estimated among others it might differ in its last bits."""
    return np.concatenate([descriptors(compositions), known], axis=1)
