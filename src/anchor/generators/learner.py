"""A generator in the place of a learner: it proposes crystals, and DDPO may fine-tune it on their rewards.

    x_1 … x_B ~ p_θ(c, x), every denoising step recorded                 Generating.rollout
    r_1 … r_B ← the campaign's own scorer                                costs the time
    A_i ← (r_i − r̄) / max(std(r), ε_A) over the batch
    θ ← Adam(θ, ∇ −L_clip), gradients added up step by step (eq:ddpo)    models.ddpo.update

An episode is a step of a campaign, so ledger, resume, report and finds are those of any search.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from anchor.chemistry.composition import Compositions
from anchor.config import Config
from anchor.errors import AnchorError, InputError
from anchor.generators.generator import Generated, Generator, load_generator
from anchor.models.base import JointModel
from anchor.models.ddpo import Rules, update
from anchor.models.registry import model_from
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Proposal, Proposer, Scores, group_advantages, reward_metrics, stack_scores
from anchor.policy.rollout import sample_context
from anchor.random import generator as stream
from anchor.weights import pack, unpack

FORMAT = "anchor-generator-state-1"
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True, eq=False)
class Episode(Proposal):
    """A proposal of a generator, with how each crystal came about."""

    made: Generated = field(kw_only=True)


@dataclass(eq=False)
class Generating(Proposer[Episode]):
    """Proposes what a generator makes; learns if its config says so.

    Attributes:
        generator: θ.
        optimiser: Adam of its weights; None where nothing is learned.
        pretrained: Frozen copy of the start, where a KL to it is asked for.
        began_as: Hash of the start.
    """

    generator: Generator
    limits: Limits
    config: Config
    optimiser: torch.optim.Adam | None
    pretrained: JointModel | None
    began_as: str

    @classmethod
    def start(cls, config: Config, limits: Limits) -> Generating:
        """With the weights that the config names."""
        if narrow := [name for name, value in config.action_space if name in _LIMITS and value]:
            raise InputError(
                f"a generator proposes what it has learned: it keeps no limits ({', '.join(narrow)})",
                "search with --source policy, or leave them out",
            )
        chosen = config.generator
        generator = load_generator(chosen.name, steps=chosen.steps, device=config.run.device)
        optimiser = pretrained = None
        began_as = generator.hash
        if chosen.train:
            if chosen.kl:
                pretrained = copy.deepcopy(generator.model)
            generator.model.requires_grad_(True)
            optimiser = torch.optim.Adam(generator.model.parameters(), lr=chosen.learning_rate)
        return cls(generator, limits, config, optimiser, pretrained, began_as)

    @classmethod
    def resume(cls, config: Config, limits: Limits, data: bytes) -> Generating:
        """The one whose `state()` is `data`; the weights it began with must still be there."""
        self = cls.start(config, limits)
        card, tensors = _read(data)
        if card["began_as"] != self.began_as:
            raise AnchorError(
                f"the weights of '{config.generator.name}' are not those the campaign began with",
                "bring them back",
            )
        if self.optimiser is None:
            return self
        model = self.generator.model
        model.load_state_dict(
            {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
        )
        for name, parameter in model.named_parameters():
            keys = {moment: f"adam.{name}.{moment}" for moment in _MOMENTS}
            if keys["step"] in tensors:
                self.optimiser.state[parameter] = {m: tensors[k].clone() for m, k in keys.items()}
        return self

    def state(self) -> bytes:
        """Weights and Adam's moments, if anything is learned, and where all began."""
        model = self.generator.model
        tensors: dict[str, torch.Tensor] = {}
        if self.optimiser is not None:
            tensors |= {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
            for name, parameter in model.named_parameters():
                for moment, value in self.optimiser.state.get(parameter, {}).items():
                    tensors[f"adam.{name}.{moment}"] = value
        card = {"format": FORMAT, "name": model.name, "settings": model.settings(), "began_as": self.began_as}
        return pack(tensors, card)

    def update(self, rollout: Episode, scores: Sequence[Scores]) -> dict[str, float]:
        """Hear the rewards of an episode; one update if anything is learned."""
        rewards, include = stack_scores(scores, rollout)
        metrics = reward_metrics(rewards, include)
        if self.optimiser is None:
            return metrics
        chosen = self.config.generator
        advantages = group_advantages(rewards, include, std_floor=self.config.grpo.advantage_std_floor)
        return metrics | update(
            self.generator.model,
            self.optimiser,
            rollout.made.ways,
            np.where(include, advantages, np.nan).ravel(),
            Rules(chosen.clip, chosen.epochs, chosen.trust, chosen.kl, chosen.scored),
            self.pretrained,
            stream(self.config.run.seed, "scored steps", rollout.step),
        )

    def rollout(self, step: int, *, left: int | None = None) -> Episode:
        """Crystals of an episode, in groups of one context each."""
        del left  # advantages are relative to the batch, so it is whole
        grpo, reward, seed = self.config.grpo, self.config.reward, self.config.run.seed
        contexts = [
            sample_context(
                self.limits,
                stream(seed, "context", step, group),
                alpha=reward.alpha,
                weights=reward.weights,
                subgroup_mask=False,
            )
            for group in range(grpo.groups_per_step)
        ]
        made = self.generator.draw(
            len(contexts) * grpo.group_size,
            seed=seed,
            stream=("episode", step),
            record=self.optimiser is not None,
        )
        crystals = made.crystals
        compositions = Compositions.of_atoms(crystals.owner, crystals.numbers)
        return Episode(step, contexts, compositions, grpo.group_size, crystals=crystals, made=made)


_LIMITS = ("elements", "exclude", "must_contain", "max_counts", "min_counts")


def generator_in(state: bytes, config: Config) -> Generator:
    """The generator of a campaign's state, frozen."""
    card, tensors = _read(state)
    weights = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    if not weights:  # nothing was learned
        return load_generator(config.generator.name, steps=config.generator.steps)
    model = model_from(card["name"], card["settings"])
    model.load_state_dict(weights)
    assert isinstance(model, JointModel)
    return Generator(model.eval().requires_grad_(False), steps=config.generator.steps)


def _read(state: bytes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    card, tensors = unpack(state, what="state of a generator")
    if card.get("format") != FORMAT:
        raise InputError(f"state of format {card.get('format')!r}, this version reads '{FORMAT}'")
    return card, tensors
