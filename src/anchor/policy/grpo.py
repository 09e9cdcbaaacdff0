"""Group-relative policy optimisation over compositions: Algorithm 1 of the paper.

    θ ← initial policy
    for step = 0, 1, 2, …
        w ~ Dirichlet(α); S ~ sub-groups; c_1 … c_G ~ π_θ(· | s)          Learner.rollout
        r_1 … r_G ← score(c, context)                                     the caller's, costs the time
        A_i ← (r_i − r̄) / max(std(r), ε_A)                                group_advantages
        K times: θ ← Adam(θ, ∇[−L_clip − β_H E_i H])                      Learner.update

A step is a pure function of (policy, optimiser, seed, step): every draw comes from a stream named by the
step, and the entropy coefficient from the step's number and the rollout's entropy. Nothing else is
remembered, so a campaign that goes on from saved weights is bit for bit the one that never stopped.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchor.chemistry.composition import Compositions
from anchor.config import Config
from anchor.errors import AnchorError, InputError
from anchor.policy import weights
from anchor.policy.constraints import Limits
from anchor.policy.distribution import HEADS, ActionLogProbs, Actions, Conditions, evaluate, sample
from anchor.policy.entropy import controlled_beta, scheduled_beta
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, h_max, sample_context
from anchor.random import generator, torch_generator

if TYPE_CHECKING:
    from anchor.crystals.crystals import Crystals


@dataclass(frozen=True, eq=False)
class Scores:
    """What the environment says about one group.

    Attributes:
        reward: r(c) (eq:reward).  # [G]
        include: False where the outcome is not the composition's fault (an element without reference, an
            infrastructure fault): no part in mean, spread and update. None: all are included.  # [G] bool
        above_hull: Energy above the hull, eV/atom, NaN where nothing valid came, for who learns from more
            than rewards; None: not told.  # [G]
    """

    reward: NDArray[np.float64]
    include: NDArray[np.bool_] | None = None
    above_hull: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Proposal:
    """Groups of compositions, one context each; rows of one group are consecutive.

    Attributes:
        contexts: One per group.  # [groups]
        compositions: All actions.  # [groups · G]
        group_size: G.
        crystals: One per action, of whoever proposes crystals as well; None: a prior makes them.
        visits: How often each was proposed before, where it is counted: the prior then goes on with its next
            answers.  # [groups · G]
    """

    step: int
    contexts: list[Context]
    compositions: Compositions
    group_size: int
    crystals: Crystals | None = None
    visits: NDArray[np.int64] | None = None

    @property
    def log_probs(self) -> dict[str, NDArray[np.float64]]:
        """Log-probabilities by the name of the decision; none of what nobody learned.  # [groups · G]"""
        return {}

    def groups(self) -> Iterator[tuple[Compositions, Context]]:
        """Compositions and context of each group."""
        for rows, context in zip(self._rows(), self.contexts, strict=True):
            yield self.compositions[rows], context

    def crystal_groups(self) -> list[Crystals] | None:
        """The crystals of each group, where crystals were proposed."""
        return None if self.crystals is None else [self.crystals[rows] for rows in self._rows()]

    def visit_groups(self) -> list[NDArray[np.int64]] | None:
        """The visits of each group, where they are counted."""
        return None if self.visits is None else [self.visits[rows] for rows in self._rows()]

    def _rows(self) -> list[slice]:
        size = self.group_size
        return [slice(start, start + size) for start in range(0, size * len(self.contexts), size)]


P = TypeVar("P", bound=Proposal)
Score = Callable[[Proposal], Sequence[Scores]]
"""Rewards of all groups of a proposal, handed over at once."""


def each_group(score: Callable[[Compositions, Context], Scores]) -> Score:
    """Rewards of single groups as those of a whole proposal."""
    return lambda proposal: [score(*group) for group in proposal.groups()]


class Proposer(Protocol[P]):
    """Who proposes and hears the rewards: a `Learner`, or a source that learns nothing."""

    @abstractmethod
    def rollout(self, step: int, *, left: int | None = None) -> P:
        """What is proposed in a step.

        Args:
            left: Compositions left in the budget; who needs whole groups proposes them all the same.
        """

    @abstractmethod
    def update(self, rollout: P, scores: Sequence[Scores]) -> dict[str, float]:
        """Learn from the rewards, step after step; returns what happened, by name."""

    @abstractmethod
    def state(self) -> bytes:
        """All that it remembers."""

    def step(self, step: int, score: Score, *, left: int | None = None) -> tuple[P, dict[str, float]]:
        """One step of Algorithm 1; returns what was proposed, and what happened."""
        rollout = self.rollout(step, left=left)
        return rollout, self.update(rollout, score(rollout))

    def forget(self) -> None:
        """What was proposed and has no rewards yet will be proposed again: whoever counts begins anew."""
        return


