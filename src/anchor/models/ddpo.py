"""Rewards into a sampler (DDPO): every denoising step is an action, and all of them get the final reward.

    L(θ) = E[ 1/|T| Σ_t min(η_t A, clip(η_t, 1 − ε, 1 + ε) A) ],  η_t = p_θ(x'|x) / p_θ_old(x'|x)  (eq:ddpo)

Sampling is recorded without gradient (`Way`); then its steps are replayed, as many in one call of the
network as `MOST_PAIRS` lets, each call with its own backward pass: memory is that of one call however many
steps there are. A share of them, drawn anew for every update (`Rules.scored`), has the same gradient on
average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchor.models.base import SampledModel
from anchor.models.transitions import Trajectory, Transition

MOST_PAIRS = 4000
"""Pairs of atoms that are replayed in one call of the network: about 0.1 GB kept for the gradient of small
models. Twice as many save little, half as many cost a tenth more (`benchmarks/ddpo.py --pairs`)."""


@dataclass(frozen=True, eq=False)
class Way:
    """How crystals that were sampled together came from noise.

    Attributes:
        trajectory: Of b crystals of one size.
        owner: Whom each crystal belongs to, an index of the caller's; −1: nobody, its cell was none.  # [b]
    """

    trajectory: Trajectory
    owner: NDArray[np.int64]

    def owned_by(self, owner: NDArray[np.int64]) -> Way:
        """The same with an owner for each owner there was.  # [owners]"""
        return replace(self, owner=np.where(self.owner < 0, -1, owner[np.maximum(self.owner, 0)]))


@dataclass(frozen=True)
class Rules:
    """How far an update may go.

    Attributes:
        clip: ε.
        epochs: K, passes over the recorded steps, each with one step of the optimiser.
        trust: Mean |ln η| above which an epoch is discarded and the update ends.
        kl: Weight of KL(p_θ ‖ p_pretrained), mean over crystals and steps; 0: none, as in the paper.
        scored: Share of T that is replayed, of each way; 1: all, as in the paper.
    """

    clip: float = 0.05
    epochs: int = 1
    trust: float = 0.05
    kl: float = 0.0
    scored: float = 1.0


@dataclass(frozen=True)
class Pass:
    """What one pass over the recorded steps found.

    Attributes:
        objective: L, with the penalty for leaving the pretrained model.
        kl: KL(p_θ ‖ p_pretrained) of a step, mean over crystals and steps; 0 where nobody asked.
        drift: Mean |ln η| over crystals and steps.
        clipped: Share of the ratios that the clip holds.
        log_probs: ln p of each way.  # [steps, b] each
    """

    objective: float
    drift: float
    clipped: float
    log_probs: list[Tensor]
    kl: float = 0.0


@dataclass(frozen=True, eq=False)
class Tether:
    """The pretrained model, and what leaving it costs."""

    model: SampledModel
    weight: float

    def divergence(self, trajectory: Trajectory, steps: Sequence[int], now: Transition) -> Tensor:
        """KL(p_θ ‖ p_pretrained) of steps from where the way was, exactly.  # [S, b]"""
        with torch.no_grad():
            then = self.model.transition_at(trajectory, steps)
        return now.divergence(then).view(len(steps), -1)


def update(
    model: SampledModel,
    optimiser: torch.optim.Optimizer,
    ways: Sequence[Way],
    advantages: NDArray[np.float64],
    rules: Rules,
    pretrained: SampledModel | None = None,
    rng: np.random.Generator | None = None,
) -> dict[str, float]:
    """K clipped passes; the weights must be those that made the ways. Returns what happened, by name.

    Where every advantage is 0 nothing changes, the optimiser's memory included; a penalty alone (`rules.kl`)
    would not pull, either.

    Args:
        ways: As recorded.
        advantages: By owner; NaN: takes no part.  # [owners]
        pretrained: Frozen, for `rules.kl`.
        rng: Draws the steps, for `rules.scored` below 1.
    """
    ways = [_credited(way, advantages) for way in ways]
    credited = [_advantages(way, advantages) for way in ways]
    count = sum(int(a.isfinite().sum()) for a in credited)
    metrics = {"crystals": float(count), "epochs": 0.0, "discarded": 0.0}
    if not any(bool(a.nan_to_num().any()) for a in credited):
        return metrics
    steps = [drawn_steps(model.informative(way.trajectory), rules.scored, rng) for way in ways]
    old: list[Tensor] | None = None
    for _ in range(rules.epochs):
        optimiser.zero_grad(set_to_none=True)
        tether = None if pretrained is None or not rules.kl else Tether(pretrained, rules.kl)
        found = accumulate(model, ways, credited, old, clip=rules.clip, tether=tether, steps=steps)
        old = found.log_probs if old is None else old
        metrics |= {"drift": found.drift, "objective": found.objective, "clipped": found.clipped}
        if tether is not None:
            metrics["kl"] = found.kl
        if found.drift > rules.trust:
            metrics["discarded"] = 1.0
            break
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        metrics["gradient_norm"] = float(torch.nn.utils.get_total_norm(gradients))
        optimiser.step()
        metrics["epochs"] += 1.0
    optimiser.zero_grad(set_to_none=True)
    return metrics


