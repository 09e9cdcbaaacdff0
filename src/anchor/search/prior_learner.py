"""Rewards that train the prior as well: DDPO inside the GRPO step (app:reward-ft, reward-trained KLDM-CSP).

Off unless `prior.train` asks for it. A prior is held for the first policy steps; from then on the crystals of
a step are recorded as they are sampled, their rewards standardised within their group, and their denoising
steps replayed for K clipped epochs. No gradient goes through sampling, and nothing pulls the weights back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.config import Config
from anchor.errors import AnchorError, InputError
from anchor.models.ddpo import Rules, Way, update
from anchor.models.registry import load_model, save_model, weights_path
from anchor.policy.grpo import group_advantages
from anchor.policy.weights import MOMENTS
from anchor.priors.base import Prior
from anchor.priors.learned import LearnedPrior
from anchor.random import generator
from anchor.reward.score import GroupScores
from anchor.search.environment import load_configured_prior
from anchor.search.ledger import PRIOR, Ledger
from anchor.search.realise import Realised
from anchor.weights import pack, unpack

FORMAT = "anchor-prior-state-1"


@dataclass(eq=False)
class PriorLearner:
    """A prior that learns from rewards: its weights and Adam, and nothing else that changes."""

    prior: LearnedPrior
    optimiser: torch.optim.Adam
    config: Config
    step: int = 0

    @classmethod
    def start(cls, prior: Prior, config: Config) -> PriorLearner | None:
        """The learner of a campaign's prior; None where the prior is frozen.

        Raises:
            InputError: The prior's steps have no densities, so that rewards cannot train it.
        """
        if config.prior.train == "none":
            return None
        if config.search.staleness:
            raise InputError(
                f"rewards cannot train a prior that is asked {config.search.staleness} steps ahead",
                "leave search.staleness at 0: a step is sampled with the weights of the step before",
            )
        _refuse_without_density(prior)
        assert isinstance(prior, LearnedPrior)
        parameters = prior.model.requires_grad_(True).parameters()
        return cls(prior, torch.optim.Adam(parameters, lr=config.prior.train_learning_rate), config)

    def begin(self, step: int) -> None:
        """Record what is sampled in this step, unless the prior is still held."""
        self.step = step
        self.prior.records = step >= self.config.prior.train_after

    def learn(self, groups: Sequence[Realised], scores: Sequence[GroupScores]) -> dict[str, float]:
        """Update from the step's crystals and what they earned; returns what happened, by name."""
        if not self.prior.records:
            return {}
        ways: list[Way] = []
        advantages: list[NDArray[np.float64]] = []
        start = 0
        for group, scored in zip(groups, scores, strict=True):
            broken = start + group.outcomes.n  # whose advantages come after those of the members
            for way in group.ways:
                nobody = way.owner < 0
                owner = np.where(nobody, broken + nobody.cumsum() - 1, start + way.owner)
                ways.append(replace(way, owner=owner))
                broken += int(nobody.sum())
            advantages.append(self._advantages(group, scored))
            start = broken
        settings = self.config.prior
        rules = Rules(
            settings.train_clip, settings.train_epochs, settings.train_trust, scored=settings.train_scored
        )
        rng = generator(self.config.run.seed, "scored steps of the prior", self.step)
        found = update(self.prior.model, self.optimiser, ways, np.concatenate(advantages), rules, None, rng)
        return {f"prior_{name}": value for name, value in found.items()}

    def _advantages(self, group: Realised, scores: GroupScores) -> NDArray[np.float64]:
        """Of the members of a group, then of crystals without a usable cell, which earn r_inv.

        Standardised over what the prior made; NaN: not its doing. Would broken cells teach nothing, the prior
        could leave what is hard to others.  # [G + broken]
        """
        earned = scores.reward
        if self.config.prior.train == "stability":
            valid = np.where(scores.valid, scores.objectives[:, 0], self.config.reward.invalid)
            earned = np.where(scores.include, valid, np.nan)
        made = np.zeros(group.outcomes.n, dtype=bool)
        broken = 0
        for way in group.ways:
            made[way.owner[way.owner >= 0]] = True
            broken += int((way.owner < 0).sum())
        earned = np.append(earned, np.full(broken, self.config.reward.invalid))
        part = np.append(made & scores.include, np.ones(broken, dtype=bool)) & np.isfinite(earned)
        floor = self.config.grpo.advantage_std_floor
        found = group_advantages(np.nan_to_num(earned)[None], part[None], std_floor=floor)[0]
        return np.where(part, found, np.nan)

    # To go on from

    def changed(self) -> bytes | None:
        """`state` where this step may have changed it, None while the prior is held."""
        return self.state() if self.prior.records else None

    def state(self) -> bytes:
        """Weights and Adam's moments (safetensors)."""
        tensors = {f"weights.{name}": tensor for name, tensor in self.prior.model.state_dict().items()}
        for name, parameter in self.prior.model.named_parameters():
            for moment, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{name}.{moment}"] = value
        return pack(tensors, {"format": FORMAT, "name": self.prior.model.name})

    def restore(self, data: bytes) -> None:
        """Take over what `state` gave."""
        card, tensors = unpack(data, what="state of a prior")
        if card.get("format") != FORMAT or card.get("name") != self.prior.model.name:
            raise AnchorError(
                f"the stored state is of {card.get('name')!r}, the prior is '{self.prior.name}'"
            )
        weights = {n.removeprefix("weights."): t for n, t in tensors.items() if n.startswith("weights.")}
        self.prior.model.load_state_dict(weights)
        for name, parameter in self.prior.model.named_parameters():
            keys = {moment: f"adam.{name}.{moment}" for moment in MOMENTS}
            if keys["step"] in tensors:
                self.optimiser.state[parameter] = {
                    moment: tensors[key] if moment == "step" else tensors[key].to(parameter.device)
                    for moment, key in keys.items()
                }


def save_trained(ledger: Ledger, out: Path) -> Path:
    """Write the weights that rewards trained in a campaign, as a file that `load_prior` reads.

    Raises:
        InputError: The campaign keeps its prior frozen, or has not trained it yet.
    """
    config = Config.from_ledger(ledger.config)
    learner = PriorLearner.start(load_configured_prior(config.prior, device="cpu"), config)
    state = ledger.state(PRIOR)
    if learner is None or state is None:
        why = "keeps its prior frozen" if learner is None else "still holds its prior"
        raise InputError(f"the campaign '{ledger.location}' {why}", "its weights are those it began with")
    learner.restore(state)
    _, header = load_model(weights_path(config.prior.name))
    settings = config.prior.model_dump(mode="json")
    rewards = {**settings, "policy_steps": ledger.n_steps, "from": ledger.identity["prior"]}
    card = {**header["card"], "rewards": rewards}
    save_model(out, learner.prior.model, {"elements": header["elements"], "card": card})
    return out


def _refuse_without_density(prior: Prior) -> None:
    hint = "rewards can train kldm and crystalite: --set prior.name=kldm; or leave prior.train out"
    if not isinstance(prior, LearnedPrior):
        raise InputError(f"rewards cannot train the prior '{prior.name}': it has no denoising steps", hint)
    try:
        process = prior.model.process(torch.ones(1, 2, dtype=torch.long, device=prior.device))
    except AnchorError as error:
        raise InputError(f"rewards cannot train the prior '{prior.name}': {error.message}", hint) from None
    if getattr(process, "heat", 1.0) <= 0:
        raise InputError(
            f"rewards cannot train the prior '{prior.name}': its sampler adds no noise, so its steps have no "
            "density",
            "give prior.noise a value above 0, as the published sampler has (1)",
        )