@dataclass(frozen=True, eq=False)
class Rollout(Proposal):
    """A proposal sampled from π_θ_old.

    Attributes:
        evaluation: Log-probabilities and entropies under θ_old, without gradient.  # [groups · G]
        actions: The compositions with their masks, as the update needs them.
    """

    evaluation: ActionLogProbs = field(kw_only=True)
    actions: Actions = field(kw_only=True)

    @property
    def log_probs(self) -> dict[str, NDArray[np.float64]]:
        by_head = self.evaluation.log_prob_by_head.double().cpu().numpy()
        return dict(zip(HEADS, by_head.T, strict=True))


@dataclass(eq=False)
class Learner(Proposer[Rollout]):
    """A policy that learns: holds θ and Adam, and nothing else that changes.

    With `search.staleness` s > 0 step t is sampled from the policy after t − s updates, so that s + 1 steps
    may be under way; updates come in order all the same. The last s policies are remembered, so that what was
    under way when a campaign was killed is sampled again.

    Attributes:
        updates: Steps learned from.
        earlier: Weights before the last s updates, oldest first.
    """

    policy: CompositionPolicy
    optimiser: torch.optim.Adam
    limits: Limits
    config: Config
    updates: int = 0
    earlier: deque[dict[str, Tensor]] = field(default_factory=deque)

    @classmethod
    def start(cls, config: Config, limits: Limits, *, policy: CompositionPolicy | None = None) -> Learner:
        """A fresh learner: an untrained policy, or `policy` extended to the config's objectives."""
        n_objectives = len(config.reward.alpha)
        if policy is None:
            policy = CompositionPolicy(config.policy, n_objectives=n_objectives, seed=config.run.seed)
        else:
            policy = policy.extend_objectives(n_objectives)
        policy = policy.to(config.run.device)
        optimiser = weights.make_optimiser(policy, config.grpo.learning_rate)
        return cls(policy, optimiser, limits.to(config.run.device), config)

    @classmethod
    def resume(cls, config: Config, limits: Limits, data: bytes, *, updates: int = 0) -> Learner:
        """The learner whose `state()` is `data`, after so many steps."""
        device = config.run.device
        policy, optimiser = weights.load(data, learning_rate=config.grpo.learning_rate, device=device)
        earlier = deque(weights.earlier_in(data))
        return cls(policy, optimiser, limits.to(device), config, updates, earlier)

    def state(self) -> bytes:
        """Policy weights, Adam's moments and the weights of earlier policies (safetensors)."""
        return weights.save(self.policy, self.optimiser, earlier=self.earlier)

    def behaviour(self, step: int) -> CompositionPolicy:
        """The policy that a step is sampled from: the current one, or one of the last s."""
        staleness = self.config.search.staleness
        behind = self.updates - max(0, step - staleness) if staleness else 0
        if not 0 <= behind <= len(self.earlier):
            raise AnchorError(f"step {step} cannot be sampled after {self.updates} updates")
        if behind == 0:
            return self.policy
        policy = copy.deepcopy(self.policy)
        policy.load_state_dict(self.earlier[-behind])
        return policy

    def rollout(self, step: int, *, left: int | None = None) -> Rollout:
        """Contexts, and G compositions for each from the step's policy. No gradients."""
        del left  # a group is compared with its own mean, so it is whole
        policy = self.behaviour(step)
        config, reward = self.config.grpo, self.config.reward
        seed = self.config.run.seed
        contexts = [
            sample_context(
                self.limits,
                generator(seed, "context", step, group),
                alpha=reward.alpha,
                weights=reward.weights,
                subgroup_mask=reward.subgroup_mask,
                smallest=reward.subgroup_smallest,
            )
            for group in range(config.groups_per_step)
        ]
        conditions = Conditions.from_contexts(contexts, config.group_size, policy)
        stream = torch_generator(seed, "actions", step, device=policy.embedding.device)
        compositions = sample(policy, conditions, self.limits, stream)
        actions = Actions.prepare(compositions, conditions, self.limits)
        with torch.no_grad():
            old = evaluate(policy, actions)
        return Rollout(step, contexts, compositions, config.group_size, evaluation=old, actions=actions)

    def update(self, rollout: Rollout, scores: Sequence[Scores]) -> dict[str, float]:
        """K clipped epochs on a scored rollout; returns what happened, by name.

        The ratio is that to the policy which sampled the rollout, however many updates ago.
        """
        config = self.config.grpo
        rewards, include = stack_scores(scores, rollout)
        advantages = group_advantages(rewards, include, std_floor=config.advantage_std_floor)
        included = torch.from_numpy(include.ravel()).to(rollout.actions.k.device)
        advantage = torch.from_numpy(advantages.ravel()).to(self.policy.embedding)
        beta, control = self.entropy_coefficient(rollout, included)
        metrics = reward_metrics(rewards, include) | control

        if staleness := self.config.search.staleness:
            self.earlier.append({name: value.clone() for name, value in self.policy.state_dict().items()})
            while len(self.earlier) > staleness:
                self.earlier.popleft()
        old = rollout.evaluation.log_prob
        for _ in range(config.epochs if include.any() else 0):
            now = evaluate(self.policy, rollout.actions)
            log_ratio = (now.log_prob - old)[included]
            surrogate = clipped_surrogate(log_ratio, advantage[included], clip=config.clip)
            loss = -surrogate - beta * now.entropy[included].mean()  # eq:loss
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            gradients = [p.grad for p in self.policy.parameters() if p.grad is not None]
            self.optimiser.step()
            metrics |= update_metrics(loss, log_ratio, gradients, clip=config.clip)  # the last epoch's stay
        self.updates = rollout.step + 1
        return metrics

    def entropy_coefficient(self, rollout: Rollout, included: Tensor) -> tuple[float, dict[str, float]]:
        """β_H of this step from the schedule and the rollout's H/H_max, with what the controller did."""
        config = self.config.entropy
        rows = included if bool(included.any()) else torch.ones_like(included)
        entropy = rollout.evaluation.entropy_by_head.double()[rows].mean(0)  # [4]
        total = float(entropy.sum())
        if config.h_max == "paper":
            sizes = [self.limits.n_allowed]
        else:
            sizes = [int(context.subgroup.sum()) for context in rollout.contexts]
        bounds = [h_max(size, k=self.limits.k, max_atoms=self.limits.max_atoms) for size in sizes]
        maximum = sum(bounds) / len(bounds)
        structures = rollout.step * self.config.grpo.groups_per_step * rollout.group_size
        scheduled = scheduled_beta(structures, config)
        beta = controlled_beta(scheduled, total / maximum, config)
        return beta, {
            "entropy": total,
            **{f"entropy_{head}": float(h) for head, h in zip(HEADS, entropy, strict=True)},
            "entropy_max": maximum,
            "entropy_fraction": total / maximum,
            "entropy_error": config.target - total / maximum,
            "beta_scheduled": scheduled,
            "beta": beta,
        }