def drawn_steps(steps: list[int], share: float, rng: np.random.Generator | None) -> list[int]:
    """A share of steps, at least one, each as likely as any other: on average their mean is that of all."""
    if share >= 1 or not steps:
        return steps
    assert rng is not None, "steps are drawn from a stream"
    return sorted(rng.choice(steps, size=math.ceil(share * len(steps)), replace=False).tolist())


def accumulate(
    model: SampledModel,
    ways: Sequence[Way],
    advantages: Sequence[Tensor],
    old: Sequence[Tensor] | None = None,
    *,
    clip: float,
    tether: Tether | None = None,
    steps: Sequence[Sequence[int]] | None = None,
) -> Pass:
    """Add the gradient of −L to the parameters, some steps of one way at a time.

    Args:
        advantages: Of the crystals of each way; NaN: takes no part.  # [b] each
        old: ln p under the weights that made the ways, None if those are the model's: ratios are 1 then, and
            the gradient is A ∇ln p.  # [steps, b] each
        tether: Penalty for leaving the pretrained model.
        steps: T of each way; by default all that tell something.
    """
    count = max(sum(int(a.isfinite().sum()) for a in advantages), 1)
    objective = drift = clipped = kl = 0.0
    log_probs = []
    for number, (way, advantage) in enumerate(zip(ways, advantages, strict=True)):
        trajectory, part = way.trajectory, advantage.isfinite()
        chosen = model.informative(trajectory) if steps is None else steps[number]
        scale = 1 / (count * max(len(chosen), 1))
        found = []
        for places in _pieces(len(chosen) if bool(part.any()) else 0, trajectory.numbers):
            several = chosen[places]
            transition = model.transition_at(trajectory, several)
            now = trajectory.log_prob_at(several, transition)
            then = now.detach() if old is None else old[number][places]
            log_ratio, own = (now - then)[:, part], advantage.to(now)[part]
            ratio = log_ratio.exp()
            held = torch.minimum(ratio * own, ratio.clamp(1 - clip, 1 + clip) * own).sum()
            share = scale * held
            if tether is not None:
                away = scale * tether.divergence(trajectory, several, transition)[:, part].sum()
                share = share - tether.weight * away
                kl += away.item()
            (-share).backward()
            objective += share.item()
            drift += scale * float(log_ratio.detach().abs().sum())
            clipped += scale * float(((ratio.detach() - 1).abs() > clip).sum())
            found.append(now.detach())
        log_probs.append(torch.cat(found) if found else torch.zeros(0, len(advantage)))
    return Pass(objective, drift, clipped, log_probs, kl)


def _pieces(steps: int, numbers: Tensor) -> Iterator[slice]:
    """Places of as many steps as one call may have."""
    most = max(1, MOST_PAIRS // max(numbers.shape[0] * numbers.shape[1] ** 2, 1))
    for start in range(0, steps, most):
        yield slice(start, start + most)


def _credited(way: Way, advantages: NDArray[np.float64]) -> Way:
    """Only the crystals that take part: one that is not finite would spoil the gradient of all others."""
    part = _advantages(way, advantages).isfinite() & way.trajectory.sound
    return Way(way.trajectory.of(part), way.owner[part.cpu().numpy()])


def _advantages(way: Way, advantages: NDArray[np.float64]) -> Tensor:
    """Of the crystals of a way.  # [b]"""
    theirs = np.append(advantages, np.nan)[way.owner]  # −1, nobody, is the last
    return torch.from_numpy(theirs).to(way.trajectory.numbers.device)
