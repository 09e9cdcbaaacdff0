"""How large a study is made: smoke, laptop or paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anchor.config import Config, load_config


@dataclass(frozen=True)
class Tiny:
    """What makes a scale one of seconds, for tests: it proves that everything runs, and says nothing else.

    Attributes:
        groups: So many times fewer compositions per group.
        relax_steps: Of every relaxation.
        sampler_steps: Of diffusion and flow models.
        batch: Crystals per step of likelihood training.
        max_atoms: Of crystals that are trained on.
        settings: Of searches, as for `--set`.
    """

    groups: int = 8
    relax_steps: int = 1
    sampler_steps: int = 6
    batch: int = 2
    max_atoms: int = 2
    settings: tuple[str, ...] = (
        "policy.start_from=default",
        "action_space.max_atoms=8",
        "action_space.k=[2, 3]",
        "relax.max_steps=1",
        "prior.train_after=0",
    )


@dataclass(frozen=True)
class Scale:
    """How large a study is made.

    Attributes:
        name: As people ask for it.
        structures: Compositions that each search proposes, at least one step.
        n: Structures per evaluation and seed.
        seeds: Sampling seeds of evaluations.
        potential: That judges in evaluations.
        episodes: Of 16 structures and one update each, that fine-tune a generator by DDPO.
        training: Steps of likelihood training of every arm of a distillation and its control.
        scratch: The same of arms that begin with random weights.
        generator: Steps that train a generator whose weights do not ship.
        exact: The paper to the letter (`--preset paper`); else our faster order, optimiser and elements, and
            hulls on which no reward is earned with elements that stand too high.
        tiny: How everything is made small; None: it is not.
    """

    name: str
    structures: int
    n: int
    seeds: int
    potential: str
    episodes: int = 1
    training: int = 1
    scratch: int = 1
    generator: int = 1
    exact: bool = False
    tiny: Tiny | None = None

    def config(self, settings: tuple[str, ...] = (), values: dict[str, Any] | None = None) -> Config:
        """Of a search at this scale, with settings as for `--set`, or values as they are."""
        ours = () if self.exact else ("prior.query=reduced", f"hull.kind={self.hull}")
        size = (f"run.structures={self.structures}", f"entropy.horizon={max(self.structures, 1)}")
        small = () if self.tiny is None else self.tiny.settings
        preset = "paper" if self.exact else "default"
        overrides = [*ours, *size, *small, *settings]
        config = load_config(preset=preset, overrides=overrides, values=values or {}).config
        if self.tiny is None:
            return config
        group = max(2, config.grpo.group_size // self.tiny.groups)
        return config.model_copy(update={"grpo": config.grpo.model_copy(update={"group_size": group})})

    @property
    def model_size(self) -> str:
        """Of networks that are trained from nothing."""
        return "published" if self.exact else "small"

    @property
    def hull(self) -> str:
        """On which searches earn their rewards and the internal protocol judges them."""
        return "union" if self.exact else "strict"

    @property
    def internal(self) -> dict[str, Any]:
        """Options of the internal protocol; other protocols bring their own potential and hull."""
        return {"potential": self.potential, "hull": self.hull}

    @property
    def evaluation(self) -> dict[str, Any]:
        """What decides every evaluation at this scale."""
        size: dict[str, Any] = {"n": self.n, "seeds": self.seeds, **self.internal}
        return size if self.tiny is None else size | {"max_steps": self.tiny.relax_steps}

    @property
    def budget(self) -> str:
        """In words, for the head of a table."""
        how = (
            "the paper's settings"
            if self.exact
            else "the paper's settings, faster order and optimiser, strict hulls"
        )
        if self.tiny is not None:
            how = "tiny groups and models, relaxations of one step: the numbers mean nothing"
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        return f"{self.structures:,} structures per policy, N = {self.n}, {seeds}, {self.potential}; {how}"

    @property
    def training_budget(self) -> str:
        """Of what is trained beside policies, in words."""
        return (
            f"{self.episodes:,} DDPO episodes of 16, {self.training:,} steps per arm of a distillation "
            f"({self.scratch:,} from random weights), {self.generator:,} for generators that do not ship"
        )


SCALES = {
    scale.name: scale
    for scale in (
        Scale("smoke", 8, 2, 1, "mattersim-1m", episodes=1, training=1, scratch=1, generator=1, tiny=Tiny()),
        Scale(
            "laptop", 10_000, 200, 1, "mattersim-1m",
            episodes=600, training=2_000, scratch=2_000, generator=4_000,
        ),
        Scale(
            "paper", 100_000, 1000, 3, "mattersim-5m",
            episodes=4_100, training=150_000, scratch=700_000, generator=700_000, exact=True,
        ),
    )
}  # fmt: skip
"""Smoke proves that everything runs, and says nothing else; laptop: an hour or two per search."""