def group_advantages(
    rewards: NDArray[np.float64], include: NDArray[np.bool_], *, std_floor: float
) -> NDArray[np.float64]:
    """A_i = (r_i − r̄) / max(std(r), ε_A) within each group, population std (eq:advantage).

    Args:
        rewards:  # [groups, G]
        include: Members that count; the others have advantage 0 and no influence.  # [groups, G] bool

    Returns: # [groups, G]
    """
    count = np.maximum(include.sum(axis=1, keepdims=True), 1)
    mean = np.where(include, rewards, 0).sum(axis=1, keepdims=True) / count
    deviation = np.where(include, rewards - mean, 0)
    std = np.sqrt((deviation**2).sum(axis=1, keepdims=True) / count)
    return deviation / np.maximum(std, std_floor)


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, *, clip: float) -> Tensor:
    """L_clip = E_i min(η_i A_i, clip(η_i, 1 − ε, 1 + ε) A_i) with η = π_θ / π_θ_old (eq:ppo).  # scalar"""
    ratio = log_ratio.exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()


def reward_metrics(rewards: NDArray[np.float64], include: NDArray[np.bool_]) -> dict[str, float]:
    """Rewards of a step, and in how many of its groups nothing could be learned from them."""
    spread = np.where(include, rewards, -np.inf).max(axis=1) - np.where(include, rewards, np.inf).min(axis=1)
    stds = [float(np.std(r[i])) for r, i in zip(rewards, include, strict=True) if i.any()]
    return {
        "reward_mean": float(rewards[include].mean()) if include.any() else float("nan"),
        "reward_std": float(np.mean(stds)) if stds else float("nan"),  # within groups
        "included": int(include.sum()),
        "excluded": int((~include).sum()),
        "zero_spread_groups": int((spread <= 0).sum()),
    }


@torch.no_grad()
def update_metrics(
    loss: Tensor, log_ratio: Tensor, gradients: Sequence[Tensor], *, clip: float
) -> dict[str, float]:
    """How an epoch went: clip fraction, and an estimate of KL(old ‖ new) that is never negative."""
    ratio = log_ratio.double().exp()
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    return {
        "loss": float(loss),
        "clip_fraction": float(((ratio - 1).abs() > clip).double().mean()),
        "approx_kl": float((ratio - 1 - log_ratio.double()).mean()),
        "gradient_norm": float(norm),
    }


def stack_scores(
    scores: Sequence[Scores], rollout: Proposal
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rewards and include flags of all groups, checked.  # two [groups, G]"""
    shape = (len(rollout.contexts), rollout.group_size)
    rewards = np.array([np.asarray(s.reward, dtype=np.float64) for s in scores])
    everyone = np.ones(rollout.group_size, dtype=bool)
    include = np.array([everyone if s.include is None else np.asarray(s.include, bool) for s in scores])
    if rewards.shape != shape or include.shape != shape:
        raise InputError(f"rewards {rewards.shape} and include {include.shape} for groups {shape}")
    if not np.isfinite(rewards[include]).all():
        raise InputError("a reward is not finite", "exclude the candidate (include=False) instead")
    return np.where(include, rewards, 0.0), include
