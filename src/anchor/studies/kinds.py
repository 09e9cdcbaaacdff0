"""What a cell of a study can be: a search, a generator with or without rewards, a distillation, a source.

A cell is identified by its settings at a scale alone, so studies that need the same one share it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from anchor.config import Config
from anchor.distill.arms import CONTROL, SCRATCH_CONTROL, START
from anchor.distill.corpus import Rules
from anchor.distill.run import Settings
from anchor.models.registry import weights_file
from anchor.models.run import Plan
from anchor.search.tuning import tuning
from anchor.studies.scales import Scale

BACKBONES = {"kldm-dng": "kldm", "crystalite-dng": "crystalite"}
"""Generator → the prior of the same family: it begins with its weights, and "→ CSP" asks it."""


@dataclass(frozen=True)
class Given:
    """A source of compositions that needs no training: random, neutral, screened, default."""

    source: str

    def identity(self, _scale: Scale) -> dict[str, Any]:
        return {"source": self.source}

    def __str__(self) -> str:
        return f"the source {self.source}"


@dataclass(frozen=True)
class Searched:
    """A policy trained around a prior, which is frozen unless the settings say `prior.train`.

    Attributes:
        settings: What differs from the paper's selected configuration, as for `--set`.
    """

    settings: tuple[str, ...] = ()

    def config(self, scale: Scale) -> Config:
        return scale.config(self.settings)

    def identity(self, scale: Scale) -> dict[str, Any]:
        return {"search": self.config(scale).model_dump(mode="json")}

    def __str__(self) -> str:
        return f"search {' '.join(self.settings) or 'as in the paper'}"


@dataclass(frozen=True)
class Generated:
    """A generator p(c, x): as likelihood made it, or fine-tuned on rewards by DDPO.

    Attributes:
        name: Of the generator; weights that do not ship are trained as a cell of their own.
        reward: mean or bal (`anchor.search.tuning.REWARDS`); None: no rewards.
    """

    name: str
    reward: str | None = None

    @property
    def ships(self) -> bool:
        """Whether there is nothing to train."""
        return self.reward is None and weights_file(self.name).is_file()

    @property
    def start(self) -> Generated:
        """The same without rewards."""
        return Generated(self.name)

    def config(self, scale: Scale) -> Config:
        """Of the campaign that fine-tunes it."""
        assert self.reward is not None
        return scale.config(values=tuning(self.name, self.reward, episodes=scale.episodes))

    def plan(self, scale: Scale) -> Plan:
        """Of the training by likelihood."""
        tiny = scale.tiny
        return Plan(
            self.name,
            size=scale.model_size,
            steps=scale.generator,
            start=None if scale.exact else BACKBONES[self.name],
            max_atoms=20 if tiny is None else tiny.max_atoms,
            recipe=() if tiny is None else (("batch_size", tiny.batch),),
        )

    def identity(self, scale: Scale) -> dict[str, Any]:
        ships = self.start.ships
        made = {"generator": self.name, "training": None if ships else asdict(self.plan(scale))}
        return made if self.reward is None else made | {"ddpo": self.config(scale).model_dump(mode="json")}

    def __str__(self) -> str:
        return self.name if self.reward is None else f"{self.name} fine-tuned on rewards ({self.reward})"


@dataclass(frozen=True)
class Distilled:
    """A prior trained by likelihood on the structures of the full method's search, or its control.

    Attributes:
        prior: Backbone.
        arm: Of `anchor.distill.arms`: start, control, relaxed, …
        arms: All that are trained together.
    """

    prior: str
    arm: str
    arms: tuple[str, ...]

    def __post_init__(self) -> None:
        controls = (START, SCRATCH_CONTROL if "scratch" in self.arms else CONTROL)
        assert self.arm in (*self.arms, *controls), f"{self.arm} is not among {self.arms} and {controls}"

    @property
    def campaign(self) -> Searched:
        """Whose structures it learns from."""
        return Searched()

    @property
    def render(self) -> str:
        """The other backbone, of the arm 'rendered'."""
        return "crystalite" if self.prior == "kldm" else "kldm"

    def settings(self, scale: Scale) -> Settings:
        """Of the distillation."""
        fresh, tiny = "scratch" in self.arms, scale.tiny
        made = Settings(
            self.prior,
            arms=self.arms,
            rules=Rules(held_out=scale.n),
            render=self.render,
            steps=scale.scratch if fresh else scale.training,
            seeds=1,
            test=scale.n,
        )
        if tiny is None:
            return made
        small = {"batch_size": tiny.batch, "max_atoms": tiny.max_atoms, "relax_steps": tiny.relax_steps}
        return Settings(**{**vars(made), **small})

    def identity(self, scale: Scale) -> dict[str, Any]:
        """Of the distillation: its arms share a folder."""
        return {"distillation": asdict(self.settings(scale)), "of": self.campaign.identity(scale)}

    def __str__(self) -> str:
        return f"{self.prior}, {self.arm} of a distillation"


Cell = Given | Searched | Generated | Distilled


def needs(cell: Cell) -> tuple[Cell, ...]:
    """Cells that must be made before."""
    if isinstance(cell, Distilled):
        return (cell.campaign,)
    if isinstance(cell, Generated) and cell.reward is not None and not cell.start.ships:
        return (cell.start,)
    return ()


def depth(cell: Cell) -> int:
    """How many cells must be made before it, one after the other."""
    return max((1 + depth(other) for other in needs(cell)), default=0)


@cache
def identity(cell: Cell, scale: Scale) -> dict[str, Any]:
    """`cell.identity(scale)`, made once: a page asks for hundreds. Not to be changed."""
    return cell.identity(scale)


def digest(settings: dict[str, Any]) -> str:
    """Name of a cell or an evaluation: the first 12 digits of the hash of its settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
